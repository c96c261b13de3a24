"""What `ballast doctor` takes on a large cluster, the usage of its pods included."""

from __future__ import annotations

import os
import time
from typing import Any

import psutil

from ballast_lab.bench.processes import Shape, Simulated, apart, simulated
from ballast_lab.bench.rows import Row, at_most

NODES, PODS = 5_000, 6
"""Nodes, and pods on each."""
RUNS = 3


def measure() -> list[Row]:
    """The fastest of some runs: seconds, and processor time here and in the embedded cluster."""
    with simulated(NODES, Shape(pods=PODS)) as cluster:
        found = min((apart(_examined, cluster) for _ in range(RUNS)), key=lambda run: float(run["seconds"]))
    late = f"; {found['late']} checks begun too late" if found["late"] else ""
    return [
        {
            "what": "`ballast doctor`, every check",
            "at": f"{NODES:,} nodes, {NODES * PODS:,} pods, embedded API server and Prometheus",
            "reach": "≤ 10 s",
            "measured": f"{found['seconds']:.1f} s (CPU {found['cpu']:.1f} s, of the embedded cluster "
            f"{found['cluster']:.1f} s); usage of pods {found['pods']:.2f} s, {found['status']}{late}",
            "verdict": at_most(found["seconds"] + 10 * found["late"], 10),
        }
    ]


def _examined(cluster: Simulated) -> dict[str, Any]:
    from ballast.base.clock import SystemClock
    from ballast.base.metrics import Metrics
    from ballast.cluster.client import connect
    from ballast.doctor.checks import WITHIN, examine
    from ballast.doctor.evidence import Evidence, count_queries
    from ballast.settings import load

    settings = load({**os.environ, **cluster.environment})
    api = connect(settings.cluster, Metrics())
    evidence = Evidence(settings, api, SystemClock())
    server = psutil.Process(cluster.pid)
    before = sum(server.cpu_times()[:2])
    began, spent = time.monotonic(), time.process_time()
    found = examine(evidence, within=WITHIN)
    seconds, cpu = time.monotonic() - began, time.process_time() - spent
    of_cluster = sum(server.cpu_times()[:2]) - before
    began = time.monotonic()
    evidence.source.ask_about_pods(count_queries(evidence.settings), evidence.at)
    pods = time.monotonic() - began
    evidence.close()
    api.close()
    return {
        "seconds": seconds,
        "cpu": cpu,
        "cluster": of_cluster,
        "pods": pods,
        "status": next(each.status for each in found.findings if each.check == "pod-usage"),
        "late": sum("the checks before it took" in each.message for each in found.findings),
    }


if __name__ == "__main__":
    for row in measure():
        print(row)
