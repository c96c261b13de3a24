"""Nodes are emptied only where the others hold everything, also with nodes lost; judged by another way of counting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, target
from hypothesis import strategies as st

from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import UNLIMITED, EvictionLimit, GateRules
from ballast.eviction.history import NOTHING_YET, History
from ballast.model.node import Node, Taint
from ballast.model.pod import Owner, Pod
from ballast.model.selector import parse
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.workload import DisruptionBudget, Workload
from ballast.placement.layout import layout
from ballast.planners import built_in
from ballast.planners.aims import Aims
from ballast.planners.consolidate import Consolidate
from ballast.planners.eviction_plan import EvictionPlan, make_plan
from tests.properties import examples

NOW = 1_700_000_000.0
RESOURCES = ("cpu", "memory")
SIZE = 10.0
FREE = GateRules(
    limit_total=UNLIMITED,
    limit_node=UNLIMITED,
    limit_namespace=UNLIMITED,
    limit_workload=UNLIMITED,
    max_unavailable=UNLIMITED,
    rates=(),
    min_replicas=1,
    needs_confirmation=False,
)
EMPTY = "ballast.dev/empty"


@dataclass(frozen=True)
class World:
    """`asks` and `uses` are cores by pod, the same number of bytes; `more` is what a node has beside its pods."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    uses: Mapping[str, float]
    load: tuple[float, ...]
    peak: tuple[float, ...] | None = None
    aims: Aims = field(default_factory=Aims)
    rules: GateRules = FREE
    history: History = NOTHING_YET

    def plan(self, kind: str = "consolidate", budgets: Sequence[DisruptionBudget] = ()) -> EvictionPlan:
        usage = {f"shop/{name}": dict.fromkeys(RESOURCES, use) for name, use in self.uses.items()}
        arranged = layout(self.nodes, self.pods, RESOURCES, _table(self.load), usage)
        owners = {pod.owner.name for pod in self.pods if pod.owner}
        workloads = [Workload("ReplicaSet", "shop", name, f"u-{name}", replicas=9) for name in sorted(owners)]
        objects = ClusterObjects(self.nodes, self.pods, workloads, budgets)
        gate = Gate(Facts(objects, now=NOW), self.rules, self.history)
        order = sorted(range(len(self.nodes)), key=lambda row: self.nodes[row].name)
        peak = None if self.peak is None else _table(self.peak)[order]
        aims = replace(self.aims, no_peak=True) if self.peak is None else self.aims
        return make_plan(kind, arranged, gate, aims, peak=peak)


def _table(load: Sequence[float]) -> Any:
    return np.repeat(np.array(load, float)[:, None], len(RESOURCES), axis=1)


def a_node(name: str, **more: Any) -> Node:
    return Node(name, allocatable={"cpu": SIZE, "memory": SIZE, "pods": 30.0}, created=1.0, **more)


def a_pod(name: str, node: str, asks: float = 1.0, workload: str = "web", **more: Any) -> Pod:
    given: dict[str, Any] = {
        "uid": f"u-{name}",
        "node": node,
        "phase": "Running" if node else "Pending",
        "ready": True,
        "created": 1.0,
        "shape": shape_of([ContainerShape({"cpu": asks, "memory": asks})]),
        "owner": Owner("ReplicaSet", workload, f"u-{workload}", True),
    }
    return Pod("shop", name, **(given | more))


def a_world(pods: Sequence[Pod], nodes: int | Sequence[Node] = 4, *, use: float = 1.0, **more: Any) -> World:
    found = tuple(a_node(f"n{number}") for number in range(nodes)) if isinstance(nodes, int) else tuple(nodes)
    load = tuple(sum(use for pod in pods if pod.node == node.name) / SIZE for node in found)
    return World(found, tuple(pods), {pod.name: use for pod in pods}, **({"load": load} | more))


def spread_out(each: int, nodes: int = 4) -> list[Pod]:
    return [a_pod(f"p{node}-{number}", f"n{node}") for node in range(nodes) for number in range(each)]


