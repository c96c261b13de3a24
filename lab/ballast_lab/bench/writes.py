"""How often nodes are written: a simulated day of 5,000 nodes, and an hour in which nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import LabelPlanner, LabelRules, NodeChange, PublishedKeys
from ballast.publishing.node_keys import NodeKeys
from ballast.scoring.load_variation import scores
from ballast.windows.ring import Ring
from ballast.windows.statistics import WindowRules as WindowRules
from ballast.windows.statistics import summarise_all
from ballast_lab.bench.rows import Row, at_most, times

KEYS = NodeKeys.of("ballast.dev")
RULES = LabelRules(
    low=0.3,
    high=0.8,
    overloaded=0.9,
    hysteresis=0.05,
    refresh=3600.0,
    jitter=0.1,
    forget_after=3600.0,
    interval=30.0,
    taint=False,
)
STEP = 30.0
QUICK = {"nodes": 500, "hours": 4}
WINDOW = 900.0
SETTLED = 1800.0
"""Seconds after which a step of the load is wholly in the window, and whatever it does to the label is done."""
CRANE = 97.3
"""Patches per node and hour of crane-scheduler's default policy, from its constants."""


class Cluster:
    """Nodes whose loads are written straight into the windows, and what they carry."""

    def __init__(self, nodes: int) -> None:
        self.nodes = tuple(Node(name=f"node-{index:05}") for index in range(nodes))
        self.names = [node.name for node in self.nodes]
        self.ring = Ring(("cpu", "memory"), STEP, WINDOW)
        self.columns = self.ring.columns(self.names)
        self.planner = LabelPlanner(KEYS, RULES)
        self.carried = {name: PublishedKeys(None, None, None, tainted=False) for name in self.names}
        self.freeze = Freeze(0.2, 3600.0)
        self.start = 1_700_000_010.0

    def cycle(self, index: int, cpu: Any, memory: Any) -> tuple[list[NodeChange], Any]:
        at = self.start + index * STEP
        times = np.full(len(self.nodes), at)
        for resource, values in (("cpu", cpu), ("memory", memory)):
            self.ring.write(resource, at, self.columns, values, times)
        rules = WindowRules(0.5, 5, 90.0, STEP)
        windows = summarise_all(self.ring, self.columns, lengths={"15m": WINDOW}, end=at, rules=rules)
        known = windows["15m"].known.any(axis=0)
        snapshot = Snapshot(
            time=at,
            nodes=self.nodes,
            resources=("cpu", "memory"),
            windows=windows,
            newest=np.full((2, len(self.nodes)), at),
            allocatable_share=np.ones((2, len(self.nodes))),
            states=NodeStates.of(known),
        )
        values = scores(snapshot)
        points = {name: None if np.isnan(value) else int(value) for name, value in zip(self.names, values, strict=True)}
        changes = self.planner.plan(snapshot, points, self.carried, self.freeze, index * STEP)
        for change in changes:
            old = self.carried[change.node]
            self.carried[change.node] = PublishedKeys(
                change.labels.get(KEYS.score, old.score),
                change.labels.get(KEYS.load, old.load),
                change.annotations.get(KEYS.window, old.window),
                old.tainted,
            )
        return changes, values


def measure(nodes: int = 5000, hours: int = 24) -> list[Row]:
    """Writes per node and hour after the first hour, and the delay from a step of the load to its label."""
    random = np.random.default_rng(7)
    cluster = Cluster(nodes)
    decay = np.exp(-STEP / 300.0)
    noise = random.normal(0, 0.05, (2, nodes))
    stepped = np.zeros(nodes)
    pending: dict[int, int] = {}
    delays: list[float] = []
    patches = labels = unmoved = 0
    left: dict[int, int] = {}
    late = 0
    cycles = int(hours * 3600 / STEP)
    for index in range(cycles):
        noise = decay * noise + np.sqrt(1 - decay**2) * random.normal(0, 0.05, (2, nodes))
        hour, within = divmod(index * STEP, 3600.0)
        if hour >= 1 and within == 0:
            chosen = random.choice(nodes, nodes // 50, replace=False)
            stepped[chosen] = 0.3 - stepped[chosen]
            pending.update(dict.fromkeys(chosen.tolist(), index))
        cpu = np.maximum(0.4 + 0.25 * np.sin(2 * np.pi * index * STEP / 86400.0) + stepped + noise[0], 0.0)
        changes, values = cluster.cycle(index, cpu, np.maximum(0.5 + noise[1], 0.0))
        if hour < 1:
            continue
        patches += len(changes)
        for change in changes:
            if KEYS.score in change.labels:
                labels += 1
                row = int(change.node[5:])
                if row in pending:
                    delays.append((index - pending.pop(row)) * STEP)
        for row in [row for row, began in pending.items() if (index - began) * STEP > SETTLED]:
            del pending[row]
            unmoved += 1
        for row, name in enumerate(cluster.names):
            label = cluster.carried[name].score
            outside = label is not None and abs(values[row] - 10 * int(label)) >= 8
            left[row] = left.get(row, 0) + 1 if outside else 0
            late += left[row] > 2
    per_node = patches / nodes / (hours - 1)
    settled, moved, refreshed = _calm_hour(nodes)
    return [
        {
            "what": "writes per node and hour",
            "at": f"{nodes:,} nodes, {hours} h simulated",
            "reach": "≤ 2.4, ≥ 40 × below crane",
            "measured": f"{per_node:.2f} ({CRANE / per_node:.0f} × below 97.3); {labels / nodes / (hours - 1):.2f} of "
            f"them with a new score label",
            "verdict": at_most(per_node, 2.4),
            "peer": f"crane-scheduler: {CRANE}",
            "ratio": f"{times(per_node, CRANE)} fewer",
        },
        {
            "what": "a score that left its band is in the label",
            "at": "same day",
            "reach": "≤ 2 cycles later",
            "measured": f"{late} of {(cycles - 120) * nodes:,} node cycles later than that",
            "verdict": "met" if not late else f"missed in {late / (cycles - 120) / nodes:.1e} of the node cycles",
        },
        {
            "what": "from a load step of .3 to the label",
            "at": "same day",
            "reach": "reported",
            "measured": f"median {np.median(delays):.0f} s, p95 {np.percentile(delays, 95):.0f} s (window 15 m); "
            f"{unmoved / (unmoved + len(delays)):.0%} of the steps leave the label where it is",
        },
        {
            "what": "nothing changes",
            "at": f"{nodes:,} nodes, 1 h simulated",
            "reach": "no patch but the hourly refresh",
            "measured": f"{settled:.2f} patches a node at first, then {moved} label patches, {refreshed:.2f} refreshes",
            "verdict": "met" if not moved and refreshed <= 1.2 else "more patches than that",
        },
    ]


def _calm_hour(nodes: int) -> tuple[float, int, float]:
    """Patches per node in the first eight minutes; then, in an hour, label patches and refreshes per node."""
    cluster = Cluster(nodes)
    cpu, memory = np.full(nodes, 0.4), np.full(nodes, 0.5)
    first = sum(len(cluster.cycle(index, cpu, memory)[0]) for index in range(16))
    label = refresh = 0
    for index in range(16, 16 + 120):
        for change in cluster.cycle(index, cpu, memory)[0]:
            label += bool(change.labels)
            refresh += not change.labels
    return first / nodes, label, refresh / nodes
