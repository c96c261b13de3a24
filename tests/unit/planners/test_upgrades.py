"""While nodes are replaced one by one, pods move forward or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import UNLIMITED, GateRules
from ballast.eviction.upgrade_front import upgrade_front
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.workload import Workload
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import EvictionPlan, make_plan
from tests.worlds.planning import a_layout, a_node, a_pod, load_by_requests

NOW, HOUR = 1_700_000_000.0, 3600.0
OLD, NEW = "v1.35.4", "v1.36.0"
RULES = GateRules(
    limit_total=UNLIMITED,
    limit_node=UNLIMITED,
    limit_namespace=UNLIMITED,
    limit_workload=UNLIMITED,
    rates=(),
    cooldown=0.0,
    workload_window=0.0,
    max_unavailable=UNLIMITED,
    confirmations=0,
    max_not_ready=1.0,
    min_node_age=60.0,
)
KINDS = ("relieve", "rebalance", "repair", "consolidate", "redistribute")


@dataclass
class Fleet:
    """Nodes of 16 cores, half of them in use by pods of 1 core; `at` is the time."""

    number: int
    random: Random
    versioned: bool = True
    """Whether versions of the kubelet tell nodes apart, or OS images alone."""
    at: float = NOW
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    moved: int = 0
    backwards: int = 0

    def __post_init__(self) -> None:
        for number in range(self.number):
            self.join(f"old{number}", OLD, NOW - 90 * 86_400)
        names = list(self.nodes)
        for number in range(8 * self.number):
            app, on = number % self.number, self.random.choice(names)
            owner = Owner("ReplicaSet", f"w{app}", f"u{app}", True)
            self.pods[f"p{number}"] = a_pod(f"p{number}", 1, 1, on, owner=owner, ready=True, created=NOW - 86_400)

    def join(self, name: str, version: str, created: float) -> None:
        told = {"version": version} if self.versioned else {"version": OLD, "os_image": version}
        self.nodes[name] = a_node(name, 16, 64, created=created, ready_since=created, system="linux/amd64", **told)

    def plan(self, kind: str) -> EvictionPlan:
        nodes, pods = tuple(self.nodes.values()), tuple(self.pods.values())
        sets = [Workload("ReplicaSet", "a", f"w{number}", replicas=8) for number in range(self.number)]
        facts = Facts(ClusterObjects(nodes=nodes, pods=pods, workloads=sets), now=self.at)
        layout = a_layout(nodes, pods, load=load_by_requests(nodes, pods))
        peak = np.full((len(nodes), 2), 0.5)
        return make_plan(kind, layout, Gate(facts, RULES), Aims(confidence=0.0, price=0.0), peak=peak)

    def act(self) -> None:
        """What Ballast plans is done."""
        for kind in KINDS:
            for step in self.plan(kind).steps:
                assert step.target is not None
                self.moved += 1
                self.backwards += step.target.startswith("old")
                self.bind(step.pod.partition("/")[2], step.target)

    def bind(self, pod: str, node: str) -> None:
        self.pods[pod] = msgspec.structs.replace(self.pods[pod], node=node)

    def drain(self, name: str) -> None:
        """As kube-scheduler spreads what comes back: least requested first."""
        for pod in [each for each in self.pods.values() if each.node == name]:
            there = {node: 0 for node, found in self.nodes.items() if not found.unschedulable}
            for other in self.pods.values():
                if other.node in there:
                    there[other.node] += 1
            self.bind(pod.name, min(there, key=lambda node: (there[node], node)))

    def upgrade(self) -> Iterator[str]:
        """The moments between: a new node is there, an old one is cordoned, it is gone."""
        for number in range(self.number):
            self.at += 300
            self.join(f"new{number}", NEW, self.at - 120)
            yield "joined"
            old = f"old{number}"
            self.nodes[old] = msgspec.structs.replace(self.nodes[old], unschedulable=True)
            yield "cordoned"
            self.drain(old)
            yield "drained"
            del self.nodes[old]
            yield "gone"


@pytest.mark.parametrize("number", [6, 12, 24, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("versioned", [True, False])
def test_nothing_is_moved_to_a_node_that_will_be_drained(number: int, versioned: bool) -> None:
    fleet = Fleet(number, Random(number), versioned)
    for _ in fleet.upgrade():
        fleet.act()
    assert fleet.backwards == 0
    assert fleet.moved <= 8 * number / 2, "pods are moved by the upgrade itself"


def test_optional_planners_rest_and_say_so() -> None:
    fleet = Fleet(6, Random(1))
    moments = fleet.upgrade()
    for _ in range(6):
        next(moments)
    for kind in ("rebalance", "repair", "consolidate"):
        plan = fleet.plan(kind)
        assert (plan.steps, plan.note) == ((), "rests: an upgrade is under way: 2 of 7 nodes are new")
    fleet.at += 2 * HOUR
    assert "rests" in (fleet.plan("rebalance").note or ""), "one is cordoned still"
    fleet.nodes["old1"] = msgspec.structs.replace(fleet.nodes["old1"], unschedulable=False)
    assert fleet.plan("rebalance").steps
    assert fleet.plan("rebalance").note is None


def front(*nodes: Node, pool: Any = None) -> list[bool]:
    numbers = np.zeros(len(nodes), np.int64) if pool is None else np.array(pool)
    return upgrade_front(nodes, numbers, NOW).older.tolist()


def one(name: str, version: str, *, ago: float = 10 * 86_400, **more: Any) -> Node:
    return a_node(name, version=version, created=NOW - ago, **more)


def test_which_nodes_are_behind() -> None:
    cordoned = one("a", OLD, unschedulable=True)
    assert front(cordoned, one("b", OLD), one("c", NEW)) == [True, True, False]
    assert front(one("a", OLD), one("c", NEW)) == [False, False], "nothing goes on"
    assert front(one("a", OLD), one("c", NEW, ago=60)) == [True, False]
    assert front(one("a", OLD), one("c", NEW, ready_since=NOW - 60)) == [True, False], "upgraded in place"
    assert front(one("a", OLD), one("c", NEW, ago=60, ready=False)) == [False, False]
    assert front(one("a", OLD), one("c", NEW, unschedulable=True)) == [False, False], "the new one goes: rolled back"
    assert front(one("a", "v1.9.9"), one("c", "v1.10.0", ago=60)) == [True, False], "numbers, not letters"
    assert front(one("a", "v1.35.1-x.9"), one("c", "v1.35.1-x.10", ago=60)) == [True, False]
    assert front(cordoned, one("b", OLD), one("c", NEW), pool=[0, 0, 1]) == [False, False, False]
    assert front(one("a", ""), one("b", OLD), one("c", NEW, ago=60)) == [False, True, False], "who does not say"
    labels = {"node-role.kubernetes.io/control-plane": ""}
    assert front(cordoned, one("m", NEW, ago=60, labels=labels)) == [False, False], "control planes come first"
    assert front(one("a", "", os_image="x"), one("b", "", os_image="y", ago=60)) == [True, False]
    assert front(one("a", "", os_image="x"), one("b", "", os_image="y")) == [False, False], "of one age"
    assert front() == []
