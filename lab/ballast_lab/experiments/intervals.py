"""95 % intervals over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

import numpy as np
from scipy.stats import t

Interval = tuple[float, float]
"""Low and high."""

CONFIDENCE = 0.95
_RESAMPLES = 2000


def of_mean(values: Sequence[float]) -> Interval | None:
    """Student's interval of the mean; None of fewer than two values."""
    if len(values) < 2:
        return None
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def plus_minus(values: Sequence[float], digits: int = 1) -> str:
    """The mean, and half of its interval where there is one."""
    interval, mean = of_mean(values), f"{fmean(values):.{digits}f}"
    return mean if interval is None else f"{mean} ± {(interval[1] - interval[0]) / 2:.{digits}f}"


def of_ratio(above: Sequence[float], below: Sequence[float]) -> Interval | None:
    """The percentile bootstrap of mean(above) / mean(below) over pairs of runs (Efron, 1979); always the same draws."""
    if len(above) < 2:
        return None
    draws = np.random.default_rng(0).integers(len(above), size=(_RESAMPLES, len(above)))
    ratios = np.asarray(above, float)[draws].mean(axis=1) / np.asarray(below, float)[draws].mean(axis=1)
    low, high = np.quantile(ratios, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def shown(interval: Interval | None, form: str = ".3g") -> str:
    """As a table prints it."""
    return "–" if interval is None else f"{interval[0]:{form}} to {interval[1]:{form}}"
