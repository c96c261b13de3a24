"""Evictions, budgets, replicas and scheduling."""

from collections.abc import Callable
from typing import Any

import pytest

from ballast_lab.simulator import EmbeddedCluster
from lab_tests.simulator.client import Client
from tests.worlds.clock import FakeClock

DEFAULT = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
Eventually = Callable[[Callable[[], object]], None]


def deployment(name: str, replicas: int, cpu: str = "10m", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": "image:1", "resources": {"requests": {"cpu": cpu, "memory": "1Mi"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def budget(name: str, app: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": {"app": app}}, **spec}}


def pods(client: Client, app: str) -> list[dict[str, Any]]:
    return list(client.get(f"{DEFAULT}/pods", labelSelector=f"app={app}").json["items"])


def running(client: Client, app: str) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in pods(client, app)
        if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]


def evict(client: Client, pod: str, uid: str = "", **options: Any) -> Any:
    if uid:
        options["preconditions"] = {"uid": uid}
    return client.post(f"{DEFAULT}/pods/{pod}/eviction", {"metadata": {"name": pod}, "deleteOptions": options})


def deploy(client: Client, eventually: Eventually, name: str, replicas: int, **more: Any) -> None:
    assert client.post(DEPLOYMENTS, deployment(name, replicas, **more)).code == 201
    eventually(lambda: len(running(client, name)) == replicas)


def test_pods_of_a_deployment_are_made_bound_and_run(client: Client, eventually: Eventually) -> None:
    deploy(client, eventually, "web", 3)
    pod = pods(client, "web")[0]
    assert pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    conditions = {item["type"]: item["status"] for item in pod["status"]["conditions"]}
    assert conditions["PodScheduled"] == conditions["Ready"] == "True"
    eventually(lambda: client.get(f"{DEPLOYMENTS}/web").json["status"].get("readyReplicas") == 3)


def test_scaling_down_and_deleting_removes_pods(client: Client, eventually: Eventually) -> None:
    deploy(client, eventually, "web", 4)
    scale = client.get(f"{DEPLOYMENTS}/web/scale").json
    assert (scale["kind"], scale["spec"]["replicas"], scale["status"]["selector"]) == ("Scale", 4, "app=web")
    assert client.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 1}}).json["spec"]["replicas"] == 1
    assert client.put(f"{DEPLOYMENTS}/web/scale", {**scale, "spec": {"replicas": 2}}).code == 409
    assert client.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": -1}}).code == 422
    eventually(lambda: len(pods(client, "web")) == 1)
    client.delete(f"{DEPLOYMENTS}/web")
    eventually(lambda: not pods(client, "web"))


def test_an_evicted_pod_is_replaced(client: Client, eventually: Eventually) -> None:
    deploy(client, eventually, "web", 2)
    victim = pods(client, "web")[0]["metadata"]
    assert evict(client, victim["name"], victim["uid"]).code == 201
    eventually(lambda: len(running(client, "web")) == 2 and victim["name"] not in running(client, "web"))


def test_pods_that_start_slowly_become_ready_later(
    cluster: EmbeddedCluster, clock: FakeClock, client: Client, eventually: Eventually
) -> None:
    def ready() -> object:
        return client.get(f"{DEPLOYMENTS}/web").json["status"].get("readyReplicas", 0)

    cluster.slow_start(30.0)
    deploy(client, eventually, "web", 2)
    clock.advance(29.0)
    cluster.make_ready()
    assert not ready()
    clock.advance(1.0)
    cluster.make_ready()
    eventually(lambda: ready() == 2)


def test_a_budget_refuses_with_its_name_and_no_time_to_retry(client: Client, eventually: Eventually) -> None:
    deploy(client, eventually, "web", 2)
    client.post(BUDGETS, budget("most", "web", minAvailable=2))
    eventually(lambda: client.get(f"{BUDGETS}/most").json["status"]["currentHealthy"] == 2)
    pod = running(client, "web")[0]
    for refused in (evict(client, pod), evict(client, pod, uid="another")):
        assert refused.code == 429
        assert "Retry-After" not in refused.headers
        (cause,) = refused.json["details"]["causes"]
        assert cause["reason"] == "DisruptionBudget"
        assert cause["message"] == "The disruption budget most needs 2 healthy pods and has 2 currently"
    assert len(running(client, "web")) == 2


def test_a_budget_allows_only_so_many_at_once(client: Client, eventually: Eventually) -> None:
    deploy(client, eventually, "web", 4)
    client.post(BUDGETS, budget("one", "web", maxUnavailable="25%"))
    eventually(lambda: client.get(f"{BUDGETS}/one").json["status"]["disruptionsAllowed"] == 1)
    first, second = running(client, "web")[:2]
    assert evict(client, first, dryRun=["All"]).code == 201
    assert evict(client, first).code == 201
    assert evict(client, second).code == 429
    eventually(lambda: client.get(f"{BUDGETS}/one").json["status"]["disruptionsAllowed"] == 1)


def test_two_budgets_on_one_pod_are_an_error(client: Client, eventually: Eventually) -> None:
    deploy(client, eventually, "web", 2)
    for name in ("one", "two"):
        client.post(BUDGETS, budget(name, "web", maxUnavailable=1))
    answer = evict(client, running(client, "web")[0])
    assert answer.code == 500
    assert "more than one PodDisruptionBudget" in answer.json["message"]


