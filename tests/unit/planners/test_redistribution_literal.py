"""Redistribution beside the paper's procedure, tried word for word on small clusters where pods look at each other."""

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.selector import Selector, parse
from ballast.model.template import PodTerm, Template, TopologySpread
from ballast.planners.node_choice import OBSERVED
from ballast.planners.redistribute import redistribute
from ballast.scoring.dominant_residual import DominantResidual
from ballast.scoring.profiles import Profile
from tests.properties import examples
from tests.worlds.planning import a_layout, a_node, a_pod, everybody, standing_of

APPS = ("web", "db", "job")
KINDS = ("cpu", "memory")


@dataclass
class Trial:
    """Nodes, pods and where they are; the rules of Kubernetes and L as the texts have them, without any array."""

    nodes: list[Node]
    pods: dict[str, Pod]
    on: dict[str, str]
    criterion: DominantResidual

    def free(self, node: Node) -> list[float]:
        there = [self.pods[name] for name, where in self.on.items() if where == node.name]
        return [node.allocatable[kind] - sum(pod.shape.requests.get(kind, 0.0) for pod in there) for kind in KINDS]

    def allowed(self, pod: Pod, node: Node) -> bool:
        free = self.free(node)
        if any(0 < pod.shape.requests.get(kind, 0.0) > room + 1e-9 for kind, room in zip(KINDS, free, strict=True)):
            return False
        others = [(self.pods[name], where) for name, where in self.on.items() if where and name != pod.name]
        zones = {each.name: each.labels["zone"] for each in self.nodes}
        for other, where in others:
            near = zones[where] == node.labels["zone"]
            if near and (_repels(pod, other) or _repels(other, pod)):
                return False
        for spread in pod.template.spread:
            counts = dict.fromkeys(zones.values(), 0)
            for other, where in others:
                counts[zones[where]] += _is_meant(spread.selector, other)
            itself = int(_is_meant(spread.selector, pod))
            if counts[node.labels["zone"]] + itself - min(counts.values()) > spread.max_skew:
                return False
        return True

    def best(self, pod: Pod, home: str = "") -> str | None:
        found = [node for node in self.nodes if node.name != home and self.allowed(pod, node)]
        return min(found, key=lambda node: (round(self.loss(pod, node) * 1e9), node.name)).name if found else None

    def loss(self, pod: Pod, node: Node) -> float:
        free = self.free(node)
        asked = [pod.shape.requests.get(kind, 0.0) for kind in KINDS]
        left = [room - amount for room, amount in zip(free, asked, strict=True)]
        dominant = max(1 - rest / node.allocatable[kind] for rest, kind in zip(left, KINDS, strict=True))
        return self.criterion.lambda_ * dominant + (1 - self.criterion.lambda_) * (
            self.fitness(free) - self.fitness(left)
        )

    def fitness(self, free: list[float]) -> float:
        found = total = 0.0
        for amounts, weight in self.profiles():
            times = min(
                (max(room, 0.0) / need for room, need in zip(free, amounts, strict=True) if need), default=np.inf
            )
            share = times / self.criterion.c
            found += weight * (1.0 if np.isinf(times) else np.sqrt(share) if self.criterion.root else min(share, 1.0))
            total += weight
        return found / total

    def profiles(self) -> list[tuple[list[float], float]]:
        if self.criterion.profiles:
            units = {"cpu": 1000.0, "memory": 1.0}
            return [
                ([each.requests.get(kind, 0) / units[kind] for kind in KINDS], each.weight)
                for each in self.criterion.profiles
            ]
        return [([pod.shape.requests.get(kind, 0.0) for kind in KINDS], 1.0) for pod in self.pods.values()]


def _is_meant(selector: Selector | None, pod: Pod) -> bool:
    return selector is not None and selector.matches(pod.labels)


def _repels(one: Pod, other: Pod) -> bool:
    return any(_is_meant(term.selector, other) for term in one.template.anti_affinity)


