"""Evictions on the real API server, with its controllers, its scheduler and kwok's kubelets."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from ballast.model.pod import Pod
from ballast_lab.harness.chart import Installed, install, uninstall
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.evicting import BUDGETS, DEPLOYMENTS, STATE, Actor, Killed, budget, clear, deployment, running
from ballast_lab.harness.objects import PODS, add_nodes, node, pod, set_labels, sweep
from ballast_lab.harness.rebalancing import Size, compare
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually

NODES = [f"n{number}" for number in range(4)]
Counts = Counter[tuple[str, int]]


@pytest.fixture
def busy(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """Four nodes, a scheduler, and a Deployment `web` of six."""
    clear(cluster.api)
    add_nodes(cluster.api, [node(name) for name in NODES])
    cluster.api.post(DEPLOYMENTS, deployment("web", 6))
    with scheduler(cluster, STOCK):
        running(cluster.api, "web", 6)
        yield cluster
        clear(cluster.api)
        cluster.api.delete(PODS, {"gracePeriodSeconds": 0})
        eventually("no pods are left", lambda: not cluster.api.items(PODS), every=0.2)
    sweep(cluster.api)


def evictions(cluster: ControlPlane, since: int) -> Counts:
    """{(pod, HTTP status): how often}."""
    return Counter(
        (call.name, call.code) for call in cluster.audit.calls(since=since) if call.resource == "pods/eviction"
    )


def elsewhere(one: Pod) -> str:
    return next(name for name in NODES if name != one.node)


def shown(actor: Actor, count: int = 6) -> list[Pod]:
    found = eventually("the cache shows them", lambda: _all(actor, count))
    actor.follow()
    return found


def _all(actor: Actor, count: int) -> list[Pod]:
    pods = actor.pods("web")
    return pods if len(pods) == count and all(pod.ready for pod in pods) else []


def test_an_eviction_from_its_record_to_its_ready_replacement(busy: ControlPlane) -> None:
    since = busy.audit.here()
    with Actor(busy.admin_kubeconfig) as actor:
        one, *_ = shown(actor)
        [attempt] = actor.carry_out(one, to=elsewhere(one))
        assert attempt.evicted, attempt
        eventually("the replacement is Ready", lambda: actor.follow() or actor.recent()["status"] == "ready", every=0.2)
        row = actor.recent()
        assert row["landed_on"] in NODES
        assert not actor.extender.held
        eventually("the effect is judged", lambda: actor.follow(), every=0.2)
        assert "eviction.plan" not in busy.api.get(STATE)["data"]
        assert evictions(busy, since) == {(one.name, 201): 1}
        wanted = {("Pod", "EvictionDone"), ("Node", "PodEvicted"), ("Deployment", "PodEvicted")}
        eventually("Events tell of it", lambda: wanted <= _events(busy, one), every=0.2)


def _events(cluster: ControlPlane, one: Pod) -> set[tuple[str, str]]:
    return {
        (each["involvedObject"]["kind"], each["reason"])
        for each in cluster.api.items("/api/v1/namespaces/default/events")
        if each["source"].get("component") == "ballast"
        and one.name in each.get("message", "") + each["involvedObject"]["name"]
    }


def test_budgets_are_looked_at_first_and_the_servers_word_counts(busy: ControlPlane) -> None:
    busy.api.post(BUDGETS, budget("strict", "web", minAvailable=6))
    since = busy.audit.here()
    with Actor(busy.admin_kubeconfig) as actor:
        one, two, *_ = shown(actor)
        eventually("the budget is known", lambda: [each.name for each in actor.workloads.budgets()] == ["strict"])
        [attempt] = actor.carry_out(one, to=elsewhere(one))
        assert (attempt.status, attempt.check) == ("refused", "pdb")
        assert not evictions(busy, since)

        actor.blind = True
        attempts = actor.carry_out(one, two, to=elsewhere(one))
        assert [(attempt.status, attempt.check) for attempt in attempts] == [("refused", "pdb"), ("refused", "retry")]
        assert evictions(busy, since) == {(one.name, 429): 1}
        assert "eviction.plan" not in busy.api.get(STATE)["data"]
        assert actor.evictor.history().evictions == ()


def test_two_budgets_on_one_pod_are_refused_by_name(busy: ControlPlane) -> None:
    for name in ("one", "two"):
        busy.api.post(BUDGETS, budget(name, "web", minAvailable=1))
    since = busy.audit.here()
    with Actor(busy.admin_kubeconfig) as actor:
        one, *_ = shown(actor)
        eventually("the budgets are known", lambda: len(actor.workloads.budgets()) == 2)
        actor.blind = True
        [attempt] = actor.carry_out(one, to=elsewhere(one))
        assert (attempt.status, attempt.check) == ("refused", "pdb")
        assert "more than one PodDisruptionBudget" in attempt.why
        assert evictions(busy, since) == {(one.name, 500): 1}
        actor.blind = False
        _, two, *_ = shown(actor)
        actor.evictor.recorder._memory._rests.clear()
        [attempt] = actor.carry_out(two, to=elsewhere(two))
        assert attempt.why == "the disruption budgets one and two both cover it, so the API server refuses to evict it"


def test_a_pod_that_was_replaced_under_its_name_survives(busy: ControlPlane) -> None:
    """Its predecessor has a UID that nobody has: deleting it would let kwok, which deletes by name, reach this one."""
    busy.api.post(PODS, pod("named", nodeName="n0", terminationGracePeriodSeconds=0))
    since = busy.audit.here()
    with Actor(busy.admin_kubeconfig) as actor:
        eventually("it is known", lambda: (found := actor.find("default/named")) and found.ready)
        present = actor.find("default/named")
        [owned, *_] = shown(actor)
        assert present is not None
        old = msgspec.structs.replace(present, owner=owned.owner, uid=str(uuid4()))
        [attempt] = actor.carry_out(old, to="n1", find=lambda name: old)
        assert attempt.status == "failed"
        assert evictions(busy, since) == {("named", 409): 1}
        metadata = busy.api.get(f"{PODS}/named")["metadata"]
        assert metadata["uid"] == present.uid
        assert "deletionTimestamp" not in metadata


def test_a_node_that_is_drained_meanwhile_is_neither_left_nor_a_target(busy: ControlPlane) -> None:
    since = busy.audit.here()
    with Actor(busy.admin_kubeconfig) as actor:
        one, *_ = shown(actor)
        target = elsewhere(one)
        busy.api.patch(f"/api/v1/nodes/{target}", {"spec": {"unschedulable": True}})
        eventually("it is seen", lambda: (found := actor.cache.node(target)) and found.unschedulable)
        [attempt] = actor.carry_out(one, to=target)
        assert attempt.check == "node-fit"
        busy.api.patch(f"/api/v1/nodes/{one.node}", {"spec": {"unschedulable": True}})
        eventually("it is seen", lambda: (found := actor.cache.node(one.node)) and found.unschedulable)
        [attempt] = actor.carry_out(one, to=next(name for name in NODES if name not in (target, one.node)))
        assert attempt.check == "cluster-health"
        busy.api.delete(f"{PODS}/{one.name}", {"gracePeriodSeconds": 0})
        eventually("it is seen", lambda: actor.find(f"default/{one.name}") is None)
        [attempt] = actor.carry_out(one, to=target)
        assert attempt.why == f"default/{one.name} is gone"
    assert not evictions(busy, since)


@pytest.mark.parametrize("killed_before", ["/eviction", "configmaps"])
def test_a_leader_that_is_killed_leaves_nothing_half_done(busy: ControlPlane, killed_before: str) -> None:
    since = busy.audit.here()
    with Actor(busy.admin_kubeconfig) as first:
        one, two, *_ = shown(first)
        if killed_before == "configmaps":  # the record stands, the eviction happens, its outcome is not written down
            first.carry_out(one, to=elsewhere(one))
            data = busy.api.get(STATE)["data"]
            [plan] = json.loads(data["eviction.plan"])
            plan["steps"][0].pop("status", None)
            busy.api.patch(STATE, {"data": {"eviction.plan": json.dumps([plan])}})
        else:
            first.killed_before(killed_before)
            with pytest.raises(Killed):
                first.carry_out(one, to=elsewhere(one))
            assert one.name in busy.api.get(STATE)["data"]["eviction.plan"]
        with Actor(busy.admin_kubeconfig) as second:
            assert second.evictor.recorder.resume() == "took over 1 evictions that are not finished"
            assert [each.node for each in second.extender.active()] == [elsewhere(one)]
            attempts = second.carry_out(one, two, to=elsewhere(one))
            assert [attempt.evicted for attempt in attempts] == [False, False]
            second.evictor._clock = Later(second.clock)
            eventually("it is settled", lambda: second.follow() or _settled(second), every=0.2)
    happened = {(one.name, 201): 1} if killed_before == "configmaps" else {}
    assert evictions(busy, since) == happened


FAILOVERS = 10


@pytest.mark.nightly
def test_the_ledger_is_the_audit_log_whoever_was_killed(busy: ControlPlane) -> None:
    """Of three leaders one dies when its eviction has happened, one before it asks for it, one hands over."""
    since = busy.audit.here()
    for number in range(FAILOVERS):
        busy.api.post(DEPLOYMENTS, deployment(f"app-{number}", 2, memory="16Mi"))
    for number in range(FAILOVERS):
        running(busy.api, f"app-{number}", 2)
    for number in range(FAILOVERS):
        with _successor(busy) as leader:
            if number % 3 < 2:
                leader.killed_before("/eviction", send_it=number % 3 == 0)
            eventually("it evicts or dies", partial(_evicts_or_dies, leader, f"app-{number}"), every=0.5)
    with _successor(busy) as last:
        tally = last.evictor.recorder.tally()
        assert tally is not None
        counted = [
            sum(row.evicted for row in rows) for rows in (tally.days(last.clock.wall()), tally.hours(last.clock.wall()))
        ]
    served = sum(count for (_, code), count in evictions(busy, since).items() if code == 201)
    print(f"{served} evictions in the audit log, {counted} in the ledger, {FAILOVERS} failovers")
    assert counted == [served, served]
    assert served == FAILOVERS - FAILOVERS // 3


def _evicts_or_dies(leader: Actor, app: str) -> bool:
    """The first pod of a Deployment of its own, so that nothing of the ones before holds it back."""
    leader.follow()
    leader.evictor.recorder.end_stops()
    one, *_ = leader.pods(app)
    try:
        [attempt] = leader.carry_out(one, to=elsewhere(one))
    except Killed:
        return True
    return attempt.evicted


@contextmanager
def _successor(cluster: ControlPlane) -> Iterator[Actor]:
    """The next leader, once it has settled what the one before it left."""
    with Actor(cluster.admin_kubeconfig) as actor:
        actor.evictor.recorder.resume()
        shown(actor)
        actor.evictor._clock = Later(actor.clock)
        eventually("it is settled", lambda: (actor.follow(), _settled(actor))[1], every=0.2)
        actor.evictor._clock = actor.clock
        actor.evictor.recorder.end_stops()
        yield actor


class Later:
    """A minute ahead."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock

    def wall(self) -> float:
        return float(self._clock.wall()) + 60.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clock, name)


