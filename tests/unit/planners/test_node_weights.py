"""Weights by kind of node: what a node's load counts as where loads are evened out."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.base.errors import UsageError
from ballast.extender.strategies import Strategies
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.node_weights import node_factors
from ballast.model.snapshot import Snapshot, Window
from ballast.placement.layout import Layout
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.steepest_moves import steepest_moves
from ballast.scoring.fleet import Fleet, fleet_of
from ballast.scoring.strategy import strategy
from ballast.settings import Settings, examine
from tests.properties import examples
from tests.worlds.planning import a_layout, a_node, a_pod, every_node, everybody, standing_of

NODES = (
    Node("n0", labels={"disk": "ssd", "zone": "a"}),
    Node("n1", labels={"disk": "ssd"}),
    Node("n2", labels={"zone": "a"}),
)
WEIGHTS = {"disk=ssd": {"cpu": 0.5}, "zone in (a,b)": {"cpu": 0.5, "memory": 2.0}, "n1": {"cpu": 3.0}}


def test_labels_multiply_and_a_name_stands_alone() -> None:
    factors = node_factors(WEIGHTS, NODES, ("memory", "cpu"))
    assert factors.tolist() == [[2.0, 0.25], [1.0, 3.0], [2.0, 0.5]]


def a_fleet(cpu: list[float]) -> Fleet:
    mean, sizes = np.array([cpu, [0.1] * 3]), {"cpu": 4.0, "memory": 8e9, "pods": 110.0}
    known = np.ones(mean.shape, bool)
    window = Window("15m", 900.0, mean, np.zeros_like(mean), mean, known * 60, known * 1.0, known)
    nodes = tuple(Node(node.name, labels=node.labels, capacity=sizes, allocatable=sizes) for node in NODES)
    states = NodeStates.of(known.all(axis=0), resources=2)
    return fleet_of(Snapshot(0.0, nodes, ("cpu", "memory"), {"15m": window}, mean, np.ones_like(mean), states))


@pytest.mark.parametrize("name", ["load-variation", "load-aware", "blend"])
def test_the_strategies_of_the_daemon_count_a_load_times_its_weight(name: str) -> None:
    even = {"cpu": [0.8, 0.4, 0.4]}["cpu"]
    plain, weighted = (
        Strategies(Settings.model_validate({"scoring": {"node_weights": weights}})).make(name)
        for weights in ({}, {"n0": {"cpu": 0.5}})
    )
    before, after = (each.score(a_fleet(even)).exact for each in (plain, weighted))
    assert before[0] < before[1]
    assert after[0] == pytest.approx(after[1])
    assert (after[1:] == before[1:]).all()


def test_a_score_does_not_fall_below_0_and_score_takes_the_key() -> None:
    scores = strategy("load-variation", {"node_weights": {"n0": {"cpu": 10}}}).score(a_fleet([0.9, 0.9, 0.9]))
    assert scores.exact.tolist() == pytest.approx([0.0, 55.0, 55.0])


@pytest.mark.parametrize("weights", [{"n0": 2}, {"n0": {"cpu": 0}}, {"in (a b": {"cpu": 1}}])
def test_a_key_that_is_no_weight_is_refused(weights: Any) -> None:
    with pytest.raises(UsageError, match="weight"):
        strategy("load-variation", {"node_weights": weights})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"disk=ssd": {"disk": 0}}', "weights above 0"),
        ('{"disk=ssd": {"disk": 11}}', "at most 10"),
        ('{"disk=ssd": 0.5}', "a JSON map"),
        ('{"disk=(": {"disk": 1}}', "label selector"),
        ('{"Node": {"disk": 1}}', "subdomain"),
        ('{"n1": {}}', "weights above 0"),
    ],
)
def test_a_setting_that_is_no_weight_is_refused_by_name(text: str, said: str) -> None:
    (problem,) = examine({"BALLAST_SCORING__NODE_WEIGHTS": text}).problems
    assert "BALLAST_SCORING__NODE_WEIGHTS" in problem
    assert said in problem


def test_the_setting_is_read() -> None:
    findings = examine({"BALLAST_SCORING__NODE_WEIGHTS": json.dumps(WEIGHTS)})
    assert not findings.problems
    assert findings.settings.scoring.node_weights == WEIGHTS


def spread(load: Any, layout: Layout) -> float:
    return float(np.square((load * layout.factor).std(axis=0)).mean())


def best_gain(standing: SimulatedPlacement, moved: set[int]) -> float:
    layout, best = standing.layout, 0.0
    for pod in {*range(len(layout.pods))} - moved:
        for target in np.flatnonzero(standing.open_to(pod)).tolist():
            load, home = standing.load.copy(), int(standing.on[pod])
            load[home] -= standing.increment(pod, home)
            load[target] += standing.increment(pod, target)
            best = max(best, spread(standing.load, layout) - spread(load, layout))
    return best


@given(
    sizes=st.lists(st.sampled_from([4, 8]), min_size=2, max_size=4),
    factors=st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0]), min_size=8, max_size=8),
    pods=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 8)), max_size=9),
)
@examples(60)
def test_each_step_of_rebalance_is_the_best_by_weighted_load(
    sizes: list[int], factors: list[float], pods: list[tuple[int, int]]
) -> None:
    nodes = [a_node(f"n{row}", cpu=size, memory=size) for row, size in enumerate(sizes)]
    placed = [
        a_pod(f"p{row}", part / 8, (9 - part) / 8, f"n{home % len(nodes)}") for row, (home, part) in enumerate(pods)
    ]
    layout = a_layout(nodes, placed)
    layout = replace(layout, factor=np.array(factors[: 2 * len(nodes)]).reshape(-1, 2))
    standing, moved = standing_of(layout, 2.0), set[int]()
    expected, before = best_gain(standing, moved), spread(standing.load, layout)
    for step in steepest_moves(standing, everybody(layout), every_node(layout), lambda pod, target: None):
        after = spread(standing.load, layout)
        assert before - after == pytest.approx(expected, abs=1e-9)
        assert step.gain == pytest.approx(before - after, abs=1e-9)
        moved.add(step.pod)
        expected, before = best_gain(standing, moved), after
    assert expected < 1e-9
