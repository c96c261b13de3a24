"""How much of a predicted fall of load an eviction caused on its source, with an interval.

An interrupted time series beside nodes that nobody touched (difference in differences): the last minutes before against
the first after. What the source would have changed by itself meanwhile lies between its slope before and its slope
after; how far such a comparison errs is what it shows for the untouched nodes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot, Window

CONTROLS = 24
"""Untouched nodes that are remembered, those whose load is nearest to that of the sources."""

STUDENT = (
    12.7062047, 4.30265273, 3.18244631, 2.77644511, 2.57058184, 2.44691185, 2.36462425, 2.30600414, 2.26215716,
    2.22813885, 2.20098516, 2.17881283, 2.16036866, 2.14478669, 2.13144955, 2.1199053, 2.10981558, 2.10092204,
    2.09302405, 2.08596345, 2.07961384, 2.07387307, 2.06865761, 2.06389856,
)  # fmt: skip
"""The 97.5 % quantile of Student's distribution, on both sides an interval of 95 %, by degrees of freedom from 1."""

_CHANCE, _CLEARLY = 2.0, 4.0
"""Standard deviations of slopes on untouched nodes up to which a turn, and a bend, is chance."""

_CURVATURE = 1.6
"""Standard deviations of a part of the window in that of a comparison."""

Parts = Mapping[str, Mapping[str, tuple[float, ...]]]
"""{node: {resource: mean loads of the parts of the window, the oldest first}}"""


class Interval(NamedTuple):
    """A value and its bounds."""

    value: float
    low: float
    high: float


class _Change(NamedTuple):
    """What changed beyond the expected: `half` is how far the slopes before and after leave that open, `error` how far
    chance in them does."""

    value: float
    half: float
    error: float


def ages(snapshot: Snapshot) -> Floats:
    """[part] seconds from the middle of each part of the window to its end, the oldest first."""
    edges = [0.0, *sorted({window.seconds for window in _windows(snapshot)})]
    return np.array([(near + far) / 2 for near, far in pairwise(edges)][::-1])


def parts(snapshot: Snapshot, nodes: Iterable[str]) -> dict[str, dict[str, tuple[float, ...]]]:
    """The parts of the window that longer windows have beyond shorter ones, without what is unknown."""
    windows = sorted({window.seconds: window for window in _windows(snapshot)}.values(), key=lambda each: each.seconds)
    means = [windows[0].mean] + [
        (longer.seconds * longer.mean - shorter.seconds * shorter.mean) / (longer.seconds - shorter.seconds)
        for shorter, longer in pairwise(windows)
    ]
    stacked = np.stack(means[::-1])
    by_node: dict[str, dict[str, tuple[float, ...]]] = {}
    for name in nodes:
        row = snapshot.rows.get(name)
        if row is None:
            continue
        for number, resource in enumerate(snapshot.resources):
            values = stacked[:, number, row]
            if np.isfinite(values).all():
                by_node.setdefault(name, {})[resource] = tuple(round(value, 5) for value in values.tolist())
    return by_node


def controls(snapshot: Snapshot, touched: Collection[str], sources: Collection[str]) -> list[str]:
    """Untouched nodes like the sources: a hot one falls back by chance as other hot ones do."""
    load = np.nanmax(np.nan_to_num(snapshot.primary.mean, nan=-1.0), axis=0, initial=-1.0)
    rows = [snapshot.rows[name] for name in sources if name in snapshot.rows]
    level = float(load[rows].mean()) if rows else 0.0
    others = [(abs(load[row] - level), name) for name, row in snapshot.rows.items() if name not in touched]
    return [name for _, name in sorted(others)[:CONTROLS]]


def share(
    expected: Mapping[str, Mapping[str, float]], before: Parts, after: Parts, passed: float, middle: Floats
) -> Interval | None:
    """Of the falls of load that were expected of sources, the share that happened; None where nothing tells.

    `before` and `after` are parts of the window of the sources and of untouched nodes, `passed` seconds apart, with
    `middle` as of `ages`. The projection of what happened on what was expected.
    """
    dot = norm = open_ = variance = 0.0
    for node, changes in expected.items():
        for resource, change in changes.items():
            seen = _compare(node, resource, (before, after), passed, middle, expected)
            if seen is not None:
                observed, error = seen
                dot += change * observed.value
                open_ += abs(change) * observed.half
                variance += (change * error) ** 2
                norm += change * change
    if not norm:
        return None
    value, reach = dot / norm, (open_ + variance**0.5) / norm
    return Interval(*(round(float(part), 4) for part in (value, value - reach, value + reach)))