def _settled(actor: Actor) -> bool:
    return not actor.evictor.history().awaited and not actor.extender.held


def test_a_replacement_that_never_becomes_ready_rests_its_workload(busy: ControlPlane) -> None:
    since = busy.audit.here()
    busy.api.patch(f"{DEPLOYMENTS}/web", {"spec": {"progressDeadlineSeconds": 3}})
    with Actor(busy.admin_kubeconfig, ready_within=3.0) as actor:
        one, *_ = shown(actor)
        for name in NODES:
            busy.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        eventually("the scheduler knows", lambda: _waits(busy), every=0.5)
        stale = actor.cache.nodes()
        actor.cache.nodes = lambda: tuple(  # type: ignore[method-assign]
            msgspec.structs.replace(each, unschedulable=False) for each in stale
        )
        [attempt] = actor.carry_out(one, to=elsewhere(one))
        assert attempt.evicted, attempt
        told = eventually("it is told", lambda: actor.follow(), every=0.2)
        assert isinstance(told, str)
        assert "within 3 s" in told
        _, two, *_ = actor.pods("web")
        [attempt] = actor.carry_out(two, to=elsewhere(two))
        assert (attempt.status, attempt.check) == ("refused", "retry")
        assert actor.evictor.stopped("rebalance") is None, "one workload is late, not several"
        assert not actor.extender.held
    assert evictions(busy, since) == {(one.name, 201): 1}


