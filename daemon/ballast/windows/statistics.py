"""What the windows say: mean, deviation, p95, count and coverage, recomputed exactly from the ring every time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ballast.model.sample import Bools, Floats, Ints
from ballast.model.snapshot import Window
from ballast.windows.ring import TICK, Ring

QUANTILE = 0.95

GAP_LIMIT = 2.5
"""A sample accounts for the gap before it, up to so many resolutions."""

NEVER = np.iinfo(np.int32).min // 2
"""Before any raw sample."""


@dataclass(frozen=True)
class WindowRules:
    """When a window is known. Seconds, one number or one for each resource.

    `resolution` is how far samples are apart; None stands for the median gap of each node and resource.
    """

    min_coverage: float
    min_samples: int
    max_age: float | Floats
    resolution: float | Floats | None


def summarise_all(
    ring: Ring,
    columns: Ints,
    *,
    lengths: Mapping[str, float],
    end: float,
    rules: WindowRules,
    scale: Floats | float = 1.0,
    born: Floats | None = None,
) -> dict[str, Window]:
    """The windows of all `lengths` (name to seconds) that end at `end`, which becomes the ring's present.

    A window holds the samples whose slot lies in (end - seconds, end], left-open as in Prometheus 3, with `end` taken
    to its own slot. Mean, population deviation and p95 (interpolated as quantile_over_time does) are multiplied by
    `scale` [resource, node], which turns a ratio of capacity into load, and NaN where the window is not known; nothing
    is known without a finite scale. Count and coverage are always given.

    Count and coverage go by raw samples: one that several evaluations saw counts once. Coverage is the share of the
    window, or of the node's life where that is shorter: `born` [node] are Unix times, -inf for nodes older than any
    window.
    """
    longest = max(lengths.values())
    if longest > ring.span:
        raise ValueError(f"the ring holds {ring.span:g} s; a window of {longest:g} s does not fit")
    ring.advance(end)
    depths = {name: seconds / ring.step for name, seconds in lengths.items()}
    resolution = None if rules.resolution is None else _each(rules.resolution, ring) / ring.step
    life = _life(ring, columns, end, born)
    figures = {name: np.empty((5, len(ring.resources), len(columns))) for name in lengths}
    for index in range(len(ring.resources)):
        values, present, raw = _chronological(ring, index, ring.slot(end), _slots_in(max(depths.values())))
        limit = GAP_LIMIT * (_median_gap(raw) if resolution is None else resolution[index])
        for name, depth in depths.items():
            slots = _slots_in(depth)
            coverage = _coverage(raw[-slots:], np.minimum(depth, life), limit)
            scrapes = raw[-slots:].sum(axis=0)
            figures[name][:, index] = _figures(values[-slots:], present[-slots:], scrapes, coverage)[:, columns]

    usable = (end - ring.newest[:, columns] <= _each(rules.max_age, ring)[:, None]) & np.isfinite(scale)
    windows = {}
    for name, seconds in lengths.items():
        mean, std, p95, count, coverage = figures[name]
        known = usable & (coverage >= rules.min_coverage) & (count >= max(rules.min_samples, 1))
        factor = np.where(known, scale, np.nan)
        windows[name] = Window(
            name=name,
            seconds=seconds,
            mean=mean * factor,
            std=std * factor,
            p95=p95 * factor,
            count=count.astype(np.int64),
            coverage=coverage,
            known=known,
        )
    return windows


def _each(seconds: float | Floats, ring: Ring) -> Floats:
    """[resource]."""
    return np.broadcast_to(np.asarray(seconds, float), (len(ring.resources),))


def _life(ring: Ring, columns: Ints, end: float, born: Floats | None) -> Floats:
    """[column]: how many slots ago each node was created, at least one."""
    life = np.full(ring.width, np.inf)
    if born is not None:
        life[columns] = np.maximum((end - born) / ring.step, 1.0)
    return life


def _slots_in(depth: float) -> int:
    """How many whole slots lie in a left-open window of `depth` slots that ends on a slot."""
    return math.ceil(depth - 1e-9)


def _chronological(ring: Ring, resource: int, newest: int, count: int) -> tuple[Floats, Bools, Bools]:
    """The last `count` slots up to `newest`, oldest first, as [slot, column].

    Values; where there is one; where it is of a raw sample that no earlier slot has.
    """
    slots = np.arange(newest - count + 1, newest + 1)
    rows = slots % ring.rows
    values: Floats = ring.values[rows, resource, : ring.width]
    missing = np.isnan(values)
    missing[ring.slots[rows, resource] != slots] = True
    raw = (
        np.rint(np.arange(1, count + 1) * (ring.step / TICK)).astype(np.int32)[:, None]
        - ring.behind[rows, resource, : ring.width]
    )
    if missing.any():
        values[missing] = 0.0  # so that sums need no mask
        raw[missing] = NEVER
    latest = raw[:-1]
    if (raw[1:] < latest).any():
        latest = np.maximum.accumulate(latest, axis=0)
    present = ~missing
    first = present.copy()
    first[1:] = raw[1:] > latest + 1
    return values, present, first


def _figures(values: Floats, present: Bools, scrapes: Ints, coverage: Floats) -> Floats:
    """Mean, deviation, p95, scrapes and coverage of each column, as rows; NaN for the first three without samples."""
    count = present.sum(axis=0)
    complete = bool((count == len(values)).all())
    divisor = np.where(count > 0, count, np.nan)
    mean = values.sum(axis=0) / divisor
    away = values - mean
    if not complete:
        away *= present
    deviation = np.sqrt(np.einsum("sc,sc->c", away, away) / divisor)
    p95 = _quantile(values if complete else np.where(present, values, np.nan), count)
    return np.stack((mean, deviation, p95, scrapes, coverage))


def _quantile(values: Floats, count: Ints) -> Floats:
    """p95 of each column by linear interpolation between its `count` samples; the others are NaN."""
    ordered = np.sort(values, axis=0)
    last = np.maximum(count - 1, 0)
    rank = QUANTILE * last
    lower = rank.astype(np.int64)
    weight = rank - lower
    column = np.arange(values.shape[1])
    result: Floats = ordered[lower, column] * (1 - weight) + ordered[np.minimum(lower + 1, last), column] * weight
    return result


def _coverage(present: Bools, depth: Floats, limit: Floats | np.float64) -> Floats:
    """The share of the last `depth` slots, one number for each column, that the samples account for.

    Each accounts for the gap before it, up to `limit` slots; the first sample's gap begins with the window. So the
    gaps add up to the distance from the window's start to the newest sample, less what some exceed the limit by.
    """
    slots = len(present)
    before_start = slots - depth
    covered = depth.copy()
    late = np.flatnonzero(~present[-1])
    tail = present[::-1, late]
    covered[late] = np.where(tail.any(axis=0), np.maximum(depth[late] - np.argmax(tail, axis=0), 0.0), 0.0)

    long = _after_long_gap(present, int(np.min(limit, initial=slots)))
    columns = np.flatnonzero(long.any(axis=0))
    if len(columns):
        gaps = _gaps(present[:, columns])
        place, which = np.nonzero(long[:, columns])
        gap = np.minimum(gaps[place, which], place + 1 - before_start[columns[which]])
        excess = np.maximum(gap - np.broadcast_to(limit, covered.shape)[columns[which]], 0.0)
        covered -= np.bincount(columns[which], excess, len(covered))
    return covered / depth


def _after_long_gap(present: Bools, slots: int) -> Bools:
    """Which samples have none in the `slots` slots before them, all of which lie in the window."""
    alone = present.copy()
    alone[:slots] = False
    for back in range(1, slots + 1):
        alone[slots:] &= ~present[slots - back : -back]
    return alone


def _gaps(present: Bools) -> NDArray[np.int32]:
    """Slots between each sample and the one before it, or else the first slot's lower edge; void without a sample."""
    place = np.arange(1, len(present) + 1, dtype=np.int32)[:, None]
    last = np.maximum.accumulate(np.where(present, place, 0), axis=0)
    gaps = np.repeat(place, present.shape[1], axis=1)
    gaps[1:] -= last[:-1]
    return gaps


def _median_gap(present: Bools) -> Floats:
    """The median gap between the samples of each column, in slots; 1 where there are fewer than two samples."""
    gaps = _gaps(present)
    columns = np.arange(present.shape[1])
    gaps[~present] = len(present)
    gaps[np.argmax(present, axis=0), columns] = len(present)
    gaps.sort(axis=0)
    count = present.sum(axis=0) - 1
    low, high = (count - 1) // 2, count // 2
    return np.where(count > 0, (gaps[low, columns] + gaps[high, columns]) / 2, 1.0)
