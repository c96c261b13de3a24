import contextlib
import pickle
import sys
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.placement.changed_rows import ChangedRows
from ballast.placement.fleet_model import FleetModel, Held
from ballast.placement.kept_scores import LIMIT
from ballast.scoring.load_variation import LoadVariation
from tests.properties import examples
from tests.worlds.snapshots import LARGE, SMALL, TIME, pod, shape, snapshot

SHAPES = [SMALL, LARGE, shape(1.0, 16.0)]
WAYS: list[dict[str, Any]] = [
    {},
    {"in_flight": "full", "deviation_of_pods": True},
    {"sensitivity": 2.0, "weights": (("cpu", 0.4), ("memory", 1.0), ("disk", 1.0))},
]
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from((1, 30, -30))), max_size=12)


def arrive(model: FleetModel, node: int, kind: int, seconds: float) -> None:
    held = Held(f"n{node}", SHAPES[kind], TIME + seconds)
    model.place(held)
    model.fly(held)
    model.stay(held)


@pytest.mark.parametrize("way", WAYS)
@examples(40)
@given(STEPS, st.permutations(range(4)), st.integers(1, 4))
def test_kept_scores_are_those_of_the_moment(
    way: dict[str, Any], steps: list[tuple[int, int, int]], order: list[int], count: int
) -> None:
    model, strategy, rows = FleetModel(snapshot([0.1, 0.2, np.nan, 0.4])), LoadVariation(**way), np.array(order[:count])
    for step in [None, *steps]:
        if step is not None:
            arrive(model, *step)
        if step is not None and step[1]:
            model.fleet.settle()
        for asks in SHAPES:
            for fleet in (model.fleet, model.fleet.at(rows)):
                found, expected = strategy.finer(fleet, pod("x", asks=asks)), strategy.score(fleet, pod("x", asks=asks))
                np.testing.assert_allclose(found.exact, expected.exact, atol=1e-9)
                assert found.unknown.tolist() == expected.unknown.tolist()


def test_more_requests_than_are_remembered_are_scored_all_the_same() -> None:
    model, strategy = FleetModel(snapshot([0.1, 0.2])), LoadVariation()
    kinds = [pod("x", asks=shape(0.01 * number)) for number in range(3 * LIMIT)]
    for number, asks in enumerate([*kinds, *kinds]):
        arrive(model, number % 2, 0, 1)
        assert strategy.finer(model.fleet, asks).exact.tolist() == strategy.score(model.fleet, asks).exact.tolist()


def test_what_could_not_be_computed_is_computed_the_next_time() -> None:
    model, defects = FleetModel(snapshot([0.1, 0.2])), [float(LIMIT), -1.0]

    def compute(fleet: Any, requests: Any) -> Any:
        if defects and defects[0] in (requests.max(), -float(len(fleet.nodes))):
            raise MemoryError(defects.pop(0))
        return np.repeat(requests[:, 0], len(fleet.nodes), axis=1) + model.in_flight.use("cpu", 0, 1.0)[0]

    def kept(number: int) -> list[float]:
        scores: list[float] = model.fleet.per_request("key", (float(number),), compute).tolist()
        return scores

    for number in [*range(LIMIT), LIMIT, *range(LIMIT, LIMIT + 5), *range(LIMIT + 5)]:
        with contextlib.suppress(MemoryError):
            assert kept(number) == [number] * 2
    arrive(model, 0, 0, 1)
    with pytest.raises(MemoryError):
        model.fleet.settle()
    assert kept(LIMIT)[0] > LIMIT


def test_a_settled_fleet_has_nothing_left_to_compute() -> None:
    model, asked = FleetModel(snapshot([0.1, 0.2])), list[int]()

    def compute(fleet: Any, requests: Any) -> Any:
        asked.append(len(fleet.nodes))
        return np.zeros((len(requests), len(fleet.nodes)))

    model.fleet.per_request("key", (1.0,), compute)
    arrive(model, 1, 0, 1)
    model.fleet.settle()
    model.fleet.at(np.array([0])).per_request("key", (1.0,), compute)
    assert asked == [2, 1]


def test_changes_without_a_snapshot_take_no_more_room_than_nodes_do() -> None:
    model = FleetModel(snapshot([0.1, 0.2, 0.3]))
    for number in range(2_000):
        model.place(Held(f"n{number % 2}", SMALL, TIME), 1 if number % 4 < 2 else -1)
    assert len(pickle.dumps(model.changes)) < 1_000


def test_rows_change_while_another_thread_asks_which() -> None:
    """Strategies that need no pods score labels without the extender's lock."""
    changes, ended, before = ChangedRows(2000), threading.Event(), sys.getswitchinterval()

    def note() -> None:
        row = 0
        while not ended.is_set():
            changes.note(row := (row + 1) % 2000)

    watch = threading.Thread(target=note)
    sys.setswitchinterval(1e-6)
    try:
        watch.start()
        for _ in range(300):
            changes.since(changes.count - 1000)
    finally:
        ended.set()
        watch.join()
        sys.setswitchinterval(before)
