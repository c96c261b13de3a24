"""What replicas and everything beside them draw, from what a policy declares and its meter shows.

    drawn(t) = base + Σ factor · declared watts · pods, of the pods that drew in [t - delay - range, t - delay]

A meter tells one sum. Changes of replicas tell its parts apart, and what changes without them is drift. How late a
meter is, over how long it averages, whether the base or the declared watts are wrong, and how fast they change is not
known: a Kalman filter (Kalman, 1960) runs for each combination, and each counts by the likelihood of what it predicted
(multiple models: Magill, 1965). Priors are what is declared, with its doubt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from ballast.power.learning import VERSION, Learning

Array = NDArray[np.float64]

RANGES = (0.0, 60.0, 120.0, 300.0, 600.0)
"""Seconds over which a meter may average where its query does not say."""
DELAYS = tuple(15.0 * step for step in range(43))
"""Seconds that a meter may be late; those that average, at every fourth."""

PARTS = 24
"""Factors that are learned; more members share them, neighbours in the order of priority."""

PRIORS = ((0.04, 0.04, 0.02), (0.04, 0.04, 0.5), (0.5, 0.1, 0.02), (0.5, 0.35, 0.02), (0.4, 0.3, 0.4))
"""How wrong declared watts may be: all alike, each by itself, and the base, as standard deviations of what is declared.

Nothing is wrong; there is a base that nobody declared; all watts are wrong alike; each is; everything is."""

DRIFTS = (
    (0.0003, 0.0, 1e-4, 1e-4),
    (0.003, 0.0, 1e-3, 1e-4),
    (0.0003, 1e-5, 1e-4, 1e-4),
    (0.0003, 5e-5, 1e-4, 1e-4),
    (0.0003, 0.0, 1e-4, 0.01),
)
"""Relative change in a square root of a second: of all factors, of their slope, of each factor, and of the base."""

UNUSUAL = (0.0, 3.0, 6.0, 6.0, 6.0)
"""By DRIFTS, and by the second of delay: how much likelier the others are before the first sample, in scores."""
USUAL = 150.0

UNKNOWN = 1.0
"""The same for each of those that declare nothing and begin with a guess."""

BESIDE_OTHERS = (8.0, 0.0, 16.0, 16.0, 10.0)
"""By PRIORS, in scores: what others draw is likelier than wrong watts."""

NOISE = 0.01
"""Relative error of a meter at least."""

MEDIAN = 1.4826
"""Standard deviations of a normal distribution in the median of its absolute values."""

LATELY = 60
"""Samples whose bends tell the error: neither a level nor a slope bends."""

REMEMBER = 0.999
"""Weight of older predictions of a model against a newer one."""

SURPRISE = 16.0
"""Squared standard deviations from which on the best prediction is refuted: by one sample nothing follows from it."""

DEVIATIONS = 2.0
"""Standard deviations by which a plan may draw more than is expected."""

MARGINS = 0.01, 0.02, 0.1
"""The least margin, the one before enough is known, and the largest."""
EXCUSED = MARGINS[0]
"""The part of a draw up to which an error is left to the policy's margin."""

MISSES = 120
"""Predictions whose errors are the margin; a sixth of them are enough."""
ALMOST = 95
"""Percent of them that the margin covers."""
EVEN = 0.005
"""Steps of the margin."""

LEAST, MOST = 0.25, 4.0
"""Factors in use; beyond them the meter is not believed."""

EQUAL = 0.02
"""Relative difference up to which declared watts are right."""

STEADY = 0.01
"""Relative change of what runs from which on new factors replace those in use."""
LAG = 0.05
"""The same of one factor, and of the base."""

ROUNDED = 1e-3
"""What rounding moves in a covariance at most, relative to the sum of the variances."""

SEEN = 0.05
"""Relative change of the declared watts that a meter has to show before it moves anything again."""

