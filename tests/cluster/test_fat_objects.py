"""Objects as large as the API server accepts: both replicas live in 512 MiB, serve others, and name the namespace."""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.cluster.harness.api import Refused
from tests.cluster.harness.chart import Installed
from tests.cluster.harness.control_plane import ControlPlane
from tests.cluster.harness.daemon import FAST, Daemon
from tests.cluster.harness.machines import Machines
from tests.cluster.harness.objects import add_nodes, node
from tests.cluster.harness.prometheus import prometheus
from tests.cluster.harness.waiting import eventually
from tests.unit.cluster.fat import SHAPES, affinity, labels

TENANT = "tenant"
LIMIT = 512
NODES = {"busy": 0.7, "idle": 0.1}


def accepted(cluster: ControlPlane, prefix: str, pods: Iterable[dict[str, Any]]) -> int:
    """How many of the pods the API server takes; they wait behind a gate, so that nobody runs them."""

    def post(pod: dict[str, Any]) -> bool:
        pod["metadata"]["name"] = f"{prefix}-{pod['metadata'].pop('name')}"
        for name in ("uid",):
            pod["metadata"].pop(name, None)
        spec = pod["spec"]
        spec.pop("nodeName", None)
        spec.setdefault("schedulingGates", [{"name": "example.com/never"}])
        for number, container in enumerate(spec["containers"]):
            spec["containers"][number] = {**container, "name": f"c{number}", "image": "none"}
        try:
            cluster.api.post(f"/api/v1/namespaces/{TENANT}/pods", pod)
        except Refused:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(post, pods))


def peak(daemon: Daemon) -> float:
    """MiB resident at most so far."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{daemon.pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def honest(daemon: Daemon) -> dict[str, int]:
    body = {
        "Pod": {
            "metadata": {"name": "web", "namespace": "default", "uid": "honest"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
        },
        "NodeNames": list(NODES),
    }
    answer = requests.post(f"{daemon.url}/scheduler/prioritize", json=body, timeout=30)
    assert answer.status_code == 200
    assert "x-ballast-neutral" not in answer.headers, answer.headers
    return {each["Host"]: each["Score"] for each in answer.json()}


@pytest.mark.timeout(480)
def test_fat_objects_of_one_namespace_take_nobody_down(
    cluster: ControlPlane, installed: Installed, tmp_path: Path
) -> None:
    add_nodes(cluster.api, [node(name) for name in NODES])
    cluster.account_token(TENANT, "default")
    try:
        with ExitStack() as stack:
            machines = stack.enter_context(Machines(NODES))
            for name, load in NODES.items():
                machines[name].cpu = machines[name].memory = load
            server = stack.enter_context(prometheus(cluster.tools, tmp_path, machines.targets()))
            own = {"BALLAST_PROMETHEUS__URL": server.url, "BALLAST_EVICTION__MODE": "dry-run"}
            own["POD_NAMESPACE"] = installed.namespace
            kubeconfig = cluster.account_kubeconfig(installed.namespace, installed.account)
            given = {**installed.settings, **FAST, **own}

            def start(name: str) -> Daemon:
                return stack.enter_context(Daemon(cluster, name, kubeconfig, {**given, "POD_NAME": name}))

            pair = [start("first"), start("second")]
            for daemon in pair:
                eventually("it decides by load", lambda daemon=daemon: honest(daemon), within=60)
            count = accepted(cluster, "a", (affinity(number, 1_100_000) for number in range(150)))
            assert count == 150
            wide = accepted(cluster, "l", (labels(number, 1_200_000) for number in range(300)))
            kinds = {name: accepted(cluster, name, [shape(9_000, 1_000_000)]) for name, shape in SHAPES.items()}
            print(f"{count} of 1.1 MB, {wide} of 1.2 MB, {kinds}")
            assert wide == 300
            assert sum(kinds.values()) >= 6, kinds
            pair.append(start("late"))
            for daemon in pair:
                eventually("it names the namespace", lambda daemon=daemon: named(daemon), within=90, every=1)
                assert honest(daemon)["idle"] > honest(daemon)["busy"]
            sizes = [peak(daemon) for daemon in pair]
            print(f"MiB at most: {', '.join(f'{size:.0f}' for size in sizes)}")
            assert max(sizes) <= LIMIT
            assert [daemon.leads() for daemon in pair].count(True) == 1
            assert [daemon.code for daemon in pair] == [None] * 3
    finally:
        cluster.api.delete(f"/api/v1/namespaces/{TENANT}/pods", {"gracePeriodSeconds": 0})


def named(daemon: Daemon) -> str:
    said = daemon.get("/readyz?verbose").text
    [line] = [line for line in said.splitlines() if line.startswith("condition ObjectsTooLarge")]
    assert f"namespace {TENANT}" in line, line
    return line
