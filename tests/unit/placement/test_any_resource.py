"""Plans that count more than cpu and memory."""

import numpy as np
import pytest

from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import UNLIMITED, GateRules
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.workload import Workload
from ballast.placement.layout import Layout, layout
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import EvictionPlan, make_plan

NAN = float("nan")
SIZES = {"cpu": 10.0, "memory": 1e10, "pods": 110.0}
RULES = GateRules(
    limit_total=UNLIMITED, limit_node=UNLIMITED, limit_namespace=UNLIMITED, limit_workload=UNLIMITED, rates=()
)
NOW = 1_700_000_000.0


def node(name: str, **more: float) -> Node:
    sizes = {**SIZES, **more}
    return Node(name, capacity=sizes, allocatable=sizes)


def pod(name: str, on: str, cpu: float = 1.0, **more: float) -> Pod:
    shape = shape_of(
        [ContainerShape({"cpu": cpu, "memory": 1e9, **{key.replace("__", "/"): n for key, n in more.items()}})]
    )
    return Pod(
        "shop",
        name,
        name,
        node=on,
        phase="Running",
        shape=shape,
        owner=Owner("ReplicaSet", "web", "rs", True),
        ready=True,
    )


def planned(kind: str, arranged: Layout, aims: Aims) -> EvictionPlan:
    web = Workload("ReplicaSet", "shop", "web", replicas=len(arranged.pods), observed=0, ready=len(arranged.pods))
    facts = Facts(ClusterObjects(nodes=arranged.nodes, pods=arranged.pods, workloads=[web]), now=NOW)
    return make_plan(kind, arranged, Gate(facts, RULES), aims)


def test_a_pods_disk_is_its_share_of_all_bytes_there() -> None:
    pods = [pod("a", "n1"), pod("b", "n1"), pod("c", "n1")]
    usage = {"shop/a": {"cpu": 1.0, "disk": 30e6}, "shop/b": {"disk": 10e6}, "shop/c": {"cpu": 3.0}}
    found = layout([node("n1")], pods, ("cpu", "disk"), np.array([[0.5, 0.8]]), usage)
    assert found.whole.tolist() == [[10.0, 1.0]]
    assert found.used[:2, 1].tolist() == pytest.approx([0.6, 0.2])
    assert found.used[2, 1] == pytest.approx(0.8 * 3 / 5), "without bytes the cpu in use there stands in"


def test_a_pods_gpu_is_its_share_of_the_devices_requested_there_else_of_the_cpu() -> None:
    pods = [pod("a", "n1", nvidia__x=1), pod("b", "n1", nvidia__x=3), pod("c", "n1"), pod("d", "n2", cpu=2.0)]
    load = np.array([[0.4, 0.8], [0.4, 0.5]])
    found = layout([node("n1"), node("n2")], pods, ("cpu", "gpu"), load)
    assert found.used[:, 1].tolist() == pytest.approx([0.2, 0.6, 0.0, 0.5 * 2 / 4])


def test_a_node_without_a_gpu_has_it_not_there_and_can_still_be_a_target() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    pods = [pod(f"p{i}", "n1", cpu=2.0) for i in range(4)]
    load = np.array([[0.9, 0.2, 0.6], [0.1, 0.1, NAN], [NAN, NAN, NAN]])
    found = layout(nodes, pods, ("cpu", "memory", "gpu"), load)
    assert found.known.tolist() == [True, True, False]
    plan = planned("relieve", found, Aims())
    assert {step.target for step in plan.steps} == {"n2"}
    assert plan.steps[0].gain == pytest.approx(0.2)


def test_a_hot_disk_is_relieved_where_it_has_a_limit() -> None:
    nodes, pods = [node("n1"), node("n2")], [pod("a", "n1"), pod("b", "n1")]
    usage = {"shop/a": {"cpu": 1.0, "disk": 1e6}, "shop/b": {"cpu": 1.0, "disk": 3e6}}
    load = np.array([[0.3, 0.2, 0.95], [0.3, 0.2, 0.1]])
    found = layout(nodes, pods, ("cpu", "memory", "disk"), load, usage)
    assert planned("relieve", found, Aims()).steps == ()
    plan = planned("relieve", found, Aims(high={"cpu": 0.8, "memory": 0.8, "disk": 0.85}))
    assert [(step.pod, step.target) for step in plan.steps] == [("shop/b", "n2")]
    assert "disk" in plan.steps[0].reason
    tight = Aims(high={"disk": 0.85}, target_high={"disk": 0.5})
    assert [step.pod for step in planned("relieve", found, tight).steps] == ["shop/a"]


def test_too_many_pods_on_a_node_are_relieved_where_they_have_a_limit() -> None:
    small = {"cpu": 40.0, "memory": 16e10, "pods": 10.0}
    nodes = [Node("n1", allocatable=small), Node("n2", allocatable={**small, "pods": 40.0})]
    pods = [pod(f"p{number}", "n1") for number in range(9)]
    usage = {f"shop/p{number}": {"cpu": 0.1, "memory": 1e6} for number in range(9)}
    load = np.array([[0.3, 0.2, 0.9], [0.3, 0.2, 0.0]])
    found = layout(nodes, pods, ("cpu", "memory", "pods"), load, usage)
    assert planned("relieve", found, Aims()).steps == ()
    plan = planned("relieve", found, Aims(high={"pods": 0.85}, low={"pods": 0.7}, max_moves=9))
    step = plan.steps[0]
    assert (step.target, step.gain, step.used["pods"]) == ("n2", pytest.approx(0.1), 1.0)
    assert plan.after["pods"] == pytest.approx((0.8 - 0.025) / 2)


def test_weights_decide_what_is_evened_out() -> None:
    nodes = [node("n1"), node("n2")]
    pods = [pod("a", "n1"), pod("b", "n2"), pod("c", "n2")]
    idle = {"cpu": 0.1, "disk": 1e6}
    usage = {"shop/a": {"cpu": 3.0, "disk": 0.0}, "shop/b": idle, "shop/c": idle}
    load = np.array([[0.6, 0.0], [0.1, 0.6]])
    moved = {}
    for weights in ({"cpu": 1.0, "disk": 0.0}, {"cpu": 0.0, "disk": 1.0}):
        found = layout(nodes, pods, ("cpu", "disk"), load, usage, weights=weights)
        plan = planned("rebalance", found, Aims(max_moves=1))
        moved[max(weights, key=lambda name: weights[name])] = [step.pod for step in plan.steps]
        [step] = plan.steps
        before, after = (
            sum(weights[name] * spread[name] ** 2 for name in weights) for spread in (plan.before, plan.after)
        )
        assert step.gain == pytest.approx(before - after)
    assert moved["cpu"] == ["shop/a"]
