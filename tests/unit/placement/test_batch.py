"""A batch is placed within room and rules, in its order, whatever the order of the input."""

from collections import defaultdict
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.selector import Requirement, Selector
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.template import PodTerm, Template
from ballast.placement.batch import MOST, BatchOrder, BatchPlan, BatchRules, plan_batch
from ballast.placement.batch_balance import MeasuredLoad

GATE = ("ballast.dev/batch",)
ARRIVAL = BatchRules()
SMALL_FIRST = BatchRules(BatchOrder.SMALL_FIRST)
NOW = 10_000.0


def node(name: str, cpu: float = 4.0, memory: float = 8.0, pods: float = 110.0, **more: Any) -> Node:
    return Node(name, allocatable={"cpu": cpu, "memory": memory * 1024, "pods": pods}, **more)


def pod(name: str, cpu: float = 1.0, memory: float = 1.0, *, gates: tuple[str, ...] = GATE, **more: Any) -> Pod:
    shape = shape_of([ContainerShape({"cpu": cpu, "memory": memory * 1024})])
    return Pod("a", name, uid=f"u-{name}", shape=shape, gates=gates, **{"created": NOW - 60, **more})


def planned(nodes: list[Node], pods: list[Pod], rules: BatchRules = ARRIVAL) -> BatchPlan:
    return plan_batch(nodes, pods, [each.uid for each in pods if each.gates], rules, now=NOW)


def names(plan: BatchPlan) -> list[str]:
    return [step.pod.removeprefix("a/") for step in plan.steps]


amounts = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.0])
clusters = st.tuples(
    st.lists(st.tuples(amounts, amounts, st.sampled_from([1.0, 3.0, 110.0])), max_size=4),
    st.lists(st.tuples(amounts, amounts, st.integers(0, 1), st.integers(-1, 3), st.floats(0, 900)), max_size=14),
)


@given(clusters, st.sampled_from(list(BatchOrder)), st.sampled_from([0.0, 300.0]), st.randoms(use_true_random=False))
def test_every_pod_is_placed_within_what_is_free_or_said_to_have_no_room(
    cluster: tuple[Any, Any], order: BatchOrder, aging: float, dice: Random
) -> None:
    nodes = [node(f"n{row}", *each) for row, each in enumerate(cluster[0])]
    pods = [
        pod(f"p{row:02d}", cpu, memory, priority=priority, created=NOW - age)
        if place < 0 or place >= len(nodes)
        else pod(f"p{row:02d}", cpu, memory, gates=(), node=f"n{place}", phase="Running")
        for row, (cpu, memory, priority, place, age) in enumerate(cluster[1])
    ]
    rules = BatchRules(order, aging)
    plan = planned(nodes, pods, rules)
    told = [step.uid for step in plan.steps] + [each.uid for each in plan.misfits]
    assert sorted(told) == sorted(each.uid for each in pods if each.gates)
    by_uid = {each.uid: each for each in pods}
    for resource in ("cpu", "memory"):
        used: dict[str, float] = defaultdict(float)
        for each in pods:
            used[each.node] += each.shape.requests.get(resource, 0.0)
        for step in plan.steps:
            asked = by_uid[step.uid].shape.requests.get(resource, 0.0)
            used[step.node] += asked
            free = next(each for each in nodes if each.name == step.node).allocatable[resource]
            assert not asked or used[step.node] <= free + 1e-9
    priorities = [by_uid[step.uid].priority for step in plan.steps]
    assert priorities == sorted(priorities, reverse=True)
    again, shuffled = nodes[::-1], pods[:]
    dice.shuffle(shuffled)
    assert planned(again, shuffled, rules) == plan


def test_the_oldest_come_first_and_small_first_the_smallest() -> None:
    pods = [pod("old", 3.0, created=NOW - 90), pod("mid", 1.0, created=NOW - 60), pod("new", 2.0, created=NOW - 30)]
    assert names(planned([node("n0", 8.0)], pods)) == ["old", "mid", "new"]
    assert names(planned([node("n0", 8.0)], pods, SMALL_FIRST)) == ["mid", "new", "old"]
    assert names(planned([node("n0", 3.0)], pods, SMALL_FIRST)) == ["mid", "new"]