ANSWERED = 0.3
"""The part of it that must be seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Doubt:
    """How far the draw of any counts may be above what is in use."""

    watts: Mapping[str, tuple[int, float]]
    """By namespace/name: the factor's number, and the declared watts of a replica."""
    scale: float
    """Watts of one unit of the base."""
    excess: Array
    """What is expected beyond what is in use: base first, then the factors."""
    spread: Array
    """Their covariance."""
    expected: Array

    def of(self, counts: Mapping[str, int]) -> Fraction:
        """Watts that these counts may draw beyond what is expected, less what the margin is for."""
        ran = np.zeros(len(self.excess))
        ran[0] = self.scale
        for name, count in counts.items():
            part, watts = self.watts[name]
            ran[1 + part] += count * watts
        deviation = sqrt(max(0.0, float(ran @ self.spread @ ran)))
        more = float(ran @ self.excess) + DEVIATIONS * deviation - EXCUSED * float(ran @ self.expected)
        return Fraction(f"{max(0.0, more):.6g}")

    def errors(self, base: float) -> tuple[tuple[float, float], dict[str, tuple[float, float]]]:
        """Watts of the base beside those declared, and of a replica by namespace/name, each with its standard error."""
        deviation = np.sqrt(np.maximum(0.0, np.diag(self.spread)))
        watts = {
            name: (float(self.expected[1 + part]) * each, float(deviation[1 + part]) * each)
            for name, (part, each) in self.watts.items()
        }
        return (base + float(self.expected[0]) * self.scale, float(deviation[0]) * self.scale), watts


