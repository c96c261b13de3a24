"""Which nodes have been too loaded, and for how many windows in a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ballast.eviction.plan import Aims
from ballast.model.sample import Bools, Floats
from ballast.model.snapshot import Snapshot
from ballast.placement.planners.relieve import Thresholds, hot

RESOURCES = ("cpu", "memory")
OVERLOADED = 0.9
"""Mean load from which a node is relieved even if the landing of its pods is not steered."""

OVERLOADED_FOR = 3
GAP = 2.5
"""Intervals between two windows that still follow one another."""


class HotNodes:
    """`confirmed` counts windows in a row above the threshold of relief, by node; a node whose load is unknown in
    between starts again at zero."""

    def __init__(self, aims: Aims, interval: float) -> None:
        self._aims, self._interval = aims, interval
        self._time = -np.inf
        self._overloaded: Mapping[str, int] = {}
        self.confirmed: Mapping[str, int] = {}

    @property
    def overloaded(self) -> frozenset[str]:
        """Those at 0.9 or above for 3 windows in a row."""
        return frozenset(name for name, windows in self._overloaded.items() if windows >= OVERLOADED_FOR)

    def observe(self, snapshot: Snapshot) -> None:
        """A new snapshot; the same one again changes nothing."""
        passed = snapshot.time - self._time
        if passed == 0:
            return
        follows = 0 < passed <= GAP * self._interval
        self._time = snapshot.time
        load = loads(snapshot)
        counted = np.array([node.schedulable for node in snapshot.nodes], bool)
        too_hot: Bools = np.asarray(hot(load, counted, self._thresholds(snapshot, load, counted)).any(axis=1))
        clearly: Bools = np.asarray((load >= OVERLOADED).any(axis=1))
        self.confirmed = _counted(snapshot, too_hot, self.confirmed if follows else {})
        self._overloaded = _counted(snapshot, clearly, self._overloaded if follows else {})

    def _thresholds(self, snapshot: Snapshot, load: Floats, counted: Bools) -> Thresholds:
        aims = self._aims
        if aims.deviation is None:
            return Thresholds.absolute(load, aims.high, aims.low)
        numbers: dict[str, int] = {}
        pools = [numbers.setdefault(snapshot.pool(row), len(numbers)) for row in range(len(snapshot.nodes))]
        return Thresholds.deviation(load, counted, np.array(pools, np.int64), aims.deviation)


def loads(snapshot: Snapshot, nodes: Iterable[str] | None = None) -> Floats:
    """[node, resource] means of the first window, of cpu and memory, NaN where unknown; of `nodes`, or of all."""
    watched = [index for name in watched_of(snapshot) if (index := snapshot.resource(name)) is not None]
    rows = [snapshot.rows.get(name, -1) for name in nodes] if nodes is not None else list(range(len(snapshot.nodes)))
    mean = np.append(snapshot.primary.mean[watched], np.full((len(watched), 1), np.nan), axis=1)
    return np.asarray(mean[:, rows].T)


def watched_of(snapshot: Snapshot) -> tuple[str, ...]:
    return tuple(name for name in RESOURCES if snapshot.resource(name) is not None)


def _counted(snapshot: Snapshot, marked: Bools, before: Mapping[str, int]) -> dict[str, int]:
    names = [snapshot.nodes[row].name for row in np.flatnonzero(marked).tolist()]
    return {name: before.get(name, 0) + 1 for name in names}
