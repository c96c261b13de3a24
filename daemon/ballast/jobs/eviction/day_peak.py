"""How much more load than now the day had at its peak, by pool."""

from __future__ import annotations

from collections import deque

import numpy as np

from ballast.model.duration import DAY
from ballast.model.node import Node
from ballast.model.node_state import ALWAYS_NEEDED
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot

EVERY = 300.0
"""Seconds between two values that are kept."""

QUANTILE = 0.95


class DayPeak:
    """Remembers what the nodes of each pool used together over the last day, since this process started.

    Together, because pods move: what one node had at its peak says little of what it has next.
    """

    def __init__(self) -> None:
        self._kept: deque[tuple[float, dict[str, Floats]]] = deque()

    def observe(self, snapshot: Snapshot) -> None:
        """Keeps what is used now."""
        if self._kept and snapshot.time - self._kept[-1][0] < EVERY:
            return
        self._kept.append((snapshot.time, _used(snapshot)))
        while self._kept[0][0] <= snapshot.time - DAY:
            self._kept.popleft()

    def loads(self, snapshot: Snapshot) -> Floats:
        """[resource, node]: loads at the p95 of the day, where every node of a pool has its share of it."""
        now = _used(snapshot)
        found: Floats = snapshot.primary.mean.copy()
        for name, used in now.items():
            kept = [values[name] for _, values in self._kept if name in values and len(values[name]) == len(used)]
            if not kept:
                continue
            most = np.quantile(np.array(kept), QUANTILE, axis=0)
            with np.errstate(divide="ignore", invalid="ignore"):
                rise = np.where(used > 0, most / used, 1.0)
            rows = [row for row in range(len(snapshot.nodes)) if snapshot.pool(row) == name]
            found[:, rows] *= np.fmax(rise, 1.0)[:, None]
        return found


def _used(snapshot: Snapshot) -> dict[str, Floats]:
    """{pool: [resource] cores, bytes or sums of ratios}; nodes of unknown load count as the others do on average."""
    found: dict[str, Floats] = {}
    for name in {snapshot.pool(row) for row in range(len(snapshot.nodes))}:
        rows = [row for row in range(len(snapshot.nodes)) if snapshot.pool(row) == name]
        load = snapshot.primary.mean[:, rows]
        nodes = [snapshot.nodes[row] for row in rows]
        amounts = [[_whole(node, resource) for node in nodes] for resource in snapshot.resources]
        whole = np.array(amounts, float)
        known = np.isfinite(load)
        of_known = np.where(known, whole, 0.0).sum(axis=1)
        used = np.nan_to_num(load * whole).sum(axis=1)
        found[name] = np.divide(used * whole.sum(axis=1), of_known, out=np.full(len(used), np.nan), where=of_known > 0)
    return found


def _whole(node: Node, resource: str) -> float:
    return node.allocatable.get(resource, 0.0) if resource in ALWAYS_NEEDED else 1.0
