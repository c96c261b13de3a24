"""What it costs to read a large cluster once, and to keep it."""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing
import resource
import threading
import time
import tracemalloc
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ballast_lab.bench.rows import Row, at_most
from tests.worlds.http_handler import AnsweringHandler

NODES = 5_000
PODS = 30_000
AT = f"{PODS:,} pods + {NODES:,} nodes in the real wire format"
# What the daemon has imported by the time it lists; its memory belongs to the promise.
DAEMON = ("numpy", "apscheduler.schedulers.background", "prometheus_api_client", "ballast.serving.server")


def measure() -> list[Row]:
    """Seconds from the first request to the synced cache, resident megabytes of the reading process, bytes a pod."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=_serve, args=(theirs,))
    server.start()
    try:
        port, size = ours.recv()
        seconds, cpu, peak, steady, before = _run(context, _list, port)
        kept = _run(context, _kept, port)
        booked = _run(context, _kept_and_booked, port)
    finally:
        ours.send("stop")
        server.join()
    return [
        {
            "what": "list into the cache",
            "at": f"{AT} ({size / 1e6:.0f} MB)",
            "reach": "≤ 3 s",
            "measured": f"{seconds:.2f} s ({cpu:.2f} s CPU in the reader)",
            "verdict": at_most(seconds, 3),
        },
        {
            "what": "peak RSS while listing",
            "at": AT,
            "reach": "≤ 300 MB",
            "measured": f"{peak:.0f} MB",
            "verdict": at_most(peak, 300),
        },
        {
            "what": "steady RSS after listing",
            "at": AT,
            "reach": "≤ 250 MB",
            "measured": f"{steady:.0f} MB (imports alone: {before:.0f} MB)",
            "verdict": at_most(steady, 250),
        },
        {
            "what": "memory kept for one pod",
            "at": AT,
            "reach": "≤ 1.2 kB",
            "measured": f"{kept / 1000:.2f} kB",
            "verdict": at_most(kept, 1200),
        },
        {
            "what": "memory kept for one pod, booked for schedulers too",
            "at": f"{AT}; without labels, as publishing and the extender need none",
            "reach": "≤ 0.6 kB",
            "measured": f"{booked / 1000:.2f} kB",
            "verdict": at_most(booked, 600),
        },
    ]


def _run(context: Any, work: Callable[[Connection, int], None], port: int) -> Any:
    ours, theirs = context.Pipe()
    reader = context.Process(target=work, args=(theirs, port))
    reader.start()
    try:
        return ours.recv()
    finally:
        reader.join()


def _list(parent: Connection, port: int) -> None:
    for module in DAEMON:
        importlib.import_module(module)
    cache = _cache(port)
    before = _resident()
    started, spent = time.perf_counter(), time.process_time()
    cache.start()
    assert cache.wait_synced(120)
    seconds, cpu = time.perf_counter() - started, time.process_time() - spent
    assert (len(cache.nodes()), len(cache.pods())) == (NODES, PODS)
    gc.collect()
    steady = _resident()
    cache.stop()
    parent.send((seconds, cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000, steady, before))


def _kept_and_booked(parent: Connection, port: int) -> None:
    from ballast.base.clock import SystemClock
    from ballast.base.metrics import Metrics
    from ballast.extender.decisions import ExtenderService
    from ballast.serving.board import Board
    from ballast.settings.plain_parts import ExtenderSettings

    extender = ExtenderService(ExtenderSettings(), SystemClock(), Metrics(), Board(), lambda: 0.0)
    _kept(parent, port, extender)


def _kept(parent: Connection, port: int, extender: Any = None) -> None:
    """Bytes a pod; an `extender` books each."""
    cache = _cache(port, whole=extender is None)
    if extender is not None:
        cache.follow_pods(extender, extender.give_way)
    nodes = cache._watches.pop("nodes")
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    cache.start()
    assert cache.wait_synced(240)
    cache.stop()
    assert len(cache.pods()) == PODS
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    del nodes
    parent.send(kept / PODS)


def _cache(port: int, *, whole: bool = True) -> Any:
    from kubernetes.client import Configuration

    from ballast.base.clock import SystemClock
    from ballast.base.metrics import Metrics
    from ballast.cluster.cache import Cache
    from ballast.cluster.client import KubeApi

    metrics = Metrics()
    api = KubeApi(lambda: Configuration(host=f"http://127.0.0.1:{port}", proxy=""), metrics)
    return Cache(api, SystemClock(), metrics, pods=True, whole=whole)


def _resident() -> float:
    """Megabytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