class Estimator:
    """`watts` are those declared, by namespace/name in the order of priority; `averaged` are the seconds over which the
    meter averages, None where that is not known; `shared` is whether others are known to be in the meter. The watts of
    the `unknown` ones are a guess."""

    def __init__(
        self,
        watts: Mapping[str, float],
        averaged: float | None = None,
        *,
        shared: bool = False,
        unknown: Collection[str] = (),
    ) -> None:
        share = max(1, -(-len(watts) // PARTS))
        self._watts = {name: (index // share, each) for index, (name, each) in enumerate(watts.items())}
        self._size = -(-len(watts) // share)
        self._unknown = np.isin(np.arange(self._size), [self._watts[name][0] for name in unknown])
        ranges = RANGES if averaged is None else (averaged,)
        lags = [(delay, length) for length in ranges for delay in (DELAYS if not length else DELAYS[:21:4])]
        if averaged:
            lags = [(delay, averaged) for delay in DELAYS[:21:2]]
        models = list(product(lags, PRIORS, DRIFTS))
        self._lags = np.array(lags)
        self._lag = np.repeat(np.arange(len(lags)), len(PRIORS) * len(DRIFTS))
        self._prior = np.array([prior for _, prior, _ in models])
        self._drift = np.array([drift for _, _, drift in models])
        self._ahead = self._lags[self._lag].sum(axis=1) - self._lags[self._lag, 1] / 2
        self._reach = float(self._lags.sum(axis=1).max())
        self._past: deque[tuple[float, Array]] = deque()
        self._scale = 0.0
        self._states: Array | None = None
        """[model, state]: the base in `scale` watts, the factors, and their slope by the second."""
        self._covariance = np.zeros(0)
        # Most meters are prompt, and most draws steady.
        self._scores = self._lags[self._lag, 0] / USUAL + np.tile(UNUSUAL, len(models) // len(DRIFTS))
        if shared:
            # What is there beyond the declared watts is the others', until changes of replicas say otherwise.
            self._scores += np.tile(np.repeat(BESIDE_OTHERS, len(DRIFTS)), len(lags))
        self._at = 0.0
        self._shown: deque[float] = deque(maxlen=LATELY)
        self._misses: deque[float] = deque(maxlen=MISSES)
        self._surprised = False
        self._used = np.concatenate([[0.0], np.ones(self._size)])
        self._doubt: Doubt | None = None
        self._answered: tuple[Array, float] | None = None
        self.measured: float | None = None
        """How many times the declared watts are drawn by what runs; None before the first sample."""

    @property
    def in_use(self) -> dict[str, Fraction]:
        """The factors by which the watts are multiplied, by namespace/name; empty where those declared are right."""
        if (self._used[1:] == 1).all() and not self._unknown.any():
            return {}
        return {name: Fraction(f"{self._used[1 + part]:.4g}") for name, (part, _) in self._watts.items()}

    @property
    def base(self) -> Fraction:
        """The watts that are drawn beside the replicas."""
        return Fraction(f"{self._used[0] * self._scale:.4g}")

    @property
    def doubt(self) -> Doubt | None:
        """How far what is in use may be wrong; None while what is declared has not been refuted."""
        declared = self._used[0] == 0 and (self._used[1:] == 1).all() and not self._unknown.any()
        return None if declared else self._doubt

    @property
    def margin(self) -> float:
        """The part of a draw by which it was more than expected, but for the worst predictions."""
        least, unknown, most = MARGINS
        if len(self._misses) < MISSES / 6:
            return unknown
        missed = float(np.percentile(self._misses, ALMOST))
        return min(most, max(least, EVEN * ceil(missed / EVEN)))

    @property
    def known(self) -> Doubt | None:
        """What is expected, and how wrong that may be; None before the first sample."""
        return self._doubt

    def measure(self, at: float, counts: Mapping[str, int], drawn: float) -> None:
        """At `at` (seconds) these pods draw, and the meter shows `drawn` watts, both without the declared base."""
        declared = np.zeros(self._size)
        for name, (part, watts) in self._watts.items():
            declared[part] += counts.get(name, 0) * watts
        self._past.append((at, declared))
        while len(self._past) > 1 and self._past[1][0] <= at - self._reach - 1:
            self._past.popleft()
        if drawn <= 0:
            return
        if self._states is None:
            if not declared.sum():
                return
            self._begin(float(declared.sum()), drawn)
        assert self._states is not None
        ran, unseen = self._ran(at)
        if not self._answers(ran, drawn):
            return
        foretold = float(self._weights() @ (ran * self._states).sum(axis=1))
        self._misses.append(drawn / foretold - 1 if foretold > 0 else 0.0)
        # Samples of an averaging meter begin and end between two looks at what runs.
        half = self._ran(at - (at - self._at) / 2 if self._at else at)[0]
        self._learn(at, ran, np.stack([(ran - half) * (self._lags[self._lag, 1] > 0)[:, None], unseen]), drawn)
        expected, spread = self._collapse()
        now = np.concatenate([[self._scale], declared])
        if total := float(declared.sum()):
            self.measured = float(declared @ expected[1:]) / total
        self._use(expected, now)
        self._doubt = Doubt(self._watts, self._scale, expected - self._used, spread, expected)

    def saved(self, at: float) -> Learning | None:
        """What is known, at the Unix time `at`; None before the first sample."""
        known = self._doubt
        if known is None:
            return None
        rounded = [[float(f"{number:.4g}") for number in row] for row in known.spread.tolist()]
        watts = {name: each for name, (_, each) in self._watts.items()}
        used, expected = ([float(f"{number:.6g}") for number in row] for row in (self._used, known.expected))
        return Learning(VERSION, at, watts, self._scale, used, expected, rounded)

    def resume(self, learned: Learning, seconds: float) -> None:
        """Goes on with what was known `seconds` ago, its doubt grown since. Raises ValueError where it does not fit."""
        size = 1 + self._size
        if len(learned.used) != size or learned.watts != {name: each for name, (_, each) in self._watts.items()}:
            raise ValueError("it is of other watts or members than the policy has now")
        expected, spread, used = np.array(learned.expected), np.array(learned.spread), np.array(learned.used)
        rounding = ROUNDED * float(np.trace(spread))
        if np.abs(spread - spread.T).max() > rounding or np.linalg.eigvalsh(spread).min() < -rounding:
            raise ValueError("its doubt is none")
        if (np.abs(self._within(expected) - used) > EQUAL + LAG * np.maximum(used, LEAST)).any():
            raise ValueError("what is in use is not what is expected")
        self._begin(learned.scale, learned.scale)
        assert self._states is not None
        level, _, _, base = DRIFTS[0]
        spread = spread + np.diag([base**2, *[level**2] * self._size]) * max(0.0, seconds)
        self._states[:, :size], self._covariance[:, :size, :size] = expected, spread
        self._used = used
        self._doubt = Doubt(self._watts, self._scale, expected - self._used, spread, expected)

    def _begin(self, scale: float, drawn: float) -> None:
        """Every model begins with what is declared, in its own doubt; what others draw may be far more than that."""
        size, models = self._size + 2, len(self._scores)
        self._scale = scale
        self._states = np.zeros((models, size))
        self._states[:, 1:-1] = 1.0
        self._covariance = np.zeros((models, size, size))
        common, each, base = self._prior.T
        self._covariance[:, 0, 0] = (base * max(1.0, drawn / scale)) ** 2
        self._covariance[:, 1:-1, 1:-1] = common[:, None, None] ** 2 + each[:, None, None] ** 2 * np.eye(self._size)
        self._covariance[:, 1:-1, 1:-1] += np.diag(UNKNOWN**2 * self._unknown)

    def _ran(self, at: float) -> tuple[Array, Array]:
        """[model, state]: what drew in the time that the newest sample tells of, and how far that is not known since it
        began before the first look."""
        times = np.array([time for time, _ in self._past])
        values = np.stack([declared for _, declared in self._past])
        # What a look shows began soon after the look before: actions follow looks.
        sums = np.cumsum(values * np.diff(times, prepend=times[0])[:, None], axis=0)

        def rows(moments: Array) -> NDArray[np.int64]:
            return np.minimum(np.searchsorted(times, moments), len(times) - 1)

        def integral(moments: Array) -> Array:
            row = rows(moments)
            return sums[row] - values[row] * (times[row] - moments)[:, None]

        delay, length = self._lags.T
        ends = at - delay
        found = values[rows(ends)]
        seen = found.copy()
        long = length > 0
        if long.any():
            begins = ends[long] - length[long]
            found[long] = (integral(ends[long]) - integral(begins)) / length[long][:, None]
            since = np.maximum(begins, np.minimum(times[0], ends[long] - 1.0))
            seen[long] = (integral(ends[long]) - integral(since)) / (ends[long] - since)[:, None]
        ran, unseen = np.zeros((2, len(self._scores), self._size + 2))
        ran[:, 0] = self._scale
        ran[:, 1:-1] = found[self._lag]
        unseen[:, 1:-1] = (seen - found)[self._lag]
        return ran, unseen

    def _learn(self, at: float, ran: Array, apart: Array, drawn: float) -> None:
        """One step of every filter: `ran` are the declared watts that its sample tells of, give or take `apart`."""
        states, covariance = self._states, self._covariance
        assert states is not None
        passed = max(0.0, at - self._at) if self._at else 0.0
        self._at = at
        states[:], covariance[:] = self._moved(np.full(len(states), passed))
        missed = drawn - np.einsum("hi,hi->h", ran, states)
        self._shown.append(drawn)
        noise = (self._noise() * drawn) ** 2 + (np.einsum("khi,hi->kh", apart, states) ** 2).sum(axis=0)
        variance = noise + np.einsum("hi,hij,hj->h", ran, covariance, ran)
        refuted = bool((missed**2 / variance).min() > SURPRISE)
        # One sample that nothing explains may be a bad one; two are a change of all watts, or of each.
        before, self._surprised = self._surprised, refuted
        if refuted and not before:
            return
        self._scores = (
            REMEMBER * self._scores + np.minimum(missed**2 / variance, 100) + np.log(variance / (NOISE * drawn) ** 2)
        )
        if refuted:
            covariance[:, 1:-1, 1:-1] += 0.25 + 0.06 * np.eye(self._size)
            covariance[:, 0, 0] += 0.25
            variance = noise + np.einsum("hi,hij,hj->h", ran, covariance, ran)
        self._correct(ran, missed, variance)
        # No base is negative.
        below = np.flatnonzero(states[:, 0] < 0)
        if below.size:
            only = np.zeros((len(states), states.shape[1]))
            only[below, 0] = 1.0
            self._correct(only, -states[:, 0] * (only[:, 0] > 0), covariance[:, 0, 0] * 1.01 + 1e-12)

    def _noise(self) -> float:
        """The relative error of the meter. Of independent errors a second difference has six times the variance; the
        median passes over the few that follow a change of replicas."""
        if len(self._shown) < LATELY / 4:
            return NOISE
        bends = np.abs(np.diff(np.array(self._shown), 2)) / np.array(self._shown)[1:-1]
        return max(NOISE, MEDIAN * float(np.median(bends)) / sqrt(6))

    def _correct(self, ran: Array, missed: Array, variance: Array) -> None:
        pointed = np.einsum("hij,hj->hi", self._covariance, ran)
        gain = pointed / variance[:, None]
        self._states += gain * missed[:, None]
        self._covariance -= np.einsum("hi,hj->hij", gain, pointed)

    def _moved(self, seconds: Array) -> tuple[Array, Array]:
        """The states and covariances of all models so many seconds later."""
        assert self._states is not None
        states, covariance = self._states.copy(), self._covariance.copy()
        states[:, 1:-1] += seconds[:, None] * states[:, -1:]
        covariance[:, 1:-1] += seconds[:, None, None] * covariance[:, -1:]
        covariance[:, :, 1:-1] += seconds[:, None, None] * covariance[:, :, -1:]
        level, slope, each, base = self._drift.T
        covariance[:, 1:-1, 1:-1] += (level**2 * seconds + slope**2 * seconds**3 / 3)[:, None, None]
        covariance[:, 1:-1, -1] += (slope**2 * seconds**2 / 2)[:, None]
        covariance[:, -1, 1:-1] += (slope**2 * seconds**2 / 2)[:, None]
        covariance[:, -1, -1] += slope**2 * seconds
        covariance[:, 0, 0] += base**2 * seconds
        index = np.arange(1, self._size + 1)
        covariance[:, index, index] += (each**2 * seconds)[:, None]
        return states, covariance

    def _weights(self) -> Array:
        """The likelihood of each model."""
        weights: Array = np.exp((self._scores.min() - self._scores) / 2)
        weights /= weights.sum()
        return weights

    def _collapse(self) -> tuple[Array, Array]:
        """Mean and covariance of base and factors now, over all models, each by its likelihood."""
        weights = self._weights()
        states, covariance = self._moved(self._ahead)
        states, covariance = states[:, :-1], covariance[:, :-1, :-1]
        mean = weights @ states
        apart = states - mean
        return mean, np.einsum("h,hij->ij", weights, covariance + np.einsum("hi,hj->hij", apart, apart))

    def _answers(self, ran: Array, drawn: float) -> bool:
        """Whether the meter has followed what ran, in any model: one that stands still moves nothing."""
        assert self._states is not None
        if self._answered is None:
            self._answered = ran, drawn
        before, shown = self._answered
        change = np.einsum("hi,hi->h", ran - before, self._states)
        large = np.abs((ran - before).sum(axis=1)) > SEEN * before[:, 1:].sum(axis=1)
        followed = (drawn - shown) * change >= ANSWERED * change**2
        if large.all() and not followed.any():
            return False
        if (large & followed)[self._scores.argmin()]:
            self._answered = ran, drawn
        return True

    def _use(self, expected: Array, now: Array) -> None:
        """Takes what is expected where it matters: for what runs, or for a replica more or less."""
        right = bool((np.abs(expected - np.array([0.0, *np.ones(self._size)])) <= EQUAL).all())
        right &= not self._unknown.any()
        wanted = np.concatenate([[0.0], np.ones(self._size)]) if right else self._within(expected)
        used = float(now @ self._used)
        moved = abs(float(now @ wanted) - used) > STEADY * used
        if moved or (np.abs(wanted - self._used) > LAG * np.maximum(self._used, 0.2)).any():
            self._used = wanted

    def _within(self, expected: Array) -> Array:
        """What is expected, as far as the meter is believed."""
        most = np.where(self._unknown, np.inf, MOST)
        least = np.where(self._unknown, 0.0, LEAST)
        return np.concatenate([[max(0.0, expected[0])], np.clip(expected[1:], least, most)])
