"""What scoring every node for one arriving pod costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Floats
from ballast.model.shape import ContainerShape, shape_of
from ballast.scoring.fleet import Fleet, NodeLoads, amounts
from ballast.scoring.residual import NOWHERE, Criterion, Residuals
from ballast.scoring.strategy import NAMES, strategy
from ballast_lab.bench.rows import Row, at_most

NODES = 5_000
PODS_A_NODE = 10
PROFILES = 12
ROUNDS = 60
DECISIONS = 2_000
GIB = 2.0**30

KEYS: dict[str, dict[str, object]] = {
    "peaks": {"node_power_model": {f"node-{i:05d}": {"k0": 400, "k1": -90, "k2": -0.07} for i in range(NODES)}},
    "dynamic": {
        "policy": {
            "syncPolicy": [{"name": "cpu_usage_avg_5m", "period": "3m"}],
            "priority": [{"name": "cpu_usage_avg_5m", "weight": 1}],
        }
    },
    "dominant-residual": {
        "profiles": [{"requests": {"cpu": f"{250 * 2**i}m", "memory": f"{1 + 3 * i}Gi"}} for i in range(PROFILES)]
    },
}


def measure() -> list[Row]:
    """Microseconds by strategy; what does not depend on the pod is computed once per snapshot and shown as `first`."""
    size = f"{NODES:,} nodes, {NODES * PODS_A_NODE:,} pods"
    rows: list[Row] = []
    for name in NAMES:
        if name in ("blend", "dominant-residual"):
            continue
        fleet, pod, chosen = _fleet(), _pod(), strategy(name, KEYS.get(name))
        _ = fleet.placed
        start = time.perf_counter()
        chosen.score(fleet, pod).scores  # noqa: B018
        first = (time.perf_counter() - start) * 1e3
        spent = _median(lambda: chosen.score(fleet, pod).scores)  # noqa: B023
        rows.append(
            {
                "what": f"one strategy, all nodes: {name}",
                "at": size,
                "reach": "≤ 100 µs",
                "measured": f"{spent:.0f} µs, first {first:.1f} ms",
                "verdict": at_most(spent, 100),
            }
        )
    spent = min(_decision() for _ in range(5))
    rows.append(
        {
            "what": "dominant residual, incremental, per decision",
            "at": f"{NODES:,} nodes, {PROFILES} profiles, 3 resources",
            "reach": "≤ 50 µs",
            "measured": f"{spent:.0f} µs",
            "verdict": at_most(spent, 50),
        }
    )
    return rows


def _median(work: Callable[[], object]) -> float:
    spent = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent) * 1e6


def _decision() -> float:
    """Microseconds to choose the best node for a pod and to place it there."""
    dice = np.random.default_rng(1)
    profiles = dice.integers(1, 16, (PROFILES, 3)).astype(float)
    whole = dice.integers(200, 400, (NODES, 3)).astype(float)
    residuals = Residuals(Criterion(profiles, np.full(PROFILES, 1 / PROFILES)), whole, whole)
    for profile in profiles:
        residuals.steps(profile)
    order = dice.integers(0, PROFILES, DECISIONS)
    start = time.perf_counter()
    for kind in order.tolist():
        found = residuals.steps(profiles[kind])
        row = int(found.argmin())
        if found[row] != NOWHERE:
            residuals.place(row, profiles[kind])
    return (time.perf_counter() - start) / DECISIONS * 1e6


def _fleet() -> Fleet:
    dice = np.random.default_rng(0)
    whole = {"cpu": 32.0, "memory": 128 * GIB, "ephemeral-storage": 500 * GIB, "pods": 110.0}
    nodes = tuple(Node(name=f"node-{i:05d}", capacity=whole, allocatable=whole) for i in range(NODES))
    shapes = [shape_of([ContainerShape({"cpu": 0.25 * i, "memory": i * GIB}, {"cpu": 0.5 * i})]) for i in range(1, 9)]
    pods = tuple(
        Pod("default", f"p-{i}", node=nodes[i % NODES].name, phase="Running", shape=shapes[i % 8])
        for i in range(NODES * PODS_A_NODE)
    )

    def load() -> NodeLoads:
        mean: Floats = dice.random(NODES) * 60
        return NodeLoads(mean, mean / 5, np.ones(NODES, bool))

    cpu, memory = load(), load()
    now = 1_700_000_000.0
    return Fleet(nodes, pods, now, now, cpu, memory, cpu, cpu, amounts("cpu", (node.capacity for node in nodes)))


def _pod() -> Pod:
    return Pod("default", "arriving", shape=shape_of([ContainerShape({"cpu": 0.5, "memory": GIB}, {"cpu": 1.0})]))
