"""Pods behind the gate are planned together and released, whatever happens to whom."""

import sys

import pytest

from ballast.jobs.batch.held_pods import PATIENCE
from ballast.placement.reservations import Purpose
from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import until
from tests.worlds.batching import GATE, SHOP, batching, create, cycle, found, gates, pod, seen
from tests.worlds.daemons import POD, Rig, condition, get, metric, verbose

pytestmark = pytest.mark.slow

WEB = [f"web-{number}" for number in range(5)]
TIMEOUT = 60.0
DEAD = (sys.executable, "-c", "raise SystemExit(3)")


def bound(calm: Rig, *names: str) -> bool:
    return all((found(calm, name) or {"spec": {}})["spec"].get("nodeName") for name in names)


def results(daemon: Daemon) -> dict[str, float]:
    kinds = ("planned", "elsewhere", "refused", "late", "gone", "no-room", "unplanned")
    values = {each: metric(daemon, f'ballast_batch_pods_total{{result="{each}"}}') for each in kinds}
    return {each: value for each, value in values.items() if value}


def test_pods_behind_the_gate_are_planned_and_bound(calm: Rig) -> None:
    daemon = batching(calm)
    create(calm, *map(pod, WEB))
    seen(daemon, *WEB)
    told = cycle(daemon)
    assert told.startswith("released 5 pods")
    until(lambda: bound(calm, *WEB), "their nodes")
    assert [gates(calm, name) for name in WEB] == [[]] * 5
    until(lambda: cycle(daemon).startswith(f"no pod has the gate {GATE}"))
    assert metric(daemon, "ballast_batch_gated_pods") == 0
    assert len(daemon.extender.reservations.active()) == 0
    assert sum(results(daemon).values()) == 5
    assert set(results(daemon)) <= {"planned", "elsewhere"}


def test_at_most_ahead_pods_are_let_go_before_the_scheduler_has_taken_them(calm: Rig) -> None:
    daemon = batching(calm, BATCH__AHEAD="2")
    create(calm, *(pod(name, schedulerName="nobody") for name in WEB))
    seen(daemon, *WEB)
    assert cycle(daemon).startswith("released 2 pods, 3 to go")
    assert [gates(calm, name) for name in WEB] == [[], [], [GATE], [GATE], [GATE]]
    rooms = daemon.extender.reservations.active()
    assert [(room.pod, room.purpose) for room in rooms] == [(f"{SHOP}/{name}", Purpose.BATCH) for name in WEB[:2]]
    assert cycle(daemon).startswith("released 0 pods, 3 to go")
    calm.cluster.resources.delete(POD, SHOP, WEB[0])
    until(lambda: not any(each.name == WEB[0] for each in daemon.context.cache.pods_on("")))
    assert cycle(daemon).startswith("released 1 pod, 1 gone, 2 to go")


def test_gates_of_others_are_neither_removed_nor_waited_for(calm: Rig) -> None:
    daemon = batching(calm)
    create(calm, pod("both", gates=("other.dev/quota", GATE)), pod("theirs", gates=("other.dev/quota",)), pod("ours"))
    seen(daemon, "both", "theirs", "ours")
    assert cycle(daemon).startswith("released 1 pod")
    until(lambda: bound(calm, "ours"))
    calm.clock.advance(10 * TIMEOUT)
    cycle(daemon)
    assert gates(calm, "both") == ["other.dev/quota", GATE]
    calm.cluster.resources.update(
        POD, SHOP, "both", lambda each: {**each, "spec": {**each["spec"], "schedulingGates": [{"name": GATE}]}}
    )
    until(lambda: any(each.gates == (GATE,) for each in daemon.context.cache.pods_on("")))
    assert cycle(daemon).startswith("released 1 pod"), "it is as new, whatever its age"
    assert gates(calm, "theirs") == ["other.dev/quota"]


def test_pods_come_together_before_they_are_planned(calm: Rig) -> None:
    daemon = batching(calm, BATCH__GATHER="5s")
    create(calm, pod("web-0"))
    seen(daemon, "web-0")
    assert cycle(daemon).startswith("gathering: 1 pod so far")
    calm.clock.advance(4)
    create(calm, pod("web-1"))
    seen(daemon, "web-0", "web-1")
    assert cycle(daemon).startswith("gathering: 2 pods so far")
    calm.clock.advance(5.5)
    assert cycle(daemon).startswith("released 2 pods")


def test_a_pod_without_room_goes_at_once_or_last_and_an_event_says_why(calm: Rig) -> None:
    daemon = batching(calm, BATCH__AHEAD="1")
    waits = {"schedulerName": "nobody"}
    create(calm, pod("huge", cpu="4000", **waits), pod("nowhere", nodeSelector={"no": "such"}, **waits), pod("web-0"))
    seen(daemon, "huge", "nowhere", "web-0")
    assert cycle(daemon).startswith("released 1 pod")
    assert [gates(calm, name) for name in ("huge", "nowhere")] == [[], []]
    events = until(lambda: [each for each in _events(calm) if each["reason"] == "BatchNoRoom"][1:] and _events(calm))
    told = {each["involvedObject"]["name"]: each["message"] for each in events if each["reason"] == "BatchNoRoom"}
    assert "no node has enough cpu left" in told["huge"]
    assert "its selectors, affinities and tolerations allow none of 10 nodes" in told["nowhere"]
    assert results(daemon)["no-room"] == 2


def _events(calm: Rig) -> list[dict[str, object]]:
    from ballast_lab.simulator.kube.kinds import BY_NAME

    return [each.read() for each in calm.cluster.store.all(BY_NAME["Event"], SHOP)]


