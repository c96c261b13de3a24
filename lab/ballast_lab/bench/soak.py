"""A day of `ballast run` alone, in minutes: whether memory, descriptors and threads stay as they are."""

from __future__ import annotations

import gc
import json
import os
import tempfile
import threading
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
import psutil

from ballast.base.clock import SystemClock
from ballast_lab.bench.processes import Shape, Simulated, faster, simulated
from ballast_lab.bench.rows import Row, at_most

NODES = 1_000
HOURS, SPEED = 24.0, 96.0
"""Simulated hours, and seconds of them in a second: a quarter of an hour."""
QUICK = {"hours": 4.0}
FIRST = 1.0
"""Hours until everything has its size."""
EVERY = 1.0
CHURN, NODES_CHANGED = 20, 2
"""Pods, and nodes, that come and go each second."""
SLOPE = 0.05
SETTINGS = {
    "BALLAST_TELEMETRY__INTERVAL": "30s",
    "BALLAST_TELEMETRY__RESOURCES": "cpu,memory",
    "BALLAST_PUBLISHING__MODE": "on",
    "BALLAST_EVICTION__MODE": "dry-run",
    "BALLAST_EVICTION__INTERVAL": "10m",
    "BALLAST_BATCH__MODE": "off",
    "BALLAST_CLUSTER__QPS": "500",
    "BALLAST_CLUSTER__BURST": "1000",
    "BALLAST_LOG__LEVEL": "error",
    "BALLAST_HTTP__HOST": "127.0.0.1",
    "BALLAST_HTTP__PORT": "0",
}


class Size(NamedTuple):
    """Of the daemon at a simulated hour."""

    hour: float
    megabytes: float
    descriptors: int
    threads: int


def measure(hours: float = HOURS, speed: float = SPEED) -> list[Row]:
    """The cluster lives in a process of its own, with the daemon's clock."""
    clock = SystemClock()
    origin = (clock.wall(), clock.monotonic())
    over = threading.Event()
    with simulated(NODES, Shape(pods=10, scene="breathing", speed=speed, origin=origin)) as cluster:
        ours, theirs = get_context("spawn").Pipe()
        daemon = get_context("spawn").Process(target=_run, args=(theirs, cluster.environment, speed, origin))
        daemon.start()
        assert ours.recv() == "serving"
        churn = threading.Thread(target=_churn, args=(cluster, over))
        churn.start()
        try:
            sizes = _sizes(daemon.pid or 0, hours, speed)
        finally:
            over.set()
            churn.join()
            ours.send("stop")
            cycles = ours.recv()
            daemon.join()
    return _rows(sizes, cycles, hours, speed)


def _rows(sizes: list[Size], cycles: int, hours: float, speed: float) -> list[Row]:
    later = [size for size in sizes if size.hour >= FIRST]
    slope = float(np.polyfit([size.hour for size in later], [size.megabytes for size in later], 1)[0])
    half = [size for size in later if size.hour >= hours / 2]
    last = float(np.polyfit([size.hour for size in half], [size.megabytes for size in half], 1)[0])
    at = f"{NODES:,} nodes, {hours:g} h simulated at {speed:g} times the speed, {cycles:,} cycles, with churn"
    descriptors, threads = ([size[column] for size in later] for column in (2, 3))
    return [
        {
            "what": "growth of the daemon's memory after the first hour",
            "at": at,
            "reach": f"≤ {SLOPE} MB/h",
            "measured": f"{slope:+.3f} MB/h (second half {last:+.3f}); {later[0].megabytes:.0f} MB after "
            f"{FIRST:g} h, {later[-1].megabytes:.0f} MB at the end; load average {os.getloadavg()[0]:.1f}",
            "verdict": at_most(max(slope, 0.0), SLOPE),
        },
        _constant("descriptors", at, descriptors),
        _constant("threads", at, threads),
    ]


def _constant(what: str, at: str, counts: list[int]) -> Row:
    """Requests under way come and go; what counts is that no third of the time has more than the one before."""
    thirds = [float(np.median(part)) for part in np.array_split(counts, 3)]
    return {
        "what": f"{what} of the daemon",
        "at": at,
        "reach": "constant",
        "measured": f"median of each third {', '.join(f'{each:g}' for each in thirds)}; {min(counts)} to {max(counts)}",
        "verdict": "met" if max(thirds) - min(thirds) <= 2 else "not constant",
    }


def _sizes(process: int, hours: float, speed: float) -> list[Size]:
    watched, began, found = psutil.Process(process), time.monotonic(), []
    while (hour := (time.monotonic() - began) * speed / 3600) < hours:
        size = watched.memory_info().rss / 1e6
        found.append(Size(hour, size, watched.num_fds(), watched.num_threads()))
        time.sleep(EVERY)
    return found


def _churn(cluster: Simulated, over: threading.Event) -> None:
    """Pods and nodes come and go; their number stays."""
    from ballast.base.errors import ClusterError
    from ballast.base.metrics import Metrics
    from ballast.cluster.client import connect
    from ballast.settings import load

    api, number = connect(load(cluster.environment).cluster, Metrics()), 0
    pods, nodes = "/api/v1/namespaces/default/pods", "/api/v1/nodes"
    there: list[str] = []
    while not over.wait(1.0):
        number += 1
        made = [f"{pods}/churn-{number}-{each}" for each in range(CHURN)]
        made += [f"{nodes}/churn-{number}-{each}" for each in range(NODES_CHANGED)]
        gone, there = there, made
        for path in gone:
            _quietly(lambda path=path: api.request("DELETE", path), ClusterError)
        for path in made:
            collection, _, name = path.rpartition("/")
            body = _node(name) if collection == nodes else _pod(name)
            _quietly(lambda path=collection, body=body: api.request("POST", path, body=body), ClusterError)


def _quietly(work: Any, *errors: type[Exception]) -> None:
    try:
        work()
    except errors:
        return


def _node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _pod(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    meta = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


def _run(parent: Connection, environment: dict[str, str], speed: float, origin: tuple[float, float]) -> None:
    from ballast.base import log
    from ballast.runtime.daemon import Daemon
    from ballast.settings import load

    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        settings = load({**environment, **SETTINGS})
        log.configure(settings.log.level, settings.log.format)
        daemon = Daemon(settings, clock=faster(speed, origin))
        gc.freeze()
        daemon.start()
        gc.freeze()
        parent.send("serving")
        parent.recv()
        cycles = daemon.progress.cycles
        daemon.stop()
        parent.send(cycles)


if __name__ == "__main__":
    print(json.dumps(measure(**QUICK), indent=1, ensure_ascii=False))