def _waits(cluster: ControlPlane) -> bool:
    """Whether the scheduler finds no node for a pod."""
    cluster.api.raw("DELETE", f"{PODS}/canary", {"gracePeriodSeconds": 0})
    cluster.api.post(PODS, pod("canary"))
    conditions = eventually("it was tried", lambda: cluster.api.get(f"{PODS}/canary")["status"].get("conditions"))
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


@pytest.mark.parametrize(("open_to_it", "says"), [(("n2",), False), (("n2", "n3"), True)])
def test_a_probe_tells_of_the_extender_where_the_scheduler_has_a_choice(
    busy: ControlPlane, open_to_it: tuple[str, ...], says: bool
) -> None:
    set_labels(busy.api, "n0", {"pool": "a"})
    busy.api.post(DEPLOYMENTS, deployment("pinned", 2, nodeSelector={"pool": "a"}))
    running(busy.api, "pinned", 2)
    for name in NODES:
        set_labels(busy.api, name, {"pool": "a" if name in open_to_it else None})
    with Actor(busy.admin_kubeconfig) as actor:
        actor.extender.asked_at.clear()
        eventually("the labels are seen", lambda: _pool(actor) == set(open_to_it))
        one, _ = eventually("both pods are seen", lambda: ready if len(ready := actor.pods("pinned")) == 2 else [])
        actor.follow()
        [attempt] = actor.carry_out(one, to="n1")
        assert attempt.evicted, attempt
        eventually("the replacement is followed", lambda: actor.follow() or actor.recent()["landed_on"], every=0.2)
        assert (actor.replacements.failed != {}) == says


