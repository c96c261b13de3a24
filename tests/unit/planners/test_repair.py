"""Repair mends every fault that one move can mend, and makes none; held against counting by hand."""

import random
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
import pytest

from ballast.model.node import Node, Taint
from ballast.model.pod import Pod
from ballast.model.selector import Requirement, Selector
from ballast.model.template import NodeTerm, PodTerm, Template, Toleration, TopologySpread
from ballast.planners.repair import repair
from tests.worlds.planning import a_layout, a_node, a_pod, standing_of

WORLDS, FAULTS = 400, 500
State = Mapping[str, str]


def app(name: str) -> Selector:
    return Selector((Requirement("app", "In", (name,)),))


def template(rng: random.Random, own: str) -> Template:
    zone = NodeTerm((Requirement("zone", "In", (rng.choice("ab"),)),))
    near = PodTerm(rng.choice(("zone", "host")), app(rng.choice("xyz")), ("a",))
    kinds = (
        Template(),
        Template(node_affinity=(zone,)),
        Template(preferred=((rng.choice((1, 50, 100)), zone),)),
        Template(tolerations=(Toleration("t", "Exists"),)),
        Template(anti_affinity=(near,)),
        Template(anti_affinity=(PodTerm("host", app(own), ("a",)),)),
        Template(spread=(TopologySpread(rng.choice(("zone", "host")), rng.choice((1, 2)), app(own)),)),
        Template(affinity=(near,)),
        Template(preferred_spread=(TopologySpread(rng.choice(("zone", "host")), rng.choice((1, 2)), app(own)),)),
    )
    return rng.choice(kinds)


def world(seed: int) -> tuple[list[Node], list[Pod], list[int]]:
    rng = random.Random(seed)
    nodes = [
        a_node(
            f"n{n}",
            cpu=rng.choice((3, 5, 9)),
            labels={"zone": "ab"[n % 2], "host": f"n{n}"},
            taints=(Taint("t", "NoSchedule"),) if rng.random() < 0.15 else (),
            unschedulable=rng.random() < 0.05,
        )
        for n in range(rng.randint(2, 5))
    ]
    room = {node.name: node.allocatable["cpu"] for node in nodes}
    pods, workload = [], []
    for number, name in enumerate(("x", "y", "z", "x2")[: rng.randint(1, 4)]):
        of = template(rng, name[0])
        for copy in range(rng.randint(1, 4)):
            on, cpu = rng.choice(nodes).name, rng.choice((0.5, 1, 2))
            if room[on] >= cpu:
                room[on] -= cpu
                pods.append(a_pod(f"{name}-{copy}", cpu, 0.1, on=on, labels={"app": name[0]}, template=of))
                workload.append(number)
    return nodes, pods, workload