def test_without_progress_every_gate_goes_before_the_timeout_is_over(calm: Rig) -> None:
    daemon = batching(calm, BATCH__AHEAD="1")
    create(calm, *(pod(name, schedulerName="nobody") for name in WEB))
    seen(daemon, *WEB)
    assert cycle(daemon).startswith("released 1 pod, 4 to go")
    calm.clock.advance(TIMEOUT - 10)
    assert cycle(daemon).startswith("released ")
    assert sum(map(len, (gates(calm, name) for name in WEB))) >= 3
    calm.clock.advance(8)
    told = cycle(daemon)
    assert "gates without a plan: no progress for 58 s" in told
    assert [gates(calm, name) for name in WEB] == [[]] * 5
    assert told.startswith(condition(daemon, "BatchGivenUp") or "?")
    assert "BatchGivenUp" in get(daemon, "/metrics").text


def test_a_pod_that_the_scheduler_leaves_alone_gives_its_place_away(calm: Rig) -> None:
    daemon = batching(calm, BATCH__AHEAD="1")
    create(calm, pod("aaa", schedulerName="nobody"), pod("web-0"))
    seen(daemon, "aaa", "web-0")
    assert cycle(daemon).startswith("released 1 pod, 1 to go")
    calm.clock.advance(PATIENCE + 1)
    assert "1 that the scheduler takes long for" in cycle(daemon)
    until(lambda: bound(calm, "web-0"))


def test_a_planner_that_dies_holds_nobody(calm: Rig) -> None:
    daemon = batching(calm)
    assert daemon.batch is not None
    daemon.batch._planner.worker._command = DEAD
    create(calm, *map(pod, WEB))
    seen(daemon, *WEB)
    told = cycle(daemon)
    assert told.startswith("removed 5 of 5 gates without a plan: no plan could be made: the process that plans ended")
    until(lambda: bound(calm, *WEB))
    assert results(daemon) == {"unplanned": 5}
    assert condition(daemon, "BatchGivenUp")


def test_after_a_failure_the_next_batch_is_planned_again(calm: Rig) -> None:
    daemon = batching(calm)
    assert daemon.batch is not None
    good, daemon.batch._planner.worker._command = daemon.batch._planner.worker._command, DEAD
    create(calm, pod("web-0"))
    seen(daemon, "web-0")
    assert "without a plan" in cycle(daemon)
    until(lambda: bound(calm, "web-0"))
    until(lambda: cycle(daemon).startswith("no pod has the gate"))
    daemon.batch._planner.worker._command = good
    create(calm, pod("web-1"))
    seen(daemon, "web-1")
    assert cycle(daemon).startswith("released 1 pod")


def test_dry_run_plans_says_what_it_would_do_and_who_waits_for_nobody(calm: Rig) -> None:
    daemon = batching(calm, "dry-run")
    create(calm, *map(pod, WEB))
    seen(daemon, *WEB)
    assert cycle(daemon).startswith(f"would release 5 pods, {SHOP}/web-0 to node-")
    assert condition(daemon, "BatchGatesHeld") is None
    calm.clock.advance(TIMEOUT + 1)
    assert cycle(daemon).startswith("would release 5 pods")
    assert "BALLAST_BATCH__MODE is dry-run, so nobody removes it. `ballast release batch` does." in (
        condition(daemon, "BatchGatesHeld") or ""
    )
    assert [gates(calm, name) for name in WEB] == [[GATE]] * 5
    assert "pods" not in calm.patches()


def test_a_pause_holds_the_gates_and_says_so(calm: Rig) -> None:
    daemon = batching(calm)
    create(calm, *map(pod, WEB))
    seen(daemon, *WEB)
    calm.put_config_map("ballast-switches", {"paused.batch": "true"})
    until(lambda: daemon.context.switches.paused("batch"))
    assert cycle(daemon).startswith("5 pods gated, and they stay so: paused by key paused.batch")
    calm.clock.advance(TIMEOUT + 1)
    cycle(daemon)
    assert "paused by key paused.batch" in (condition(daemon, "BatchGatesHeld") or "")
    assert "batch: paused by key" in verbose(daemon) or "paused.batch" in verbose(daemon)
    assert [gates(calm, name) for name in WEB] == [[GATE]] * 5
    calm.put_config_map("ballast-switches", {})
    until(lambda: daemon.context.switches.paused("batch") is None)
    assert cycle(daemon).startswith("removed 5 of 5 gates without a plan: no progress for 61 s")
    assert condition(daemon, "BatchGatesHeld") is None


def test_a_new_leader_lets_old_pods_go_before_it_has_settled_and_plans_the_young(calm: Rig) -> None:
    daemon = batching(calm, settled=False)
    create(calm, *map(pod, WEB))
    seen(daemon, *WEB)
    told = [cycle(daemon) for _ in range(3)]
    assert told[0].startswith("5 pods wait: a new leader acts after 2 complete cycles, 0 ended")
    assert told[2].startswith("released 5 pods")
    until(lambda: bound(calm, *WEB))
    calm.lose_lease(daemon)
    create(calm, pod("old"))
    seen(daemon, "old")
    assert cycle(daemon).startswith("standing by")
    calm.clock.advance(TIMEOUT)
    calm.lead_again(daemon)
    assert cycle(daemon).startswith("removed 1 of 1 gates without a plan: no progress for 60 s")


def test_the_one_of_two_replicas_that_leads_writes(calm: Rig) -> None:
    first = batching(calm)
    second = calm.daemon(leads=False, BATCH__MODE="on", PUBLISHING__MODE="off", BATCH__INTERVAL="1s")
    create(calm, *map(pod, WEB))
    for each in (first, second):
        seen(each, *WEB)
    assert cycle(second).startswith("standing by")
    assert [gates(calm, name) for name in WEB] == [[GATE]] * 5
    assert cycle(first).startswith("released 5 pods")