def literal(trial: Trial) -> tuple[int, str, str, dict[str, str]] | None:
    """The best eviction: pods that start, who leaves, where it goes, who starts where.

    Waiting pods are tried first; those that start then are not moved.
    """
    leavers = sorted(name for name, where in trial.on.items() if where)
    waiting = [pod for pod in trial.pods.values() if not trial.on[pod.name]]
    waiting.sort(key=lambda pod: (pod.waiting_since, pod.name))
    tried = True
    while tried:
        tried = False
        for pod in waiting:
            if not trial.on[pod.name] and (target := trial.best(pod)) is not None:
                trial.on[pod.name], tried = target, True
    waiting = [pod for pod in waiting if not trial.on[pod.name]]
    best: tuple[int, str, str, dict[str, str]] | None = None
    for leaver in leavers:
        then = replace(trial, on=dict(trial.on))
        home, then.on[leaver] = then.on[leaver], ""
        starts: dict[str, str] = {}
        for pod in waiting:
            if (target := then.best(pod)) is not None:
                then.on[pod.name] = starts[pod.name] = target
        landed = then.best(trial.pods[leaver], home)
        if landed is not None and starts and (best is None or len(starts) > best[0]):
            best = (len(starts), leaver, landed, starts)
    return best


@st.composite
def neighbourly(draw: st.DrawFn) -> Trial:
    """Pods on nodes of two or three zones, packed in turn; many look at each other, and what fits nowhere waits."""
    g = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    zones = int(g.integers(2, 4))
    nodes = [
        a_node(f"n{i}", *g.integers(6, 20, 2).tolist(), labels={"zone": f"z{i % zones}"})
        for i in range(int(g.integers(3, 6)))
    ]
    criterion = DominantResidual(
        float(g.choice([0.0, 0.1, 0.5, 1.0])), float(g.choice([1.0, 2.0, 22.0])), bool(g.random() < 0.5)
    )
    if g.random() < 0.5:
        asked = [{"cpu": 1000 * int(g.integers(1, 6)), "memory": int(g.integers(1, 6))} for _ in range(3)]
        profiles = [Profile(each, float(g.integers(1, 5))) for each in asked]
        criterion = replace(criterion, profiles=tuple(profiles))
    templates = {app: _template(g) for app in APPS}
    labels = {app: {"app": app} for app in APPS}
    pods: dict[str, Pod] = {}
    trial = Trial(nodes, pods, {}, criterion)
    for number in range(int(g.integers(6, 22))):
        app = str(g.choice(APPS))
        name = f"p{number:02}"
        pod = a_pod(
            name,
            *g.integers(1, 7, 2).tolist(),
            waiting=float(g.integers(3)),
            template=templates[app],
            labels=labels[app],
        )
        pods[name], trial.on[name] = pod, ""
        fitting = [node.name for node in nodes if trial.allowed(pod, node)]
        if fitting and g.random() < 0.9:
            trial.on[name] = str(g.choice(fitting))
    return trial


def _template(g: np.random.Generator) -> Template:
    other = parse(f"app={g.choice(APPS)}")
    way = g.random()
    if way < 0.4:
        return Template(anti_affinity=(PodTerm(topology_key="zone", selector=other, namespaces=("a",)),))
    if way < 0.7:
        return Template(spread=(TopologySpread(topology_key="zone", max_skew=1, selector=other),))
    return Template()


def planned(trial: Trial) -> tuple[int, str, str, dict[str, str]] | None:
    pods = [
        a_pod(
            name,
            pod.shape.requests.get("cpu", 0.0),
            pod.shape.requests.get("memory", 0.0),
            on=where,
            waiting=None if where else pod.waiting_since,
            template=pod.template,
            labels=pod.labels,
        )
        for name, pod in trial.pods.items()
        for where in [trial.on[name]]
    ]
    layout = a_layout(trial.nodes, pods)
    steps = redistribute(
        standing_of(layout), everybody(layout), lambda pod, target: None, arrivals=None, criterion=trial.criterion
    )
    step = next(iter(steps), None)
    if step is None:
        return None
    names = {
        name: layout.nodes[row].name
        for name, row in zip([layout.pods[row].name for row in step.starts], step.starts_on, strict=True)
    }
    return int(step.gain), layout.pods[step.pod].name, layout.nodes[step.target].name, names


