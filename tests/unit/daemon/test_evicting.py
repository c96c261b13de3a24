"""The whole daemon plans and evicts in the simulated cluster, its cycles run by hand."""

import json
import math
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.answers.evictions import Plan
from ballast.cluster.watch import WATCH_SILENT
from ballast.doctor.checks import examine
from ballast.doctor.evidence import Evidence
from ballast.eviction.gate import NAMES
from ballast.planners.built_in import planner
from ballast.planning.request import PlansRequest, PlansResponse
from ballast.runtime.daemon import Daemon
from ballast_lab.harness.waiting import HUNG, until
from tests.worlds.daemons import NODE, POD, Rig, condition, get, metric, rig, verbose

pytestmark = pytest.mark.slow

HOT = {
    "PUBLISHING__MODE": "off",
    "EVICTION__HIGH": "0.5",
    "EVICTION__LOW": "0.4",
    "EVICTION__TARGET_HIGH": "0.5",
    "EVICTION__RATE": "20/1h",
}
STOCK = "default-scheduler"


def evicting(calm: Rig, mode: str = "on", *, cycles: int = 5, steered: bool = True, **settings: str) -> Daemon:
    """A daemon whose nodes have been hot for some windows, which now may act."""
    daemon = calm.daemon(EVICTION__MODE=mode, **(HOT | settings))
    assert daemon.context.workloads.wait_synced(HUNG)
    until(lambda: daemon.context.switches.paused("eviction") is None, "the switches")
    if steered:
        daemon.extender.reservations._asked[STOCK] = daemon.context.clock.monotonic()
    for _ in range(cycles):
        calm.advance()
        calm.watch(daemon)
    return daemon


def cycle(calm: Rig, daemon: Daemon) -> str:
    """Two windows later."""
    for _ in range(2):
        calm.advance()
        calm.watch(daemon)
    return evict(daemon)


def evict(daemon: Daemon) -> str:
    return daemon.scheduler.run("eviction").sentence


def evictions(calm: Rig) -> int:
    return calm.patches().get("pods/eviction", 0)


def not_ready(node: dict[str, Any]) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
    return {**node, "status": {**node["status"], "conditions": conditions}}


def test_a_hot_node_is_relieved_and_its_pod_followed_to_where_it_was_meant_to_go(calm: Rig) -> None:
    daemon = evicting(calm)
    told = evict(daemon)
    assert told.startswith("relieve: evicted 1 of 1 pod, shop/")
    assert told.endswith("; redistribute: no pod waits; next in 60 s")
    [step] = daemon.board.plans[0].steps
    namespace, name = step.pod.split("/")
    assert evictions(calm) == 1
    found = calm.cluster.store.get(POD, namespace, name)
    assert found is None or "deletionTimestamp" in found.read()["metadata"]
    [shown] = get(daemon, "/api/v1/evictions").json()["recent"]
    assert (shown["pod"], shown["from"], shown["to"]) == (step.pod, step.source, step.to)
    assert shown["status"] in ("evicted", "landed", "ready")


def test_the_ledger_has_what_would_be_hot_without_the_move(calm: Rig) -> None:
    daemon = evicting(calm)
    evict(daemon)
    [step] = daemon.board.plans[0].steps
    until(lambda: all(pod.node and not pod.deleting for pod in daemon.context.cache.pods()), "its replacement")
    cycle(calm, daemon)
    changes = daemon.eviction.undone()
    assert changes[step.source]["cpu"] > 0 > changes[step.to or ""]["cpu"]
    calm.advance()
    calm.watch(daemon)
    hour = get(daemon, "/api/v1/ledger").json()["hours"][-1]
    assert hour["hot_node_minutes_without"] is not None


