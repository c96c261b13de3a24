"""Learns the watts of replicas from measured consumption; every change of replicas is an experiment.

Recursive least squares (Ljung, System Identification, 1999, §11.2) of consumption = base + Σ watts · replicas. Meters
answer late: several delays and averaging ranges are fitted side by side, and the one that predicted best counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ballast.power.averaging import range_of
from ballast.power.estimator import Estimator
from ballast.power.policy import PowerPolicy

Vector = NDArray[np.float64]

LAGS: Sequence[tuple[float, float]] = ((0, 0), (60, 0), (120, 0), (300, 0), (0, 60), (0, 120), (0, 300), (0, 600))
"""Seconds of delay and of averaging that are fitted."""

FORGET = 0.999
"""Weight of older errors against a newer one, when predictions are compared."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Watts of one replica and of the base, each with its standard error."""

    watts: Mapping[str, tuple[float, float]]
    """By namespace/name."""
    base: tuple[float, float]


NEWEST = 0.5
"""Weight of the newest sample in the base as it is now."""


class WattsModel:
    """`declared` are the watts of a replica as far as they are known, `base` likewise; `averaged` the range in seconds
    that the consumption is averaged over, None if that is to be found."""

    def __init__(self, declared: Mapping[str, float | None], base: float = 0.0, averaged: float | None = None) -> None:
        self._names = sorted(declared)
        self._declared = declared
        self._base = base
        lags = LAGS if averaged is None else ((0.0, averaged),)
        self._fits = [_Fit(delay, length) for delay, length in lags]
        self._changes = 0
        self._history: deque[tuple[float, Vector]] = deque()
        self._reach = max(delay + length for delay, length in lags)

    def measure(self, at: float, counts: Mapping[str, int], consumption: float) -> None:
        """`consumption` was measured at `at` (seconds), when these replicas run."""
        present = np.array([1.0, *(float(counts.get(name, 0)) for name in self._names)])
        if not self._history:
            self._begin(present, consumption)
            self._history.append((at, present))
        self._changes += bool((present[1:] != self._history[-1][1][1:]).any())
        while len(self._history) > 1 and self._history[1][0] <= at - self._reach:
            self._history.popleft()
        self._history.append((at, present))
        for fit in self._fits:
            fit.learn(self._mean(at - fit.delay - fit.length, at - fit.delay), consumption)

    @property
    def offset(self) -> float:
        """What was measured last beyond the watts of the replicas that it tells of: the base as it is now."""
        return self._best.offset

    @property
    def _best(self) -> _Fit:
        """The fit without a lag, unless another predicts far better: a late one looks good until it sees a change."""
        best = min(self._fits, key=lambda fit: fit.error)
        return best if 4 * best.error < self._fits[0].error and self._changes >= 3 else self._fits[0]

    def learned(self) -> Learned | None:
        """What the consumption tells; None before the first sample."""
        if not self._history:
            return None
        best = self._best
        values, errors = best.values, best.errors()
        named = zip(self._names, values[1:], errors[1:], strict=True)
        watts = {name: (float(value), float(error)) for name, value, error in named}
        return Learned(watts, (float(values[0]), float(errors[0])))

    def _begin(self, present: Vector, consumption: float) -> None:
        """Before the first experiment: what is declared, else equal parts of the consumption."""
        known = [self._declared[name] for name in self._names]
        rest = consumption - self._base
        rest -= sum(count * (watts or 0.0) for count, watts in zip(present[1:], known, strict=True))
        open_ = sum(count for count, watts in zip(present[1:], known, strict=True) if watts is None)
        share = max(rest / open_ if open_ else 0.0, 1e-3)
        values = np.array([self._base, *(share if watts is None else watts for watts in known)])
        spread = np.maximum(values, 0.1 * max(consumption, 1.0) / max(float(present[1:].sum()), 1.0))
        spread[0] = max(0.1 * self._base, 0.3 * max(consumption, 1.0)) if not self._base else 0.1 * self._base
        for fit in self._fits:
            fit.begin(values, spread, max(0.03 * consumption, 1e-3))

    def _mean(self, start: float, end: float) -> Vector:
        """The mean of the replicas from `start` to `end`; what ran at `end` where that is one moment."""
        past = [(time, counts) for time, counts in self._history if time <= end]
        if not past:
            return self._history[0][1]
        if end <= start:
            return past[-1][1]
        begins = [max(start, time) for time, _ in past]
        begins[0] = start
        spans = np.diff([*begins, end])
        return np.average(np.stack([counts for _, counts in past]), axis=0, weights=np.maximum(spans, 1e-9))