def _serve(parent: Connection) -> None:
    items = {
        "/api/v1/nodes": [json.dumps(_node(number)).encode() for number in range(NODES)],
        "/api/v1/pods": [json.dumps(_pod(number)).encode() for number in range(PODS)],
    }

    class Handler(AnsweringHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            if "watch" in query:
                self.send_response(200)
                self.send_header("Connection", "close")
                self.end_headers()
                self.rfile.read()
                return
            all_items = items[parts.path]
            start = int(query.get("continue", ["0"])[0])
            end = start + int(query["limit"][0])
            onwards = b',"continue":"%d"' % end if end < len(all_items) else b""
            page = b",".join(all_items[start:end])
            body = b'{"metadata":{"resourceVersion":"9"%s},"items":[%s]}' % (onwards, page)
            self.answer(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    parent.send(
        (server.server_address[1], sum(map(len, items["/api/v1/nodes"])) + sum(map(len, items["/api/v1/pods"])))
    )
    parent.recv()


def _managed(manager: str, fields: Any, subresource: str = "") -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-11-20T10:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **({"subresource": subresource} if subresource else {}),
    }


def _fields(document: Any) -> Any:
    if isinstance(document, dict):
        return {".": {}, **{f"f:{key}": _fields(value) for key, value in document.items()}}
    if isinstance(document, list) and document and isinstance(document[0], dict):
        return {
            f'k:{{"name":"{item.get("name", item.get("type", number))}"}}': _fields(item)
            for number, item in enumerate(document)
        }
    return {}


def _pod(number: int) -> dict[str, Any]:
    """A pod of one of 1,500 ReplicaSets in 100 namespaces, as the API server sends it."""
    workload = number // 20
    app = f"service-{workload:04d}"
    replica_set = f"{app}-{workload * 7919 % 16**9:09x}"
    name = f"{replica_set}-{number * 104729 % 36**5:05d}"
    containers = [
        {
            "name": container,
            "image": f"registry.example.com/{app}/{container}:v1.{workload % 40}.0",
            "env": [{"name": f"SETTING_{key}", "value": f"value-{workload}-{key}"} for key in range(3)],
            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
            "resources": {
                "requests": {"cpu": f"{100 + workload % 30 * 50}m", "memory": f"{128 + workload % 50 * 32}Mi"},
                "limits": {"memory": f"{256 + workload % 50 * 32}Mi"},
            },
            "volumeMounts": [
                {"name": f"kube-api-access-{number:05d}", "mountPath": "/var/run/secrets/x", "readOnly": True}
            ],
            "livenessProbe": {"httpGet": {"path": "/livez", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
            "terminationMessagePath": "/dev/termination-log",
            "imagePullPolicy": "IfNotPresent",
        }
        for container in ("main", "proxy")
    ]
    spec = {
        "volumes": [
            {"name": f"kube-api-access-{number:05d}", "projected": {"sources": [{"token": {}}, {"config": {}}]}}
        ],
        "containers": containers,
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "nodeName": f"node-{number % NODES:05d}.cluster.example.com",
        "schedulerName": "default-scheduler",
        "priority": 0,
        "tolerations": [
            {"key": f"node.kubernetes.io/{kind}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for kind in ("not-ready", "unreachable")
        ],
    }
    labels = {"app.kubernetes.io/name": app, "app.kubernetes.io/part-of": "shop", "pod-template-hash": replica_set[-9:]}
    second = f"2026-11-{1 + number % 20:02d}T{number // 60 % 24:02d}:{number % 60:02d}:"
    status = {
        "phase": "Running",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": f"{second}{7 + at:02d}Z"}
            for at, kind in enumerate(
                ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
            )
        ],
        "hostIP": "10.0.0.1",
        "podIP": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}",
        "startTime": f"{second}07Z",
        "containerStatuses": [
            {
                "name": container["name"],
                "ready": True,
                "restartCount": 0,
                "image": container["image"],
                "imageID": f"registry.example.com/{app}@sha256:{workload:064x}",
                "containerID": f"containerd://{number:064x}",
                "state": {"running": {"startedAt": f"{second}09Z"}},
            }
            for container in containers
        ],
        "qosClass": "Burstable",
    }
    return {
        "metadata": {
            "name": name,
            "generateName": f"{replica_set}-",
            "namespace": f"team-{workload % 100:02d}",
            "uid": f"{number:08x}-0000-4000-8000-{number * 31 % 16**12:012x}",
            "resourceVersion": str(1_000_000 + number),
            "creationTimestamp": f"{second}05Z",
            "labels": labels,
            "annotations": {
                "kubectl.kubernetes.io/restartedAt": "2026-11-01T00:00:00Z",
                "checksum/config": f"{workload:064x}",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": replica_set,
                    "uid": f"{workload:08x}-0000-4000-9000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                _managed(
                    "kube-controller-manager", {"f:metadata": _fields({"labels": labels}), "f:spec": _fields(spec)}
                ),
                _managed("kubelet", {"f:status": _fields(status)}, "status"),
            ],
        },
        "spec": spec,
        "status": status,
    }


def _node(number: int) -> dict[str, Any]:
    name = f"node-{number:05d}.cluster.example.com"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": f"m{number % 5}.xlarge",
        "topology.kubernetes.io/region": "eu-1",
        "topology.kubernetes.io/zone": f"eu-1{'abc'[number % 3]}",
    }
    status = {
        "capacity": {"cpu": "16", "memory": "65843212Ki", "pods": "110", "ephemeral-storage": "101430960Ki"},
        "allocatable": {"cpu": "15890m", "memory": "62843212Ki", "pods": "110", "ephemeral-storage": "93478772582"},
        "conditions": [
            {
                "type": kind,
                "status": "True" if kind == "Ready" else "False",
                "lastHeartbeatTime": "2026-11-20T10:00:00Z",
                "lastTransitionTime": "2026-11-01T10:00:00Z",
                "reason": f"Kubelet{kind}",
                "message": f"kubelet says {kind}",
            }
            for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
        ],
        "addresses": [
            {"type": "InternalIP", "address": f"10.{number // 65536}.{number // 256 % 256}.{number % 256}"},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": {"kernelVersion": "6.1.0", "kubeletVersion": "v1.36.3", "machineID": f"{number:032x}"},
        "images": [
            {"names": [f"registry.example.com/image-{image}@sha256:{image:064x}"], "sizeBytes": 10_000_000 + image}
            for image in range(20)
        ],
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"{number:08x}-0000-4000-a000-000000000000",
            "resourceVersion": str(2_000_000 + number),
            "creationTimestamp": "2026-11-01T10:00:00Z",
            "labels": labels,
            "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
            "managedFields": [
                _managed("kubelet", {"f:metadata": _fields({"labels": labels}), "f:status": _fields(status)})
            ],
        },
        "spec": {"podCIDR": f"10.{number % 256}.0.0/24", "providerID": f"cloud:///{name}"},
        "status": status,
    }


if __name__ == "__main__":
    for row in measure():
        print(row)
