"""Objects as large as the API server takes them, from one namespace: both replicas live on and serve the others."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import PODS, add_nodes, node, pod
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually
from tests.unit.cluster import fat

TENANT = "/namespaces/tenant"
MANY = 40
SIZE = 1_100_000
"""Bytes of JSON. With what managed fields add to it, etcd takes hardly more."""
MEMORY = 512
"""MiB that a replica may take."""
NODES = ("n0", "n1", "n2")


@pytest.fixture
def plane(tools: Tools, tmp_path: Path) -> Iterator[ControlPlane]:
    """A control plane of its own: nobody else shall carry these objects."""
    plane = ControlPlane(tools, tmp_path)
    yield plane
    plane.stop()


@pytest.mark.nightly
def test_a_tenants_fat_objects_take_nothing_from_the_others(plane: ControlPlane, tmp_path: Path) -> None:
    api = plane.api
    add_nodes(api, [node(name, cpu="64", memory="256Gi") for name in NODES])
    honest = [api.post(PODS, pod(f"honest-{name}", nodeName=name))["metadata"]["name"] for name in NODES]
    api.post("/api/v1/namespaces", {"metadata": {"name": "tenant"}})
    for number in range(MANY):
        api.post(f"/api/v1{TENANT}/pods", fat_pod(number))
    for path, body in of_each_kind():
        api.post(path, body)
    with ExitStack() as stack:
        machines = stack.enter_context(Machines(NODES))
        server = stack.enter_context(prometheus(plane.tools, tmp_path, machines.targets()))
        settings = {
            **FAST,
            "BALLAST_PROMETHEUS__URL": server.url,
            "BALLAST_EVICTION__MODE": "dry-run",
            "BALLAST_LEASE__NAMESPACE": "default",
        }
        first, second = (
            stack.enter_context(Daemon(plane, name, plane.admin_kubeconfig, settings)) for name in ("one", "two")
        )
        for leader in (first, second):
            eventually("it leads", lambda of=leader: "leading" in of.log.read_text())
            eventually("all nodes have labels", lambda of=leader: current(of))
            for name in honest:
                assert leader.get(f"/api/v1/pods/default/{name}/scores").status_code == 200
            eventually("the namespace is named", lambda of=leader: "tenant" in of.condition("ObjectsTooLarge"))
            for each in (first, second) if leader is first else (second,):
                assert each.get("/livez").status_code == 200
                assert peak(each) < MEMORY, f"{each.name} took {peak(each)} MiB"
            if leader is first:
                first.stop()


def fat_pod(number: int) -> Json:
    body = fat.affinity(number, SIZE)
    body["spec"]["containers"][0]["image"] = "none"
    return body


def of_each_kind() -> Iterator[tuple[str, Json]]:
    """(collection, object) of what else Ballast watches in a namespace."""
    labels = {"app": "fat"}
    template = {"metadata": {"labels": labels}, "spec": {**fat_pod(0)["spec"], "nodeName": ""}}
    workload = {"selector": {"matchLabels": labels}, "template": template}
    apps = f"/apis/apps/v1{TENANT}"
    for kind in ("deployments", "replicasets", "statefulsets"):
        yield f"{apps}/{kind}", {"metadata": {"name": "fat"}, "spec": {**workload, "replicas": 0}}
    yield f"{apps}/daemonsets", {"metadata": {"name": "fat"}, "spec": workload}
    values: dict[str, Any] = {"key": "app", "operator": "In", "values": fat.words(SIZE, 58)}
    budget = {"selector": {"matchExpressions": [values]}, "maxUnavailable": 1}
    yield f"/apis/policy/v1{TENANT}/poddisruptionbudgets", {"metadata": {"name": "fat"}, "spec": budget}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "fat"}
    annotations = {"ballast.dev/exclude": "x" * 250_000}
    yield (
        f"/apis/autoscaling/v2{TENANT}/horizontalpodautoscalers",
        {"metadata": {"name": "fat", "annotations": annotations}, "spec": {"scaleTargetRef": target, "maxReplicas": 2}},
    )
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    yield (
        f"/api/v1{TENANT}/persistentvolumeclaims",
        {"metadata": {"name": "fat", "annotations": annotations}, "spec": claim},
    )


def current(daemon: Daemon) -> bool:
    return f"labels current on {len(NODES)} of {len(NODES)} nodes" in daemon.log.read_text()


def peak(daemon: Daemon) -> int:
    """MiB."""
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]