def test_a_node_is_emptied_where_the_others_hold_its_pods_with_one_of_them_lost() -> None:
    plan = a_world(spread_out(3)).plan()
    assert plan.empty == ("n0",)
    assert sorted(step.pod for step in plan.steps) == ["shop/p0-0", "shop/p0-1", "shop/p0-2"]
    assert {step.source for step in plan.steps} == {"n0"}
    assert sum(step.gain for step in plan.steps) == 1.0


def test_a_planner_of_another_package_empties_and_marks_nodes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sweep(Consolidate):
        name = "sweep"

    monkeypatch.setattr(built_in, "BUILT_IN", (*built_in.BUILT_IN, Sweep()))
    built_in.planners.cache_clear()
    try:
        assert a_world(spread_out(3)).plan("sweep").empty == ("n0",)
        assert a_world(spread_out(3)).plan("repair").empty is None
    finally:
        built_in.planners.cache_clear()


@pytest.mark.parametrize(
    ("loads", "target"),
    [((0.05, 0.3, 0.5, 0.6), "n2"), ((0.05, 0.58, 0.62, 0.6), "n1"), ((0.05, 0.56, 0.58, 0.6), "n1")],
)
def test_nodes_are_filled_one_after_the_other_up_to_80_percent_of_the_ceiling(
    loads: tuple[float, ...], target: str
) -> None:
    """Of 0.7, so up to 0.56: beyond it the least full one, since single nodes stray from what their pool does."""
    pods = [a_pod(f"p{node}", f"n{node}", workload=f"w{node}") for node in range(4)]
    world = a_world(pods, aims=Aims(nodes_reserve=0, target_high=0.7), use=0.3, load=loads)
    assert [(step.source, step.target) for step in world.plan().steps] == [("n0", target)]


def test_none_is_emptied_where_the_loss_of_another_would_be_too_much() -> None:
    assert a_world(spread_out(4)).plan().empty == ()
    assert a_world(spread_out(4), aims=Aims(nodes_reserve=0)).plan().empty == ("n0",)
    assert a_world(spread_out(3), aims=Aims(nodes_reserve=2)).plan().empty == ()


def test_the_peak_of_the_day_counts_where_it_is_known() -> None:
    assert a_world(spread_out(3), peak=(0.6,) * 4).plan().empty == ()
    assert a_world(spread_out(3), peak=(0.34,) * 4).plan().empty == ("n0",)
    unknown = a_world(spread_out(3), peak=(0.34, 0.34, float("nan"), 0.34)).plan()
    assert (unknown.empty, unknown.note) == ((), "begins no node: the load of a day is not known")
    unasked = replace(a_world(spread_out(3), peak=(float("nan"),) * 4), aims=Aims(no_peak=True)).plan()
    assert (unasked.empty, unasked.note) == (("n0",), None)


def test_a_node_is_emptied_as_a_whole_or_not_at_all() -> None:
    pods = spread_out(2)
    held = msgspec.structs.replace(pods[0], annotations={"ballast.dev/evict": "false"})
    plan = a_world([held, *pods[1:]]).plan()
    assert plan.empty == ("n1",)
    limited = replace(a_world(spread_out(3)), aims=Aims(max_moves=2)).plan()
    assert (limited.empty, limited.steps) == ((), ())


def test_pods_of_daemonsets_stay_and_end_with_their_node() -> None:
    agents = [a_pod(f"a{n}", f"n{n}", owner=Owner("DaemonSet", "agent", "u-agent", True)) for n in range(4)]
    plan = a_world([*spread_out(2), *agents]).plan()
    assert plan.empty == ("n0",)
    assert len(plan.steps) == 2


