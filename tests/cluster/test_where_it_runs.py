"""What a real control plane tells of its nodes decides where pods are moved, and each reason is counted by name."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.evicting import clear, deployment
from ballast_lab.harness.objects import add_nodes, node, sweep
from ballast_lab.harness.scheduler import STOCK, scheduler
from ballast_lab.harness.waiting import eventually
from tests.worlds.printed import watcher

APPS = "/apis/apps/v1/namespaces"
KINDS = (
    "/api/v1/nodes",
    "/api/v1/pods",
    "/api/v1/namespaces",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/apps/v1/statefulsets",
    "/apis/apps/v1/daemonsets",
    "/apis/policy/v1/poddisruptionbudgets",
)
LATER = 900
"""Seconds after the last object was made at which the plan is made."""


def patch(api: Api, name: str, **status: Any) -> None:
    api.patch(f"/api/v1/nodes/{name}/status", {"status": status})


def suffer(api: Api) -> None:
    """Each node beside `home` has something else."""
    patch(api, "windows", nodeInfo={"operatingSystem": "windows", "architecture": "amd64"})
    patch(api, "old", nodeInfo={"kubeletVersion": "v1.0.0"})
    conditions = api.get("/api/v1/nodes/broken")["status"]["conditions"]
    patch(api, "broken", conditions=[*conditions, {"type": "KernelDeadlock", "status": "True"}])
    notes = {"metadata": {"annotations": {"example.org/reboot-in-progress": "true"}}}
    api.patch("/api/v1/nodes/restarts", notes)
    taint = {"key": "example.org/spot", "value": "x", "effect": "PreferNoSchedule"}
    api.patch("/api/v1/nodes/leaves", {"spec": {"taints": [taint]}})
    api.patch("/api/v1/nodes/oldest", {"spec": {"unschedulable": True}})
    patch(api, "oldest", nodeInfo={"kubeletVersion": "v1.0.0"})


def hang(api: Api) -> None:
    """Two tenants' pods on `hole` are not Ready any more, and have been so from the start."""
    unready = [{"type": kind, "status": "False"} for kind in ("Ready", "ContainersReady")]
    for each in api.items("/api/v1/pods"):
        if each["spec"].get("nodeName") == "hole":
            meta = each["metadata"]
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status"
            api.patch(path, {"status": {"phase": "Pending", "conditions": unready}})


def on(name: str, app: str) -> Json:
    """A Deployment that prefers one node, as kube-scheduler then places it."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}
    liked = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}}
    return deployment(app, 2, cpu="2", memory="1Gi", affinity=liked)


@pytest.fixture
def asked(cluster: ControlPlane, tmp_path: Path) -> Callable[..., Json]:
    """What a command says of the cluster as it is, with these loads in percent."""

    def run(*words: str, **loads: int) -> Json:
        items = [{**each, "kind": kind} for path in KINDS for kind, each in listed(cluster.api, path)]
        files = {"c": {"kind": "List", "items": items}, "m": {**watcher(loads), "timestamp": time.time() + LATER}}
        for name, content in files.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(content))
        given = ["--cluster", str(tmp_path / "c.json"), "--metrics", str(tmp_path / "m.json"), "-o", "json"]
        command = [sys.executable, "-m", "ballast", *words, *given]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        answer: Json = json.loads(done.stdout)
        return answer

    return run


def listed(api: Api, path: str) -> list[tuple[str, Json]]:
    answer = api.get(path)
    return [(str(answer["kind"]).removesuffix("List"), each) for each in answer["items"]]


@pytest.mark.timeout(300)
def test_pods_stay_where_no_other_node_can_run_them(cluster: ControlPlane, asked: Callable[..., Json]) -> None:
    api = cluster.api
    clear(api)
    names = ["home", "windows", "old", "broken", "restarts", "leaves", "hole", "oldest"]
    add_nodes(api, [node(name) for name in names])
    for name in names:
        patch(api, name, nodeInfo={"operatingSystem": "linux", "architecture": "amd64", "kubeletVersion": "v1.2.0"})
    for namespace in ("one", "two"):
        api.raw("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    try:
        with scheduler(cluster, STOCK):
            api.post(f"{APPS}/default/deployments", on("home", "web"))
            for namespace in ("one", "two"):
                api.post(f"{APPS}/{namespace}/deployments", on("hole", "app"))
            ready = lambda: sum(each["status"].get("phase") == "Running" for each in api.items("/api/v1/pods"))  # noqa: E731
            eventually("all run", lambda: ready() == 6, every=0.2)
        suffer(api)
        hang(api)
        loads = dict.fromkeys(names, 20) | {"home": 90}
        answer = asked("plan", "relieve", **loads)
        assert (answer["steps"], answer["refused"].get("node-fit")) == ([], 2), answer
        assert "nothing starts on hole: 4 pods of 2 workloads in 2 namespaces" in answer["note"]
        pod = next(each for each in api.items("/api/v1/namespaces/default/pods"))
        told = asked("explain", f"default/{pod['metadata']['name']}", **loads)["targets"]["why_not"]
        assert told == {
            "a standing sign": 3,
            "another system or architecture": 1,
            "older version during an upgrade": 1,
            "nothing starts there": 1,
            "leaving": 1,
        }
        add_nodes(api, [node("fine")])
        info = {"operatingSystem": "linux", "architecture": "amd64", "kubeletVersion": "v1.2.0"}
        patch(api, "fine", nodeInfo=info)
        assert {step["to"] for step in asked("plan", "relieve", **loads, fine=20)["steps"]} == {"fine"}
    finally:
        for namespace in ("one", "two"):
            api.raw("DELETE", f"{APPS}/{namespace}/deployments", {"propagationPolicy": "Background"})
            api.raw("DELETE", f"/api/v1/namespaces/{namespace}/pods", {"gracePeriodSeconds": 0})
        clear(api)
        sweep(api)
