"""What the windows say: mean, deviation, p95, count and coverage, recomputed exactly from the ring every time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.model.snapshot import Window
from ballast.windows.ring import Ring

QUANTILE = 0.95

GAP_LIMIT = 2.5
"""A sample accounts for the gap before it, up to so many resolutions."""


@dataclass(frozen=True)
class Rules:
    """When a window is known. Seconds; `resolution` None is the median gap of each node and resource."""

    min_coverage: float
    min_samples: int
    max_age: float
    resolution: float | None


def summarise(
    ring: Ring, columns: Ints, *, name: str, seconds: float, end: float, rules: Rules, scale: Floats | float = 1.0
) -> Window:
    """One window of `seconds` before `end`; see `summarise_all`."""
    return summarise_all(ring, columns, lengths={name: seconds}, end=end, rules=rules, scale=scale)[name]


def summarise_all(
    ring: Ring,
    columns: Ints,
    *,
    lengths: Mapping[str, float],
    end: float,
    rules: Rules,
    scale: Floats | float = 1.0,
) -> dict[str, Window]:
    """The windows of all `lengths` (name to seconds) that end at `end`, which becomes the ring's present.

    A window holds the samples whose slot lies in (end - seconds, end], left-open as in Prometheus 3, with `end` taken
    to its own slot. Mean, population deviation and p95 (interpolated as quantile_over_time does) are multiplied by
    `scale` [resource, node], which turns a ratio of capacity into load, and NaN where the window is not known; nothing
    is known without a finite scale. Count and coverage are always given.
    """
    longest = max(lengths.values())
    if longest > ring.span:
        raise ValueError(f"the ring holds {ring.span:g} s; a window of {longest:g} s does not fit")
    ring.advance(end)
    values = _chronological(ring, ring.slot(end), _slots_in(longest / ring.step))
    present = ~np.isnan(values)
    resolution = _median_gap(present) if rules.resolution is None else np.float64(rules.resolution / ring.step)
    usable = (end - ring.newest[:, columns] <= rules.max_age) & np.isfinite(scale)

    windows = {}
    for name, seconds in lengths.items():
        depth = seconds / ring.step
        slots = _slots_in(depth)
        count = present[-slots:].sum(axis=0)
        mean, deviation, high = _moments(values[-slots:], present[-slots:], count)
        coverage = _coverage(present[-slots:], count, depth, GAP_LIMIT * resolution)[:, columns]
        count = count[:, columns]
        known = usable & (coverage >= rules.min_coverage) & (count >= max(rules.min_samples, 1))
        factor = np.where(known, scale, np.nan)
        windows[name] = Window(
            name=name,
            seconds=seconds,
            mean=mean[:, columns] * factor,
            std=deviation[:, columns] * factor,
            p95=high[:, columns] * factor,
            count=count,
            coverage=coverage,
            known=known,
        )
    return windows


def _slots_in(depth: float) -> int:
    """How many whole slots lie in a left-open window of `depth` slots that ends on a slot."""
    return math.ceil(depth - 1e-9)


def _chronological(ring: Ring, newest: int, count: int) -> Floats:
    """The last `count` slots up to `newest`, oldest first: [slot, resource, column], NaN where there is no sample."""
    wanted = np.arange(newest - count + 1, newest + 1)
    rows = wanted % ring.rows
    values = ring.values[rows, :, : ring.width]
    values[ring.slots[rows, :, : ring.width] != wanted[:, None, None]] = np.nan
    return values


def _moments(values: Floats, present: Bools, count: Ints) -> tuple[Floats, Floats, Floats]:
    """Mean, population deviation (two passes) and p95 over the first axis; NaN without samples."""
    divisor = np.where(count > 0, count, np.nan)
    complete = bool((count == len(values)).all())
    mean = (values if complete else np.where(present, values, 0.0)).sum(axis=0) / divisor
    away = values - mean
    if not complete:
        away[~present] = 0.0
    deviation = np.sqrt(np.einsum("irc,irc->rc", away, away) / divisor)

    ordered = np.sort(values, axis=0)
    last = np.maximum(count - 1, 0)
    rank = QUANTILE * last
    lower = rank.astype(np.int64)
    weight = rank - lower
    below = np.take_along_axis(ordered, lower[None], axis=0)[0]
    above = np.take_along_axis(ordered, np.minimum(lower + 1, last)[None], axis=0)[0]
    return mean, deviation, below * (1 - weight) + above * weight


def _coverage(present: Bools, count: Ints, depth: float, limit: Floats | np.float64) -> Floats:
    """The share of a window of `depth` slots that its samples account for.

    Each accounts for the gap before it, up to `limit` slots; the first sample's gap begins with the window.
    """
    covered = np.ones(count.shape)
    short = ~((count == len(present)) & (limit >= 1))
    gaps, limits = _gaps(present[:, short]), np.broadcast_to(limit, count.shape)[short]
    first = np.argmax(present[:, short], axis=0)
    gaps[first, np.arange(len(first))] -= len(present) - depth
    gaps[~present[:, short]] = 0.0
    covered[short] = np.minimum(gaps, limits).sum(axis=0) / depth
    return covered


def _gaps(present: Bools) -> Floats:
    """Slots between each sample and the one before it, or the lower edge of the first slot; no sense without a sample."""
    place = np.arange(1.0, len(present) + 1).reshape(-1, *[1] * (present.ndim - 1))
    last = np.maximum.accumulate(np.where(present, place, 0.0), axis=0)
    gaps = np.broadcast_to(place, present.shape).copy()
    gaps[1:] -= last[:-1]
    return gaps


def _median_gap(present: Bools) -> Floats:
    """The median gap between the samples of each series, in slots; 1 where there are fewer than two samples."""
    gaps = _gaps(present)
    gaps[~present] = np.inf
    first = np.argmax(present, axis=0)
    np.put_along_axis(gaps, first[None], np.inf, axis=0)
    gaps.sort(axis=0)
    count = np.maximum(present.sum(axis=0) - 1, 1)
    middle = np.take_along_axis(gaps, ((count - 1) // 2)[None], axis=0)[0]
    middle = (middle + np.take_along_axis(gaps, (count // 2)[None], axis=0)[0]) / 2
    return np.where(np.isfinite(middle), middle, 1.0)
