"""The chart on a real API server: Helm installs it, the daemon lives with its rights, and misses or wastes none."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.harness.api import Api
from tests.cluster.harness.release import CHART, LATE, Release, create, forbidden, hooks, writes
from tests.cluster.harness.tools import Tools
from tests.cluster.harness.waiting import eventually

KEYS = {"ballast.dev/score", "ballast.dev/load"}


def labels(api: Api, name: str) -> set[str]:
    return {key for key in api.get(f"/api/v1/nodes/{name}")["metadata"]["labels"] if key.startswith("ballast.dev/")}


def taints(api: Api, name: str) -> set[str]:
    return {taint["key"] for taint in api.get(f"/api/v1/nodes/{name}")["spec"].get("taints", [])}


def test_in_dry_run_the_daemon_touches_only_what_is_its_own(release: Release) -> None:
    cluster, begun = release.cluster, release.cluster.audit.here()
    release.install()
    leader, other = release.pods()
    me = release.user("ballast")
    with release.daemon(leader) as daemon:
        eventually(
            "it plans its first labels", lambda: "labels would be current on 2 of 2 nodes" in daemon.log.read_text()
        )
        eventually("the extender's Service finds the leader", lambda: release.endpoints("ballast-extender") == {leader})
        assert release.endpoints("ballast") == {leader, other}
        release.see_the_state_change()
    assert daemon.code == 0
    eventually("the extender's Service finds nobody", lambda: not release.endpoints("ballast-extender"))
    calls = cluster.audit.calls(user=me, since=begun)
    assert not forbidden(calls)
    assert writes(calls) == release.granted_writes("ballast")
    own = {"ballast", "ballast-state", "ballast-extender"}
    assert {call.name for call in calls if call.verb in ("update", "patch")} == own
    assert {*labels(cluster.api, "busy"), *labels(cluster.api, "idle"), *taints(cluster.api, "busy")} == set()


def test_publishing_uses_each_right_it_has_and_lacks_none(release: Release) -> None:
    cluster, begun = release.cluster, release.cluster.audit.here()
    release.install("--set", "settings.publishing.mode=on,admissionPolicy.enabled=true")
    [leader, _] = release.pods()
    with release.daemon(leader):
        eventually(
            "both nodes are labelled", lambda: labels(cluster.api, "busy") == labels(cluster.api, "idle") == KEYS
        )
        eventually("the busy one is tainted", lambda: taints(cluster.api, "busy") == {"ballast.dev/overloaded"})
        events = eventually("an Event tells it", lambda: _events(cluster.api, leader))
        assert {event["involvedObject"]["kind"] for event in events} == {"Node"}
        job = cluster.api.get(release.path("cronjobs/ballast-watchdog", "apis/batch/v1"))["spec"]["jobTemplate"]["spec"]
        assert "Released nothing" in release.run_job(job, "ballast-watchdog")
        assert labels(cluster.api, "idle") == KEYS
        release.see_the_state_change()
        cluster.api.delete(f"/api/v1/nodes/{LATE}")
    [hook] = [each for each in hooks(release) if each["kind"] == "Job"]
    for manifest in hooks(release):
        create(cluster.api, manifest, release.namespace)
    assert "Released 2 of 2 nodes" in release.run_job(hook["spec"], "ballast-cleanup")
    assert {*labels(cluster.api, "busy"), *labels(cluster.api, "idle"), *taints(cluster.api, "busy")} == set()
    for account in ("ballast", "ballast-watchdog", "ballast-cleanup"):
        assert not forbidden(cluster.audit.calls(user=release.user(account), since=begun))
    for account in ("ballast", "ballast-cleanup"):
        assert writes(cluster.audit.calls(user=release.user(account), since=begun)) == release.granted_writes(account)


def test_the_admission_policy_keeps_ballast_to_its_own_prefix(release: Release) -> None:
    api = release.cluster.api
    release.install("--set", "settings.publishing.mode=on,admissionPolicy.enabled=true")
    foreign = {"key": "example.org/spot", "effect": "NoSchedule"}
    own = {"key": "ballast.dev/overloaded", "effect": "PreferNoSchedule"}
    api.patch(
        "/api/v1/nodes/busy",
        {"metadata": {"labels": {"zone": "a"}, "annotations": {"owner": "team"}}, "spec": {"taints": [foreign]}},
    )
    path = "/api/v1/nodes/busy"
    denied: dict[str, dict[str, Any]] = {
        "a foreign label": {"metadata": {"labels": {"zone": "b"}}},
        "a new foreign label": {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        "a removed foreign label": {"metadata": {"labels": {"zone": None}}},
        "a name that only looks like ours": {"metadata": {"labels": {"ballast.development/score": "1"}}},
        "a foreign annotation": {"metadata": {"annotations": {"owner": "me"}}},
        "a foreign annotation removed": {"metadata": {"annotations": {"owner": None}}},
        "foreign taints removed": {"spec": {"taints": [own]}},
        "a foreign taint added": {"spec": {"taints": [foreign, {"key": "x", "effect": "NoExecute"}]}},
        "a cordon": {"spec": {"unschedulable": True}},
        "a finalizer": {"metadata": {"finalizers": ["example.org/keep"]}},
    }
    allowed: list[dict[str, Any]] = [
        {"metadata": {"labels": {"ballast.dev/score": "7"}, "annotations": {"ballast.dev/window": "{}"}}},
        {"metadata": {"labels": {"ballast.dev/score": None}, "annotations": {"ballast.dev/window": None}}},
        {"spec": {"taints": [foreign, own]}},
        {"spec": {"taints": [foreign]}},
    ]
    token = release.cluster.account_token(release.namespace, "ballast")
    with release.cluster.as_token(token) as ballast:
        eventually("the policy is in force", lambda: _refused(ballast, f"{path}?dryRun=All"))
        for what, body in denied.items():
            answer = ballast.raw("PATCH", path, body, kind="application/merge-patch+json")
            assert (what, answer.status_code) == (what, 403)
            assert "Ballast may change" in answer.text
        for body in allowed:
            ballast.patch(path, body)
    api.patch(path, {"metadata": {"labels": {"zone": "b"}}})


def test_switching_publishing_off_takes_the_labels_away(release: Release) -> None:
    release.install("--set", "settings.publishing.mode=on")
    still_on = release.upgrade("--set", "settings.publishing.mode=on", "--dry-run=server")
    assert "post-upgrade" not in still_on
    switched = release.upgrade("--set", "settings.publishing.mode=dry-run", "--dry-run=server")
    assert switched.count("helm.sh/hook: post-upgrade") == 6, "Job, ServiceAccount, two roles, two bindings"
    assert "is ON" not in switched


OFF = ",".join(f"settings.{part}.mode=off" for part in ("publishing", "power", "eviction"))


def test_with_every_part_off_the_daemon_asks_for_nothing_it_may_not_do(release: Release) -> None:
    begun = release.cluster.audit.here()
    release.install("--set", OFF)
    [pod, _] = release.pods()
    with release.daemon(pod) as daemon:
        eventually("it watches", lambda: "know 2 of 2 nodes" in daemon.log.read_text())
    calls = release.cluster.audit.calls(user=release.user("ballast"), since=begun)
    assert not forbidden(calls)
    assert not writes(calls)


def test_the_lease_may_be_kept_in_another_namespace(release: Release) -> None:
    begun = release.cluster.audit.here()
    release.install("--set", "settings.lease.namespace=kube-system")
    [pod, _] = release.pods()
    with release.daemon(pod):
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ballast"
        eventually("it leads", lambda: pod in release.cluster.api.get(lease)["spec"]["holderIdentity"], within=6)
    assert not forbidden(release.cluster.audit.calls(user=release.user("ballast"), since=begun))


def test_the_alerts_fire_when_they_should_and_are_silent_otherwise(tools: Tools, tmp_path: Path) -> None:
    rules = tmp_path / "rules_test.yaml"
    rules.write_text(yaml.safe_dump({"rule_files": [str(CHART / "rules" / "alerts.yaml")], "tests": ALERTS}))
    command = [str(tools.prometheus / "promtool"), "test", "rules", str(rules)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _refused(api: Api, path: str) -> bool:
    return (
        api.raw("PATCH", path, {"metadata": {"labels": {"zone": "b"}}}, kind="application/merge-patch+json").status_code
        == 403
    )


def _events(api: Api, pod: str) -> list[dict[str, Any]]:
    found = api.items("/api/v1/namespaces/default/events")
    return [event for event in found if event["reportingInstance"].startswith(pod)]


def _alert(name: str, series: dict[str, str], at: str, *, fires: bool) -> dict[str, Any]:
    """One case of promtool."""
    firing = f'count by (alertname) (ALERTS{{alertname="{name}",alertstate="firing"}})'
    expected = [{"labels": f'{{alertname="{name}"}}', "value": 1}] if fires else []
    return {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": at, "exp_samples": expected}],
    }


LEADS = 'ballast_leader{namespace="b",pod="one"}'
WAITS = 'ballast_leader{namespace="b",pod="two"}'
AGE = 'ballast_snapshot_age_seconds{namespace="b",pod="one"}'
OTHER_AGE = 'ballast_snapshot_age_seconds{namespace="b",pod="two"}'
RESTARTS = 'ballast_watch_restarts_total{namespace="b",kind="nodes",reason="%s"}'

REJECTED = 'ballast_samples_rejected_total{namespace="b",reason="stale"}'
FROZEN = 'ballast_frozen{namespace="b"}'
CONDITION = 'ballast_condition{namespace="b",type="%s"}'
UNMET = 'ballast_power_unmet_replicas{namespace="b",policy="site-a"}'
EFFECTS = 'ballast_eviction_effects_total{namespace="b",planner="relieve",result="without-effect"}'

ALERTS = [
    _alert("BallastNoLeader", {LEADS: "0x20", WAITS: "0x20"}, "10m", fires=True),
    _alert("BallastNoLeader", {LEADS: "1x20", WAITS: "0x20"}, "10m", fires=False),
    _alert("BallastTwoLeaders", {LEADS: "1x20", WAITS: "1x20"}, "10m", fires=True),
    _alert("BallastStaleData", {AGE: "600x20", OTHER_AGE: "600x20"}, "10m", fires=True),
    _alert("BallastStaleData", {AGE: "600x20", OTHER_AGE: "20x20"}, "10m", fires=False),
    _alert("BallastFrozen", {FROZEN: "1x20"}, "10m", fires=True),
    _alert("BallastFrozen", {FROZEN: "0x20"}, "10m", fires=False),
    _alert("BallastWatchFailing", {RESTARTS % "forbidden": "0+2x30"}, "20m", fires=True),
    _alert("BallastWatchFailing", {RESTARTS % "ended": "0+4x30"}, "20m", fires=False),
    _alert("BallastSamplesRejected", {REJECTED: "0+3x40"}, "30m", fires=True),
    _alert("BallastSamplesRejected", {REJECTED: "3x40"}, "30m", fires=False),
    _alert("BallastDown", {FROZEN: "0x20"}, "10m", fires=True),
    _alert("BallastPowerFeedSilent", {CONDITION % "FeedAvailable": "0x20"}, "10m", fires=True),
    _alert("BallastPowerFeedSilent", {CONDITION % "FeedAvailable": "1x20"}, "10m", fires=False),
    _alert("BallastPowerFeedSilent", {LEADS: "1x20"}, "10m", fires=False),
    _alert("BallastPowerCannotAct", {CONDITION % "Degraded": "1x20"}, "15m", fires=True),
    _alert("BallastPowerContended", {CONDITION % "Contended": "1x20"}, "10m", fires=True),
    _alert("BallastPowerWaitsForBaseline", {CONDITION % "Rebaselined": "1x20"}, "10m", fires=True),
    _alert("BallastPowerNotMet", {UNMET: "3x60"}, "40m", fires=True),
    _alert("BallastPowerNotMet", {UNMET: "0x60"}, "40m", fires=False),
    _alert("BallastEvictionsHalted", {CONDITION % "EvictionsHalted": "1x30"}, "20m", fires=True),
    _alert("BallastEvictionsHalted", {CONDITION % "EvictionsHalted": "0x30"}, "20m", fires=False),
    _alert("BallastEvictionsWithoutEffect", {EFFECTS: "0x10 1x10 3x20"}, "30m", fires=True),
    _alert("BallastEvictionsWithoutEffect", {EFFECTS: "0x40"}, "30m", fires=False),
    _alert("BallastPlanningFailing", {CONDITION % "PlanningFailing": "1x30"}, "20m", fires=True),
]
