"""The chart on a real API server: Helm installs it, the daemon lives with its rights, and misses or wastes none."""

from typing import Any

from ballast_lab.harness.api import Api
from ballast_lab.harness.release import LATE, Release, create, forbidden, hooks, writes
from ballast_lab.harness.waiting import eventually

GUARDED = "ballast.node-restriction.kubernetes.io"
"""The prefix of labels in a new installation."""
KEYS = {f"{GUARDED}/score", f"{GUARDED}/load"}
TAINTS = {"ballast.dev/overloaded", "ballast.dev/load"}
LOAD_TAINT = ("--set", "settings.publishing.load_taint=PreferNoSchedule")


def labels(api: Api, name: str) -> set[str]:
    return {key for key in api.get(f"/api/v1/nodes/{name}")["metadata"]["labels"] if key.startswith("ballast.")}


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
    own = {"ballast", "ballast-state", "ballast-extender", "ballast-extender-token"}
    assert {call.name for call in calls if call.verb in ("update", "patch")} == own
    assert {*labels(cluster.api, "busy"), *labels(cluster.api, "idle"), *taints(cluster.api, "busy")} == set()


def test_publishing_uses_each_right_it_has_and_lacks_none(release: Release) -> None:
    cluster, begun = release.cluster, release.cluster.audit.here()
    release.install("--set", "settings.publishing.mode=on,admissionPolicy.enabled=true", *LOAD_TAINT)
    [leader, _] = release.pods()
    with release.daemon(leader):
        eventually(
            "both nodes are labelled", lambda: labels(cluster.api, "busy") == labels(cluster.api, "idle") == KEYS
        )
        eventually("the busy one is tainted", lambda: taints(cluster.api, "busy") == TAINTS)
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
        "a guarded label that we never set": {"metadata": {"labels": {f"{GUARDED}/x": "1"}}},
        "a guarded annotation": {"metadata": {"annotations": {f"{GUARDED}/score": "1"}}},
        "a foreign annotation": {"metadata": {"annotations": {"owner": "me"}}},
        "a foreign annotation removed": {"metadata": {"annotations": {"owner": None}}},
        "foreign taints removed": {"spec": {"taints": [own]}},
        "a foreign taint added": {"spec": {"taints": [foreign, {"key": "x", "effect": "NoExecute"}]}},
        "a taint of ours that evicts": {"spec": {"taints": [foreign, {**own, "effect": "NoExecute"}]}},
        "a taint of ours that stops pods": {"spec": {"taints": [foreign, {**own, "effect": "NoSchedule"}]}},
        "a taint that we never set": {"spec": {"taints": [foreign, {**own, "key": "ballast.dev/x"}]}},
        "an operator's word": {"metadata": {"annotations": {"ballast.dev/exclude": "false"}}},
        "another one": {"metadata": {"annotations": {"ballast.dev/evict-lifts": "age"}}},
        "a cordon": {"spec": {"unschedulable": True}},
        "a finalizer": {"metadata": {"finalizers": ["example.org/keep"]}},
    }
    allowed: list[dict[str, Any]] = [
        {"metadata": {"labels": {"ballast.dev/score": "7"}, "annotations": {"ballast.dev/window": "{}"}}},
        {"metadata": {"labels": {"ballast.dev/score": None}, "annotations": {"ballast.dev/window": None}}},
        {"metadata": {"labels": {f"{GUARDED}/score": "7", f"{GUARDED}/load": "low"}}},
        {"spec": {"taints": [foreign, own]}},
        {"spec": {"taints": [foreign, {"key": "ballast.dev/load", "value": "85", "effect": "PreferNoSchedule"}]}},
        {"spec": {"taints": [foreign]}},
    ]
    node = {"apiVersion": "v1", "kind": "Node", "name": "busy"}
    event = {
        "metadata": {"generateName": "busy."},
        "involvedObject": node,
        "reason": "Tested",
        "message": "x",
        "type": "Normal",
    }
    ballasts = {"source": {"component": "ballast"}, "reportingComponent": "ballast", "reportingInstance": "one"}
    kubelets = {"source": {"component": "kubelet"}, "reportingComponent": "kubelet", "reportingInstance": "busy"}
    token = release.cluster.account_token(release.namespace, "ballast")
    with release.cluster.as_token(token) as ballast:
        eventually("the policy is in force", lambda: _refused(ballast, f"{path}?dryRun=All"))
        for what, body in denied.items():
            answer = ballast.raw("PATCH", path, body, kind="application/merge-patch+json")
            assert (what, answer.status_code) == (what, 403)
            assert "Ballast may change" in answer.text
        for body in allowed:
            ballast.patch(path, body)
        for by, status in ((kubelets, 403), (ballasts, 201)):
            assert ballast.raw("POST", "/api/v1/namespaces/default/events", event | by).status_code == status
    api.patch(path, {"metadata": {"labels": {"zone": "b"}}})


def test_labels_are_those_that_no_kubelet_writes_whatever_was_there(release: Release) -> None:
    """What is rendered depends on the values alone, as Argo CD and `helm template` need it."""
    release.install()
    assert GUARDED in release.helm("get", "manifest", "ballast")
    release.upgrade("--set", "settings.publishing.label_prefix=ballast.dev")
    assert GUARDED not in release.helm("get", "manifest", "ballast")
    told = release.upgrade("--dry-run=server")
    assert GUARDED in told
    assert "settings.publishing.label_prefix=ballast.dev keeps them" in told


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
    assert writes(calls) == {("patch", "secrets")}, "its own token, once"


def test_the_lease_may_be_kept_in_another_namespace(release: Release) -> None:
    begun = release.cluster.audit.here()
    release.install("--set", "settings.lease.namespace=kube-system")
    [pod, _] = release.pods()
    with release.daemon(pod):
        lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/ballast"
        eventually("it leads", lambda: pod in release.cluster.api.get(lease)["spec"]["holderIdentity"])
    assert not forbidden(release.cluster.audit.calls(user=release.user("ballast"), since=begun))


def _refused(api: Api, path: str) -> bool:
    return (
        api.raw("PATCH", path, {"metadata": {"labels": {"zone": "b"}}}, kind="application/merge-patch+json").status_code
        == 403
    )


def _events(api: Api, pod: str) -> list[dict[str, Any]]:
    found = api.items("/api/v1/namespaces/default/events")
    return [event for event in found if event["reportingInstance"].startswith(pod)]