def test_fullest_takes_the_order_that_uses_more_of_what_is_short() -> None:
    fullest = BatchRules(BatchOrder.FULLEST)
    gaps = [pod("small", 1.0, created=NOW - 9), pod("large", 4.0, created=NOW - 8), pod("mid", 2.0, created=NOW - 7)]
    assert names(planned([node("n0", 4.0)], gaps)) == ["small", "mid"]
    assert names(planned([node("n0", 4.0)], gaps, fullest)) == ["large"]
    exact = [pod("one", 3.0, created=NOW - 9), pod("two", 3.0, created=NOW - 8), pod("large", 5.0, created=NOW - 7)]
    assert names(planned([node("n0", 6.0)], exact, fullest)) == ["one", "two"]
    roomy = [pod("old", 1.0, created=NOW - 9), pod("new", 2.0, created=NOW - 8)]
    assert names(planned([node("n0", 6.0)], roomy, fullest)) == ["old", "new"]


def test_fullest_fills_devices_before_cpu() -> None:
    def asking(name: str, cpu: float, gpus: float, created: float) -> Pod:
        shape = shape_of([ContainerShape({"cpu": cpu, "nvidia.com/gpu": gpus})])
        return Pod("a", name, uid=f"u-{name}", shape=shape, gates=GATE, created=created)

    gpus = Node("n0", allocatable={"cpu": 8.0, "nvidia.com/gpu": 4.0, "pods": 110.0})
    pods = [asking("one", 8.0, 1.0, NOW - 9), asking("large", 2.0, 4.0, NOW - 8)]
    assert names(planned([gpus], pods)) == ["one"]
    assert names(planned([gpus], pods, BatchRules(BatchOrder.FULLEST))) == ["large"]


def test_small_first_a_pod_that_has_aged_comes_before_younger_ones() -> None:
    pods = [pod("large", 4.0, created=NOW - 300), pod("small", 1.0), pod("huge", 5.0, created=NOW - 299)]
    aging = BatchRules(BatchOrder.SMALL_FIRST, aging=300)
    assert names(planned([node("n0", 5.0)], pods, aging)) == ["large", "small"]
    assert names(planned([node("n0", 5.0)], pods, SMALL_FIRST)) == ["small", "large"]


def test_what_has_no_room_says_why_and_whether_it_ever_had() -> None:
    pods = [pod("first", 3.0, created=NOW - 90), pod("second", 2.0), pod("huge", 9.0)]
    pods.append(pod("lost", template=Template(node_selector=(("zone", "x"),))))
    plan = planned([node("n0")], pods)
    told = {each.pod: (each.ever, each.reason) for each in plan.misfits}
    assert told == {
        "a/second": (True, "no node has enough cpu left once the pods before it are placed"),
        "a/huge": (False, "no node has enough cpu left"),
        "a/lost": (False, "its selectors, affinities and tolerations allow none of 1 nodes"),
    }


def test_pods_of_a_batch_keep_away_from_each_other_where_they_have_to() -> None:
    term = PodTerm(selector=Selector((Requirement("app", "In", ("db",)),)), namespaces=("a",), topology_key="host")
    apart = Template(anti_affinity=(term,))
    labels = {"app": "db"}
    nodes = [node(name, labels={"host": name}) for name in ("n0", "n1")]
    pods = [pod(f"db-{number}", 0.1, template=apart, labels=labels) for number in range(3)]
    plan = planned(nodes, pods)
    assert sorted(step.node for step in plan.steps) == ["n0", "n1"]
    assert [each.reason for each in plan.misfits] == [
        "other pods keep it off all nodes; no node has room once the pods before it are placed"
    ]


@pytest.mark.parametrize("nodes", [[], [node("n0", unschedulable=True)]])
def test_without_a_node_nothing_is_placed(nodes: list[Node]) -> None:
    plan = planned(nodes, [pod("p")])
    assert not plan.steps
    assert [each.ever for each in plan.misfits] == [False]


def test_an_empty_batch_is_an_empty_plan() -> None:
    assert planned([node("n0")], []) == BatchPlan()


LOADS = MeasuredLoad(("cpu", "memory"), np.array([[0.6, 0.6], [0.1, 0.1], [np.nan, np.nan]]), NOW, 900.0)
THREE = [node("n0"), node("n1"), node("n2")]


