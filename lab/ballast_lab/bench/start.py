"""From the start of `ballast run` to its first served data, and what the demo costs."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psutil

from ballast_lab.bench.processes import simulated
from ballast_lab.bench.rows import Row, at_most

NODES = 5_000
STARTS = 3
PATIENCE = 120.0
DEMO_SECONDS = 15
DEMO_SPEED = 10
SETTINGS = {
    "the default: cpu and memory, 15m, 10m and 5m at 30 s": {},
    "4 resources, 15m at 15 s": {
        "BALLAST_TELEMETRY__INTERVAL": "15s",
        "BALLAST_TELEMETRY__RESOURCES": "cpu,memory,disk,network",
        "BALLAST_WINDOWS__LENGTHS": "15m",
    },
}


def measure() -> list[Row]:
    """Seconds from process start to the first 200 of `/watcher`; the API server and Prometheus are a process each."""
    rows: list[Row] = []
    with simulated(NODES) as cluster, simulated(NODES) as prometheus:
        url = {"BALLAST_PROMETHEUS__URL": prometheus.environment["BALLAST_PROMETHEUS__URL"]}
        for what, settings in SETTINGS.items():
            before = _cpu(prometheus.pid)
            runs = sorted(_start({**cluster.environment, **url, **settings}) for _ in range(STARTS))
            answering = (_cpu(prometheus.pid) - before) / STARTS
            seconds, cpu, resident = runs[STARTS // 2]
            each = ", ".join(f"{run[0]:.1f}" for run in runs)
            rows.append(
                {
                    "what": "start → first served data, windows read back",
                    "at": f"{NODES:,} nodes, {what}",
                    "reach": "≤ 5 s on loopback",
                    "measured": f"{seconds:.1f} s (all starts: {each}; load average {os.getloadavg()[0]:.1f}); "
                    f"CPU of the daemon {cpu:.1f} s, "
                    f"of the embedded Prometheus {answering:.1f} s; {resident:.0f} MB resident",
                    "verdict": at_most(seconds, 5),
                }
            )
    return [*rows, _demo()]


def _start(environment: dict[str, str]) -> tuple[float, float, float]:
    """Seconds, CPU seconds and megabytes at the first answer."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own = {"BALLAST_HTTP__HOST": "127.0.0.1", "BALLAST_HTTP__PORT": str(port), "BALLAST_LOG__LEVEL": "error"}
    began = time.perf_counter()
    daemon = subprocess.Popen([sys.executable, "-m", "ballast", "run"], env={**os.environ, **environment, **own})
    try:
        while not _served(port):
            assert daemon.poll() is None, "ballast run ended"
            assert time.perf_counter() - began < PATIENCE, "nothing was served"
            time.sleep(0.01)
        seconds = time.perf_counter() - began
        return seconds, _cpu(daemon.pid), psutil.Process(daemon.pid).memory_info().rss / 1e6
    finally:
        daemon.terminate()
        daemon.wait(30)


def _cpu(process: int) -> float:
    """Seconds so far."""
    spent = psutil.Process(process).cpu_times()
    return spent.user + spent.system


def _served(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/watcher", timeout=30) as answer:
            return bool(answer.read())
    except (urllib.error.HTTPError, OSError):
        return False


def _demo() -> Row:
    """CPU of the whole demo, cluster included, between its first cycle and its end."""
    command = ["demo", "--headless", "--seconds", str(DEMO_SECONDS), "--speed", str(DEMO_SPEED), "-o", "json"]
    with subprocess.Popen(
        [sys.executable, "-m", "ballast", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        assert demo.stderr is not None
        spent = [_cpu(demo.pid) for line in demo.stderr if line.startswith("telemetry")]
        summary = json.loads(demo.stdout.read())
    cycle = 1000 * (spent[-1] - spent[0]) / (len(spent) - 1)
    return {
        "what": "CPU a cycle of the demo, its embedded cluster included",
        "at": f"{summary['nodes']} nodes, 4 resources, publishing on, {len(spent)} cycles",
        "reach": "reported",
        "measured": f"{cycle:.0f} ms",
    }


if __name__ == "__main__":
    for row in measure():
        print(row)
