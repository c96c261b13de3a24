"""No plan breaks a budget, a limit or a minimum, in any order of execution and with failures in between."""

from collections import Counter
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, target
from hypothesis import strategies as st

from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import NAMES, NUMBER, PASSED, Gate, refusals
from ballast.eviction.gate_rules import EvictionLimit, GateRules
from ballast.eviction.history import History
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.selector import Requirement, Selector
from ballast.model.shape import ContainerShape, Shape, shape_of
from ballast.model.workload import DisruptionBudget, Workload
from ballast.placement.layout import layout
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import EvictionPlan, Kind, make_plan
from tests.properties import examples

NOW = 1_700_000_000.0
RESOURCES = ("cpu", "memory")
AMOUNTS = {"cpu": 10.0, "memory": 10.0, "pods": 20.0}
KINDS: tuple[Kind, ...] = ("relieve", "rebalance", "redistribute", "repair")

limits = st.sampled_from([0, 0, 0, 1, 2, 3, 5]).map(EvictionLimit) | st.sampled_from([25, 50]).map(
    lambda share: EvictionLimit(percent=Fraction(share))
)


@dataclass(frozen=True)
class World:
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    load: Any
    workloads: tuple[Workload, ...]
    budgets: tuple[DisruptionBudget, ...]
    rules: GateRules
    history: History
    aims: Aims

    def facts(self) -> Facts:
        unknown = [node.name for node, row in zip(self.nodes, self.load, strict=True) if not np.isfinite(row).any()]
        return Facts(ClusterObjects(self.nodes, self.pods, self.workloads, self.budgets), now=NOW, unknown=unknown)

    def plan(self, kind: Kind) -> EvictionPlan:
        arranged = layout(self.nodes, self.pods, RESOURCES, self.load)
        return make_plan(kind, arranged, Gate(self.facts(), self.rules, self.history), self.aims, examples=2)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    rarely = st.sampled_from([False] * 19 + [True])
    nodes = tuple(
        Node(f"n{i}", allocatable=AMOUNTS, ready=not draw(rarely), created=1.0) for i in range(draw(st.integers(3, 6)))
    )
    names = [node.name for node in nodes]
    pods: list[Pod] = []
    workloads, budgets = [], []
    for number in range(draw(st.integers(2, 6))):
        namespace, name = draw(st.sampled_from(["shop", "mail"])), f"w{number}"
        shape = _shape(draw(st.integers(1, 4)), draw(st.integers(0, 4)))
        replicas = draw(st.integers(2, 8))
        owner = Owner("ReplicaSet", name, f"u-{name}", True)
        workloads.append(Workload("ReplicaSet", namespace, name, f"u-{name}", replicas=replicas))
        pods.extend(
            Pod(
                namespace,
                f"{name}-{place}",
                uid=f"u-{name}-{place}",
                node=draw(st.sampled_from([names[0], *names])),
                phase="Running",
                shape=shape,
                labels={"app": name},
                owner=owner,
                created=1.0,
                ready=not draw(rarely),
                deleting=draw(rarely),
            )
            for place in range(replicas - draw(rarely))
        )
        for each in range(draw(st.sampled_from([0, 0, 1, 1, 1, 2]))):
            chosen = Selector((Requirement("app", "In", (name,)),))
            budgets.append(
                DisruptionBudget(
                    namespace, f"b{number}-{each}", chosen, draw(st.integers(0, 3)), settled=not draw(rarely)
                )
            )
    for number in range(draw(st.integers(0, 3))):
        shape = _shape(draw(st.integers(6, 20)), draw(st.integers(0, 12)))
        pods.append(Pod("shop", f"waits-{number}", uid=f"u-waits-{number}", shape=shape, waiting_since=float(number)))
    loads = [(draw(st.floats(0.6, 1.2)), draw(st.floats(0, 1.2)))]
    loads += [(draw(st.floats(0, 0.6)), draw(st.floats(0, 0.6) | st.just(float("nan")))) for _ in nodes[1:]]
    rules = GateRules(
        limit_total=draw(limits),
        limit_node=draw(limits),
        limit_namespace=draw(limits),
        limit_workload=draw(limits),
        max_unavailable=draw(limits),
        min_replicas=draw(st.integers(0, 3)),
        rates=((draw(limits), 3600.0),),
        max_not_ready=0.5,
        max_unknown=0.9,
        needs_confirmation=False,
    )
    history = History(evictions=tuple(NOW - 60.0 for _ in range(draw(st.integers(0, 2)))))
    ceiling, priced = draw(st.sampled_from([0.7, 1.3])), draw(st.booleans())
    aims = Aims(high=0.7, low=0.5, target_high=ceiling, priced=priced)
    return World(nodes, tuple(pods), np.array(loads), tuple(workloads), tuple(budgets), rules, history, aims)


def _shape(cpu: float, memory: float) -> Shape:
    return shape_of([ContainerShape({"cpu": cpu / 2, "memory": memory / 2})])


@given(worlds(), st.sampled_from(KINDS), st.data())
@examples(250)
def test_no_order_and_no_failure_breaks_a_budget_a_limit_or_a_minimum(
    world: World, kind: Kind, data: st.DataObject
) -> None:
    plan = world.plan(kind)
    target(len(plan.steps))
    pods = {f"{pod.namespace}/{pod.name}": pod for pod in world.pods}
    assert len({step.pod for step in plan.steps}) == len(plan.steps)
    done = [step for step in data.draw(st.permutations(plan.steps)) if data.draw(st.booleans())]
    for number in range(1, len(done) + 1):
        _allowed(world, [pods[step.pod] for step in done[:number]])
    for step in plan.steps:
        source = next(node for node in world.nodes if node.name == step.source)
        row = world.load[[node.name for node in world.nodes].index(step.source)]
        assert pods[step.pod].node == step.source != step.target
        assert source.ready
        assert np.isfinite(row).any()
        assert not pods[step.pod].deleting


