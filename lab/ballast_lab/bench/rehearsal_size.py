"""How long a rehearsal of a large cluster takes, and how much memory: from a recording in Parquet, on one core."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from ballast_lab.bench.rows import Row, at_most
from ballast_lab.rehearse import tables
from ballast_lab.rehearse.history import RESOURCES
from ballast_lab.rehearse.recording import NODE_USAGE, POD_USAGE

NODES, PODS, WORKLOADS, DAYS = 1000, 30_000, 1500, 7
CORES, GIB = 64.0, 2.0**30
MEMORY = 256 * GIB
STEP, HOUR = 60.0, 3600.0
BEGIN = 1.7e9 // HOUR * HOUR
MINUTES, MEGABYTES, SECONDS = 10.0, 1000.0, 20.0
BALLAST = (sys.executable, "-m", "ballast")
QUICK = {"hours": 2}


def write(folder: Path, hours: int) -> None:
    """A cluster at about 55 % of its cores by day. Pods differ much in size; those of a workload request the same."""
    generator = np.random.default_rng(1)
    home = generator.permutation(np.arange(PODS) % NODES)
    names = [f"shop/app{pod % WORKLOADS:04d}-{pod}" for pod in range(PODS)]
    cores = generator.lognormal(0, 0.8, PODS)
    cores *= 0.55 * NODES * CORES / cores.sum()
    memory = generator.lognormal(0, 0.5, PODS)
    memory *= 0.5 * NODES * MEMORY / memory.sum()
    phase = generator.uniform(0, 1, PODS)
    nodes = [f"n{number:04d}" for number in range(NODES)]
    whole = {"cpu": CORES, "memory": MEMORY}
    workload = np.arange(PODS) % WORKLOADS
    requests = (np.bincount(workload, cores) / np.bincount(workload) / 2).round(3)[workload]
    tables.write_rows(folder / "nodes.csv", ("node", "cpu", "memory"), ({"node": name, **whole} for name in nodes))
    rows = (
        {
            "namespace": "shop",
            "pod": title.partition("/")[2],
            "node": nodes[node],
            "kind": "Deployment",
            "workload": title[5:12],
            "cpu": amount,
            "memory": GIB,
        }
        for title, node, amount in zip(names, home.tolist(), requests.tolist(), strict=True)
    )
    tables.write_rows(folder / "pods.csv", POD_COLUMNS, rows)
    for hour in range(hours):
        first = BEGIN + hour * HOUR
        times = first + STEP * np.arange(HOUR / STEP)
        day = np.sin(2 * np.pi * (times[None, :] / 86_400 + 0.2 * phase[:, None]))
        cpu = cores[:, None] * (1 + 0.4 * day) * generator.uniform(0.8, 1.2, (PODS, len(times)))
        used = np.stack([cpu, np.broadcast_to(memory[:, None], cpu.shape)])
        of_nodes = np.zeros((2, NODES, len(times)))
        for resource in range(2):
            np.add.at(of_nodes[resource], home, used[resource])
        for table, key, titles, values in ((NODE_USAGE, "node", nodes, of_nodes), (POD_USAGE, "pod", names, used)):
            path = tables.part_of(folder / table, times[0], times[-1])
            tables.write_part(path, key, RESOURCES, times, titles, values)


POD_COLUMNS = ("namespace", "pod", "node", "kind", "workload", "cpu", "memory")


def measure(hours: int = 24 * DAYS) -> list[Row]:
    """One rehearsal with one settings file, by the command; and that of the demo's day."""
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as name:
        folder = Path(name)
        write(folder / "recording", hours)
        (folder / "today.yaml").write_text("log: {level: error}\n")
        took, worked, megabytes = _run(folder, "--settings", str(folder / "today.yaml"))
    with tempfile.TemporaryDirectory(prefix="ballast-bench-") as name:
        folder = Path(name)
        command = [*BALLAST, "demo", "--seconds", "1", "--headless", "--record", str(folder / "recording")]
        subprocess.run(command, check=True, capture_output=True)
        demo_took, demo_worked, _ = _run(folder)
    return [
        {
            "what": "a rehearsal from a recording in Parquet",
            "at": f"{hours / 24:g} days, {NODES:,} nodes, {PODS:,} pods, 2 resources at {STEP:.0f} s, one settings",
            "reach": f"a week in ≤ {MINUTES:.0f} min of one core, ≤ {MEGABYTES / 1000:.0f} GB",
            "measured": f"{worked / 60:.1f} min of CPU ({took / 60:.1f} min by the clock), {megabytes:,.0f} MB at its "
            "largest",
            "verdict": f"{at_most(worked / 60 * 24 * DAYS / hours, MINUTES)}, {at_most(megabytes, MEGABYTES)}",
        },
        {
            "what": "`make rehearse` after `make demo`, with its report",
            "at": "24 h of 200 nodes and 3,000 pods",
            "reach": f"≤ {SECONDS:.0f} s",
            "measured": f"{demo_worked:.1f} s of CPU ({demo_took:.1f} s by the clock)",
            "verdict": at_most(demo_worked, SECONDS),
        },
    ]


def _run(folder: Path, *options: str) -> tuple[float, float, float]:
    """Seconds by the clock, seconds of CPU, and the most megabytes. Raises RuntimeError where it fails."""
    command = [*BALLAST, "rehearse", "--recording", str(folder / "recording"), "--out", str(folder / "out"), *options]
    began = time.monotonic()
    with (folder / "printed").open("w") as printed:
        process = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError((folder / "printed").read_text()[-2000:])
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000
