"""The real metrics-server behind the API server's aggregation, asked by the daemon and by doctor."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from ballast_lab.harness.api import Json
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.machines import Machines
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.process import Process, free_port
from ballast_lab.harness.prometheus import prometheus
from ballast_lab.harness.waiting import eventually
from tests.worlds.http_handler import AnsweringHandler

LOADS = {f"127.0.0.{number}": 0.1 * number for number in range(2, 8)}
"""Of the nodes by address; `node` gives each 8 cores and 32 GiB."""
NAMES = {address: f"n{address[-1]}" for address in LOADS}
TRUTH = {NAMES[address]: load for address, load in LOADS.items()}
CACHE = dict.fromkeys(TRUTH, 0.0)
"""Active page cache by node, as a share of its memory: a working set holds it."""
METRICS = "/apis/metrics.k8s.io/v1beta1/nodes"
SLOW = {
    **FAST,
    "BALLAST_WINDOWS__LENGTHS": "40s",
    "BALLAST_WINDOWS__MAX_AGE": "35s",
    "BALLAST_WINDOWS__MIN_SAMPLES": "2",
    "BALLAST_WINDOWS__MIN_COVERAGE": "0.2",
    "BALLAST_METRICS__NODES": "all",
}
"""metrics-server asks the kubelets every 10 s at most."""


class Kubelets(AnsweringHandler):
    """Their resource metrics, told apart by the address that was called."""

    def do_GET(self) -> None:
        address, now = self.connection.getsockname()[0], time.time()
        load, held = LOADS[address], LOADS[address] + CACHE[NAMES[address]]
        at = int(now * 1000)
        self.exposition(
            f"# TYPE node_cpu_usage_seconds_total counter\nnode_cpu_usage_seconds_total {load * 8 * now} {at}\n"
            f"# TYPE node_memory_working_set_bytes gauge\nnode_memory_working_set_bytes {held * 32 * 2**30} {at}\n"
        )


@contextmanager
def kubelets() -> Iterator[int]:
    """The port at which each address of LOADS has a kubelet."""
    server = ThreadingHTTPServer(("", 0), Kubelets)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def served(cluster: ControlPlane, tmp_path: Path) -> Iterator[Process]:
    """metrics-server, which the API server asks for metrics.k8s.io; every node has its metrics."""
    add_nodes(cluster.api, [node(name, address=address) for address, name in NAMES.items()])
    port = free_port()
    for path, body in _objects(port).items():
        cluster.api.post(path, body)
    with kubelets() as kubelet:
        process = _start(cluster, tmp_path, port, kubelet)
        try:
            eventually("metrics of all nodes", lambda: len(cluster.api.items(METRICS)) == len(LOADS), every=1)
            yield process
        finally:
            process.stop()
            for path, body in _objects(port).items():
                cluster.api.delete(f"{path}/{body['metadata']['name']}")


def _start(cluster: ControlPlane, folder: Path, port: int, kubelet: int) -> Process:
    kubeconfig = cluster.admin_kubeconfig
    command = [
        cluster.tools.metrics_server / "metrics-server",
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={cluster.certificates.server}",
        f"--tls-private-key-file={cluster.certificates.server_key}",
        f"--kubelet-port={kubelet}",
        "--deprecated-kubelet-completely-insecure",
        "--kubelet-preferred-address-types=InternalIP",
        "--metric-resolution=10s",
        "--kubelet-request-timeout=5s",
    ]
    return Process("metrics-server", command, folder / "metrics-server.log", port=port)


def _objects(port: int) -> Mapping[str, Json]:
    """What leads from the API server to that port of this machine, by path. It comes there without a name."""
    service = {"namespace": "kube-system", "name": "metrics-server", "port": port}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-of-nodes"}
    rules = [
        {"apiGroups": ["metrics.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["get"]},
    ]
    anyone = {"apiGroup": role["apiGroup"], "kind": "Group", "name": "system:unauthenticated"}
    rights = "/apis/rbac.authorization.k8s.io/v1"
    return {
        "/api/v1/namespaces/kube-system/services": {
            "metadata": {"name": "metrics-server"},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
        },
        f"{rights}/clusterroles": {"metadata": {"name": role["name"]}, "rules": rules},
        f"{rights}/clusterrolebindings": {"metadata": {"name": role["name"]}, "roleRef": role, "subjects": [anyone]},
        "/apis/apiregistration.k8s.io/v1/apiservices": {
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": {
                "group": "metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "insecureSkipTLSVerify": True,
                "service": service,
            },
        },
    }


def test_metrics_server_stands_in_for_prometheus_and_is_asked_alone(
    cluster: ControlPlane, served: Process, tmp_path: Path
) -> None:
    with Machines(TRUTH) as machines, prometheus(cluster.tools, tmp_path, machines.targets()) as server:
        for name, load in TRUTH.items():
            machines[name].cpu = machines[name].memory = load
        url = {"BALLAST_PROMETHEUS__URL": server.url}
        with Daemon(cluster, "both", cluster.admin_kubeconfig, {**SLOW, **url}) as daemon:
            _shown(daemon, "prometheus")
            assert _doctor(cluster, url) == {"metrics-server": "ok", "sources-disagree": "ok"}
            server.process.kill()
            eventually("all are known by metrics-server", partial(_shows, daemon, "metrics-server"), every=0.5)
            assert "cpu, memory from the fallback source" in daemon.condition("FallbackInUse")
            server.process.start()
            _shown(daemon, "prometheus")
            assert not daemon.condition("FallbackInUse")
    alone = {"BALLAST_TELEMETRY__SOURCE": "metrics-server"}
    with Daemon(cluster, "alone", cluster.admin_kubeconfig, {**SLOW, **alone}) as daemon:
        eventually("all are known by metrics-server alone", partial(_shows, daemon, "metrics-server"), every=0.5)
        served.stop()
        missing = eventually("its absence is told", lambda: daemon.condition("TelemetryDegraded"))
        assert "metrics-server does not answer" in missing


def test_page_cache_disputes_no_node_and_a_wrong_exporter_is_found(
    cluster: ControlPlane, served: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, cache in {"n2": 0.6, "n4": 0.45}.items():
        monkeypatch.setitem(CACHE, name, cache)
    with Machines(TRUTH) as machines, prometheus(cluster.tools, tmp_path, machines.targets()) as server:
        for name, load in TRUTH.items():
            machines[name].cpu = machines[name].memory = load
            machines[name].cache = CACHE[name]
        machines["n7"].memory -= 0.21
        url = {"BALLAST_PROMETHEUS__URL": server.url}
        with Daemon(cluster, "cached", cluster.admin_kubeconfig, {**SLOW, **url}) as daemon:
            eventually("the wrong exporter is found", lambda: _disputed(daemon) == {"n7"}, every=0.5)
            found = daemon.get("/api/v1/nodes").json()["time"]
            # While a node differs each reading is compared: ten more of them.
            eventually("ten readings", lambda: daemon.get("/api/v1/nodes").json()["time"] >= found + 10, every=0.5)
            assert _disputed(daemon) == {"n7"}
            loads = {node["name"]: node["load"]["memory"] for node in daemon.get("/api/v1/nodes").json()["nodes"]}
            assert {name: loads[name]["mean"] for name in CACHE if name != "n7"} == pytest.approx(
                {name: TRUTH[name] for name in CACHE if name != "n7"}, abs=0.03
            )


def _disputed(daemon: Daemon) -> set[str]:
    nodes = daemon.get("/api/v1/nodes").json()["nodes"]
    return {node["name"] for node in nodes if node["state"] == "disputed"}


def _shown(daemon: Daemon, source: str) -> None:
    eventually(f"all nodes are known by {source}", partial(_shows, daemon, source), every=0.5)


def _shows(daemon: Daemon, source: str) -> bool:
    """Whether every node is known by this source with its true load."""
    loads = {
        resource: {
            of["node"]: value
            for name, of, value in daemon.samples()
            if name == "ballast_node_load_mean" and of["resource"] == resource
        }
        for resource in ("cpu", "memory")
    }
    sources = set(daemon.get("/api/v1/status").json()["snapshot"]["sources"].values())
    return sources == {source} and all(means == pytest.approx(TRUTH, abs=0.01) for means in loads.values())


def _doctor(cluster: ControlPlane, settings: Mapping[str, str]) -> dict[str, str]:
    """The status by check of what doctor says of metrics-server."""
    environment = {"PATH": os.environ["PATH"], "BALLAST_CLUSTER__KUBECONFIG": str(cluster.admin_kubeconfig), **settings}
    command = [sys.executable, "-m", "ballast", "doctor", "--only", "metrics-server,sources-disagree", "-o", "json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {finding["check"]: finding["status"] for finding in json.loads(done.stdout)["findings"]}