def evenly(pods: list[Pod]) -> dict[str, str]:
    uids = [each.uid for each in pods if each.gates]
    plan = plan_batch(THREE, pods, uids, ARRIVAL, now=NOW, measured=LOADS)
    return {step.pod.removeprefix("a/"): step.node for step in plan.steps}


def test_where_all_fit_they_go_where_it_makes_the_load_even_and_never_where_it_is_unknown() -> None:
    pods = [pod(f"p{number}", 0.5, 1.0) for number in range(4)]
    assert evenly(pods) == dict.fromkeys(["p0", "p1", "p2", "p3"], "n1")
    assert {step.node for step in planned(THREE, pods).steps} == {"n0", "n1", "n2"}


def test_what_the_window_does_not_show_yet_counts() -> None:
    young = pod("young", 3.0, 6.0, gates=(), node="n1", phase="Running", scheduled_at=NOW - 1)
    old = pod("old", 3.0, 6.0, gates=(), node="n1", phase="Running", scheduled_at=NOW - 5000)
    assert evenly([young, pod("p0", 0.5, 1.0)]) == {"p0": "n0"}
    assert evenly([old, pod("p0", 0.5, 1.0)]) == {"p0": "n1"}


def test_where_not_all_fit_room_decides_for_all_of_them() -> None:
    pods = [pod(f"p{number:02d}", 1.0, 1.0) for number in range(13)]
    assert sorted(evenly(pods).values()) == ["n0"] * 4 + ["n1"] * 4 + ["n2"] * 4


def test_pods_that_keep_apart_stay_apart_where_the_load_decides() -> None:
    term = PodTerm(selector=Selector((Requirement("app", "In", ("db",)),)), namespaces=("a",), topology_key="host")
    labels = {"app": "db"}
    nodes = [node(f"n{row}", labels={"host": f"n{row}"}) for row in range(3)]
    pods = [pod(f"db-{n}", 0.1, template=Template(anti_affinity=(term,)), labels=labels) for n in range(3)]
    plan = plan_batch(nodes, pods, [each.uid for each in pods], ARRIVAL, now=NOW, measured=LOADS)
    assert sorted(step.node for step in plan.steps) == ["n0", "n1", "n2"]


@pytest.mark.parametrize(
    ("kind", "count", "nodes"),
    [("ReplicaSet", 2, ["n0", "n1"]), ("Job", 2, ["n1", "n1"]), ("ReplicaSet", 3, ["n1", "n1", "n1"])],
)
def test_where_the_load_decides_replicas_are_on_nodes_of_their_own_where_there_are_enough(
    kind: str, count: int, nodes: list[str]
) -> None:
    owner = Owner(kind, "web", "u-web", True)
    pods = [pod(f"p{number}", 0.5, 1.0, owner=owner) for number in range(count)]
    assert sorted(evenly(pods).values()) == nodes
    beside = pod("old", 0.1, 0.1, gates=(), node="n1", phase="Running", owner=owner, scheduled_at=NOW - 5000)
    assert evenly([beside, pods[0]]) == {"p0": "n0" if kind != "Job" else "n1"}


def test_of_equal_nodes_a_replica_goes_where_none_of_its_workload_is() -> None:
    def replica(name: str, workload: str, **more: Any) -> Pod:
        return pod(name, owner=Owner("ReplicaSet", workload, workload, True), **more)

    there = [replica(f"{work}{row}", work, gates=(), node=f"n{row}") for row, work in enumerate(["web", "api", "web"])]
    plan = planned([node(f"n{row}") for row in range(3)], [*there, replica("new", "web")])
    assert [step.node for step in plan.steps] == ["n1"]


@pytest.mark.slow
def test_a_very_large_batch_is_planned_in_parts() -> None:
    shape = shape_of([ContainerShape({"cpu": 0.001})])
    pods = [Pod("a", f"p{n:04d}", uid=f"u{n}", shape=shape, gates=GATE, created=float(n)) for n in range(MOST + 5)]
    plan = planned([node("n0", 10_000.0, pods=10_000.0)], pods)
    assert (len(plan.steps), plan.steps[-1].uid, plan.misfits) == (MOST, f"u{MOST - 1}", ())
