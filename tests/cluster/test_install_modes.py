"""Power and eviction with the rights the chart gives them by mode: enough on a real API server, and no more."""

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from ballast.serving.openapi import DOCUMENT
from ballast_lab.harness.api import Api
from ballast_lab.harness.objects import pod
from ballast_lab.harness.release import Release, create, forbidden, hooks, writes
from ballast_lab.harness.waiting import eventually

OTHERS_OFF = {"publishing": {"mode": "off"}, "power": {"mode": "off"}, "eviction": {"mode": "off"}}
KEEPING = {
    ("create", "configmaps"),
    ("update", "configmaps"),
    ("create", "endpointslices"),
    ("patch", "endpointslices"),
    ("create", "leases"),
    ("update", "leases"),
    ("patch", "secrets"),
}
PLENTY, LITTLE = 1_200, 600


@pytest.fixture
def shop(release: Release) -> Iterator[str]:
    """A namespace with a Deployment `api` and another, `cart`, under a HPA, six replicas each."""
    api, name = release.cluster.api, f"shop-{release.namespace}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    for deployment in ("api", "cart"):
        api.post(f"/apis/apps/v1/namespaces/{name}/deployments", _deployment(deployment))
    api.post(
        f"/apis/autoscaling/v2/namespaces/{name}/horizontalpodautoscalers",
        {
            "metadata": {"name": "cart"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart"},
                "minReplicas": 1,
                "maxReplicas": 9,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": CPU}}],
            },
        },
    )
    yield name
    api.delete(f"/api/v1/namespaces/{name}")


CPU = {"type": "Utilization", "averageUtilization": 50}


def _deployment(name: str) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "200m", "memory": "64Mi"}}}
    spec = {"schedulerName": "nobody", "containers": [container]}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 6,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def power(namespace: str, mode: str) -> dict[str, Any]:
    """A budget of half of what the replicas need."""
    members = [{"ref": f"{namespace}/{name}", "min": 1, "max": 9} for name in ("api", "cart")]
    policy = {
        "name": "site",
        "nominal": {"watts": PLENTY, "replicas": 12},
        "feed": {"query": f"vector({LITTLE})", "freshness": "vector(time())", "semantics": "available", "maxAge": "2s"},
        "decrease": {"window": "2s"},
        "increase": {"window": "2s"},
        "independents": members,
    }
    return OTHERS_OFF | {"power": {"mode": mode, "policies": [policy]}}


@pytest.mark.parametrize("release", ["4"], indirect=True)
def test_power_in_dry_run_reads_what_it_needs_and_writes_only_what_is_its_own(release: Release, shop: str) -> None:
    begun = release.cluster.audit.here()
    release.install_with(power(shop, "dry-run"))
    [leader, _] = release.pods()
    with release.daemon(leader) as daemon:
        eventually("it would scale", lambda: "would scale" in daemon.log.read_text())
    calls = release.cluster.audit.calls(user=release.user("ballast"), since=begun)
    assert not forbidden(calls)
    assert writes(calls) <= release.granted_writes("ballast") == KEEPING
    assert _replicas(release.cluster.api, shop) == (6, 9)


@pytest.mark.parametrize("release", ["4"], indirect=True)
def test_power_has_the_rights_to_follow_its_budget_and_to_give_caps_back(release: Release, shop: str) -> None:
    api, begun = release.cluster.api, release.cluster.audit.here()
    release.install_with(power(shop, "on"))
    [leader, _] = release.pods()
    with release.daemon(leader):
        eventually("replicas and the cap fall", lambda: max(_replicas(api, shop)) < 6)
    for manifest in hooks(release):
        create(api, manifest, release.namespace)
    [job] = [each for each in hooks(release) if each["kind"] == "Job"]
    assert "Gave back 1 of 1 caps" in release.run_job(job["spec"], "ballast-cleanup")
    assert _replicas(api, shop)[1] == 9
    calls = release.cluster.audit.calls(user=release.user("ballast"), since=begun)
    acting = {("patch", "deployments/scale"), ("patch", "horizontalpodautoscalers"), ("create", "events")}
    assert not forbidden([*calls, *release.cluster.audit.calls(user=release.user("ballast-cleanup"), since=begun)])
    assert writes(calls) - KEEPING == acting
    assert release.granted_writes("ballast") == KEEPING | acting | {("patch", "scaledobjects")}


