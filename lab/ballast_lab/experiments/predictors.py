"""What a window says of the next hour: candidates for the order of nodes and for headroom, and the rules of others.

A predictor takes what is known until now, [node, time] fractions with NaN where nothing is known and a sample every
`step` seconds, and returns one number for each node, NaN where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from ballast.model.sample import Floats

Predictor: TypeAlias = Callable[[Floats, float], Floats]

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
LONGEST = DAY
"""Seconds of history that predictors look at, at most."""


def mean(seconds: float) -> Predictor:
    """The mean of the window."""
    return lambda load, step: np.nanmean(recent(load, step, seconds), axis=1)


def mean_and_deviation(seconds: float, times: float = 1.0) -> Predictor:
    """Mean + `times` population standard deviations, as Trimaran's LoadVariationRiskBalancing adds them."""

    def predict(load: Floats, step: float) -> Floats:
        window = recent(load, step, seconds)
        return np.asarray(np.nanmean(window, axis=1) + times * np.nanstd(window, axis=1))

    return predict


def percentile(seconds: float, percent: float) -> Predictor:
    """A percentile of the window, interpolated as np.nanpercentile does, of all nodes at once."""

    def predict(load: Floats, step: float) -> Floats:
        ordered = np.sort(recent(load, step, seconds), axis=1)
        last_known = np.maximum(np.isfinite(ordered).sum(axis=1) - 1, 0)
        place = last_known * percent / 100
        below, rows = place.astype(np.int64), np.arange(len(ordered))
        low, high = ordered[rows, below], ordered[rows, np.minimum(below + 1, last_known)]
        return np.asarray(low + (high - low) * (place - below))

    return predict


def highest(seconds: float) -> Predictor:
    """The largest sample of the window."""
    return lambda load, step: np.nanmax(recent(load, step, seconds), axis=1)


def highest_mean(seconds: float, of: float = 5 * MINUTE) -> Predictor:
    """The largest mean over `of` seconds in the window, as crane's metrics `max_avg`."""

    def predict(load: Floats, step: float) -> Floats:
        window, width = recent(load, step, seconds), _samples(of, step)
        whole = window[:, window.shape[1] % width :] if window.shape[1] > width else window
        pieces = whole.reshape(len(whole), -1, min(width, whole.shape[1]))
        return np.asarray(np.nanmax(np.nanmean(pieces, axis=2), axis=1))

    return predict


def blend(*parts: tuple[float, Predictor]) -> Predictor:
    """The sum of weight × prediction."""
    return lambda load, step: np.asarray(sum(weight * predict(load, step) for weight, predict in parts))


def last(load: Floats, step: float) -> Floats:
    """The newest sample of the last 15 minutes."""
    window = recent(load, step, 15 * MINUTE)
    newest = window.shape[1] - 1 - np.argmax(np.isfinite(window[:, ::-1]), axis=1)
    return np.asarray(window[np.arange(len(window)), newest])


def recent(load: Floats, step: float, seconds: float) -> Floats:
    """The samples of the last `seconds`; as many as there are, at least one."""
    return load[:, -_samples(seconds, step) :]


def _samples(seconds: float, step: float) -> int:
    return max(1, round(seconds / step))


DEFAULT = "mean 15 m"
"""What Ballast's own strategies order by."""

ORDERS: Mapping[str, Predictor] = {
    "last sample": last,
    "mean 5 m": mean(5 * MINUTE),
    "mean 10 m": mean(10 * MINUTE),
    DEFAULT: mean(15 * MINUTE),
    "mean 1 h": mean(HOUR),
    "mean 24 h": mean(DAY),
    "mean + σ, 15 m": mean_and_deviation(15 * MINUTE),
    "mean + σ, 1 h": mean_and_deviation(HOUR),
    "p95 15 m": percentile(15 * MINUTE, 95),
    ".5·15 m + .5·1 h": blend((0.5, mean(15 * MINUTE)), (0.5, mean(HOUR))),
    ".4·15 m + .3·1 h + .3·24 h": blend((0.4, mean(15 * MINUTE)), (0.3, mean(HOUR)), (0.3, mean(DAY))),
    "N-sigma 10 h, N = 3": mean_and_deviation(10 * HOUR, 3.0),
}
"""Candidates for the order of nodes."""

LEVELS: Mapping[str, Predictor] = {
    "mean + σ, 15 m": ORDERS["mean + σ, 15 m"],
    "max 1 h": highest(HOUR),
    "p99 10 h": percentile(10 * HOUR, 99),
    "N-sigma 10 h, N = 3": ORDERS["N-sigma 10 h, N = 3"],
}
"""Candidates for headroom: levels that the next hour should stay below."""

RULES: Mapping[str, Predictor] = {
    "Ballast, mean 15 m": ORDERS[DEFAULT],
    "Ballast `load-variation`, Trimaran LoadVariationRiskBalancing": blend((0.5, mean_and_deviation(15 * MINUTE))),
    "crane-scheduler Dynamic": blend((0.2, mean(5 * MINUTE)), (0.3, highest_mean(HOUR)), (0.5, highest_mean(DAY))),
    "koordinator LoadAwareScheduling, mean 5 m": mean(5 * MINUTE),
    "koordinator LoadAwareScheduling, p95 5 m": percentile(5 * MINUTE, 95),
}
"""How projects order nodes by load with their defaults: less is better. measurements/scoreboard.md has the sources."""

PREDICTORS: Mapping[str, Predictor] = {**LEVELS, **ORDERS, **RULES}
"""All of them, by name."""
