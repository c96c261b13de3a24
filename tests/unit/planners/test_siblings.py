"""A move makes no more pods of a workload on a node, nor in a zone, than its source had."""

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import UNLIMITED, GateRules
from ballast.eviction.history import NOTHING_YET, History
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.workload import Workload
from ballast.placement.siblings import ZONE, SiblingCounts
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import EvictionPlan, make_plan
from ballast.planners.steepest_moves import _PoolBalance, steepest_moves
from tests.properties import examples
from tests.worlds.planning import a_layout, a_node, a_pod, every_node, everybody, standing_of

NOW = 1_700_000_000.0
FREE = GateRules(
    limit_node=UNLIMITED,
    limit_namespace=UNLIMITED,
    limit_total=UNLIMITED,
    limit_workload=UNLIMITED,
    max_unavailable=UNLIMITED,
    rates=(),
    min_replicas=1,
    needs_confirmation=False,
)


def replica(name: str, on: str, workload: str = "web", cpu: float = 1.0) -> Pod:
    owner = Owner("ReplicaSet", workload, workload, True)
    return a_pod(name, cpu, 0.1, on, owner=owner, uid=name, ready=True, created=1.0)


def rows_of(pods: list[Pod], nodes: list[Node]) -> dict[str, list[bool]]:
    placement = standing_of(a_layout(nodes, pods))
    return {pod.name: placement.open_to(row).tolist() for row, pod in enumerate(placement.layout.pods)}


def plan(kind: str, nodes: list[Node], pods: list[Pod], history: History = NOTHING_YET) -> EvictionPlan:
    names = sorted({pod.owner.name for pod in pods if pod.owner})
    workloads = [Workload("ReplicaSet", "a", name, name, replicas=9) for name in names]
    gate = Gate(Facts(ClusterObjects(nodes, pods, workloads), now=NOW), FREE, history)
    return make_plan(kind, a_layout(nodes, pods), gate, Aims(high=0.5, low=0.3, target_high=0.9))


def test_a_node_with_a_sibling_is_left_out_while_another_one_is_open() -> None:
    nodes = [a_node(f"n{row}") for row in range(3)]
    assert rows_of([replica("a", "n0"), replica("b", "n1")], nodes) == {
        "a": [False, False, True],
        "b": [False, False, True],
    }
    assert rows_of([replica("a", "n0"), replica("b", "n1")], nodes[:2])["a"] == [False, True], "there is no other"
    two = [replica("a", "n0"), replica("b", "n0"), replica("c", "n1")]
    assert rows_of(two, nodes)["a"] == [False, True, True], "one of two goes to one: two there, as before"


def test_a_node_that_a_sibling_is_to_come_to_is_left_out() -> None:
    nodes = [a_node(f"n{row}") for row in range(3)]
    coming = msgspec.structs.replace(replica("b", ""), nominated="n1", ready=False, phase="Pending")
    assert rows_of([replica("a", "n0"), coming], nodes)["a"] == [False, False, True]


def test_then_a_zone_with_siblings_is_left_out() -> None:
    nodes = [
        a_node(f"n{row}", labels={ZONE: zone} if zone else {}) for row, zone in enumerate(["x", "x", "y", "y", ""])
    ]
    pods = [replica("a", "n0"), replica("b", "n2")]
    assert rows_of(pods, nodes)["a"] == [False, True, False, False, True]
    assert rows_of(pods, [nodes[0], *nodes[2:4]])["a"] == [False, False, True], "the node counts before the zone"


@pytest.mark.parametrize("kind", ["relieve", "rebalance"])
def test_a_plan_keeps_two_replicas_apart(kind: str) -> None:
    nodes = [a_node(f"n{row}") for row in range(3)]
    fill = [replica(f"f{row}", "n0", f"fill{row}", 2.0) for row in range(3)]
    pods = [replica("a", "n0", cpu=2.5), replica("b", "n1", cpu=0.1), *fill]
    made = plan(kind, nodes, pods)
    assert made.steps
    assert made.concentration == (1, 1)
    assert all(step.siblings[1] == 1 for step in made.steps)
    assert [step.target for step in made.steps if step.pod == "a/a"] in ([], ["n2"])


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([0.5, 1.0, 2.0])), min_size=2, max_size=14
    ),
    st.sampled_from(["relieve", "rebalance"]),
)
@examples(100)
def test_no_step_raises_the_pods_of_a_workload_on_a_node_while_another_is_open(
    drawn: list[tuple[int, int, float]], kind: str
) -> None:
    nodes = [a_node(f"n{row}", 20, 20) for row in range(5)]
    pods = [replica(f"p{i}", f"n{node}", f"w{work}", cpu) for i, (work, node, cpu) in enumerate(drawn)]
    where = {f"a/{pod.name}": pod.node for pod in pods}
    workload = {f"a/{pod.name}": pod.owner.uid if pod.owner else "" for pod in pods}
    for step in plan(kind, nodes, pods).steps:
        counts = Counter((workload[name], node) for name, node in where.items())
        own = workload[step.pod]
        before = counts[own, step.source]
        where[step.pod] = step.aim
        assert step.siblings == (before - 1, counts[own, step.aim] + 1)
        free = [node.name for node in nodes if node.name != step.source and counts[own, node.name] < before]
        assert step.siblings[1] <= before or not free


