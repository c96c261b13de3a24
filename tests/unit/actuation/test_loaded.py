"""Which nodes replacements are kept off where only a taint can say it."""

import warnings
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.actuation.eviction.node_marks import MOST, loaded
from ballast.actuation.eviction.records import StepRecord
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.snapshot import Snapshot, Window


def snapshot(load: Any, *, pools: tuple[str, ...] = (), cordoned: tuple[str, ...] = ()) -> Snapshot:
    """`load` [node, resource]"""
    values = np.array(load, float).T
    amounts = {"cpu": 1.0, "memory": 1.0}
    nodes = tuple(
        Node(f"n{row}", allocatable=amounts, unschedulable=f"n{row}" in cordoned) for row in range(values.shape[1])
    )
    known = np.isfinite(values)
    window = Window("1m", 60.0, values, values * 0, values, known * 5, known.astype(float), known)
    states = NodeStates.of(known.any(axis=0), ~known.any(axis=0))
    names = ("cpu", "memory")[: len(values)]
    return Snapshot(0.0, nodes, names, {"1m": window}, values, np.ones_like(values), states, pools=pools)


def move(source: str, aim: str, cpu: float = 0.0) -> StepRecord:
    load = {source: {"cpu": -cpu}} if cpu else {}
    return StepRecord("shop/a", "u", source, 0.0, prefers=aim, used={"cpu": cpu} if cpu else {}, load=load)


def test_the_least_loaded_tenth_and_what_the_plan_counts_on_stay_open() -> None:
    seen = snapshot([[0.1 * row] for row in range(10)])
    others = ["n9", "n8", "n7", "n6", "n5", "n4", "n3", "n2", "n1"]
    assert loaded([move("n9", "n0")], seen, {}) == others
    assert loaded([move("n9", "n4")], seen, {}) == [name for name in others if name != "n4"]


def test_what_the_steps_before_move_counts() -> None:
    seen = snapshot([[0.2], [0.3], [0.9], [0.8], [0.7]])
    big = move("n2", "n0", cpu=0.5)
    third = [big, move("n3", "n1"), move("n4", "n1")]
    assert loaded(third, seen, {}) == ["n3", "n0", "n4", "n2"]


def test_what_the_window_does_not_show_yet_counts() -> None:
    seen = snapshot([[0.2], [0.3], [0.9], [0.8], [0.7]])
    assert loaded([move("n2", "n0")], seen, {"n0": {"cpu": 0.55}}) == ["n2", "n3", "n4"]
    assert loaded([move("n2", "n1")], seen, {"n0": {"cpu": 0.55}}) == ["n2", "n3", "n0", "n4"]


def test_other_pools_cordoned_and_unknown_nodes_are_left_alone() -> None:
    load = [[0.9], [0.8], [0.1], [0.95], [0.9], [np.nan]]
    seen = snapshot(load, pools=("a", "a", "a", "b", "b", "a"), cordoned=("n1",))
    assert loaded([move("n0", "n2")], seen, {}) == ["n0"]
    assert loaded([move("gone", "n2")], seen, {}) == []


@given(st.lists(st.tuples(*[st.floats(0, 1) | st.just(float("nan"))] * 2), min_size=1, max_size=200), st.data())
def test_never_all_nodes_nor_too_many(load: list[tuple[float, float]], data: st.DataObject) -> None:
    source, aim = (data.draw(st.integers(0, len(load) - 1)) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = loaded([move(f"n{source}", f"n{aim}")], snapshot(load), {})
    assert f"n{aim}" not in found
    assert len(found) == len(set(found)) <= min(MOST, len(load) - 1)