def _pool(actor: Actor) -> set[str]:
    return {each.name for each in actor.cache.nodes() if each.labels.get("pool") == "a"}


@pytest.mark.nightly
def test_what_a_plan_predicts_comes_true_where_the_extender_steers(
    cluster: ControlPlane, tmp_path: Path, evicting: Installed
) -> None:
    size = Size(nodes=10, apps=60, replicas=4, moves=6, window=6, interval=1, cpu=False)
    kubeconfig = cluster.account_kubeconfig(evicting.namespace, evicting.account)
    since = cluster.audit.here()
    given = {**evicting.settings, "POD_NAMESPACE": evicting.namespace}
    try:
        found = compare(cluster, tmp_path, size, kubeconfig=kubeconfig, given=given)
    finally:
        clear(cluster.api)
    print(found)
    calls = cluster.audit.calls(user=evicting.user, since=since)
    assert [call.uri for call in calls if call.forbidden] == []
    done = [call.name for call in calls if call.resource == "pods/eviction"]
    assert len(done) == len(set(done)) == size.moves == found.on_target
    assert found.real["memory"] == pytest.approx(found.predicted["memory"], rel=0.1)
    assert found.measured["memory"] == pytest.approx(found.predicted["memory"], rel=0.1)
    assert found.stock["memory"] > 1.5 * found.real["memory"]


EVICTING = {
    "settings": {
        "prometheus": {"url": "http://127.0.0.1:9090"},
        "publishing": {"mode": "off"},
        "power": {"mode": "off"},
        "eviction": {"mode": "on"},
    }
}


@pytest.fixture
def evicting(cluster: ControlPlane) -> Iterator[Installed]:
    """The chart with evictions on."""
    yield install(cluster, EVICTING)
    uninstall(cluster, EVICTING)
