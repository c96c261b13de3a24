"""No pod is evicted whose replacement the real API server, with its quotas, PodSecurity and webhooks, would refuse."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from ballast.eviction.gate_rules import EvictionLimit
from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.evicting import EASY, STATE, Actor, clear, deployment, is_ready
from ballast_lab.harness.objects import add_nodes, node, pod, sweep
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually

NAMESPACE = "worlds"
HERE = f"/api/v1/namespaces/{NAMESPACE}"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
RULES = replace(EASY, max_unavailable=EvictionLimit(2), min_replicas=2)
PRIORITY = "/apis/scheduling.k8s.io/v1/priorityclasses"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def quota(api: Api, **hard: str) -> None:
    api.post(f"{HERE}/resourcequotas", {"metadata": {"name": "less"}, "spec": {"hard": hard}})


def restrict(api: Api) -> None:
    api.patch(HERE, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})


def lower_limits(api: Api) -> None:
    limit = {"type": "Container", "max": {"memory": "64Mi"}}
    api.post(f"{HERE}/limitranges", {"metadata": {"name": "small"}, "spec": {"limits": [limit]}})


def break_webhook(api: Api) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}}
    webhook = {
        "name": "gone.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": selector,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
    }
    api.post(WEBHOOKS, {"metadata": {"name": "gone"}, "webhooks": [webhook]})


def remove_class(api: Api) -> None:
    api.delete(f"{PRIORITY}/passing")


def undo(api: Api) -> None:
    api.raw("DELETE", f"{WEBHOOKS}/gone")
    for name in ("resourcequotas/less", "limitranges/small"):
        api.raw("DELETE", f"{HERE}/{name}")
    api.patch(HERE, {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": None}}})
    if api.raw("GET", f"{PRIORITY}/passing").status_code == 404:
        api.post(PRIORITY, {"metadata": {"name": "passing"}, "value": 7})


WORLDS: dict[str, Callable[[Api], object]] = {
    "a quota of pods below their number": lambda api: quota(api, pods="5"),
    "a quota of pods that is full": lambda api: quota(api, pods="8"),
    "a quota of memory below what they ask for": lambda api: quota(api, **{"requests.memory": "5Gi"}),
    "a quota with less left than a pod asks for": lambda api: quota(api, **{"requests.memory": "8700Mi"}),
    "a quota of limits that they do not have": lambda api: quota(api, **{"limits.cpu": "100"}),
    "PodSecurity restricted": restrict,
    "a LimitRange below the pods": lower_limits,
    "a webhook that is down": break_webhook,
    "a priority class that was removed": remove_class,
}


@pytest.fixture
def shop(cluster: ControlPlane) -> Iterator[ControlPlane]:
    """Two Deployments of four in a namespace of their own, on four nodes with a scheduler."""
    api = cluster.api
    clear(api)
    add_nodes(api, [node(f"n{number}", cpu="32", memory="64Gi") for number in range(4)])
    api.raw("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    api.post(PRIORITY, {"metadata": {"name": "passing"}, "value": 7})
    with scheduler(cluster, STOCK):
        yield cluster
        for collection in (f"{APPS}/deployments", f"{APPS}/statefulsets"):
            api.delete(collection, {"propagationPolicy": "Background"})
        api.delete(f"{HERE}/pods", {"gracePeriodSeconds": 0})
        eventually("no pods are left", lambda: not api.items(f"{HERE}/pods"), every=0.3)
    api.raw("DELETE", f"{PRIORITY}/passing")
    clear(api)
    sweep(api)


def staying(api: Api, app: str = "") -> list[Json]:
    listed = api.items(f"{HERE}/pods" + (f"?labelSelector=app={app}" if app else ""))
    return [pod for pod in listed if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)]


def ready(api: Api, count: int) -> None:
    eventually(f"{count} pods are Ready", lambda: len(staying(api)) == count, every=0.3)


def outcome(cluster: ControlPlane, name: str) -> str:
    """Of one attempt to evict a pod: evicted, or the check that refused it."""
    cluster.api.raw("DELETE", STATE)
    with Actor(cluster.admin_kubeconfig, rules=RULES) as actor:
        pod = eventually("the cache shows it", lambda: actor.find(f"{NAMESPACE}/{name}"), every=0.2)
        [attempt] = actor.carry_out(pod)
        return attempt.status if attempt.evicted else attempt.check or attempt.why


def test_no_pod_goes_that_would_not_come_back(shop: ControlPlane) -> None:
    api = shop.api
    for app in ("web", "cart"):
        api.post(f"{APPS}/deployments", deployment(app, 4, priorityClassName="passing"))
    ready(api, 8)
    outcomes = {"nothing": outcome(shop, staying(api, "web")[0]["metadata"]["name"])}
    ready(api, 8)
    probe = pod("probe", memory="1Gi", priorityClassName="passing")
    probe["metadata"]["namespace"] = NAMESPACE
    tried = f"{HERE}/pods?dryRun=All"
    for name, change in WORLDS.items():
        change(api)
        eventually(f"{name} is in force", lambda: api.raw("POST", tried, probe).status_code >= 400, every=0.3)
        for app in ("web", "cart"):
            outcomes[f"{name}, {app}"] = outcome(shop, staying(api, app)[0]["metadata"]["name"])
        assert len(staying(api)) == 8, outcomes
        undo(api)
        eventually("it is over", lambda: api.post(tried, probe), every=0.3)
    assert outcomes.pop("nothing") == "evicted"
    assert set(outcomes.values()) == {"returnable"}, outcomes
    api.post(f"{APPS}/deployments", deployment("last", 1))
    ready(api, 9)


def test_an_ordered_set_with_an_unready_pod_is_left_alone(shop: ControlPlane) -> None:
    api = shop.api
    ordered = deployment("db", 6)
    ordered["kind"], ordered["spec"]["serviceName"] = "StatefulSet", "db"
    api.post(f"{APPS}/statefulsets", ordered)
    ready(api, 6)
    conditions = api.get(f"{HERE}/pods/db-1")["status"]["conditions"]
    unready = [{**item, "status": "False"} if "Ready" in item["type"] else item for item in conditions]
    api.patch(f"{HERE}/pods/db-1/status", {"status": {"conditions": unready}})
    assert outcome(shop, "db-4") == "returnable"
    api.patch(f"{HERE}/pods/db-1/status", {"status": {"conditions": conditions}})
    ready(api, 6)
    assert outcome(shop, "db-4") == "evicted"
    ready(api, 6)