def test_plans_are_shown_with_their_verdicts_and_counted(calm: Rig) -> None:
    daemon = evicting(calm)
    told = evict(daemon)
    [plan] = get(daemon, "/api/v1/plans").json()
    assert set(plan) >= {"id", "time", "mode", "kind", "steps", "before", "after", "refused", "placed", "verdicts"}
    assert (plan["mode"], plan["kind"]) == ("on", "relieve")
    assert plan["sentence"] == told.partition("; ")[0]
    allowed = [each for each in plan["verdicts"] if each["verdict"] == "allowed"]
    assert [each["pod"] for each in allowed] == [step["pod"] for step in plan["steps"]]
    refused = {each["check"] for each in plan["verdicts"] if each["verdict"] == "refused"}
    assert refused == set(plan["refused"]) <= set(NAMES)
    assert all(each["reason"] for each in plan["verdicts"])
    for check, count in plan["refused"].items():
        assert metric(daemon, f'ballast_eviction_verdicts_total{{check="{check}",verdict="refused"}}') == count
    assert metric(daemon, 'ballast_eviction_verdicts_total{check="loop",verdict="allowed"}') == 1


def test_a_dry_run_agrees_with_the_real_run_verdict_by_verdict_and_writes_nothing(tmp_path: Path) -> None:
    found = {}
    for mode in ("on", "dry-run"):
        (tmp_path / mode).mkdir()
        with rig(tmp_path / mode) as calm:
            daemon = evicting(calm, mode, EVICTION__LIMIT_NODE="3")
            evict(daemon)
            found[mode] = [replace(plan, mode="", sentence="") for plan in daemon.board.plans]
            if mode == "dry-run":
                assert set(calm.patches()) <= {"leases", "configmaps"}
                assert daemon.board.plans[0].sentence.startswith("relieve: would evict")
    assert found["on"] == found["dry-run"]
    assert found["on"][0].steps


def test_limits_and_rests_count_the_steps_of_a_dry_run(calm: Rig) -> None:
    daemon = evicting(calm, "dry-run", EVICTION__RATE="1/1h")
    assert evict(daemon).startswith("relieve: would evict 1 of 1 pod")
    told = cycle(calm, daemon)
    assert told.startswith("relieve: nothing to move")
    assert "rate" in told


def test_a_dry_run_goes_on_from_what_it_would_have_moved(calm: Rig) -> None:
    daemon = evicting(calm, "dry-run", EVICTION__COOLDOWN="1s", EVICTION__PLANNERS="relieve")
    planned: list[tuple[str, str]] = []
    for _ in range(4):
        cycle(calm, daemon)
        planned += [(step.pod, step.source) for step in daemon.board.plans[0].steps]
    assert len(set(planned)) == len(planned) >= 2, "what would be gone is not moved once more"
    assert {source for _, source in planned} <= daemon.eviction.imagined().keys()
    hour = get(daemon, "/api/v1/ledger").json()["hours"][-1]
    assert hour["would_evict"] == len(planned)
    assert hour["would_spare_hot_node_minutes"] is not None


def test_a_plan_that_moves_nothing_says_what_a_refusal_costs_and_so_does_the_doctor(calm: Rig) -> None:
    daemon = evicting(calm, EVICTION__PLANNERS="relieve", EVICTION__MIN_REPLICAS="50", EVICTION__SINGLE="restart")
    told = evict(daemon)
    [plan] = get(daemon, "/api/v1/plans").json()
    [(check, price)] = plan["prices"].items()
    assert (check, price["setting"]) == ("single-replica", "BALLAST_EVICTION__MIN_REPLICAS=1")
    words = f"single-replica alone keeps {price['pods']} pods on hot nodes, {price['load']:.2f} nodes' load"
    assert f"{words}: BALLAST_EVICTION__MIN_REPLICAS=1" in told
    evidence = Evidence(daemon.context.settings, daemon.context.api, calm.clock)
    shown = get(daemon, "/api/v1/plans").content
    evidence.plans = lambda: msgspec.json.decode(shown, type=list[Plan])
    [finding] = examine(evidence, ["eviction-prices"]).findings
    assert (finding.status, finding.subject, finding.fix) == ("warn", check, (price["setting"],))
    assert finding.message == f"relieve: {words}"


MILD = {"EVICTION__HIGH": "0.7", "EVICTION__LOW": "0.65", "EVICTION__TARGET_HIGH": "0.7", "EVICTION__COOLDOWN": "1s"}


