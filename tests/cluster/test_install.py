"""The chart on a real API server: Helm installs it, the daemon lives with its rights, and misses or wastes none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from tests.cluster.harness.api import Api
from tests.cluster.harness.audit import Call
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.kubeconfig import write_kubeconfig
from tests.cluster.harness.objects import add_nodes, node
from tests.cluster.harness.process import Process, free_port
from tests.cluster.harness.prometheus import prometheus
from tests.cluster.harness.tools import Tools
from tests.cluster.harness.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "ballast"
LOADS = {"busy": 0.95, "idle": 0.1}
LATE = "late"
"""Prometheus tells of this node before it is in the cluster: a condition comes, is saved, goes, and is saved again."""
WRITING = {"create", "update", "patch", "delete", "deletecollection"}
KEYS = {"ballast.dev/score", "ballast.dev/load"}


class Release:
    """One installation of the chart in a namespace of its own that admits restricted pods alone."""

    def __init__(self, cluster: ControlPlane, helm: Path, folder: Path, namespace: str, prometheus_url: str) -> None:
        self.cluster = cluster
        self.folder = folder
        self.namespace = namespace
        self.port = free_port()
        self._helm = helm
        self._values = folder / "values.yaml"
        self._values.write_text(yaml.safe_dump(_values(prometheus_url, self.port)))
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        cluster.api.post("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})

    def helm(self, *arguments: object) -> str:
        command = [self._helm, *arguments, "--namespace", self.namespace, "--kubeconfig", self.cluster.admin_kubeconfig]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def install(self, *arguments: object) -> str:
        return self.helm("install", "ballast", CHART, "--values", self._values, *arguments)

    def upgrade(self, *arguments: object) -> str:
        return self.helm("upgrade", "ballast", CHART, "--values", self._values, *arguments)

    def path(self, collection: str, group: str = "api/v1") -> str:
        return f"/{group}/namespaces/{self.namespace}/{collection}"

    def user(self, account: str) -> str:
        return f"system:serviceaccount:{self.namespace}:{account}"

    def pods(self) -> list[str]:
        """The names of the Deployment's two pods, running on the node `busy`."""
        selector = "pods?labelSelector=app.kubernetes.io/component=daemon"
        found = eventually("two pods pass admission", lambda: self._two(selector))
        for name in found:
            target = {"apiVersion": "v1", "kind": "Node", "name": "busy"}
            self.cluster.api.post(self.path(f"pods/{name}/binding"), {"metadata": {"name": name}, "target": target})
        eventually("they run", lambda: {each["status"]["phase"] for each in self._items(selector)} == {"Running"})
        return found

    def endpoints(self, service: str) -> set[str]:
        """The pods a Service leads to."""
        slices = self._items(
            f"endpointslices?labelSelector=kubernetes.io/service-name={service}", "apis/discovery.k8s.io/v1"
        )
        return {
            each["targetRef"]["name"]
            for one in slices
            for each in one["endpoints"] or ()
            if each["conditions"]["ready"]
        }

    @contextmanager
    def daemon(self, pod: str) -> Iterator[Process]:
        """`ballast run` as the container of `pod` would run it, with a token of the chart's ServiceAccount."""
        deployment = self.cluster.api.get(self.path("deployments/ballast", "apis/apps/v1"))
        [container] = deployment["spec"]["template"]["spec"]["containers"]
        environment = self._environment(container, pod, "ballast")
        url = f"http://127.0.0.1:{self.port}/readyz"
        command = [sys.executable, "-m", "ballast", *container["args"]]
        log = self.folder / f"{pod}.log"
        process = Process("ballast", command, log, env=environment, ready=lambda: _get(url), port=self.port)
        try:
            yield process
        finally:
            process.stop()

    def see_the_state_change(self) -> None:
        state = self.path("configmaps/ballast-state")
        first = eventually("a condition is saved", lambda: self.cluster.api.get(state)["metadata"]["resourceVersion"])
        add_nodes(self.cluster.api, [node(LATE)])
        eventually("it goes", lambda: self.cluster.api.get(state)["metadata"]["resourceVersion"] != first)

    def run_job(self, job: dict[str, Any], account: str) -> str:
        """What the one container of a Job's pod prints."""
        [container] = job["template"]["spec"]["containers"]
        assert job["template"]["spec"]["serviceAccountName"] == account
        done = subprocess.run(
            [sys.executable, "-m", "ballast", *container["args"]],
            env=self._environment(container, "job", account),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def granted_writes(self, account: str) -> set[tuple[str, str]]:
        """{(verb, resource)} beyond reading, over all roles bound to the account."""
        rules: list[dict[str, Any]] = []
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        for scope in ("", f"/namespaces/{self.namespace}"):
            kind = "roles" if scope else "clusterroles"
            for binding in self.cluster.api.items(f"{rbac}{scope}/{kind.removesuffix('s')}bindings"):
                for subject in binding.get("subjects", []):
                    if (subject["name"], subject.get("namespace")) == (account, self.namespace):
                        rules += self.cluster.api.get(f"{rbac}{scope}/{kind}/{binding['roleRef']['name']}")["rules"]
        return {
            (verb, resource)
            for rule in rules
            for verb in rule["verbs"]
            for resource in rule["resources"]
            if verb in WRITING
        }

    def _environment(self, container: dict[str, Any], pod: str, account: str) -> dict[str, str]:
        fields = {"metadata.name": pod, "metadata.namespace": self.namespace}
        given = {
            each["name"]: each["value"] if "value" in each else fields[each["valueFrom"]["fieldRef"]["fieldPath"]]
            for each in container["env"]
        }
        token = self.cluster.account_token(self.namespace, account)
        config = write_kubeconfig(
            self.folder / f"{account}.kubeconfig",
            url=self.cluster.url,
            ca=self.cluster.certificates.ca,
            token=token,
            namespace=self.namespace,
        )
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BALLAST_", "KUBE", "POD_"))}
        return {**kept, **given, "KUBECONFIG": str(config), "COVERAGE_PROCESS_START": ""}

    def _two(self, selector: str) -> list[str]:
        names = sorted(each["metadata"]["name"] for each in self._items(selector))
        return names if len(names) == 2 else []

    def _items(self, collection: str, group: str = "api/v1") -> list[dict[str, Any]]:
        return self.cluster.api.items(self.path(collection, group))


def _values(prometheus_url: str, port: int) -> dict[str, Any]:
    def series(value: str) -> str:
        return f'label_replace({value}, "node", "NAME", "", "")'

    query = " or ".join(series(f"vector({load})").replace("NAME", name) for name, load in {**LOADS, LATE: 0.5}.items())
    freshness = " or ".join(series("vector(time())").replace("NAME", name) for name in (*LOADS, LATE))
    resource = {"query": query, "freshness": freshness, "node_label": "node"}
    return {
        "settings": {
            "prometheus": {"url": prometheus_url},
            "telemetry": {"interval": "1s", "resources": {"cpu": resource}},
            "windows": {"lengths": ["10s"], "min_samples": 3, "max_age": "30s"},
            "publishing": {"taint": True},
            "http": {"host": "127.0.0.1", "port": port},
        }
    }


def _get(url: str) -> bool:
    with requests.Session() as session:
        session.trust_env = False
        return session.get(url, timeout=5).status_code == 200


@pytest.fixture(scope="session")
def helms() -> dict[str, Path]:
    done = subprocess.run([str(ROOT / "scripts" / "helm")], capture_output=True, text=True, check=True)
    return {version: Path(done.stdout.strip()) / version / "helm" for version in ("3", "4")}


@pytest.fixture(scope="module")
def prometheus_url(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus(tools, tmp_path_factory.mktemp("empty-prometheus"), []) as server:
        yield server.url


@pytest.fixture(params=["3", "4"], ids=["helm3", "helm4"])
def release(
    request: pytest.FixtureRequest,
    cluster: ControlPlane,
    helms: dict[str, Path],
    prometheus_url: str,
    tmp_path: Path,
) -> Iterator[Release]:
    """Nodes are there, the chart is not installed yet."""
    add_nodes(cluster.api, [node(name) for name in LOADS])
    namespace = f"install-{tmp_path.name.lower().replace('_', '-').replace('[', '').replace(']', '')[:40]}".rstrip("-")
    release = Release(cluster, helms[request.param], tmp_path, namespace, prometheus_url)
    yield release
    release.helm("uninstall", "ballast", "--no-hooks", "--ignore-not-found")
    cluster.api.delete(f"/api/v1/namespaces/{namespace}")


def labels(api: Api, name: str) -> set[str]:
    return {key for key in api.get(f"/api/v1/nodes/{name}")["metadata"]["labels"] if key.startswith("ballast.dev/")}


def taints(api: Api, name: str) -> set[str]:
    return {taint["key"] for taint in api.get(f"/api/v1/nodes/{name}")["spec"].get("taints", [])}


def writes(calls: list[Call]) -> set[tuple[str, str]]:
    return {(call.verb, call.resource) for call in calls if call.verb in WRITING}


def forbidden(calls: list[Call]) -> set[tuple[str, str]]:
    return {(call.verb, call.uri) for call in calls if call.forbidden}


def test_in_dry_run_the_daemon_touches_only_what_is_its_own(release: Release) -> None:
    cluster, begun = release.cluster, release.cluster.audit.here()
    release.install()
    leader, other = release.pods()
    me = release.user("ballast")
    with release.daemon(leader) as daemon:
        eventually("it plans its first labels", lambda: "would publish 2 of 2 nodes" in daemon.log.read_text())
        eventually("the extender's Service finds the leader", lambda: release.endpoints("ballast-extender") == {leader})
        assert release.endpoints("ballast") == {leader, other}
        release.see_the_state_change()
    assert daemon.code == 0
    eventually("the extender's Service finds nobody", lambda: not release.endpoints("ballast-extender"))
    calls = cluster.audit.calls(user=me, since=begun)
    assert not forbidden(calls)
    assert writes(calls) == release.granted_writes("ballast")
    assert {call.name for call in calls if call.verb in ("update", "patch")} == {"ballast", "ballast-state", leader}
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
    [hook] = [each for each in _hooks(release) if each["kind"] == "Job"]
    for manifest in _hooks(release):
        _create(cluster.api, manifest, release.namespace)
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
    assert switched.count("helm.sh/hook: post-upgrade") == 4, "a Job, its ServiceAccount, ClusterRole and binding"
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


def _hooks(release: Release) -> list[dict[str, Any]]:
    """What Helm would create after an uninstall, as it was rendered."""
    manifests = yaml.safe_load_all(release.helm("get", "hooks", "ballast"))
    return [each for each in manifests if each and each["metadata"]["name"].startswith("ballast-cleanup")]


def _create(api: Api, manifest: dict[str, Any], namespace: str) -> None:
    scope = f"namespaces/{namespace}/"
    collection = {
        "ServiceAccount": f"/api/v1/{scope}serviceaccounts",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        "Job": f"/apis/batch/v1/{scope}jobs",
    }[manifest["kind"]]
    api.post(collection, manifest)


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