def test_nodes_that_are_there_for_something_are_kept() -> None:
    kept = [
        a_node("n0", labels={"node-role.kubernetes.io/control-plane": ""}),
        a_node("n1", taints=(Taint("gpu", "NoSchedule"),)),
        a_node("n2", annotations={"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}),
        a_node("n3"),
        a_node("n4", unschedulable=True),
    ]
    assert a_world([a_pod("p", "n3")], kept, aims=Aims(nodes_reserve=0)).plan().empty == ("n3",)


def test_a_node_begun_before_is_gone_on_with_first() -> None:
    nodes = [a_node("n0"), a_node("n1"), a_node("n2"), a_node("n3", labels={EMPTY: "true"})]
    young = a_pod("p3-0", "n3", created=NOW - 1)
    plan = a_world([*spread_out(2, 3), young, a_pod("p3-1", "n3")], nodes).plan()
    assert plan.empty == ("n3",)
    assert [step.pod for step in plan.steps] == ["shop/p3-1"]


def test_an_empty_node_is_kept_so_and_another_one_is_begun() -> None:
    nodes = [a_node("n0"), a_node("n1"), a_node("n2"), a_node("n3"), a_node("n4", labels={EMPTY: "true"})]
    plan = a_world(spread_out(2), nodes).plan()
    assert plan.empty == ("n4", "n0")


def test_a_node_is_given_back_when_demand_rises() -> None:
    nodes = [a_node("n0"), a_node("n1"), a_node("n2", labels={EMPTY: "true"})]
    pods = spread_out(3, 2)
    assert a_world(pods, nodes).plan().empty == ("n2",)
    assert a_world(pods, nodes, load=(0.5, 0.5, 0.0)).plan().empty == ()
    waits = a_pod("waits", "", asks=7.5, waiting_since=1.0)
    assert a_world([*pods, waits], nodes).plan().empty == ()


def test_nothing_is_begun_while_a_pod_waits() -> None:
    assert a_world([*spread_out(1), a_pod("waits", "", waiting_since=1.0)]).plan().empty == ()


def test_several_nodes_at_a_time() -> None:
    assert a_world(spread_out(1, 6), 6, aims=Aims(consolidate_nodes=2)).plan().empty == ("n0", "n2")


@st.composite
def worlds(draw: st.DrawFn) -> World:
    count = draw(st.integers(3, 6))
    marked = draw(st.sampled_from([None, None, 0]))
    nodes = tuple(a_node(f"n{n}", labels={EMPTY: "true"} if n == marked else {}) for n in range(count))
    pods: list[Pod] = []
    uses: dict[str, float] = {}
    for number in range(draw(st.integers(0, 14))):
        name = f"p{number:02d}"
        asks = draw(st.integers(1, 6)) / 2
        home = f"n{draw(st.integers(0, count - 1))}"
        pods.append(a_pod(name, home, asks, workload=draw(st.sampled_from(["web", "api"]))))
        uses[name] = draw(st.integers(1, 8)) / 4
    load = tuple(sum(uses[pod.name] for pod in pods if pod.node == node.name) / SIZE for node in nodes)
    peak = None
    if draw(st.booleans()):
        peak = tuple(each * draw(st.sampled_from([1.0, 1.3, 2.0])) for each in load)
    aims = Aims(nodes_reserve=draw(st.integers(0, 2)), consolidate_nodes=draw(st.integers(1, 2)))
    rules = replace(FREE, max_unavailable=draw(st.sampled_from([UNLIMITED, GateRules().max_unavailable])))
    return World(nodes, tuple(pods), uses, load, peak, aims, rules)


@given(worlds())
@examples(60)
def test_the_others_hold_everything_however_it_is_counted(world: World) -> None:
    plan = world.plan()
    assert plan.empty is not None
    begun = {node.name for node in world.nodes if EMPTY in node.labels}
    chosen = [name for name in plan.empty if name not in begun]
    target(len(chosen))
    where = {f"shop/{pod.name}": pod.node for pod in world.pods}
    for step in plan.steps:
        assert where[step.pod] == step.source != step.target
        assert step.source in plan.empty
        assert step.target not in {*plan.empty, *begun}
        assert step.target is not None
        where[step.pod] = step.target
    assert len(chosen) <= world.aims.consolidate_nodes
    # Of many replicas on a node that is begun, those that a check of time keeps follow in later plans.
    left = [name for name, node in where.items() if node in chosen]
    assert len(left) <= plan.refused.get("min-ready", 0)
    if chosen:
        others = [node.name for node in world.nodes if node.name not in {*plan.empty, *begun}]
        _held(world, where, others, 0.7)


def _held(world: World, where: Mapping[str, str], others: Sequence[str], ceiling: float) -> None:
    """All pods of `others`, also where any of them are lost: fits by sums, and on no node too much now."""
    asks = {f"shop/{pod.name}": pod.shape.requests["cpu"] for pod in world.pods}
    rows = {node.name: row for row, node in enumerate(world.nodes)}
    rise = dict.fromkeys(where, 1.0)
    if world.peak is not None:
        for pod in world.pods:
            row = rows[pod.node]
            rise[f"shop/{pod.name}"] = world.peak[row] / world.load[row]
    for factor in (dict.fromkeys(where, 1.0), rise):
        uses = {name: world.uses[name.partition("/")[2]] * factor[name] for name in where}
        for node in others:
            mine = [name for name, home in where.items() if home == node]
            assert sum(asks[name] for name in mine) <= SIZE + 1e-9
            if factor is not rise or any(world_home(world, name) != node for name in mine):
                assert sum(uses[name] for name in mine) <= ceiling * SIZE + 1e-6
        on_them = [name for name, home in where.items() if home in others]
        for lost in combinations(others, min(world.aims.nodes_reserve, len(others))):
            left = SIZE * (len(others) - len(lost))
            if not on_them:
                continue
            assert sum(asks[name] for name in on_them) <= left + 1e-9
            assert sum(uses[name] for name in on_them) <= ceiling * left + 1e-6


def world_home(world: World, name: str) -> str:
    return next(pod.node for pod in world.pods if f"shop/{pod.name}" == name)


@given(worlds(), st.randoms(use_true_random=False))
@examples(20)
def test_the_order_of_nodes_and_pods_changes_nothing(world: World, random: Any) -> None:
    order = random.sample(range(len(world.nodes)), len(world.nodes))
    other = replace(
        world,
        nodes=tuple(world.nodes[row] for row in order),
        load=tuple(world.load[row] for row in order),
        peak=None if world.peak is None else tuple(world.peak[row] for row in order),
        pods=tuple(random.sample(world.pods, len(world.pods))),
    )
    assert (other.plan().steps, other.plan().empty) == (world.plan().steps, world.plan().empty)


def test_rebalance_does_not_spread_what_consolidate_packs() -> None:
    packed = a_world([a_pod(f"p{i}", "n0", workload=f"w{i}") for i in range(5)])
    assert packed.plan("rebalance").steps
    assert replace(packed, aims=Aims(packed=True)).plan("rebalance").steps == ()
    tight = replace(packed, aims=Aims(packed=True, target_high=packed.load[0] - 0.05))
    assert {step.source for step in tight.plan("rebalance").steps} == {"n0"}


def test_a_node_with_two_pods_of_a_workload_is_emptied_one_by_one_under_its_budget() -> None:
    """Nine pods of one workload, of which one may be unavailable: one is moved in each plan, like in a drain."""
    rules = replace(FREE, max_unavailable=EvictionLimit(1), min_pod_age=0.0)
    world = a_world([*spread_out(2), a_pod("p3-2", "n3")], rules=rules)
    for left in (1, 0):
        plan = world.plan()
        assert plan.empty == ("n0",)
        [step] = plan.steps
        assert (step.source, step.gain) == ("n0", 0.5 if left else 1.0)
        pods = [
            msgspec.structs.replace(pod, node=step.target, uid=f"{pod.uid}'") if f"shop/{pod.name}" == step.pod else pod
            for pod in world.pods
        ]
        assert sum(pod.node == "n0" for pod in pods) == left
        tainted = a_node("n0", taints=(Taint(EMPTY, "", "PreferNoSchedule"),))
        world = a_world(pods, (tainted, *world.nodes[1:]), rules=rules)
    assert world.plan().empty == ("n0",)


def test_a_node_whose_pods_no_budget_ever_lets_go_is_not_begun() -> None:
    budget = DisruptionBudget("shop", "web", parse("app=web"), 0, never="it allows none")
    pods = [a_pod(f"a{node}", f"n{node}") for node in range(4)]
    pods += [a_pod(f"b{node}", f"n{node}", labels={"app": "web"}) for node in range(4)]
    world = a_world(pods, rules=replace(FREE, min_pod_age=0.0))
    assert world.plan().empty == ("n0",)
    assert world.plan(budgets=[msgspec.structs.replace(budget, never="")]).empty == ("n0",)
    assert world.plan(budgets=[budget]).empty == ()