def test_repair_takes_nothing_back_that_ballast_moved() -> None:
    nodes = [a_node(f"n{row}") for row in range(3)]
    old, new = replica("old", "n1"), msgspec.structs.replace(replica("new", "n1"), created=NOW - 300)
    assert len(plan("repair", nodes, [old, new]).steps) == 1
    key = ("a", "ReplicaSet", "web")
    assert not plan("repair", nodes, [old, new], History(workload_evictions={key: (NOW - 310,)})).steps
    for at in (NOW - 290, NOW - 2000):
        earlier = plan("repair", nodes, [old, new], History(workload_evictions={key: (at,)}))
        assert len(earlier.steps) == 1, "neither pod came for that eviction"


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.sampled_from([0.5, 1.0, 2.0])), min_size=2, max_size=14
    ),
    st.sampled_from(["relieve", "rebalance"]),
)
@examples(100)
def test_repair_moves_no_pod_again_where_a_node_without_siblings_was_free(
    drawn: list[tuple[int, int, float]], kind: str
) -> None:
    nodes = [a_node(f"n{row}", 20, 20) for row in range(5)]
    pods = [replica(f"p{i}", f"n{node}", f"w{work}", cpu) for i, (work, node, cpu) in enumerate(drawn)]
    together = Counter((pod.owner.uid if pod.owner else "", pod.node) for pod in pods)
    faulty = {workload for (workload, _), count in together.items() if count > 1}
    replicas = Counter(pod.owner.uid if pod.owner else "" for pod in pods)
    sound = {
        f"a/{pod.name}"
        for pod in pods
        if pod.owner and pod.owner.uid not in faulty and replicas[pod.owner.uid] < len(nodes)
    }
    targets = {step.pod: step.aim for step in plan(kind, nodes, pods).steps}
    after = [msgspec.structs.replace(pod, node=targets.get(f"a/{pod.name}", pod.node)) for pod in pods]
    assert not {step.pod for step in plan("repair", nodes, after).steps} & targets.keys() & sound


@given(st.lists(st.tuples(st.integers(-1, 2), st.integers(-1, 3)), min_size=1, max_size=12), st.integers(0, 3))
def test_one_node_and_all_nodes_get_the_same_answer(drawn: list[tuple[int, int]], home: int) -> None:
    nodes = [a_node(f"n{row}", labels={ZONE: "xyy "[row]} if row < 3 else {}) for row in range(4)]
    workload, on = (np.array(column) for column in zip(*drawn, strict=True))
    siblings = SiblingCounts(workload, on, nodes)
    for pod in range(len(drawn)):
        every = siblings.stacked(pod, home) | siblings.crowding(pod, home)
        each = [siblings.worse(pod, home, row) for row in range(4)]
        assert each == (every.tolist() if workload[pod] >= 0 else [False] * 4)


@examples(300)
@given(data=st.data())
def test_a_move_opens_nodes_to_siblings_only_where_freed_says(data: st.DataObject) -> None:
    """Beside the node that it left, and for pods of the node that it came to."""
    zones = data.draw(st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=2, max_size=7))
    labels = [{"topology.kubernetes.io/zone": zone} if zone else {} for zone in zones]
    nodes = [Node(f"n{number}", labels=each) for number, each in enumerate(labels)]
    count = data.draw(st.integers(1, 10))
    on = np.array(data.draw(st.lists(st.integers(0, len(nodes) - 1), min_size=count, max_size=count)))
    workload = np.array(data.draw(st.lists(st.sampled_from([0, 0, 0, 1, -1]), min_size=count, max_size=count)))
    siblings, moved = SiblingCounts(workload, on, nodes), data.draw(st.integers(0, count - 1))

    def closed(pod: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        if siblings.alone(pod):
            return np.zeros(len(nodes), bool)
        return siblings.stacked(pod, int(on[pod])) | siblings.crowding(pod, int(on[pod]))

    before = [closed(pod) for pod in range(count)]
    home, target = int(on[moved]), data.draw(st.integers(0, len(nodes) - 1))
    siblings.move(moved, home, target)
    on[moved] = target
    freed = set(siblings.freed(moved, home, target, on).tolist())
    for pod in range(count):
        opened = set(np.flatnonzero(before[pod] & ~closed(pod)).tolist())
        assert not opened - {home} or pod in freed or on[pod] == target
        assert pod not in freed or workload[pod] == workload[moved]


def test_a_plan_evaluates_few_sources_beside_its_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workloads of many replicas no longer have all nodes of their siblings looked at again after each move."""
    random = np.random.default_rng(0)
    nodes = [a_node(f"n{number:03}", 40, 40) for number in range(120)]
    use = random.lognormal(0, 0.6, (10, 2))
    owners = [Owner("ReplicaSet", f"w{number}", f"u{number}", True) for number in range(10)]
    pods = []
    for number in range(1200):
        app, on = random.integers(10), random.integers(120)
        pods.append(a_pod(f"p{number:04}", *use[app], f"n{on:03}", owner=owners[app]))
    layout = a_layout(nodes, pods)
    evaluated: list[int] = []
    evaluate = _PoolBalance._evaluate

    def counting(self: _PoolBalance, places: list[int]) -> None:
        evaluated.extend(places)
        evaluate(self, places)

    monkeypatch.setattr(_PoolBalance, "_evaluate", counting)
    moves = list(steepest_moves(standing_of(layout), everybody(layout), every_node(layout), lambda *_: None, limit=60))
    assert len(moves) == 60
    assert len(evaluated) < 8 * len(moves)
