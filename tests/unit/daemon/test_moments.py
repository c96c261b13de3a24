"""What an eviction is judged by right before it is sent, and what halts all of them; caches are set by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from ballast.cluster.watch import WATCH_SILENT
from ballast.eviction.check_input import Feasibility
from ballast.eviction.gate_rules import GateRules
from ballast.jobs.eviction.follow_up import FollowUp, TaintKeeper
from ballast.jobs.eviction.moment_taker import MomentTaker, OtherParts
from ballast.model.node_state import NodeStates
from ballast.model.pod import Owner, Pod
from ballast.model.selector import Selector
from ballast.model.workload import DisruptionBudget, Workload
from ballast.planners.built_in import planner
from ballast.serving.board import Board
from ballast.settings import Settings
from tests.worlds.evicting import KEY, NODES, EvictingApi, Replica, nodes

FITS = Feasibility(fits=True)
PASSED = "passed"


class Watched:
    """Both caches: what the watches show, how old it is, and what keeps them from it."""

    def __init__(self, server: EvictingApi) -> None:
        self._server = server
        self.there = nodes()
        self.standing: tuple[DisruptionBudget, ...] = ()
        self.silent: dict[str, float] = {}
        self.broken: dict[str, str] = {}
        deployment = Workload("Deployment", "shop", "web", "u-web", replicas=6)
        owner = Owner("Deployment", "web", "u-web", True)
        self.running = (deployment, Workload("ReplicaSet", "shop", "web-rs", "u-web-rs", replicas=6, owner=owner))

    def problem(self, kind: str) -> str | None:
        return self.broken.get(kind)

    def age(self, kind: str) -> float:
        return self.silent.get(kind, 0.0)

    def nodes(self) -> Any:
        return self.there

    def pods(self) -> tuple[Pod, ...]:
        return tuple(self._server.pods.values())

    def workloads(self) -> tuple[Workload, ...]:
        return self.running

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        return self.standing

    def nothing(self) -> tuple[Any, ...]:
        return ()

    autoscalers = namespaces = attachments = node_claims = scale_ups = quotas = recommendations = nothing


class World:
    """One replica that leads, and the moments it takes."""

    def __init__(self) -> None:
        self.server = EvictingApi()
        self.pod = self.server.add("n0")
        for name in NODES[1:]:
            self.server.add(name)
        self.replica = Replica(self.server)
        self.watched = Watched(self.server)
        self.leads, self.paused = True, None
        self.open_plans, self.surging = frozenset[str](), frozenset[Any]()
        self.board = Board(snapshot=self.replica.snapshot())
        self.context: Any = SimpleNamespace(
            settings=Settings(),
            clock=self.server.clock,
            cache=self.watched,
            workloads=self.watched,
            leadership=SimpleNamespace(is_leader=lambda: self.leads),
            switches=SimpleNamespace(paused=lambda part: self.paused),
            api=self.server,
            events=self.replica.told,
            conditions=SimpleNamespace(report=lambda *_: None),
        )
        protected: Any = SimpleNamespace(refresh=lambda: None, reason=lambda workload: None)
        day: Any = SimpleNamespace(observe=lambda snapshot: None, loads=lambda snapshot: None)
        self.moments = MomentTaker(
            self.context,
            board=self.board,
            evictor=self.replica.evictor,
            replacements=self.replica.replacements,
            protected=protected,
            others=OtherParts(lambda: self.open_plans, lambda: self.surging),
            day=day,
        )

    def refusal(self, pod: Pod | None = None) -> str:
        """The check that refuses to evict a pod now."""
        gate = self.moments.gate(planner("rebalance"), {"shop"}, pod or self.pod)
        found = gate.judge(pod or self.pod, FITS)
        return PASSED if found is None else found.check

    def halted(self) -> str | None:
        return self.moments.take_moment(self.replica.snapshot()).halted


@pytest.fixture
def world() -> World:
    return World()


def test_a_step_is_judged_by_who_leads_at_that_moment(world: World) -> None:
    assert world.refusal() == PASSED
    world.leads = False
    assert world.refusal() == "leadership"


def test_a_step_is_judged_by_the_pauses_of_that_moment(world: World) -> None:
    world.paused = "paused by key paused"
    assert world.refusal() == "paused"


def test_a_pod_without_a_uid_is_not_evicted(world: World) -> None:
    assert world.refusal(msgspec.structs.replace(world.pod, uid="")) == "identity"


def test_a_step_is_judged_by_the_budgets_and_nodes_of_that_moment(world: World) -> None:
    world.watched.standing = (DisruptionBudget("shop", "web", Selector(()), allowed=0),)
    assert world.refusal() == "pdb"
    world.watched.standing = ()
    first, *others = world.watched.there
    world.watched.there = (msgspec.structs.replace(first, unschedulable=True), *others)
    assert world.refusal() == "cluster-health"


def test_a_step_is_judged_by_the_loads_of_the_newest_snapshot(world: World) -> None:
    world.replica.loads["n0"] = float("nan")
    world.board.snapshot = world.replica.snapshot()
    assert world.refusal() == "stale"


def test_workloads_in_an_open_power_plan_or_with_one_more_replica_are_left_alone(world: World) -> None:
    world.open_plans = frozenset({"shop/web"})
    assert world.refusal() == "replacement"
    world.open_plans, world.surging = frozenset(), frozenset({KEY})
    assert world.refusal() == "replacement"


def test_pods_that_move_by_one_more_replica_count_as_replacements_that_are_waited_for(world: World) -> None:
    most = GateRules().max_replacements
    world.surging = frozenset(("shop", "Deployment", f"other-{number}") for number in range(most))
    assert world.refusal() == PASSED
    world.surging |= {("shop", "Deployment", "one-more")}
    assert world.refusal() == "cluster-health"


def test_nothing_halts_plans_of_a_cluster_that_is_seen(world: World) -> None:
    assert world.halted() is None


@pytest.mark.parametrize("kind", ["nodes", "pods", "deployments", "poddisruptionbudgets", "namespaces"])
def test_what_was_not_seen_lately_halts_everything(world: World, kind: str) -> None:
    world.watched.silent[kind] = WATCH_SILENT
    assert world.halted() is None
    world.watched.silent[kind] = WATCH_SILENT + 1
    assert kind in (world.halted() or "")
    world.watched.silent.clear()
    world.watched.broken[kind] = "403 Forbidden"
    assert "403" in (world.halted() or "")


def test_a_pause_and_a_freeze_halt_everything(world: World) -> None:
    world.paused = "paused by key paused"
    assert world.halted() == "paused by key paused"
    world.paused, world.board.frozen = None, True
    assert world.halted() == "too many nodes are silent"


def test_a_sick_cluster_halts_everything(world: World) -> None:
    first, second, *others = world.watched.there
    world.watched.there = (*(msgspec.structs.replace(each, ready=False) for each in (first, second)), *others)
    assert "not Ready" in (world.halted() or "")


def test_more_silent_nodes_than_are_allowed_halt_everything(world: World) -> None:
    """One of six is less than a fifth, two are more."""
    snapshot = world.replica.snapshot()
    known = snapshot.states.known.copy()
    for name, words in (("n0", None), ("n1", "the load of too many nodes is unknown")):
        known[NODES.index(name)] = False
        halted = world.moments.take_moment(replace(snapshot, states=NodeStates.of(known))).halted
        assert halted is None if words is None else (halted or "").startswith(words)


class Taints:
    """Notes which taints are to stay."""

    def __init__(self) -> None:
        self.kept: list[frozenset[str]] = []

    def settle(self, needed: Any, nodes: Any, now: float = 0.0) -> None:
        self.kept.append(frozenset(needed))


class Surges:
    sources = frozenset({"n4"})

    def __init__(self) -> None:
        self.calls: list[str] = []

    def advance(self, pods: Any, take_up: Any) -> list[str]:
        self.calls.append("advance")
        return []

    def give_back(self) -> None:
        self.calls.append("give back")


def waiting(world: World) -> tuple[Taints, Surges]:
    """A pod has left n0, and its replacement is not bound; another node is left by one more replica."""
    assert world.replica.carry_out(world.pod)[0].evicted
    taints, surges = Taints(), Surges()
    world.replica.replacements.taints = taints  # type: ignore[assignment]
    return taints, surges


def test_taints_stay_until_the_replacement_is_bound_and_no_longer_than_to_a_pause(world: World) -> None:
    taints, surges = waiting(world)
    keeper = TaintKeeper(world.context, world.replica.evictor.recorder, world.replica.replacements, surges)  # type: ignore[arg-type]
    keeper.keep(paused=False)
    keeper.keep(paused=True)
    assert taints.kept == [frozenset({"n0", "n4"}), frozenset()]


def test_what_cannot_be_read_back_takes_no_taint_away(world: World) -> None:
    taints, surges = waiting(world)
    recorder = SimpleNamespace(unreadable=lambda: "the API server does not answer")
    TaintKeeper(world.context, recorder, world.replica.replacements, surges).keep(paused=False)  # type: ignore[arg-type]
    assert taints.kept == []


def test_a_pause_gives_replicas_and_taints_back_and_its_end_lets_planners_go_on(world: World) -> None:
    taints, surges = waiting(world)
    replica = world.replica
    follow_up = FollowUp(world.context, replica.follower, replica.evictor.recorder, replica.replacements, surges)  # type: ignore[arg-type]
    ended: list[str] = []
    replica.evictor.recorder.end_stops = lambda: ended.append("stops")  # type: ignore[method-assign]
    for world.paused in (None, "paused by key paused", "paused by key paused", None, None):
        follow_up.review(replica.snapshot())
    assert surges.calls == ["advance", "give back", "give back", "advance", "advance"]
    assert [bool(kept) for kept in taints.kept] == [True, False, False, True, True]
    assert ended == ["stops"]


@pytest.mark.parametrize("leads", [True, False])
def test_the_end_of_a_daemon_gives_back_what_it_holds_as_leader(world: World, leads: bool) -> None:
    taints, surges = waiting(world)
    replica, world.leads = world.replica, leads
    FollowUp(  # type: ignore[arg-type]
        world.context, replica.follower, replica.evictor.recorder, replica.replacements, surges
    ).give_back()
    assert surges.calls == (["give back"] if leads else [])
    assert taints.kept == ([frozenset()] if leads else [])


def test_who_lost_the_lease_counts_no_evictions_before_it_has_read_those_of_the_next_leader(world: World) -> None:
    replica = world.replica
    waiting(world)
    replica.replacements.taints = None
    follow_up = FollowUp(world.context, replica.follower, replica.evictor.recorder, replica.replacements, None)
    counted = follow_up.tally()
    assert counted is not None
    follow_up.lost()
    assert follow_up.tally() is None
    replica.evictor.recorder.resume()
    again = follow_up.tally()
    assert again is not None
    assert again.encode() == counted.encode()
