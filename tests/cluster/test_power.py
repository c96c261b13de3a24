"""Replicas follow the power that is there: the whole daemon, a real Prometheus and a real control plane."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ballast_lab.harness.api import Api
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.power_feed import PowerFeed
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually, throughout
from tests.worlds.keda import CRD

APPS = "/apis/apps/v1/namespaces/default"
HPAS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
SCALED_OBJECTS = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
STATE = "/api/v1/namespaces/default/configmaps/ballast-state"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/default/leases/ballast"
SIDE = {"window": "3s", "tolerance": 0.04}
START = {"web": 8, "db": 4, "api": 8, "jobs": 8}
HALF = sum(START.values()) // 2


@dataclass
class Plant:
    """Targets of every kind in a cluster that runs their pods; counts are replicas or caps."""

    cluster: ControlPlane
    feed: PowerFeed
    settings: dict[str, str]

    @property
    def api(self) -> Api:
        return self.cluster.api

    def workload(self, name: str, kind: str = "deployments") -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{APPS}/{kind}/{name}")["spec"]
        return found

    def counts(self) -> dict[str, int]:
        return {
            "web": self.workload("web")["replicas"],
            "db": self.workload("db", "statefulsets")["replicas"],
            "api": self.api.get(f"{HPAS}/api")["spec"]["maxReplicas"],
            "jobs": self.api.get(f"{SCALED_OBJECTS}/jobs")["spec"]["maxReplicaCount"],
        }

    def total(self) -> int:
        return sum(self.counts().values())

    def state(self) -> dict[str, str]:
        return dict(self.api.get(STATE)["data"])

    def daemon(self, name: str, kubeconfig: Path | None = None) -> Daemon:
        return Daemon(self.cluster, name, kubeconfig or self.cluster.admin_kubeconfig, self.settings)


@pytest.fixture
def plant(cluster: ControlPlane, tmp_path: Path) -> Iterator[Plant]:
    api = cluster.api
    _install_scaled_objects(api)
    add_nodes(api, [node(f"n{number}") for number in range(2)])
    with ExitStack() as stack:
        stack.enter_context(scheduler(cluster, STOCK))
        stack.callback(_remove, api)
        for name in ("web", "api", "jobs"):
            api.post(f"{APPS}/deployments", _workload("Deployment", name))
        api.post(f"{APPS}/statefulsets", _workload("StatefulSet", "db"))
        api.post(HPAS, _hpa("api", most=20))
        api.post(SCALED_OBJECTS, _scaled_object("jobs", most=30))
        feed = stack.enter_context(PowerFeed(1000))
        server = stack.enter_context(prometheus(cluster.tools, tmp_path, [feed.target]))
        config = tmp_path / "ballast.yaml"
        config.write_text(json.dumps({"power": {"policies": [_policy()]}}))
        settings = {
            **FAST,
            "BALLAST_PROMETHEUS__URL": server.url,
            "BALLAST_PUBLISHING__MODE": "off",
            "BALLAST_EVICTION__MODE": "off",
            "BALLAST_POWER__MODE": "on",
            "BALLAST_LEASE__NAMESPACE": "default",
            "BALLAST_CONFIG_FILE": str(config),
        }
        eventually("all pods run", lambda: _running(api) == sum(START.values()))
        yield Plant(cluster, feed, settings)


def test_every_kind_of_target_follows_a_feed_that_falls_flickers_dies_and_returns(plant: Plant) -> None:
    with plant.daemon("power") as daemon:
        eventually("it has its baseline", lambda: "anchor" in plant.state().get("power.state.sun", ""))

        plant.feed.watts = 500
        eventually("replicas and caps fall to half", lambda: _own(plant) == HALF)
        assert plant.workload("web")["replicas"] == 4
        assert plant.api.get(f"{HPAS}/api")["metadata"]["annotations"]["ballast.dev/original-max-replicas"] == "20"
        jobs = plant.api.get(f"{SCALED_OBJECTS}/jobs")["metadata"]["annotations"]
        assert jobs["ballast.dev/original-max-replicas"] == "30"
        cap = plant.counts()["api"]
        eventually("its autoscaler obeys the cap", lambda: plant.workload("api")["replicas"] == cap)
        assert plant.workload("jobs")["replicas"] == START["jobs"], "what KEDA scales is never written"

        before, at = plant.counts(), plant.cluster.audit.here()
        for watts in (1000, 500, 1000, 500):
            plant.feed.watts = watts
            eventually("it is seen", lambda watts=watts: _feed(daemon)["watts"] == watts)
        throughout("nothing follows a flicker", lambda: plant.counts() == before, seconds=5)
        plant.feed.up = False
        eventually("the feed is known to be dead", lambda: _feed(daemon)["problem"])
        assert _condition(plant, "FeedAvailable")["status"] == "False"
        throughout("a dead feed changes nothing", lambda: plant.counts() == before, seconds=5)
        written = [call for call in plant.cluster.audit.calls(since=at) if call.verb == "patch"]
        assert [call for call in written if call.agent.startswith("ballast") and "scale" in call.resource] == []

        plant.feed.up, plant.feed.watts = True, 1000
        eventually("all is as it was", lambda: plant.counts() == START)
        document = daemon.get("/api/v1/power").json()["policies"][0]
        assert {each["actuator"] for each in document["targets"]} == {"scale", "hpa-cap", "scaledobject-cap"}


def test_a_leader_killed_between_plan_and_patch_is_followed_by_one_that_finishes(plant: Plant) -> None:
    with plant.daemon("first", _without_scale(plant.cluster)) as first:
        eventually("it has its baseline", lambda: "anchor" in plant.state().get("power.state.sun", ""))
        plant.feed.watts = 500
        eventually("the plan is written down", lambda: "power.plan.sun" in plant.state())
        first.kill()
    planned = json.loads(plant.state()["power.plan.sun"])["replicas"]
    assert sum(planned.values()) == HALF
    assert plant.workload("web")["replicas"] == START["web"]
    killed_at = plant.cluster.audit.here()
    with plant.daemon("second"):
        eventually("the next leader finishes it", lambda: "power.plan.sun" not in plant.state())
        assert {f"default/{name}": count for name, count in plant.counts().items()} == planned
        throughout("and does nothing twice", lambda: _own(plant) == HALF, seconds=5)

        plant.api.patch(f"{APPS}/deployments/web/scale", {"spec": {"replicas": 7}})
        throughout("what someone else scales stays", lambda: plant.workload("web")["replicas"] == 7, seconds=8)
    scaled = [call.name for call in plant.cluster.audit.calls(since=killed_at) if call.resource.endswith("/scale")]
    assert scaled.count("db") == 1


@pytest.mark.parametrize("allowed", [False, True])
def test_a_fall_deletes_no_claims_unless_the_member_says_so(plant: Plant, allowed: bool) -> None:
    api, claims = plant.api, "/api/v1/namespaces/default/persistentvolumeclaims"
    _store_data(plant)
    config = Path(plant.settings["BALLAST_CONFIG_FILE"])
    policy = json.loads(config.read_text())
    policy["power"]["policies"][0]["independents"][0]["deleteClaims"] = allowed
    config.write_text(json.dumps(policy))
    names = {f"data-db-{number}" for number in range(START["db"])}

    def there() -> set[str]:
        return {each["metadata"]["name"] for each in api.items(claims)}

    eventually("each replica has its claim", lambda: there() == names)
    with plant.daemon("power"):
        eventually("it has its baseline", lambda: "anchor" in plant.state().get("power.state.sun", ""))
        plant.feed.watts = 500
        if allowed:
            eventually("two are deleted", lambda: len(there()) == START["db"] // 2)
        else:
            eventually("the others fall", lambda: plant.workload("web")["replicas"] == START["web"] // 2)
            message = "would delete volume claims"
            eventually("it is named", lambda: message in plant.state().get("conditions", ""))
            throughout("its claims stay", lambda: there() == names, seconds=8)
            assert plant.counts()["db"] == START["db"]


def _store_data(plant: Plant) -> None:
    """Makes `db` a StatefulSet whose claims go with its replicas."""
    api = plant.api
    api.raw("DELETE", f"{APPS}/statefulsets/db", {"propagationPolicy": "Foreground"})
    eventually("it is gone", lambda: api.raw("GET", f"{APPS}/statefulsets/db").status_code == 404)
    storage = {"accessModes": ["ReadWriteOnce"], "storageClassName": "hand"}
    for number in range(START["db"]):
        volume = {
            **storage,
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": "x.example", "volumeHandle": f"v{number}"},
        }
        api.raw("POST", "/api/v1/persistentvolumes", {"metadata": {"name": f"pv{number}"}, "spec": volume})
    body = _workload("StatefulSet", "db")
    claim = {**storage, "resources": {"requests": {"storage": "1Gi"}}}
    body["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
    body["spec"]["persistentVolumeClaimRetentionPolicy"] = {"whenDeleted": "Retain", "whenScaled": "Delete"}
    api.post(f"{APPS}/statefulsets", body)
    eventually("all pods run", lambda: _running(api) == sum(START.values()))


def _own(plant: Plant) -> int:
    counts = plant.counts()
    return counts["web"] + counts["db"] + min(counts["api"], START["api"]) + min(counts["jobs"], START["jobs"])


def _feed(daemon: Daemon) -> dict[str, Any]:
    found: dict[str, Any] = daemon.get("/api/v1/power").json()["policies"][0]["feed"]
    return found


def _condition(plant: Plant, kind: str) -> dict[str, str]:
    def saved() -> dict[str, str]:
        found = {each["type"]: each for each in json.loads(plant.state()["conditions"])}
        assert found[kind]["status"] == "False"
        return dict(found[kind])

    return eventually(f"{kind} is saved", saved)


def _policy() -> dict[str, Any]:
    return {
        "name": "sun",
        "feed": {"query": "site_available_watts", "semantics": "available", "maxAge": "3s"},
        "increase": SIDE,
        "decrease": SIDE,
        "groups": [
            {
                "name": "front",
                "members": [{"ref": "default/web", "min": 1, "max": 20}, {"ref": "default/api", "min": 2, "max": 20}],
            }
        ],
        "independents": [
            {"ref": "statefulsets.apps/default/db", "min": 1, "max": 8},
            {"ref": "default/jobs", "min": 1, "max": 30},
        ],
    }


def _workload(kind: str, name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "10m", "memory": "8Mi"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec: dict[str, Any] = {"replicas": START[name], "selector": {"matchLabels": labels}, "template": template}
    if kind == "StatefulSet":
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    return {"metadata": {"name": name}, "spec": spec}


def _hpa(name: str, *, most: int) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": most}}


def _scaled_object(name: str, *, most: int) -> dict[str, Any]:
    trigger = {"type": "cron", "metadata": {"timezone": "UTC", "start": "0 6 * * *", "end": "0 20 * * *"}}
    spec = {"scaleTargetRef": {"name": name}, "minReplicaCount": 1, "maxReplicaCount": most, "triggers": [trigger]}
    body = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject"}
    return {**body, "metadata": {"name": name}, "spec": spec}


def _install_scaled_objects(api: Api) -> None:
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", **CRD}
    api.raw("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    eventually("ScaledObjects are served", lambda: api.raw("GET", SCALED_OBJECTS).status_code == 200)


def _without_scale(cluster: ControlPlane) -> Path:
    """An account that may do everything but change a target."""
    api, account = cluster.api, "plans-only"
    kubeconfig = cluster.account_kubeconfig("default", account)
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["", "coordination.k8s.io"], "resources": ["configmaps", "leases", "events"], "verbs": ["*"]},
    ]
    path = "/apis/rbac.authorization.k8s.io/v1"
    api.raw("POST", f"{path}/clusterroles", {"metadata": {"name": account}, "rules": rules})
    binding = {
        "metadata": {"name": account},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    }
    api.raw("POST", f"{path}/clusterrolebindings", binding)
    return kubeconfig


def _running(api: Api) -> int:
    return sum(each["status"].get("phase") == "Running" for each in api.items("/api/v1/namespaces/default/pods"))


def _remove(api: Api) -> None:
    for path in (HPAS, SCALED_OBJECTS, f"{APPS}/deployments", f"{APPS}/statefulsets"):
        api.raw("DELETE", path, {"propagationPolicy": "Background"})
    for path in ("/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"):
        api.raw("DELETE", path)
    for path in (STATE, LEASE):
        api.raw("DELETE", path)
    eventually("no replicas are left", lambda: not api.items(f"{APPS}/replicasets"))
