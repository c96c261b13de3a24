"""What moves pods beside relief and balance, on the real control plane: replacement first, emptied nodes, repair."""

from pathlib import Path

from ballast_lab.harness.acting import HPAS, NODES, acting
from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import Daemon
from ballast_lab.harness.evicting import DEPLOYMENTS, deployment, is_ready, running
from ballast_lab.harness.objects import PODS, set_labels
from ballast_lab.harness.waiting import eventually

EMPTY = "ballast.dev/empty"


def pods_of(cluster: ControlPlane, app: str) -> list[Json]:
    return cluster.api.items(f"{PODS}?labelSelector=app={app}")


def on_first_node(api: Api, app: str) -> bool:
    """Whether its one pod runs there. If not, the scheduler had not seen yet that the others are cordoned."""
    [pod] = running(api, app, 1)
    if pod["spec"]["nodeName"] == "n0":
        return True
    api.delete(f"{PODS}/{pod['metadata']['name']}")
    return False


def test_a_single_replica_moves_without_a_gap_and_what_others_scale_is_left_alone(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    api, since = cluster.api, cluster.audit.here()
    with acting(cluster, tmp_path, "relieve", surge=True) as (daemon, machines, installed):
        for name in NODES[1:]:
            api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        names = ("web", "scaled", "declared")
        for name in names:
            api.post(DEPLOYMENTS, deployment(name, 1, memory="2Gi"))
            eventually(f"{name} runs on n0", lambda app=name: on_first_node(api, app))
        api.patch(f"{DEPLOYMENTS}/declared", {"metadata": {"labels": {"argocd.argoproj.io/instance": "shop"}}})
        api.post(HPAS, _autoscaler("scaled"))
        for name in NODES[1:]:
            api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
        [before] = pods_of(cluster, "web")
        assert before["spec"]["nodeName"] == "n0"
        generation = api.get(f"{DEPLOYMENTS}/web")["metadata"]["generation"]
        machines["n0"].memory = 0.95
        gaps = []

        def moved() -> bool:
            found = [each for each in pods_of(cluster, "web") if is_ready(each)]
            if not found:
                gaps.append(api.get(f"{DEPLOYMENTS}/web")["status"])
            return [each["metadata"]["uid"] != before["metadata"]["uid"] for each in found] == [True]

        eventually("web has moved", moved, every=0.1)
        assert gaps == []
        [after] = running(api, "web", 1)
        assert after["spec"]["nodeName"] != "n0"
        web = api.get(f"{DEPLOYMENTS}/web")
        assert web["spec"]["replicas"] == 1
        assert web["metadata"]["generation"] == generation + 2
        eventually("it is seen as Ready", lambda: _status(daemon, "web") == "ready", every=0.5)
        machines["n0"].memory = 0.3
        calls = cluster.audit.calls(user=installed.user, since=since)
        patches = [call for call in calls if call.resource == "deployments/scale" and call.verb == "patch"]
        # The installed Deployment of Ballast itself stands on n0 too; this daemon runs beside it and does not know it.
        scaled = {call.name for call in patches if "/namespaces/default/" in call.uri}
        assert scaled == {"web"}
        assert not [call for call in calls if call.resource == "pods/eviction"]
        state = api.get(f"/api/v1/namespaces/{installed.namespace}/configmaps/ballast-state")["data"]
        assert "eviction.surge" not in state
        assert [api.get(f"{DEPLOYMENTS}/{name}")["spec"]["replicas"] for name in names] == [1, 1, 1]


def _autoscaler(name: str) -> Json:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": 1,
            "maxReplicas": 3,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                }
            ],
        },
    }


def _status(daemon: Daemon, app: str) -> str:
    rows = daemon.get("/api/v1/evictions").json()["recent"]
    return next((row["status"] for row in rows if row["pod"].startswith(f"default/{app}-")), "")


def test_a_node_is_emptied_handed_over_and_given_back(cluster: ControlPlane, tmp_path: Path) -> None:
    api, since = cluster.api, cluster.audit.here()
    with acting(cluster, tmp_path, "consolidate") as (_, _machines, installed):
        api.post(DEPLOYMENTS, deployment("web", 4, memory="2Gi", cpu="1"))
        running(api, "web", 4)
        seen: list[tuple[bool, bool]] = []

        def empty() -> str:
            for each in api.items("/api/v1/nodes"):
                taint, label = _marks(each)
                if taint or label:
                    seen.append((taint, label))
                if taint and label:
                    return str(each["metadata"]["name"])
            return ""

        name = eventually("a node is handed over", empty, every=0.1)
        assert seen[0] == (True, False)
        left = [each for each in running(api, "web", 4) if each["spec"]["nodeName"] == name]
        assert left == []
        others = [each for each in api.items("/api/v1/nodes") if each["metadata"]["name"] != name]
        assert [_marks(each) for each in others] == [(False, False)] * 3
        api.post(DEPLOYMENTS, deployment("more", 3, memory="25Gi", cpu="10"))
        running(api, "more", 3)
        api.patch(f"{DEPLOYMENTS}/more", {"spec": {"replicas": 4}})
        running(api, "more", 4)
        eventually("the node is given back", lambda: not _marked(cluster), every=0.5)
        evicted = [
            call for call in cluster.audit.calls(user=installed.user, since=since) if call.resource == "pods/eviction"
        ]
        assert {call.code for call in evicted} <= {201}


def _marks(found: Json) -> tuple[bool, bool]:
    """(taint, label)"""
    taints = {(each["key"], each["effect"]) for each in found["spec"].get("taints") or ()}
    return (EMPTY, "PreferNoSchedule") in taints, found["metadata"]["labels"].get(EMPTY) == "true"


def _marked(cluster: ControlPlane) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.api.items("/api/v1/nodes") if any(_marks(each))]


def test_a_pod_that_is_not_where_it_asks_to_be_moves_there(cluster: ControlPlane, tmp_path: Path) -> None:
    api, since = cluster.api, cluster.audit.here()
    asked = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
            }
        }
    }
    with acting(cluster, tmp_path, "repair") as (_, _machines, installed):
        api.post(DEPLOYMENTS, deployment("web", 4, affinity=asked))
        api.post(DEPLOYMENTS, deployment("calm", 4))
        calm = {each["metadata"]["uid"] for each in running(api, "calm", 4)}
        name = running(api, "web", 4)[0]["spec"]["nodeName"]
        wrong = {each["metadata"]["name"] for each in pods_of(cluster, "web") if each["spec"]["nodeName"] == name}
        set_labels(api, name, {"disk": "hdd"})

        def mended() -> bool:
            return name not in {each["spec"].get("nodeName") for each in pods_of(cluster, "web")}

        eventually("no pod is where it does not ask to be", mended, every=0.5)
        running(api, "web", 4)
        assert {each["metadata"]["uid"] for each in running(api, "calm", 4)} == calm
        evicted = [
            call for call in cluster.audit.calls(user=installed.user, since=since) if call.resource == "pods/eviction"
        ]
        assert [call.code for call in evicted] == [201] * len(wrong)
        assert {call.name for call in evicted} == wrong
