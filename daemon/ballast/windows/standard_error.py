"""How far the mean load of a window may be from what it will be next: its standard error.

Three estimates, of which the largest counts: sigma / sqrt(n) of the window's own samples; how much the means of parts
of the window differ (batch means); how much the means of windows differ that followed one another. The last two see
noise that lasts longer than a sample. They are pooled over nodes by their median, so that a node whose load really
changes does not blur the others.
"""

from collections import deque
from itertools import pairwise

import numpy as np

from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot, Window
from ballast.windows.node_lives import NodeKey, node_keys

KEPT = 8
"""Windows in a row that are compared."""

_ENOUGH = 3
"""Nodes from which on a median over them means something."""


class LoadErrors:
    """`observe` every snapshot in order, from one thread; `newest` may be read from any."""

    def __init__(self, lag: float = 0.0) -> None:
        """`lag`: seconds over which a sample itself is a mean, so that samples nearer to each other tell little."""
        self._lag = lag
        self._keys: tuple[NodeKey, ...] = ()
        self._resources: tuple[str, ...] = ()
        self._time = -np.inf
        self._mean: Floats = np.empty((0, 0))
        self._changes: deque[Floats] = deque(maxlen=KEPT)
        self._batches: deque[tuple[float, Floats]] = deque()
        self.newest: tuple[Snapshot, Floats] | None = None
        """The newest snapshot and its errors [resource, node], in units of load, NaN where unknown."""

    def observe(self, snapshot: Snapshot) -> None:
        """The means of a snapshot are remembered once its window has nothing in common with the last remembered one."""
        keys = node_keys(snapshot.nodes)
        if snapshot.resources != self._resources:
            self._changes.clear()
            self._batches.clear()
            self._keys, self._resources, self._time = (), snapshot.resources, -np.inf
        self._batches.append((snapshot.time, _batches(snapshot)))
        while not 0 <= snapshot.time - self._batches[0][0] < snapshot.primary.seconds:
            self._batches.popleft()
        passed = snapshot.time - self._time
        if not 0 <= passed < snapshot.primary.seconds:
            self._remember(snapshot.primary, keys, snapshot.time, passed)
        self.newest = snapshot, self._of(snapshot)

    def _remember(self, window: Window, keys: tuple[NodeKey, ...], now: float, passed: float) -> None:
        mean = window.mean
        if 0 <= passed <= 2 * window.seconds:
            self._changes.append(_changes(mean, keys, self._mean, self._keys))
        self._keys, self._time, self._mean = keys, now, mean

    def _of(self, snapshot: Snapshot) -> Floats:
        window = snapshot.primary
        independent = np.maximum(window.count, 1.0)
        if self._lag > 0:
            independent = np.clip(window.seconds / self._lag, 1.0, independent)
        own: Floats = window.std / np.sqrt(independent)
        pooled = np.sqrt(np.maximum(self._within(), self._between(len(snapshot.resources))))
        return np.asarray(np.where(np.isnan(window.mean), np.nan, np.fmax(own, pooled[:, None])))

    def _within(self) -> Floats:
        """[resource]: a variance, the mean of those of the snapshots of one window."""
        return np.asarray(np.mean([variance for _, variance in self._batches], axis=0))

    def _between(self, resources: int) -> Floats:
        """[resource]: a variance from windows that followed one another; their difference has twice that of one."""
        if not self._changes:
            return np.zeros(resources)
        return _median_variance(np.square(np.concatenate(self._changes, axis=1)), 1) / 2


def _changes(mean: Floats, keys: tuple[NodeKey, ...], before: Floats, old: tuple[NodeKey, ...]) -> Floats:
    """[resource, node] of the nodes of both, less what changed everywhere."""
    rows = {key: row for row, key in enumerate(old)}
    pairs = [(row, rows[key]) for row, key in enumerate(keys) if key in rows]
    now, then = [row for row, _ in pairs], [row for _, row in pairs]
    return _apart(mean[:, now] - before[:, then])


def _batches(snapshot: Snapshot) -> Floats:
    """[resource]: a variance from the parts that longer windows have beyond shorter ones."""
    windows = sorted(snapshot.windows.values(), key=lambda each: -each.seconds)
    windows = [window for window in windows if window.seconds <= snapshot.primary.seconds]
    parts = [
        (longer.seconds * longer.mean - shorter.seconds * shorter.mean) / (longer.seconds - shorter.seconds)
        for longer, shorter in pairwise(windows)
        if longer.seconds > shorter.seconds
    ]
    if not parts:
        return np.zeros(len(snapshot.resources))
    batches = np.stack([_apart(part) for part in (*parts, windows[-1].mean)])
    freedom = len(batches) - 1
    spread = np.square(batches - batches.mean(axis=0)).sum(axis=0) / freedom
    return _median_variance(spread, freedom) / len(batches)


def _apart(changes: Floats) -> Floats:
    """[resource, node] less the median over the nodes."""
    known = np.isfinite(changes).sum(axis=1) >= _ENOUGH
    middle = np.zeros(len(changes))
    if known.any():
        middle[known] = np.nanmedian(changes[known], axis=1)
    return np.asarray(changes - middle[:, None])


def _median_variance(squares: Floats, freedom: int) -> Floats:
    """[resource]: a variance from estimates [resource, node] that each have so many degrees of freedom.

    The median of chi-squared / k is about (1 - 2 / (9 k))^3 (Wilson and Hilferty).
    """
    errors = np.zeros(len(squares))
    for row, values in enumerate(squares):
        known = values[np.isfinite(values)]
        if len(known) >= _ENOUGH:
            errors[row] = float(np.median(known)) / (1 - 2 / (9 * freedom)) ** 3
    return errors