def test_an_eviction_of_another_pod_than_meant_is_a_conflict(client: Client, eventually: Eventually) -> None:
    deploy(client, eventually, "web", 1)
    answer = evict(client, running(client, "web")[0], uid="another")
    assert answer.code == 409
    assert "UID in the precondition" in answer.json["message"]
    assert evict(client, "nobody").code == 404


def test_labels_decide_among_nodes_with_room(client: Client, eventually: Eventually) -> None:
    for row in range(6):
        label = {"ballast.dev/score": "10" if row == 4 else "0"}
        client.patch(f"/api/v1/nodes/node-{row:03d}", {"metadata": {"labels": label}})
    deploy(client, eventually, "web", 3)
    assert {pod["spec"]["nodeName"] for pod in pods(client, "web")} == {"node-004"}


@pytest.mark.parametrize(
    "change", [{"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}], ids=["cordoned", "tainted"]
)
def test_nodes_that_take_no_pods_get_none(client: Client, eventually: Eventually, change: Any) -> None:
    for row in range(5):
        client.patch(f"/api/v1/nodes/node-{row:03d}", {"spec": change})
    deploy(client, eventually, "web", 3)
    assert {pod["spec"]["nodeName"] for pod in pods(client, "web")} == {"node-005"}


def test_tolerations_and_selectors_of_pods_count(client: Client, eventually: Eventually) -> None:
    for row in range(6):
        client.patch(f"/api/v1/nodes/node-{row:03d}", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    client.patch("/api/v1/nodes/node-002", {"metadata": {"labels": {"disk": "fast"}}})
    toleration = {"key": "a", "operator": "Exists"}
    deploy(client, eventually, "web", 2, tolerations=[toleration], nodeSelector={"disk": "fast"})
    assert {pod["spec"]["nodeName"] for pod in pods(client, "web")} == {"node-002"}


def test_a_pod_that_fits_nowhere_waits_and_says_so(client: Client, eventually: Eventually) -> None:
    client.post(DEPLOYMENTS, deployment("huge", 1, cpu="500"))
    eventually(lambda: pods(client, "huge") and pods(client, "huge")[0]["status"].get("conditions"))
    (pod,) = pods(client, "huge")
    assert pod["status"]["phase"] == "Pending"
    assert pod["status"]["conditions"][0]["reason"] == "Unschedulable"


def test_another_scheduler_can_bind(client: Client, eventually: Eventually) -> None:
    client.post(DEPLOYMENTS, deployment("web", 1, schedulerName="mine"))
    eventually(lambda: pods(client, "web"))
    (pod,) = pods(client, "web")
    name = pod["metadata"]["name"]
    target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "node-003"}}
    assert client.post(f"{DEFAULT}/pods/{name}/binding", target).code == 201
    assert client.post(f"{DEFAULT}/pods/{name}/binding", target).code == 409
    eventually(lambda: running(client, "web") == [name])


def test_where_pods_are_put_changes_the_load(client: Client, cluster: EmbeddedCluster, eventually: Eventually) -> None:
    before = cluster.world.ratio("cpu", [cluster.world.clock.wall()])[:, 0]
    row = int(cluster.world.usage.cores.argmax())
    heavy = deployment("heavy", 2, cpu="1", nodeSelector={"kubernetes.io/hostname": f"node-{row:03d}"})
    client.post(DEPLOYMENTS, heavy)
    eventually(lambda: len(running(client, "heavy")) == 2)
    after = cluster.world.ratio("cpu", [cluster.world.clock.wall()])[:, 0]
    assert after[row] > before[row] + 0.01
    past = cluster.world.ratio("cpu", [cluster.world.start - 60])[:, 0]
    assert past.tolist() == before.tolist()


def test_a_new_template_replaces_the_pods(client: Client, eventually: Eventually) -> None:
    deploy(client, eventually, "web", 2)
    old = set(running(client, "web"))
    client.patch(f"{DEPLOYMENTS}/web", {"spec": {"template": {"metadata": {"labels": {"turn": "2"}}}}})
    eventually(lambda: len(running(client, "web")) == 2 and not old & set(running(client, "web")))


AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"


def test_an_autoscaler_keeps_replicas_within_its_bounds(client: Client, eventually: Eventually) -> None:
    deploy(client, eventually, "bounded", 5)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "bounded"}
    spec = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9}
    assert client.post(AUTOSCALERS, {"metadata": {"name": "bounded"}, "spec": spec}).code == 201
    merge = "application/merge-patch+json"
    client.patch(f"{AUTOSCALERS}/bounded", {"spec": {"maxReplicas": 3}}, merge)
    eventually(lambda: len(running(client, "bounded")) == 3)
    status = client.get(f"{AUTOSCALERS}/bounded").json["status"]
    assert (status["desiredReplicas"], "lastScaleTime" in status) == (3, True)
    client.patch(f"{DEPLOYMENTS}/bounded/scale", {"spec": {"replicas": 1}}, merge)
    eventually(lambda: len(running(client, "bounded")) == 2)
    client.patch(f"{DEPLOYMENTS}/bounded/scale", {"spec": {"replicas": 0}}, merge)
    eventually(lambda: not running(client, "bounded"))