class _Fit:
    """One recursive least squares fit, for one delay and one averaging range."""

    def __init__(self, delay: float, length: float) -> None:
        self.delay = delay
        self.length = length
        self.error = 0.0
        """The discounted mean square of prediction errors."""
        self.offset = 0.0
        self.values: Vector = np.zeros(0)
        self._covariance: NDArray[np.float64] = np.zeros((0, 0))
        self._noise = 1.0

    def begin(self, values: Vector, spread: Vector, noise: float) -> None:
        self.values, self._covariance, self._noise = values, np.diag(spread**2), noise**2

    def learn(self, counts: Vector, consumption: float) -> None:
        missed = consumption - float(counts @ self.values)
        pointed = self._covariance @ counts
        gain = pointed / (self._noise + float(counts @ pointed))
        self.values = self.values + gain * missed
        self._covariance = self._covariance - np.outer(gain, pointed)
        self.error = FORGET * self.error + (1 - FORGET) * missed**2
        beyond = consumption - float(counts[1:] @ self.values[1:])
        self.offset = beyond if abs(missed) > 3 * sqrt(self._noise) else self.offset + NEWEST * (beyond - self.offset)

    def errors(self) -> list[float]:
        return [sqrt(max(0.0, float(variance))) for variance in np.diag(self._covariance)]


STEADY = 0.02
"""Relative change from which on a learned value replaces the one in use."""


class WattsLearner:
    """Learns from what a policy's replicas draw; members with `wattsPerReplica: measured` are decided by it.

    Where all watts are declared, factors bring them to the measured draw.

    Without `baseWatts` the base is what was measured last beyond the replicas: then the load is the measured one, and
    the watts of a replica only tell what a change will do.
    """

    def __init__(self, policy: PowerPolicy) -> None:
        members = {name: place.member for name, place in policy.places.items()}
        self._measured = [name for name, member in members.items() if member.measured]
        declared = {name: None if member.measured else float(member.watts) for name, member in members.items()}
        averaged = float(range_of(policy.meter_query or ""))
        self._learns_base = bool(self._measured) and "base_power" not in policy.model_fields_set
        self._model = WattsModel(declared, float(policy.base_power), averaged or None)
        self._declared = policy
        by_priority = sorted(policy.places.values(), key=lambda place: place.priority)
        watts = {place.member.name: float(place.member.watts) for place in by_priority}
        self.trim = (
            Estimator(watts, averaged or None, shared=policy.shares_limit)
            if policy.absolute and not self._measured
            else None
        )
        """The factors between declared and drawn watts; None where watts are measured alone."""
        self._used: dict[str, Fraction] = {}
        self._base: Fraction | None = None
        self._applied: tuple[PowerPolicy, dict[str, Fraction], Fraction | None, PowerPolicy] | None = None

    @property
    def measures(self) -> bool:
        """Whether any member is decided by what is learned."""
        return bool(self._measured)

    @property
    def waits(self) -> bool:
        """Whether the watts of a replica are still unknown."""
        return bool(self._measured) and not self._used

    def measure(self, at: Fraction, counts: Mapping[str, int], consumption: Fraction) -> None:
        """`consumption` watts were measured at `at` (seconds), from which on these replicas run.

        With a `trim`, pods that are ending are among them.
        """
        self._model.measure(float(at), counts, float(consumption))
        learned = self._model.learned()
        assert learned is not None
        for name in self._measured:
            self._used[name] = _steady(self._used.get(name), max(learned.watts[name][0], 1e-3))
        if self.trim is not None:
            base = self._declared.base_power
            self.trim.measure(float(at), counts, float(consumption - base))
            places = self._declared.places
            self._used = {name: places[name].member.watts * factor for name, factor in self.trim.in_use.items()}
            self._base = base + self.trim.base if self.trim.base else None
        if self._learns_base:
            self._base = _steady(self._base, max(self._model.offset, 0.0))

    def learned(self) -> Learned | None:
        """Watts with their standard errors; None before the first sample."""
        return self._model.learned()

    def applied(self, policy: PowerPolicy) -> PowerPolicy:
        """The policy with the measured watts."""
        if not self._used and self._base is None:
            return policy
        known = self._applied
        if known is None or known[0] is not policy or known[1:3] != (self._used, self._base):
            measured = policy.with_watts(self._used, self._base)
            known = self._applied = policy, dict(self._used), self._base, measured
        return known[3]


def _steady(used: Fraction | None, value: float) -> Fraction:
    if used is not None and abs(value - float(used)) <= STEADY * float(used):
        return used
    return Fraction(f"{value:.4g}")