def _compare(
    node: str,
    resource: str,
    sides: tuple[Parts, Parts],
    passed: float,
    middle: Floats,
    expected: Mapping[str, Mapping[str, float]],
) -> tuple[_Change, float] | None:
    """The change on a node beyond what others show, and how far it may be wrong for chance."""
    series = {
        name: np.array([side[name][resource] for side in sides])
        for name in sides[0]
        if (name == node or name not in expected) and all(resource in side.get(name, {}) for side in sides)
    }
    own = series.pop(node, None)
    if own is None or own.shape[1] != len(middle):
        return None
    others = [values for values in series.values() if values.shape == own.shape]
    common = np.mean(others, axis=0) if others else np.zeros_like(own)
    others = [values - common for values in others]
    change = _change(own - common, others, passed, middle)
    if len(others) > 1:
        freedom = len(others) - 1
        noise = _slope_noise(others, middle)
        placebos = [_jump(values, noise, passed, middle)[0] for values in others]
        spread = float(np.sqrt(np.square(placebos).sum() / freedom * (1 + 1 / len(others)) + change.error**2))
        return change, STUDENT[min(freedom, len(STUDENT)) - 1] * spread
    if len(middle) < 3:
        return change, abs(expected[node][resource])  # Nothing tells it from chance.
    bends = np.abs(own[:, 0] - 2 * own[:, 1] + own[:, 2]) / np.sqrt(6)
    return change, STUDENT[1] * _CURVATURE * float(np.sqrt(np.square(bends).mean()))


def _change(values: Floats, others: Sequence[Floats], passed: float, middle: Floats) -> _Change:
    """Of loads [before and after, part]: the jump, and how far slopes that differ by more than chance leave it open."""
    (value, error), half = _jump(values, _slope_noise(others, middle), passed, middle), 0.0
    if len(middle) < 2:
        return _Change(value, half, error)
    gap = passed - middle[0] + middle[-1]
    slopes = _slopes(values, middle)
    turn = abs(float(slopes[1] - slopes[0]))
    noise = [float(np.ptp(_slopes(other, middle))) for other in others]
    half = max(0.0, turn - _CHANCE * _root_mean_square(noise)) / 2 * gap
    # A part of the window that is much steeper than all of it: the load may have gone on so.
    steeper: Floats = np.diff(values, axis=1) / -np.diff(middle) - slopes[:, None]
    bends = [np.diff(other, axis=1) / -np.diff(middle) - _slopes(other, middle)[:, None] for other in others]
    steepest = float(np.abs(steeper).max())
    if steepest > _CLEARLY * _root_mean_square(np.ravel(bends).tolist()):
        half = max(half, steepest * gap)
    return _Change(value, half, error)


def _jump(values: Floats, noise: float, passed: float, middle: Floats) -> tuple[float, float]:
    """The newest part before against the oldest after, less the slope of both sides in between; and how far that slope
    may be wrong.

    The slope is shrunk by how much of it may be `noise` (James and Stein), so that a long gap does not multiply chance.
    """
    gap = passed - float(middle[0] - middle[-1])
    slope = float(_slopes(values, middle).mean()) if len(middle) > 1 else 0.0
    certain = max(0.0, 1 - 2 * (noise / slope) ** 2) if slope else 0.0
    return float(values[1, 0] - values[0, -1]) - certain * slope * gap, certain * noise * gap


def _slope_noise(others: Sequence[Floats], middle: Floats) -> float:
    """The standard deviation of slopes on untouched nodes."""
    return _root_mean_square([float(_slopes(values, middle).mean()) for values in others]) if len(middle) > 1 else 0.0


def _slopes(values: Floats, middle: Floats) -> Floats:
    """[before and after] change in a second, from the first part to the last."""
    return np.asarray((values[:, -1] - values[:, 0]) / (middle[0] - middle[-1]))


def _root_mean_square(values: Sequence[float]) -> float:
    return float(np.sqrt(np.square(values).mean())) if values else 0.0


def _windows(snapshot: Snapshot) -> list[Window]:
    return [window for window in snapshot.windows.values() if window.seconds <= snapshot.primary.seconds]