def test_one_planner_is_tried_in_dry_run_beside_another_that_acts(tmp_path: Path) -> None:
    moved = {}
    for modes in ("{}", '{"rebalance": "dry-run"}'):
        (tmp_path / f"{len(moved)}").mkdir()
        with rig(tmp_path / f"{len(moved)}") as calm:
            daemon = evicting(calm, EVICTION__PLANNERS="relieve", EVICTION__MODES=modes, **MILD)
            told = [evict(daemon)]
            moved[modes] = [(eviction.pod, eviction.to) for eviction in daemon.board.evictions.recent]
            told += [cycle(calm, daemon) for _ in range(4)]
            plans = get(daemon, "/api/v1/plans").json()
            hour = get(daemon, "/api/v1/ledger").json()["hours"][-1]
            status = get(daemon, "/api/v1/status").json()
    alone, beside = moved.values()
    assert alone == beside != [], "what a dry run would do changes nothing for those that act"
    assert {plan["kind"]: plan["mode"] for plan in plans} == {"relieve": "on", "rebalance": "dry-run"}
    assert status["planners"] == {"relieve": "on", "rebalance": "dry-run"}
    assert "relieve: evicted 1 of 1 pod" in told[0]
    assert any("rebalance: would evict" in each for each in told)
    would = sum(len(plan["steps"]) > 0 for plan in plans if plan["mode"] == "dry-run")
    assert (hour["evicted"], hour["would_evict"]) == (len(daemon.board.evictions.recent), would)
    assert not any(eviction.kind == "rebalance" for eviction in daemon.board.evictions.recent)


def test_a_budget_holds_whatever_the_rate_says_and_names_what_waits(calm: Rig) -> None:
    """One eviction an hour in the whole cluster; the next one waits, and a condition says for what."""
    one = json.dumps([{"pods": 1, "per": "1h", "scope": "cluster"}])
    daemon = evicting(calm, EVICTION__BUDGETS=one)
    evict(daemon)
    cycle(calm, daemon)
    assert evictions(calm) == 1, "without it the second cycle moves another one"
    refused = {check for plan in get(daemon, "/api/v1/plans").json() for check in plan["refused"]}
    assert "rate" in refused
    assert not {"limit-total", "limit-node", "limit-namespace", "cooldown"} & refused, "budgets are all there is"
    assert "BALLAST_EVICTION__BUDGETS" in str(condition(daemon, "RateUsedUp"))


def test_a_cluster_without_room_says_what_is_missing_instead_of_moving(calm: Rig) -> None:
    daemon = evicting(calm, EVICTION__HIGH="0.05", EVICTION__TARGET_HIGH="0.05", EVICTION__LOW="0.01")
    evict(daemon)
    assert evictions(calm) == 0
    full = str(condition(daemon, "TooFull"))
    assert re.search(r"too loaded, and the other nodes lack [\d.]+ cores", full), full
    daemon.scheduler.run("eviction")
    assert get(daemon, "/api/v1/status").json()["headline"]["word"] != "All well"


def test_a_node_has_to_be_hot_for_some_windows_in_a_row(calm: Rig) -> None:
    daemon = evicting(calm, cycles=2, EVICTION__CONFIRMATIONS="6", EVICTION__PLANNERS="relieve")
    told = evict(daemon)
    assert told.startswith("relieve: nothing to move")
    assert "debounce" in told
    assert "debounce" in cycle(calm, daemon)
    assert cycle(calm, daemon).startswith("relieve: evicted 1 of 1 pod")