def _allowed(world: World, evicted: list[Pod]) -> None:
    """What holds after these evictions, whichever others failed."""
    rules, facts = world.rules, world.facts()
    for budget in world.budgets:
        selector = budget.selector
        assert selector is not None
        hit = [pod for pod in evicted if pod.namespace == budget.namespace and selector.matches(pod.labels)]
        assert len(hit) <= (budget.allowed if budget.settled else 0)
    for pod in evicted:
        assert len(facts.budgets(pod)) <= 1
    _at_most(rules.limit_total.of(facts.pods), len(evicted))
    _at_most(rules.limit_node.of(facts.pods), *Counter(pod.node for pod in evicted).values())
    _at_most(rules.limit_namespace.of(facts.pods), *Counter(pod.namespace for pod in evicted).values())
    for limit, _ in rules.rates:
        _at_most(limit.of(facts.pods), len(evicted) + len(world.history.evictions))
    by_workload = Counter((pod.namespace, pod.labels["app"]) for pod in evicted)
    for workload in world.workloads:
        gone = by_workload[workload.namespace, workload.name]
        if not gone:
            continue
        replicas = workload.replicas or 0
        left = [pod for pod in world.pods if pod.labels.get("app") == workload.name and pod not in evicted]
        ready = sum(pod.ready and not pod.deleting for pod in left)
        _at_most(rules.limit_workload.of(replicas), gone)
        _at_most(rules.max_unavailable.of(replicas), replicas - ready)
        assert replicas >= rules.min_replicas


def _at_most(most: int | None, *found: int) -> None:
    assert most is None or all(count <= most for count in found)


@given(worlds(), st.sampled_from(KINDS), st.randoms(use_true_random=False))
@examples(60)
def test_the_same_cluster_in_any_order_gives_the_same_plan(world: World, kind: Kind, random: Any) -> None:
    def shuffled(items: Any) -> Any:
        return tuple(random.sample(items, len(items)))

    rows = random.sample(range(len(world.nodes)), len(world.nodes))
    other = World(
        tuple(world.nodes[row] for row in rows),
        shuffled(world.pods),
        world.load[rows],
        shuffled(world.workloads),
        shuffled(world.budgets),
        world.rules,
        world.history,
        world.aims,
    )
    here, there = world.plan(kind), other.plan(kind)
    assert msgspec.json.encode(here.steps) == msgspec.json.encode(there.steps)
    assert (here.refused, here.placed, here.refusals) == (there.refused, there.placed, there.refusals)


@given(worlds(), st.sampled_from(KINDS))
@examples(100)
def test_every_pod_that_is_considered_is_moved_or_refused_once(world: World, kind: Kind) -> None:
    plan = world.plan(kind)
    bound = sum(bool(pod.node) for pod in world.pods)
    assert len(plan.steps) + sum(plan.refused.values()) <= bound
    assert {each.check for each in plan.refusals} <= set(plan.refused)
    told = Counter(each.check for each in plan.refusals)
    assert all(count == min(2, plan.refused[check]) for check, count in told.items())
    assert all(each.reason for each in plan.refusals)


@st.composite
def odd_pods(draw: st.DrawFn, world: World) -> tuple[Pod, ...]:
    """Its pods, some young, ending, ended, unready, annotated, of another scheduler or of high priority."""
    notes = st.sampled_from(
        [{}, {}, {"ballast.dev/evict": "true"}, {"ballast.dev/evict": "false"}, {"ballast.dev/evict-lifts": "min-age"}]
    )
    return tuple(
        msgspec.structs.replace(
            pod,
            created=draw(st.sampled_from([1.0, 1.0, NOW - 61.0, NOW - 60.0, NOW - 59.0, NOW])),
            deleting=draw(rarely()),
            phase="Succeeded" if draw(rarely()) else pod.phase,
            ready=pod.ready and not draw(rarely()),
            priority=draw(st.sampled_from([0, 0, 0, 2_000_000_001])),
            annotations=draw(notes),
            scheduler_name=draw(st.sampled_from(["default-scheduler", "default-scheduler", "other"])),
        )
        for pod in world.pods
    )


def rarely() -> st.SearchStrategy[bool]:
    return st.sampled_from([False] * 9 + [True])


@given(worlds(), st.data())
@examples(250)
def test_screening_many_pods_says_what_judging_each_of_them_says(world: World, data: st.DataObject) -> None:
    pods = data.draw(odd_pods(world))
    known = frozenset(pod.uid for pod in pods if data.draw(rarely()))
    rules = replace(world.rules, min_pod_age=data.draw(st.sampled_from([0.0, 60.0])), steered=frozenset({"other"}))
    workload = pods[0].owner
    resting = {("shop", "ReplicaSet", workload.name): NOW + 60} if workload and data.draw(st.booleans()) else {}
    history = replace(world.history, known=known, acting=data.draw(rarely()), backing_off=resting)
    gate = Gate(replace(world, pods=pods).facts(), rules, history)
    judged = [gate.judge(pod) for pod in pods]
    numbers = [PASSED if verdict is None else NUMBER[verdict.check] for verdict in judged]
    assert gate.screen(pods).tolist() == numbers
    counts = Counter(verdict.check for verdict in judged if verdict is not None)
    assert dict(refusals(gate.screen(pods))) == counts
    assert list(dict(refusals(gate.screen(pods)))) == sorted(counts, key=NAMES.index)
