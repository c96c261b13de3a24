"""Objects that their owners made as large as the API server accepts, and a process that reads them."""

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

NODE_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(number: int, **parts: Any) -> dict[str, Any]:
    meta = {"name": f"fat-{number:05}", "namespace": "tenant", "uid": f"u{number}", **parts.pop("metadata", {})}
    containers = [{"name": "c", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}}}]
    return {
        "metadata": meta,
        "spec": {"nodeName": "n1", "containers": containers, **parts},
        "status": {"phase": "Pending"},
    }


def words(size: int, length: int) -> list[str]:
    return [f"{number:0{length}x}" for number in range(size // (length + 3))]


def affinity(number: int, size: int, length: int = 58) -> dict[str, Any]:
    values = [f"{number}-{word}" for word in words(size, length)]
    term = {"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}
    return pod(number, affinity={"nodeAffinity": {NODE_AFFINITY: {"nodeSelectorTerms": [term]}}})


def labels(number: int, size: int) -> dict[str, Any]:
    return pod(number, metadata={"labels": {f"{number}-{word}": word for word in words(size // 2, 20)}})


def annotations(number: int, size: int) -> dict[str, Any]:
    return pod(number, metadata={"annotations": {"ballast.dev/exclude": "x" * (size // 2), "b": "y" * (size // 2)}})


def containers(number: int, size: int) -> dict[str, Any]:
    one = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1m"}, "limits": {f"x.y/{number}": "1"}}}
    return pod(number, containers=[one] * (size // len(json.dumps(one))))


def environment(number: int, size: int) -> dict[str, Any]:
    value = [{"name": word, "value": word} for word in words(size // 2, 30)]
    return pod(number, containers=[{"name": "c", "env": value, "resources": {"requests": {"cpu": "250m"}}}])


def tolerations(number: int, size: int) -> dict[str, Any]:
    return pod(number, tolerations=[{"key": f"{number}-{w}", "operator": "Exists"} for w in words(size // 2, 20)])


def requests(number: int, size: int) -> dict[str, Any]:
    asked = {f"example.com/{number}-{word}": "1" for word in words(size // 2, 20)}
    return pod(number, containers=[{"name": "c", "resources": {"requests": {"cpu": "250m", **asked}}}])


def volumes(number: int, size: int) -> dict[str, Any]:
    return pod(number, volumes=[{"name": f"{number}-{word}", "emptyDir": {}} for word in words(size // 2, 20)])


def gates(number: int, size: int) -> dict[str, Any]:
    return pod(number, schedulingGates=[{"name": f"example.com/{number}-{word}"} for word in words(size // 2, 20)])


def owners(number: int, size: int) -> dict[str, Any]:
    return pod(number, metadata={"ownerReferences": [{"kind": "K", "name": "n" * size, "uid": f"{number}"}]})


def scheduler(number: int, size: int) -> dict[str, Any]:
    return pod(number, schedulerName=f"{number}" + "s" * size)


SHAPES = {
    shape.__name__: shape
    for shape in (
        affinity,
        labels,
        annotations,
        containers,
        environment,
        tolerations,
        requests,
        volumes,
        gates,
        owners,
        scheduler,
    )
}


def page(items: list[bytes], query: Any) -> Iterator[bytes]:
    """The page of a list, object by object."""
    start = int(query.get("continue", 0))
    end = start + int(query["limit"])
    meta = {"resourceVersion": "10", **({"continue": str(end)} if end < len(items) else {})}
    yield b'{"metadata":%s,"items":[' % json.dumps(meta).encode()
    for number, item in enumerate(islice(items, start, end)):
        yield (b"," if number else b"") + item
    yield b"]}"


def megabytes(name: str) -> float:
    """Of this process, as the kernel counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def read(url: str, whole: bool) -> None:
    """In a process of its own: lists, and prints megabytes."""
    from ballast.base.clock import SystemClock
    from ballast.base.metrics import Metrics
    from ballast.cluster.cache import Cache
    from ballast.cluster.client import KubeApi
    from tests.worlds.http_server import configuration

    metrics = Metrics()
    cache = Cache(KubeApi(lambda: configuration(url), metrics), SystemClock(), metrics, pods=True, whole=whole)
    before = megabytes("VmHWM")
    cache.start()
    assert cache.wait_synced(120, "pods")
    peak, kept = megabytes("VmHWM"), megabytes("VmRSS")
    pods = cache.pods()
    asked = sum(each.shape.requests.get("cpu", 0.0) for each in pods)
    opaque = cache.opaque()["pods"]
    cache.stop()
    print(json.dumps({"pods": len(pods), "cpu": asked, "opaque": opaque, "peak": peak - before, "kept": kept - before}))


if __name__ == "__main__":
    read(sys.argv[1], sys.argv[2] == "whole")