def test_without_a_known_landing_one_eviction_shows_whether_it_is_steered(
    calm: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon, probed = evicting(calm, steered=False), ReplacementReservations.end_probe
    # The stock scheduler of this cluster happens to choose the target too, which shows nothing.
    monkeypatch.setattr(
        ReplacementReservations,
        "end_probe",
        lambda self, step, *, chosen: probed(self, msgspec.structs.replace(step, landed_on="other"), chosen=chosen),
    )
    assert evict(daemon).startswith("relieve: evicted 1 of 1 pod")
    until(lambda: daemon.context.cache.age("pods") < 60)
    for _ in range(4):
        told = cycle(calm, daemon)
        if "is not steered" in told:
            break
        until(lambda: all(pod.node for pod in daemon.context.cache.pods()), "the replacement")
    assert "rebalance: where default-scheduler puts replacements is not steered" in told
    assert "has not asked the extender in the last 10 minutes" in (condition(daemon, "LandingNotSteered") or "")
    assert evictions(calm) == 1
    daemon.extender.reservations._asked[STOCK] = daemon.context.clock.monotonic()
    assert "is not steered" not in cycle(calm, daemon)
    assert condition(daemon, "LandingNotSteered") is None


def test_relieve_alone_says_too_that_the_landing_is_not_steered(calm: Rig) -> None:
    daemon = evicting(calm, steered=False, EVICTION__PLANNERS="relieve")
    daemon.eviction.follow_up._resumed = True
    daemon.eviction.moments._replacements._failed[STOCK] = calm.clock.wall()
    assert "reservation" in evict(daemon)
    assert "has not asked the extender in the last 10 minutes" in (condition(daemon, "LandingNotSteered") or "")
    assert evictions(calm) == 0


def test_a_pause_stops_plans_and_says_so(calm: Rig) -> None:
    calm.put_config_map("ballast-switches", {"paused.eviction": "true"})
    daemon = calm.daemon(EVICTION__MODE="on", **HOT)
    assert daemon.context.workloads.wait_synced(HUNG)
    until(lambda: "paused.eviction" in (daemon.context.switches.paused("eviction") or ""), "the switch")
    for _ in range(5):
        calm.advance()
        calm.watch(daemon)
    assert evict(daemon).startswith("planned nothing: paused by key paused.eviction")
    assert "paused by key" in get(daemon, "/api/v1/evictions").json()["breaker"]
    assert condition(daemon, "EvictionsHalted")
    calm.put_config_map("ballast-switches", {})
    until(lambda: daemon.context.switches.paused("eviction") is None, "no switch")
    daemon.extender.reservations._asked[STOCK] = daemon.context.clock.monotonic()
    assert evict(daemon).startswith("relieve: evicted")
    assert condition(daemon, "EvictionsHalted") is None


def test_what_is_not_listed_yet_halts_evictions_but_is_no_condition_at_the_start(
    calm: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = evicting(calm)
    moments, age = daemon.eviction.moments, daemon.context.workloads.age
    monkeypatch.setattr(daemon.context.workloads, "age", lambda kind: math.inf if kind == "replicasets" else age(kind))
    monkeypatch.setattr(moments, "_began", calm.clock.monotonic())
    assert "replicasets" in evict(daemon)
    assert condition(daemon, "EvictionsHalted") is None
    calm.clock.advance(WATCH_SILENT + 1)
    calm.watch(daemon)
    assert "replicasets" in evict(daemon)
    assert "replicasets" in (condition(daemon, "EvictionsHalted") or "")
    assert evictions(calm) == 0


def test_a_pause_after_the_plan_was_made_is_seen_before_the_eviction(
    calm: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = evicting(calm, EVICTION__PLANNERS="relieve")
    ask = daemon.eviction._worker.ask

    def pause_meanwhile(request: PlansRequest) -> PlansResponse:
        response = ask(request)
        assert response.plans[0].steps
        calm.put_config_map("ballast-switches", {"paused.eviction": "true"})
        until(lambda: daemon.context.switches.paused("eviction") is not None, "the switch")
        return response

    monkeypatch.setattr(daemon.eviction._worker, "ask", pause_meanwhile)
    assert "refused at the last moment by paused 1" in evict(daemon)
    assert evictions(calm) == 0


def test_many_nodes_that_are_not_ready_stop_everything(calm: Rig) -> None:
    daemon = evicting(calm)
    for name in calm.names[:2]:
        calm.cluster.resources.update(NODE, "", name, not_ready, subresource="status")
    until(lambda: sum(not node.ready for node in daemon.context.cache.nodes()) == 2, "two nodes to fail")
    assert evict(daemon).startswith("planned nothing: too many nodes are not Ready (not ready 2, nodes 10)")
    assert evictions(calm) == 0


def test_a_new_leader_waits_and_one_that_does_not_lead_plans_nothing(calm: Rig) -> None:
    daemon = calm.daemon(EVICTION__MODE="on", **HOT)
    assert evict(daemon).startswith("planned nothing: a new leader acts after 2 complete cycles")
    calm.lose_lease(daemon)
    assert evict(daemon).startswith("standing by: someone-else holds the Lease")


def test_a_worker_that_dies_costs_one_cycle(calm: Rig) -> None:
    daemon = evicting(calm, "dry-run", EVICTION__PLANNERS="rebalance")
    evict(daemon)
    worker = daemon.eviction._worker
    worker_command, worker._command = worker._command, ("/bin/false",)
    os.kill(worker.pid or 0, 9)
    until(lambda: worker.pid is None or worker._process.poll() is not None, "its end")
    told = cycle(calm, daemon)
    assert told.startswith("eviction failed: the process that plans ended with exit code 1")
    assert condition(daemon, "PlanningFailing")
    worker._command = worker_command
    assert cycle(calm, daemon).startswith("rebalance: ")
    assert condition(daemon, "PlanningFailing") is None
    assert get(daemon, "/livez").status_code == 200


def test_what_may_not_be_read_is_named_and_nothing_planned(calm: Rig) -> None:
    calm.faults.kube_forbidden("list", "poddisruptionbudgets")
    daemon = calm.daemon(EVICTION__MODE="on", **HOT)
    until(lambda: daemon.context.workloads.problem("poddisruptionbudgets"), "the refusal")
    for _ in range(3):
        calm.advance()
        calm.watch(daemon)
    told = evict(daemon)
    assert told.startswith("planned nothing: the poddisruptionbudgets have never been seen: ")
    assert "verbs: [" in told


def test_pods_are_measured_and_without_it_requests_count(calm: Rig) -> None:
    daemon = evicting(calm, "dry-run")
    evict(daemon)
    assert condition(daemon, "PodUsageUnknown") is None
    calm.faults.prometheus_500()
    cycle(calm, daemon)
    assert "answers 500" in (condition(daemon, "PodUsageUnknown") or "")


def test_a_workload_that_was_just_scaled_is_left_alone(calm: Rig) -> None:
    daemon = evicting(calm, "dry-run")
    evict(daemon)
    [step] = daemon.board.plans[0].steps
    pod = next(pod for pod in daemon.context.cache.pods() if f"{pod.namespace}/{pod.name}" == step.pod)
    moments, relieve = daemon.eviction.moments, planner("relieve")
    key = moments.gate(relieve, {pod.namespace}).facts.key(pod)
    assert key is not None
    moments._scaling._changed[key] = calm.clock.wall()
    verdict = next(each for each in moments.gate(relieve, {pod.namespace}).explain(pod) if each.check == "replacement")
    assert (verdict.allowed, verdict.reason) == (False, "its workload was just scaled")


def test_who_was_scaled_is_seen_before_this_replica_leads(calm: Rig) -> None:
    daemon = evicting(calm, "dry-run")
    [workload, *_] = [each for each in daemon.context.workloads.workloads() if each.kind == "Deployment"]
    key = (workload.namespace, workload.kind, workload.name)
    daemon.eviction.moments._scaling._replicas[key] = 99
    calm.advance()
    calm.watch(daemon)
    assert key in [(each.namespace, each.kind, each.name) for each in daemon.eviction.moments._scaling.beside([])]


def test_ballast_tells_that_it_plans(calm: Rig) -> None:
    daemon = evicting(calm, "dry-run")
    evict(daemon)
    assert metric(daemon, 'ballast_eviction_plans_total{kind="relieve",result="steps"}') == 1
    assert (metric(daemon, "ballast_planning_memory_bytes") or 0) > 1e7
    assert "eviction" in verbose(daemon)
