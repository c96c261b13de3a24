from dataclasses import replace

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.devices import Claim
from ballast.placement.fleet_model import FleetModel, Held
from ballast.placement.live_residual import LiveResidual
from ballast.scoring.dominant_residual import DominantResidual
from ballast.scoring.profiles import Profile
from tests.properties import examples
from tests.worlds.snapshots import LARGE, SMALL, TIME, pod, shape, snapshot

PROFILES = (Profile({"cpu": 500, "memory": 2**30}, 3.0), Profile({"cpu": 4000, "memory": 2**33}, 1.0))
SHAPES = [SMALL, LARGE, shape(1.0, 16.0)]
PLACED = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=25)


def placed(model: FleetModel, pods: list[tuple[int, int]]) -> None:
    for node, kind in pods:
        model.place(Held(f"n{node}", SHAPES[kind], TIME))


@examples(60)
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


SHARED = "alibabacloud.com/gpu-count"
PART = (Profile({"cpu": 500, "alibabacloud.com/gpu-count": 1, "alibabacloud.com/gpu-milli": 1000}, 1.0),)


def test_devices_are_followed_pod_by_pod_as_the_plain_strategy_counts_them() -> None:
    found = snapshot([0.1, 0.2, 0.3])
    nodes = tuple(
        msgspec.structs.replace(each, allocatable={**each.allocatable, SHARED: float(count)})
        for each, count in zip(found.nodes, (2, 4, 0), strict=True)
    )
    model = FleetModel(replace(found, nodes=nodes))
    live = LiveResidual(model, DominantResidual())
    live.install(live.prepare(PART, live.copied(PART)))
    plain = replace(DominantResidual(), profiles=PART)
    asks = msgspec.structs.replace(pod("x"), annotations={"alibabacloud.com/gpu-milli": "400"})
    held = [
        Held("n0", SMALL, TIME, claim=Claim(1, 700, True, (("1", 700),))),
        Held("n1", SMALL, TIME, claim=Claim(1, 300, True), expected=True),
        Held("n1", SMALL, TIME, claim=Claim(1, 500, True)),
        Held("n0", SMALL, TIME, claim=Claim(1, 700, True)),
    ]
    chosen = []
    for each, sign in [(held[0], 1), (held[1], 1), (held[2], 1), (held[3], 1), (held[2], -1)]:
        model.place(each, sign)
        scores, expected = (strategy.score(model.fleet, asks).exact for strategy in (live, plain))
        np.testing.assert_allclose(scores, expected, atol=1e-6)
        assert scores[2] == 0
        chosen.append(int(scores.argmax()))
        part = live.score(model.fleet.at(np.array([1, 0])), asks).exact
        np.testing.assert_allclose(part, plain.score(model.fleet.at(np.array([1, 0])), asks).exact, atol=1e-6)
    assert chosen[1] == 1, "the device that is in use already has room"
    assert scores[0] == 0, "a pod that does not say where it sits is on every device"
