"""Which values may enter a window. A rejected value is counted by its reason and never becomes a number."""

from collections import Counter

import numpy as np

from ballast.model.sample import Bools, Floats, Ints, Samples
from ballast.telemetry.node_names import AMBIGUOUS, UNMATCHED

LARGEST_SHARE = 1.05
"""The largest accepted ratio of cpu, memory and stalled time. They are shares of a whole; above 1 only by rounding."""

LARGEST_ROUNDING = 0.02
"""What a preset gives below 0 down to here is 0."""

COPIES = 0.05
"""Two samples of one number, from scrapes that are not simultaneous, differ by no more than this."""

LARGEST_RATIO = 10.0
LARGEST_FLOAT = 1e300
"""Sums of a few values up to here are finite."""
SUSPICIOUS_RATIO = 1.5


def accept(  # noqa: PLR0913 (each is a limit by name)
    at: float,
    rows: Ints,
    values: Floats,
    times: Floats,
    *,
    max_age: float,
    skew: float,
    largest: float,
    rejected: Counter[str],
    same: float = 0.0,
) -> Samples:
    """The samples among `values` that count at `at`; adds what does not to `rejected`.

    `rows` are codes of NodeNames, `times` the Unix times of the raw samples (NaN: unknown, hence stale).
    What is above `largest` is in another unit: unreadable. Of several values of a node that differ by no more than
    `same` the newest counts; if they differ more, all are rejected as duplicates.
    """
    rejected["unmatched"] += int(np.count_nonzero(rows == UNMATCHED))
    rejected["ambiguous"] += int(np.count_nonzero(rows == AMBIGUOUS))
    keep = rows > UNMATCHED
    keep = _reject(keep, ~np.isfinite(values), "non_finite", rejected)
    keep = _reject(keep, values < 0, "negative", rejected)
    keep = _reject(keep, values > largest, "unreadable", rejected)
    keep = _reject(keep, times > at + skew, "future", rejected)
    keep = _reject(keep, ~(times >= at - max_age), "stale", rejected)
    return _single(rows[keep], values[keep], times[keep], rejected, same)


def largest_ratio(resource: str) -> float:
    """Above this a value of the resource is no ratio."""
    return LARGEST_SHARE if resource in ("cpu", "memory") or resource.startswith("psi-") else LARGEST_RATIO


def default_max_age(interval: float, scrapes: float = 0.0) -> float:
    """How old a sample may be where MAX_AGE is not set: three readings or scrapes (seconds apart), at least 90 s."""
    return max(3 * interval, 3 * scrapes, 90.0)


def allowed_skew(interval: float) -> float:
    """How far ahead of the evaluation time a sample may be: clocks differ a little."""
    return max(interval, 5.0)


def rounded(values: Floats) -> Floats:
    """1 − idle can be slightly negative on idle nodes because scrapes are not simultaneous: such values become 0."""
    return np.where((values < 0) & (values >= -LARGEST_ROUNDING), 0.0, values)


def no_ratios(values: Floats, largest: float) -> bool:
    """Whether the median of the values is above `largest`: then the whole answer is in another unit."""
    finite = values[np.isfinite(values)]
    return finite.size > 0 and float(np.median(np.minimum(finite, LARGEST_FLOAT))) > largest


def _reject(keep: Bools, bad: Bools, reason: str, rejected: Counter[str]) -> Bools:
    bad = bad & keep
    count = int(np.count_nonzero(bad))
    if not count:
        return keep
    rejected[reason] += count
    return keep & ~bad


def _single(rows: Ints, values: Floats, times: Floats, rejected: Counter[str], same: float) -> Samples:
    order = np.lexsort((times, rows))
    rows, values, times = rows[order], values[order], times[order]
    if not rows.size or np.all(rows[1:] > rows[:-1]):
        return Samples(rows, values, times)
    starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    sizes = np.diff(np.r_[starts, rows.size])
    differ = np.maximum.reduceat(values, starts) - np.minimum.reduceat(values, starts) > same
    rejected["duplicate"] += int(sizes[differ].sum())
    newest = (starts + sizes - 1)[~differ]
    return Samples(rows[newest], values[newest], times[newest])
