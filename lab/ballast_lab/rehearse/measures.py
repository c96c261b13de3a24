"""What is counted of a run: hot node-hours, deviation, evictions, writes; and how certain the numbers are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ballast.model.sample import Bools, Floats
from ballast_lab.rehearse.history import RESOURCES

LEVELS = ("0.8", "0.9")
"""Loads of the hotter resource from which node-hours are counted."""
BLOCKS = 8
"""Into how many blocks a time of fewer than that many days is cut."""
DAY, HOUR = 86_400.0, 3600.0
RESAMPLES = 1000
SIDES = (2.5, 97.5)
"""Percentiles between which 95 % of the resamples lie."""


class Estimate(msgspec.Struct, frozen=True):
    """A number, and the interval of 95 % that blocks of the time give it."""

    value: float
    low: float
    high: float

    def holds(self, number: float) -> bool:
        """Whether a number is within the interval."""
        return self.low <= number <= self.high


class MoveRecord(msgspec.Struct, frozen=True):
    """One eviction: from the step after `time` (Unix seconds) on, what the pod uses is at `target`."""

    time: float
    pod: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    planner: str
    reason: str
    gain: float


@dataclass
class Measures:
    """Collects one run. Loads are [resource, node], NaN where unknown; what is kept is [time] or by hour."""

    step: float
    hot: dict[str, list[int]] = field(default_factory=lambda: {level: [] for level in LEVELS})
    deviation: list[Floats] = field(default_factory=list)
    p99: list[float] = field(default_factory=list)
    hottest: list[float] = field(default_factory=list)
    known: int = 0
    expected: int = 0
    evictions: Counter[str] = field(default_factory=Counter)
    """By planner."""
    moves: list[MoveRecord] = field(default_factory=list)
    by_workload: Counter[str] = field(default_factory=Counter)
    by_time: list[int] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    label_writes: int = 0
    concentration: int = 0
    empty: list[int] = field(default_factory=list)
    """Nodes without pods other than those of DaemonSets."""
    nodes_emptied: int = 0
    """How often a node became empty."""
    _empty: Bools | None = None

    def observe(self, load: Floats, counted: Bools, empty: Bools) -> None:
        """A step has passed with these loads; `counted` [node] were there, and of them these were `empty`."""
        before, self._empty = self._empty, empty
        self.empty.append(int(np.count_nonzero(empty)))
        self.nodes_emptied += 0 if before is None else int(np.count_nonzero(empty & ~before))
        whole = load[:, counted]
        hotter = np.fmax.reduce(whole, axis=0) if whole.size else np.empty(0)
        hotter = hotter[np.isfinite(hotter)]
        self.expected += int(np.count_nonzero(counted))
        self.known += len(hotter)
        for level in LEVELS:
            self.hot[level].append(int(np.count_nonzero(hotter > float(level))))
        self.p99.append(float(np.percentile(hotter, 99)) if len(hotter) else np.nan)
        self.hottest.append(float(hotter.max()) if len(hotter) else np.nan)
        spread = [values[np.isfinite(values)] for values in whole]
        self.deviation.append(np.array([values.std() if len(values) else np.nan for values in spread]))
        self.by_time.append(0)

    def evicted(self, move: MoveRecord, workload: str) -> None:
        """One eviction in the step that was observed last."""
        self.moves.append(move)
        self.evictions[move.planner] += 1
        self.by_workload[workload] += 1
        self.by_time[-1] += 1

    def node_hours(self, level: str) -> Estimate:
        """Node-hours above a level."""
        hours = np.array(self.hot[level], float) * self.step / HOUR
        return estimate(hours, self.step, total=True)

    def saved(self, as_it_was: Measures) -> Estimate:
        """Node-hours without pods, less those as it was."""
        more = np.array(self.empty, float) - np.array(as_it_was.empty, float)
        return estimate(more * self.step / HOUR, self.step, total=True)

    def load_p99(self) -> Estimate:
        """The mean over time of the 99th percentile of node load."""
        return estimate(np.array(self.p99, float), self.step, total=False)

    def deviations(self) -> dict[str, Estimate]:
        """The mean over time of the population standard deviation of load."""
        table = np.array(self.deviation, float).reshape(-1, len(RESOURCES))
        return {name: estimate(table[:, column], self.step, total=False) for column, name in enumerate(RESOURCES)}


def estimate(values: Floats, step: float, *, total: bool) -> Estimate:
    """The sum or the mean of [time], and what resampled blocks of days give (a block bootstrap of fixed seed).

    A time of fewer than 8 days is cut into 8 blocks, since load at one time resembles that of the next. Times at which
    nothing is known do not count. Source: Künsch (1989), The jackknife and the bootstrap for general stationary
    observations.
    """
    blocks = max(round(len(values) * step / DAY), min(BLOCKS, len(values)))
    known = np.isfinite(values)
    parts = np.array_split(np.where(known, values, 0.0), blocks)
    sums = np.array([part.sum() for part in parts])
    counts = np.array([part.sum() for part in np.array_split(known.astype(float), blocks)])
    if not counts.sum():
        return Estimate(0.0, 0.0, 0.0)
    drawn = np.random.default_rng(0).integers(0, blocks, (RESAMPLES, blocks))
    if total:
        value, resampled = sums.sum(), sums[drawn].sum(axis=1)
    else:
        value = sums.sum() / counts.sum()
        resampled = sums[drawn].sum(axis=1) / np.maximum(counts[drawn].sum(axis=1), 1.0)
    low, high = np.percentile(resampled, SIDES)
    return Estimate(*(round(float(number), 6) for number in (value, min(low, value), max(high, value))))
