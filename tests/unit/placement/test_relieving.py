from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ballast.placement.planners.relieve import Thresholds, hot, relieve
from ballast.placement.planners.step import PlannedMove
from tests.unit.placement.worlds import a_layout, a_node, a_pod, every_node, everybody, standing_of

HIGH, LOW, CEILING = 0.8, 0.6, 0.7


def run(nodes: Any, pods: Any, *, limit: int | None = None, load: Any = None) -> tuple[list[PlannedMove], Any, Any]:
    layout = a_layout(nodes, pods, load=load)
    standing = standing_of(layout, CEILING)
    thresholds = Thresholds.absolute(layout.load, HIGH, LOW, layout.resources)
    admit = lambda pod, target: None  # noqa: E731
    steps = relieve(standing, everybody(layout), every_node(layout), admit, thresholds, limit=limit)
    return list(steps), layout, standing


def test_a_hot_node_is_relieved_down_to_the_lower_threshold() -> None:
    pods = [a_pod(f"p{i}", 1, 0.1, "n1") for i in range(9)]
    steps, layout, standing = run([a_node("n1"), a_node("n2"), a_node("n3")], pods)
    assert [step.gain for step in steps] == pytest.approx([0.1] * 3)
    assert [layout.pods[step.pod].name for step in steps] == ["p0", "p1", "p2"]
    assert standing.load[0, 0] == pytest.approx(0.6)
    assert standing.load[1:, 0].tolist() == pytest.approx([0.2, 0.1])


def test_one_victim_that_is_enough_comes_before_several() -> None:
    pods = [a_pod("tiny", 1, 0, "n1"), a_pod("large", 5, 0, "n1"), a_pod("right", 3, 0, "n1")]
    steps, layout, _ = run([a_node("n1"), a_node("n2")], pods)
    assert [layout.pods[step.pod].name for step in steps] == ["right"]


def test_of_equals_the_lower_priority_goes() -> None:
    pods = [a_pod(f"p{i}", 3, 0, "n1", priority=9 - i) for i in range(3)]
    steps, layout, _ = run([a_node("n1"), a_node("n2")], pods)
    assert layout.pods[steps[0].pod].name == "p2"


def test_the_hottest_comes_first_and_moves_are_counted() -> None:
    pods = [a_pod(f"a{i}", 1, 0, "n1") for i in range(9)] + [a_pod(f"b{i}", 1, 0, "n2") for i in range(10)]
    steps, layout, _ = run([a_node("n1"), a_node("n2"), a_node("n3", 100, 100)], pods, limit=2)
    assert [layout.pods[step.pod].name for step in steps] == ["b0", "a0"]


def test_nothing_is_done_at_the_threshold_or_without_knowledge() -> None:
    pods = [a_pod(f"p{i}", 1, 1, "n1") for i in range(8)]
    assert run([a_node("n1"), a_node("n2")], pods)[0] == []
    assert run([a_node("n1"), a_node("n2")], pods, load=np.array([[np.nan, np.nan], [0.1, 0.1]]))[0] == []
    assert run([a_node("n1"), a_node("n2")], pods, load=np.array([[0.9, np.nan], [0.1, np.nan]]))[0] == []
    assert len(run([a_node("n1"), a_node("n2")], pods, load=np.array([[0.9, np.nan], [0.1, 0.1]]))[0]) == 3


def test_deviation_looks_at_the_mean_of_the_pool() -> None:
    load = np.array([[0.9], [0.5], [0.4], [0.2]])
    pool = np.array([0, 0, 1, 1])
    thresholds = Thresholds.deviation(load, np.ones(4, bool), pool, 0.15)
    assert hot(load, np.ones(4, bool), thresholds)[:, 0].tolist() == [True, False, False, False]
    assert thresholds.low[:, 0].tolist() == pytest.approx([0.775, 0.775, 0.375, 0.375])


worlds = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 4)), max_size=16)


@settings(deadline=None)
@given(worlds)
def test_no_target_gets_too_loaded_and_no_node_is_relieved_too_far(world: Any) -> None:
    nodes = [a_node(f"n{i}") for i in range(4)]
    pods = [a_pod(f"p{i:02}", cpu, memory, f"n{on}") for i, (on, cpu, memory) in enumerate(world)]
    layout = a_layout(nodes, pods)
    standing = standing_of(layout, CEILING)
    thresholds = Thresholds.absolute(layout.load, HIGH, LOW, layout.resources)
    was_hot = hot(layout.load, every_node(layout), thresholds)
    admit = lambda pod, target: None  # noqa: E731
    before = standing.load.copy()
    for step in relieve(standing, everybody(layout), every_node(layout), admit, thresholds):
        concerned = before[step.source][was_hot[step.source]]
        assert (concerned > LOW + 1e-12).any()
        assert (standing.load[step.target] <= CEILING + 2e-9).all()
        assert step.gain == pytest.approx((before - standing.load)[step.source][int(step.numbers["resource"])])
        before = standing.load.copy()