@examples(300)
@given(neighbourly())
def test_the_search_finds_what_the_procedure_finds(trial: Trial) -> None:
    assert planned(trial) == literal(trial)


def _trial(nodes: list[Node], pods: list[Pod], criterion: DominantResidual = OBSERVED) -> Trial:
    return Trial(nodes, {pod.name: pod for pod in pods}, {pod.name: pod.node for pod in pods}, criterion)


def test_a_pod_starts_where_an_anti_affinity_is_lifted() -> None:
    """In zone a, n1 has no room once `quiet` is gone, but n2 has, and `quiet` kept `w` out of the whole zone."""
    alone = Template(anti_affinity=(PodTerm(topology_key="zone", selector=parse("app=w"), namespaces=("a",)),))
    nodes = [a_node("n1", 6, 6, labels={"zone": "a"}), a_node("n2", 9, 9, labels={"zone": "a"})]
    nodes.append(a_node("n3", 4, 4, labels={"zone": "b"}))
    pods = [
        a_pod("big", 4, 4, "n1"),
        a_pod("quiet", 2, 2, "n1", template=alone),
        a_pod("w", 8, 8, waiting=0.0, labels={"app": "w"}),
    ]
    assert planned(_trial(nodes, pods)) == (1, "quiet", "n3", {"w": "n2"})


def test_a_pod_starts_where_a_spread_allows_it_again() -> None:
    even = Template(spread=(TopologySpread(topology_key="zone", max_skew=1, selector=parse("app=w")),))
    nodes = [
        a_node("n1", 4, 4, labels={"zone": "a"}),
        a_node("n2", 9, 9, labels={"zone": "a"}),
        a_node("n3", 2, 2, labels={"zone": "b"}),
    ]
    pods = [
        a_pod("big", 2, 2, "n1"),
        a_pod("w-1", 2, 2, "n1", template=even, labels={"app": "w"}),
        a_pod("w-2", 8, 8, waiting=0.0, template=even, labels={"app": "w"}),
    ]
    assert planned(_trial(nodes, pods)) == (1, "w-1", "n3", {"w-2": "n2"})


def test_pods_land_by_the_configured_criterion() -> None:
    """`tight` stays less full than `roomy`, but there the profile loses room."""
    nodes = [a_node("home", 4, 8), a_node("roomy", 20, 40), a_node("tight", 5, 10)]
    pods = [
        a_pod("a", 2, 4, "home"),
        a_pod("r", 1, 35, "roomy"),
        a_pod("t", 2, 4, "tight"),
        a_pod("w", 4, 6, waiting=0.0),
    ]
    wide = DominantResidual(1.0, 1.0, root=False, profiles=(Profile({"cpu": 4000}, 1.0),))
    assert planned(_trial(nodes, pods, wide)) == (1, "a", "tight", {"w": "home"})
    assert planned(_trial(nodes, pods, replace(wide, lambda_=0.0))) == (1, "a", "roomy", {"w": "home"})


def test_a_profile_may_ask_for_what_no_pod_asks_for() -> None:
    """Only `gpu` has room for the profile, so it is spared."""
    nodes = [a_node("home", 4, 4), a_node("gpu", 5, 5), a_node("plain", 4, 4)]
    nodes[1] = Node("gpu", allocatable={**nodes[1].allocatable, "nvidia.com/gpu": 1.0})
    pods = [a_pod("a", 2, 2, "home"), a_pod("g", 2, 2, "gpu"), a_pod("p", 2, 2, "plain"), a_pod("w", 4, 3, waiting=0.0)]
    criterion = DominantResidual(0.0, 1.0, root=False, profiles=(Profile({"cpu": 2000, "nvidia.com/gpu": 1}, 1.0),))
    layout = a_layout(nodes, pods)
    steps = redistribute(
        standing_of(layout), everybody(layout), lambda pod, target: None, arrivals=None, criterion=criterion
    )
    assert [layout.nodes[step.target].name for step in steps] == ["plain"]
