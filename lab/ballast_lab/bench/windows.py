"""What recomputing every window costs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.windows.ring import Ring
from ballast.windows.statistics import WindowRules, summarise_all
from ballast_lab.bench.rows import Row, at_most

NODES = 5_000
RESOURCES = ("cpu", "memory", "disk", "network")
STEP = 15.0
LENGTHS = {"15m": 900.0, "10m": 600.0, "5m": 300.0}
ROUNDS = 15


def measure() -> list[Row]:
    """CPU milliseconds of one recompute of all windows and of one cycle's writes."""
    names = [f"node-{i:05d}" for i in range(NODES)]
    rules = WindowRules(min_coverage=0.5, min_samples=5, max_age=90, resolution=STEP)
    size = f"{NODES:,} nodes, {len(RESOURCES)} resources, 15m at 15 s"
    rows: list[Row] = []
    for state, missing in (("complete", 0.0), ("one sample in fifty missing", 0.02)):
        ring, end = _filled(names, missing)
        columns = ring.columns(names)
        scale = np.full((len(RESOURCES), NODES), 1.05)
        for lengths, label in ((dict([*LENGTHS.items()][:1]), "one length"), (LENGTHS, "three lengths")):
            cost = _cpu(lambda: summarise_all(ring, columns, lengths=lengths, end=end, rules=rules, scale=scale))  # noqa: B023
            what = f"ring recompute with p95, {label}, {state}"
            rows.append(
                {
                    "what": what,
                    "at": size,
                    "reach": "≤ 20 ms CPU",
                    "measured": f"{cost:.1f} ms CPU",
                    "verdict": at_most(cost, 20),
                }
            )
    _, values, times = _reading(np.random.default_rng(1), end, 0.0)
    cost = _cpu(lambda: [ring.write(resource, end, columns, values, times) for resource in RESOURCES])
    rows.append({"what": "ring writes of one cycle", "at": size, "reach": "reported", "measured": f"{cost:.2f} ms CPU"})
    return rows


def _filled(names: list[str], missing: float) -> tuple[Ring, float]:
    random = np.random.default_rng(0)
    ring = Ring(RESOURCES, STEP, max(LENGTHS.values()))
    columns = ring.columns(names)
    end = 1_700_000_010.0
    for at in np.arange(end - 1200, end + STEP, STEP):
        for resource in RESOURCES:
            rows, values, times = _reading(random, float(at), missing)
            ring.write(resource, float(at), columns[rows], values, times)
    return ring, end


def _reading(random: np.random.Generator, at: float, missing: float) -> tuple[Ints, Floats, Floats]:
    rows = np.flatnonzero(random.random(NODES) >= missing)
    return rows, random.random(len(rows)), np.full(len(rows), at - 3)


def _cpu(work: Callable[[], object]) -> float:
    work()
    spent = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return statistics.median(spent) * 1e3