def _replicas(api: Api, namespace: str) -> tuple[int, int]:
    """Of `api`; and the cap of `cart`."""
    deployment = api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/api")
    hpa = api.get(f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/cart")
    return deployment["spec"]["replicas"], hpa["spec"]["maxReplicas"]


@pytest.mark.parametrize("release", ["4"], indirect=True)
def test_power_may_not_touch_what_its_policies_do_not_name(release: Release, shop: str) -> None:
    api = release.cluster.api
    api.post(f"/apis/apps/v1/namespaces/{shop}/deployments", _deployment("other"))
    release.install_with(power(shop, "on"))
    here, apps = f"/namespaces/{shop}", "/apis/apps/v1"
    fewer = {"spec": {"replicas": 5}}
    with release.cluster.as_token(release.cluster.account_token(release.namespace, "ballast")) as ballast:
        named = f"{apps}{here}/deployments/api/scale"
        eventually("its rights are known", lambda: ballast.raw("PATCH", named, fewer, kind=MERGE).status_code == 200)
        for path in (
            f"{here}/deployments/other/scale",
            f"{here}/deployments/api",
            "/namespaces/default/deployments/x/scale",
        ):
            assert (path, ballast.raw("PATCH", f"{apps}{path}", fewer, kind=MERGE).status_code) == (path, 403)


MERGE = "application/merge-patch+json"


@pytest.mark.parametrize("release", ["4"], indirect=True)
@pytest.mark.parametrize("mode", ["dry-run", "on"])
def test_only_eviction_that_is_on_may_evict_and_none_may_delete(release: Release, mode: str) -> None:
    api = release.cluster.api
    release.install_with(OTHERS_OFF | {"eviction": {"mode": mode}})
    path = "/api/v1/namespaces/default/pods/victim"
    uid = api.post("/api/v1/namespaces/default/pods", pod("victim"))["metadata"]["uid"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "victim", "namespace": "default"},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    with release.cluster.as_token(release.cluster.account_token(release.namespace, "ballast")) as ballast:
        eventually("its rights are known", lambda: ballast.raw("GET", "/api/v1/pods").status_code == 200)
        assert ballast.raw("DELETE", path).status_code == 403
        assert ballast.raw("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, kind=MERGE).status_code == 403
        answer = ballast.raw("POST", f"{path}/eviction", eviction)
        assert answer.status_code == (201 if mode == "on" else 403), answer.text


@pytest.mark.parametrize("release", ["4"], indirect=True)
def test_eviction_in_dry_run_reads_what_it_needs(release: Release) -> None:
    begun = release.cluster.audit.here()
    release.install_with(OTHERS_OFF | {"eviction": {"mode": "dry-run", "interval": "2s"}})
    [leader, _] = release.pods()
    with release.daemon(leader) as daemon:
        eventually("it plans", lambda: "rebalance" in daemon.log.read_text())
    calls = release.cluster.audit.calls(user=release.user("ballast"), since=begun)
    assert not forbidden(calls)
    assert writes(calls) <= release.granted_writes("ballast") == KEEPING


@pytest.mark.parametrize("release", ["4"], indirect=True)
def test_eviction_has_the_rights_to_move_pods(release: Release, shop: str) -> None:
    api, begun = release.cluster.api, release.cluster.audit.here()
    eager = {"min_pod_age": 0, "min_node_age": 0, "quiet_after_scale": 0, "confirmations": 1, "limit_namespace": 0}
    release.install_with(OTHERS_OFF | {"eviction": {"mode": "on", "interval": "2s", "planners": ["relieve"], **eager}})
    crowd = f"/api/v1/namespaces/{shop}/pods"
    for each in eventually("the pods are there", lambda: _twelve(api.items(crowd))):
        target = {"apiVersion": "v1", "kind": "Node", "name": "busy"}
        api.post(f"{crowd}/{each}/binding", {"metadata": {"name": each}, "target": target})
    eventually("they run", lambda: {each["status"]["phase"] for each in api.items(crowd)} == {"Running"})
    [leader, _] = release.pods()
    me = release.user("ballast")

    def evicted() -> bool:
        calls = release.cluster.audit.calls(user=me, since=begun)
        return any(call.resource == "pods/eviction" and call.code == 201 for call in calls)

    with release.daemon(leader):
        eventually("a pod is evicted", evicted)
        [one, *_] = eventually("the API tells of it", lambda: release.answer("/api/v1/evictions")["recent"])
        assert (one["from"], one["kind"], one["why"] != "") == ("busy", "relieve", True)
        jsonschema.validate(one, {"$ref": "#/components/schemas/Eviction", "components": DOCUMENT["components"]})
        acting = {("create", "pods/eviction"), ("create", "events"), ("create", "pods")}
        eventually("Events are sent", lambda: acting <= writes(release.cluster.audit.calls(user=me, since=begun)))
    calls = release.cluster.audit.calls(user=me, since=begun)
    assert not forbidden(calls)
    assert writes(calls) - KEEPING == acting
    assert all("dryRun=All" in call.uri for call in calls if (call.verb, call.resource) == ("create", "pods"))
    assert release.granted_writes("ballast") == KEEPING | acting


def _twelve(pods: list[dict[str, Any]]) -> list[str]:
    return [each["metadata"]["name"] for each in pods] if len(pods) == 12 else []
