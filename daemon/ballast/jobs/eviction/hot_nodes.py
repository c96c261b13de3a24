"""Which nodes have been too loaded, and for how many windows in a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ballast.eviction.plan import Aims
from ballast.model.limits import EQUAL, Weights, limits, named
from ballast.model.node_state import ALWAYS_NEEDED
from ballast.model.sample import Bools, Floats
from ballast.model.snapshot import Snapshot
from ballast.placement.planners.relieve import Thresholds, hot
from ballast.windows.node_lives import NodeKey, node_keys

OVERLOADED = 0.9
"""Mean load, of a resource with a limit, from which a node is relieved even if its pods' landing is not steered."""

OVERLOADED_FOR = 3
GAP = 2.5
"""Intervals between two windows that still follow one another."""


class HotNodes:
    """`confirmed` counts windows in a row above the threshold of relief, by node; a node whose load is unknown in
    between starts again at zero."""

    def __init__(self, aims: Aims, interval: float, weights: Weights = EQUAL) -> None:
        self._aims, self._interval, self._weights = aims, interval, weights
        self._time = -np.inf
        self._keys: frozenset[NodeKey] = frozenset()
        self._overloaded: Mapping[str, int] = {}
        self.confirmed: Mapping[str, int] = {}
        self.causes: Mapping[str, frozenset[str]] = {}
        """The resources of which a node was too loaded in its last window."""

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
        watched = watched_of(snapshot, self._aims, self._weights)
        load = loads(snapshot, watched)
        counted = np.array([node.schedulable for node in snapshot.nodes], bool)
        too_loaded = hot(load, counted, self._thresholds(snapshot, load, counted, watched))
        too_hot: Bools = np.asarray(too_loaded.any(axis=1))
        self.causes = {
            snapshot.nodes[row].name: frozenset(np.array(watched)[too_loaded[row]].tolist())
            for row in np.flatnonzero(too_hot).tolist()
        }
        limited = np.isfinite(limits(self._aims.high, watched))
        clearly: Bools = np.asarray((load[:, limited] >= OVERLOADED).any(axis=1))
        self._forget_others(snapshot)
        self.confirmed = _counted(snapshot, too_hot, self.confirmed if follows else {})
        self._overloaded = _counted(snapshot, clearly, self._overloaded if follows else {})

    def _forget_others(self, snapshot: Snapshot) -> None:
        """A node created again under an old name was not hot yet."""
        keys = frozenset(node_keys(snapshot.nodes))
        new = {name for name, _ in keys - self._keys}
        self.confirmed, self._overloaded = (
            {name: count for name, count in each.items() if name not in new}
            for each in (self.confirmed, self._overloaded)
        )
        self._keys = keys

    def _thresholds(self, snapshot: Snapshot, load: Floats, counted: Bools, watched: tuple[str, ...]) -> Thresholds:
        aims = self._aims
        if aims.deviation is None:
            return Thresholds.absolute(load, aims.high, aims.low, watched)
        numbers: dict[str, int] = {}
        pools = [numbers.setdefault(snapshot.pool(row), len(numbers)) for row in range(len(snapshot.nodes))]
        return Thresholds.deviation(load, counted, np.array(pools, np.int64), aims.deviation)


def loads(snapshot: Snapshot, watched: Sequence[str], nodes: Iterable[str] | None = None) -> Floats:
    """[node, resource] means of the first window, of the `watched`, NaN where unknown; of `nodes`, or of all."""
    return of_nodes(snapshot.primary.mean, snapshot, watched, nodes)


def of_nodes(values: Floats, snapshot: Snapshot, watched: Sequence[str], nodes: Iterable[str] | None = None) -> Floats:
    """[node, resource] from [resource, node] of the snapshot, of the `watched`; of `nodes`, or of all."""
    columns = [index for name in watched if (index := snapshot.resource(name)) is not None]
    rows = [snapshot.rows.get(name, -1) for name in nodes] if nodes is not None else list(range(len(snapshot.nodes)))
    padded = np.append(values[columns], np.full((len(columns), 1), np.nan), axis=1)
    return np.asarray(padded[:, rows].T)


def watched_of(snapshot: Snapshot, aims: Aims, weights: Weights) -> tuple[str, ...]:
    """The measured resources that decide anything about evictions: cpu, memory, those with a weight or a limit."""
    deciding = {*ALWAYS_NEEDED, *named(weights, aims.high, aims.low, aims.target_high)}
    return tuple(name for name in snapshot.resources if name in deciding)


def _counted(snapshot: Snapshot, marked: Bools, before: Mapping[str, int]) -> dict[str, int]:
    names = [snapshot.nodes[row].name for row in np.flatnonzero(marked).tolist()]
    return {name: before.get(name, 0) + 1 for name in names}
