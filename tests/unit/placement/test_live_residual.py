from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.placement.fleet_model import FleetModel, Held
from ballast.placement.live_residual import LiveResidual
from ballast.scoring.dominant_residual import DominantResidual
from ballast.scoring.profiles import Profile
from tests.unit.placement.snapshots import LARGE, SMALL, TIME, pod, shape, snapshot

PROFILES = (Profile({"cpu": 500, "memory": 2**30}, 3.0), Profile({"cpu": 4000, "memory": 2**33}, 1.0))
SHAPES = [SMALL, LARGE, shape(1.0, 16.0)]
PLACED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=25)


def placed(model: FleetModel, pods: list[tuple[int, int]]) -> None:
    for node, kind in pods:
        model.place(Held(f"n{node}", SHAPES[kind], TIME))


@settings(max_examples=60)
@given(PLACED, PLACED, PLACED)
def test_it_scores_as_the_plain_strategy_does_at_every_moment(
    before: list[tuple[int, int]], meanwhile: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    model = FleetModel(snapshot([0.1, 0.2, 0.3, 0.4]))
    placed(model, before)
    live = LiveResidual(model, DominantResidual())
    copied = live.copied(PROFILES)
    placed(model, meanwhile)
    live.install(live.prepare(PROFILES, copied))
    plain = replace(DominantResidual(), profiles=PROFILES)
    for step in range(len(after) + 1):
        for asks in SHAPES:
            found, expected = (each.score(model.fleet, pod("x", asks=asks)) for each in (live, plain))
            np.testing.assert_allclose(found.exact, expected.exact, atol=1e-6)
            assert not found.unknown.any()
        placed(model, after[step : step + 1])


def test_some_of_the_nodes_are_scored_among_themselves() -> None:
    model = FleetModel(snapshot([0.1, 0.2, 0.3, 0.4]))
    placed(model, [(0, 1), (1, 0), (3, 1), (3, 1)])
    live = LiveResidual(model, DominantResidual())
    live.install(live.prepare(PROFILES, live.copied(PROFILES)))
    rows = np.array([3, 0])
    found = live.score(model.fleet.at(rows), pod("x")).exact
    assert found.max() == 100.0
    expected = replace(DominantResidual(), profiles=PROFILES).score(model.fleet.at(rows), pod("x")).exact
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_without_profiles_it_is_the_plain_strategy() -> None:
    model = FleetModel(snapshot([0.1, 0.2]))
    placed(model, [(0, 0)])
    live, plain = LiveResidual(model, DominantResidual()), DominantResidual()
    assert live.score(model.fleet, pod("x")).exact.tolist() == plain.score(model.fleet, pod("x")).exact.tolist()
