"""The last 24 hours in five-minute means, for the page: loads and scores of nodes, and how unevenly load is spread.

Loads are kept in steps of half a percent in one byte each: 5,000 nodes with four resources take 8.1 MB, and never more
than BOUND bytes are taken; beyond that fewer hours are kept. Of nodes that are gone the latest are kept, an eighth of
those that are there and GONE at least; so nodes that come and go all day take no more memory than in the first hours.
"""

import threading
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ballast.answers.views import NodeHistory, SpreadHistory
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot
from ballast.placement.load_spread import deviations

STEP = 300.0
"""Seconds of one slot."""

SLOTS = 288
"""A day."""

BOUND = 48 * 2**20
"""Bytes for the loads and scores of all nodes."""

GONE = 100
"""The least number of nodes that are kept after they are gone."""

BINS = 20
"""Bars of a distribution, 5 % each; the last one also has what is above."""

SCORE = "score"
UNKNOWN = 255
EARLY = 1800.0
"""Seconds from the first snapshot on of which each spread is kept."""

FINE = 15.0
"""Seconds between two of these, at least."""

PER_LOAD, PER_SCORE = 200.0, 2.0
Bytes = NDArray[np.uint8]


class FleetHistory:
    """`observe` in the thread of telemetry; the others in any thread."""

    def __init__(self, bound: int = BOUND) -> None:
        self._bound = bound
        self._lock = threading.Lock()
        self._series: tuple[str, ...] = ()
        self._start(())

    def observe(self, snapshot: Snapshot, scores: Mapping[str, int | None], high: Mapping[str, float]) -> None:
        """A new snapshot with its scores; nodes at or above `high` (by resource) count as hot."""
        with self._lock:
            if self._series != (*snapshot.resources, SCORE):
                self._start(snapshot.resources)
            names = [node.name for node in snapshot.nodes]
            self._give_rows(names)
            slot = int(snapshot.time // STEP)
            if slot != self._slot:
                self._begin(slot)
            rows = np.array([self._rows[name] for name in names], np.int64)
            self._seen[rows] = slot
            values = np.empty((len(self._series), len(names)))
            values[:-1] = snapshot.primary.mean * PER_LOAD
            values[-1] = [np.nan if (score := scores.get(name)) is None else score * PER_SCORE for name in names]
            known = np.isfinite(values)
            self._sums[:, rows] += np.where(known, values, 0.0)
            self._counts[:, rows] += known
            place = slot % self.slots
            with np.errstate(invalid="ignore"):
                means = self._sums[:, rows] / self._counts[:, rows]
            self._ring[place][:, rows] = np.where(
                np.isfinite(means), np.clip(np.rint(np.nan_to_num(means)), 0, UNKNOWN - 1), UNKNOWN
            )
            self._note(snapshot, high, slot % SLOTS)

    @property
    def slots(self) -> int:
        """How many slots are kept of each node: a day, or fewer where there are very many nodes."""
        return len(self._ring)

    def spread(self) -> SpreadHistory:
        """Oldest first, null where nothing was known: each value of the first half hour, then one in five minutes."""
        with self._lock:
            oldest = (self._slot - SLOTS + 1) * STEP
            early = [point for point in self._early if point[0] >= oldest]
            begun = early[-1][0] if early else -np.inf
            slots = [(slot * STEP, self._deviation[place], int(self._hot[place])) for slot, place in self._filled()]
            points = [*early, *(point for point in slots if point[0] > begun)]
        return SpreadHistory(
            step=STEP,
            times=[time for time, _, _ in points],
            spread={
                name: _listed(np.array([spread[row] for _, spread, _ in points]), 4)
                for row, name in enumerate(self._series[:-1])
            },
            hot=[hot for _, _, hot in points],
        )

    def node(self, name: str) -> NodeHistory | None:
        """None for a node that was never seen."""
        with self._lock:
            row = self._rows.get(name)
            if row is None:
                return None
            kept = [slot for slot, _ in self._filled(self.slots)]
            values = self._ring[[slot % self.slots for slot in kept], :, row]
        decoded = np.where(values == UNKNOWN, np.nan, values.astype(float))
        return NodeHistory(
            node=name,
            step=STEP,
            times=[slot * STEP for slot in kept],
            load={resource: _listed(decoded[:, row] / PER_LOAD, 3) for row, resource in enumerate(self._series[:-1])},
            score=_listed(decoded[:, -1] / PER_SCORE, 1),
        )

    def at(self, time: float, names: Sequence[str]) -> tuple[float, dict[str, Floats]] | None:
        """The five minutes around `time`: when they began, and {resource or score: [node] NaN where unknown}.

        None where nothing of that time is kept.
        """
        slot = int(time // STEP)
        with self._lock:
            if slot not in {kept for kept, _ in self._filled(self.slots)}:
                return None
            there = [self._rows.get(name, -1) for name in names]
            rows = np.array(there, np.int64)
            values = self._ring[slot % self.slots][:, rows].astype(float)
        values[:, rows < 0] = UNKNOWN
        values[values == UNKNOWN] = np.nan
        scale = {name: PER_SCORE if name == SCORE else PER_LOAD for name in self._series}
        return slot * STEP, {name: values[row] / scale[name] for row, name in enumerate(self._series)}

    def distributions(self) -> tuple[float, dict[str, list[int]]] | None:
        """When the oldest five minutes began, or the first snapshot was; and the nodes in each bar by resource."""
        with self._lock:
            filled = self._filled()
            if not filled:
                return None
            slot, place = filled[0]
            first = self._early[0][0] if self._early else 0.0
            begun = first if first // STEP == slot else slot * STEP
            return begun, {name: self._bars[place, row].tolist() for row, name in enumerate(self._series[:-1])}

    def _start(self, resources: Sequence[str]) -> None:
        self._series = (*resources, SCORE)
        self._rows: dict[str, int] = {}
        self._slot = -1
        self._ring: Bytes = np.full((SLOTS, len(self._series), 0), UNKNOWN, np.uint8)
        self._sums = np.zeros((len(self._series), 0), np.float32)
        self._counts = np.zeros((len(self._series), 0), np.uint16)
        self._seen = np.zeros(0, np.int64)
        self._written = np.full(SLOTS, -1, np.int64)
        self._deviation = np.full((SLOTS, len(resources)), np.nan)
        self._hot = np.zeros(SLOTS, np.int64)
        self._bars = np.zeros((SLOTS, len(resources), BINS), np.uint16)
        self._early: list[tuple[float, Floats, int]] = []

    def _filled(self, most: int = SLOTS) -> list[tuple[int, int]]:
        """(slot, its place in rings of a day), oldest first; the newest `most`."""
        return sorted(
            (slot, place) for place, slot in enumerate(self._written.tolist()) if self._slot - most < slot <= self._slot
        )

    def _begin(self, slot: int) -> None:
        """A new slot; those that were skipped, or that a clock that was set back left ahead, are not known."""
        skipped = range(self._slot + 1, slot) if 0 <= self._slot < slot else ()
        for skipped_slot in [*list(skipped)[-self.slots :], slot]:
            self._ring[skipped_slot % self.slots] = UNKNOWN
        self._slot = slot
        self._written[self._written > slot] = -1
        self._sums[:], self._counts[:] = 0, 0

    def _give_rows(self, names: Sequence[str]) -> None:
        """Gives each node a row: a free one, then those of nodes that are longest gone."""
        new = [name for name in names if name not in self._rows]
        if not new:
            return
        there = set(names)
        size = len(names) + min(
            max(GONE, len(names) // 8), max(0, self._bound // (len(self._series) * SLOTS) - len(names))
        )
        if len(self._rows) + len(new) > self._ring.shape[2] < size:
            self._grow(size)
        free = set(range(self._ring.shape[2])).difference(self._rows.values())
        gone = sorted((name for name in self._rows if name not in there), key=lambda name: self._seen[self._rows[name]])
        free.update(self._rows.pop(name) for name in gone[: max(0, len(new) - len(free))])
        rows = sorted(free)[: len(new)]
        self._ring[:, :, rows] = UNKNOWN
        self._sums[:, rows], self._counts[:, rows] = 0, 0
        self._rows.update(zip(new, rows, strict=True))

    def _grow(self, rows: int) -> None:
        slots = max(1, min(SLOTS, self._bound // (len(self._series) * rows)))
        old = self._ring.shape[2]
        ring = np.full((slots, len(self._series), rows), UNKNOWN, np.uint8)
        for slot, _ in self._filled(min(slots, self.slots)):
            ring[slot % slots, :, :old] = self._ring[slot % self.slots]
        self._ring = ring
        right = ((0, 0), (0, rows - old))
        self._sums, self._counts = np.pad(self._sums, right), np.pad(self._counts, right)
        self._seen = np.pad(self._seen, (0, rows - old))

    def _note(self, snapshot: Snapshot, high: Mapping[str, float], place: int) -> None:
        spread, hot = spread_of(snapshot), int(hot_of(snapshot, high).sum())
        first = self._written[place] != self._slot
        self._written[place], self._deviation[place], self._hot[place] = self._slot, spread, hot
        self._early = [point for point in self._early if point[0] < snapshot.time]
        if self._early:
            due = snapshot.time - self._early[0][0] <= EARLY and snapshot.time - self._early[-1][0] >= FINE
        else:
            due = bool(np.isfinite(spread).any())  # the line begins with the first value
        if due:
            self._early.append((snapshot.time, spread, hot))
        if not first:
            return  # the bars are those of the slot's beginning
        for row in range(len(snapshot.resources)):
            self._bars[place, row] = bars_of(snapshot.primary.mean[row])


def spread_of(snapshot: Snapshot) -> Floats:
    """[resource]: the deviation of load over the known, schedulable nodes, within the pools."""
    numbers: dict[str, int] = {}
    pools = [numbers.setdefault(snapshot.pool(row), len(numbers)) for row in range(len(snapshot.nodes))]
    counted = np.array([node.schedulable for node in snapshot.nodes], bool)
    return deviations(snapshot.primary.mean.T, counted, np.array(pools, np.int64))


def hot_of(
    snapshot: Snapshot, high: Mapping[str, float], changes: Mapping[str, Mapping[str, float]] | None = None
) -> NDArray[np.bool_]:
    """[node]: whether a resource is at or above its threshold; with {node: {resource: change of load}}."""
    limits, load = np.array([high.get(name, np.inf) for name in snapshot.resources]), snapshot.primary.mean
    if changes:
        load = load.copy()
        for node, by_resource in changes.items():
            for name, change in by_resource.items():
                if node in snapshot.rows and (row := snapshot.resource(name)) is not None:
                    load[row, snapshot.rows[node]] += change
    with np.errstate(invalid="ignore"):
        return np.asarray((load >= limits[:, None]).any(axis=0))


def bars_of(load: Floats) -> NDArray[np.int64]:
    """[bar]: nodes whose load is in it."""
    known = load[np.isfinite(load)]
    return np.bincount(np.clip((known * BINS).astype(np.int64), 0, BINS - 1), minlength=BINS)


def _listed(values: Floats, digits: int) -> list[float | None]:
    return [round(value, digits) if np.isfinite(value) else None for value in values.tolist()]