class Oracle:
    """Violations by the words of the API, pod by pod."""

    def __init__(self, nodes: list[Node], pods: list[Pod], workload: list[int]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods = {pod.name: pod for pod in pods}
        self.workload = dict(zip(self.pods, workload, strict=True))

    def zone(self, key: str, node: str) -> str:
        return self.nodes[node].labels[key]

    def near(self, state: State, pod: str, term: PodTerm, node: str) -> list[str]:
        selector = term.selector
        assert selector is not None
        return [
            other
            for other, there in state.items()
            if other != pod
            and selector.matches(self.pods[other].labels)
            and self.zone(term.topology_key, there) == self.zone(term.topology_key, node)
        ]

    def chosen(self, pod: str, node: str) -> bool:
        terms = self.pods[pod].template.node_affinity
        return terms is None or any(all(r.matches(self.nodes[node].labels) for r in t.labels) for t in terms)

    def hard(self, state: State, pod: str) -> Iterator[str]:
        node, of = state[pod], self.pods[pod].template
        if not self.chosen(pod, node):
            yield "node affinity"
        if self.nodes[node].taints and not of.tolerations:
            yield "taints"
        if any(self.near(state, pod, term, node) for term in of.anti_affinity):
            yield "anti-affinity"
        for other in state:
            for term in self.pods[other].template.anti_affinity:
                if other != pod and pod in self.near(state, other, term, state[other]):
                    yield "anti-affinity"
        for term in of.affinity:
            everywhere = [o for o in state if o != pod and term.selector and term.selector.matches(self.pods[o].labels)]
            itself = term.selector is not None and term.selector.matches(self.pods[pod].labels)
            if not self.near(state, pod, term, node) and (everywhere or not itself):
                yield "affinity"
        if self.above(state, pod, of.spread):
            yield "spread"

    def above(self, state: State, pod: str, spreads: tuple[TopologySpread, ...]) -> bool:
        node = state[pod]
        for spread in spreads:
            counts = {self.zone(spread.topology_key, n): 0 for n in self.nodes if self.chosen(pod, n)}
            for other, there in state.items():
                assert spread.selector is not None
                meant = other != pod and spread.selector.matches(self.pods[other].labels)
                if meant and self.chosen(pod, there):
                    counts[self.zone(spread.topology_key, there)] += 1
            here = counts.get(self.zone(spread.topology_key, node), 0)
            if counts and here + 1 - min(counts.values()) > spread.max_skew:
                return True
        return False

    def open_to(self, state: State, pod: str, node: str) -> bool:
        found = self.nodes[node]
        used = sum(self.pods[o].shape.requests["cpu"] for o, there in state.items() if there == node and o != pod)
        room = found.allocatable["cpu"] - used >= self.pods[pod].shape.requests["cpu"]
        moved = {**state, pod: node}
        return room and found.schedulable and node != state[pod] and not any(self.hard(moved, pod))

    def weight(self, pod: str, node: str) -> int:
        preferred = self.pods[pod].template.preferred
        return sum(w for w, t in preferred if all(r.matches(self.nodes[node].labels) for r in t.labels))

    def mates(self, state: State, pod: str, node: str) -> int:
        return sum(o != pod and there == node and self.workload[o] == self.workload[pod] for o, there in state.items())

    def faults(self, state: State, pod: str) -> set[str]:
        found = set(self.hard(state, pod))
        here = state[pod]
        open_to = [node for node in self.nodes if self.open_to(state, pod, node)]
        if self.mates(state, pod, here) and any(not self.mates(state, pod, node) for node in open_to):
            found.add("duplicate")
        if any(self.weight(pod, node) > self.weight(pod, here) for node in open_to):
            found.add("preferred node affinity")
        if self.above(state, pod, self.pods[pod].template.preferred_spread):
            found.add("preferred spread")
        return found

    def mendable(self, state: State, pod: str) -> list[str]:
        """Nodes on which it has fewer faults and no other, and where nobody else gets a hard one."""
        before, found = self.faults(state, pod), []
        for node in self.nodes if before else ():
            after = {**state, pod: node}
            if not self.open_to(state, pod, node) or not self.faults(after, pod) < before:
                continue
            hard = bool(before - {"duplicate", "preferred node affinity", "preferred spread"})
            kept = hard or self.weight(pod, node) >= self.weight(pod, state[pod])
            others = (o for o in state if o != pod)
            if kept and all(set(self.hard(after, o)) <= set(self.hard(state, o)) for o in others):
                found.append(node)
        return found


@pytest.mark.slow
def test_every_fault_that_a_move_can_mend_is_mended_and_none_is_made() -> None:
    seen = 0
    for seed in range(WORLDS):
        nodes, pods, workload = world(seed)
        if not pods:
            continue
        oracle = Oracle(nodes, pods, workload)
        order = sorted(range(len(pods)), key=lambda row: pods[row].name)
        standing = standing_of(a_layout(nodes, pods))
        numbers = np.array([workload[row] for row in order])
        state = {pod.name: pod.node for pod in pods}
        before = {pod: set(oracle.hard(state, pod)) for pod in state}
        seen += sum(len(oracle.faults(state, pod)) for pod in state)
        moved = set()
        for step in repair(standing, np.ones(len(pods), bool), numbers, lambda pod, target: None):
            name = standing.layout.pods[step.pod].name
            target = standing.layout.nodes[step.target].name
            assert name not in moved, seed
            assert target in oracle.mendable(state, name), (seed, name, target)
            assert step.gain > 0
            moved.add(name)
            state[name] = target
        for pod in state:
            assert set(oracle.hard(state, pod)) <= before[pod], (seed, pod)
            assert pod in moved or not oracle.mendable(state, pod), (seed, pod)
    assert seen >= FAULTS


def test_who_may_not_move_stays() -> None:
    nodes = [a_node("n0"), a_node("n1")]
    pods = [a_pod(f"p{n}", 1, 1, on="n0") for n in range(2)]
    arranged = a_layout(nodes, pods)
    numbers = np.zeros(2, np.int64)

    def steps(**how: object) -> list[int]:
        given = {"admit": lambda pod, target: None, "movable": np.ones(2, bool), **how}
        found = repair(standing_of(arranged), given["movable"], numbers, given["admit"], limit=how.get("limit"))  # type: ignore[arg-type]
        return [step.pod for step in found]

    assert steps() == [0]
    assert steps(limit=0) == []
    assert steps(movable=np.array([False, True])) == [1]
    assert steps(admit=lambda pod, target: np.array([pod]) if pod == 0 else None) == [1]
    assert steps(admit=lambda pod, target: np.arange(2)) == []


def test_a_terminating_or_finished_pod_of_the_workload_is_no_reason() -> None:
    nodes = [a_node("n0"), a_node("n1")]
    one = a_pod("p0", 1, 1, on="n0")
    for mate, steps in (({"phase": "Succeeded"}, 0), ({"deleting": True}, 0), ({}, 1)):
        arranged = a_layout(nodes, [one, msgspec.structs.replace(one, name="p1", **mate)])
        found = repair(standing_of(arranged), np.array([True, False]), np.zeros(2, np.int64), lambda pod, target: None)
        assert len(list(found)) == steps
