"""Brings the watts that a policy declares to those that its meter shows, and says how far they may still be wrong.

Each member has a factor on its declared watts. A meter tells their sum alone; every change of replicas tells them
apart. It is late by an unknown time, so a Kalman filter (Kalman, 1960; here recursive least squares) runs for each
delay that is possible, and each counts by the likelihood of what it predicted (multiple models: Magill, 1965).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DELAYS = tuple(range(0, 631, 15))
"""Seconds that a meter may be late."""

PARTS = 24
"""Factors that are learned; more members share them, neighbours in the order of priority."""

NOISE = 0.01
"""Relative error of a meter that says nothing."""

REMEMBER = 0.999
"""Weight of older predictions of a delay against a newer one."""

DRIFT = 0.003
"""Relative change of all factors together from sample to sample."""

SPREAD = 0.5
"""The most that a declared constant is taken to be wrong, as a standard deviation."""

UNSEEN, LIKELY = 0.05, 8
"""Relative error of one declared constant where the sum is right, and what is added for each part the sum is wrong."""

SURPRISE = 16.0
"""Squared standard deviations from which on the best prediction is refuted: by one sample nothing follows from it."""

DEVIATIONS = 2.0
"""Standard deviations by which a plan may draw more than is expected."""

EXCUSED = 0.02
"""The part of a draw up to which an error is left to the policy's margin."""

LEAST, MOST = 0.25, 4.0
"""Factors in use; beyond them the meter is not believed."""

EQUAL = 0.02
"""Relative difference up to which declared watts are right."""

STEADY = 0.01
"""Relative change of what runs from which on new factors replace those in use."""

SEEN = 0.05
"""Relative change of the declared watts that a meter has to show before it moves the factors again."""

ANSWERED = 0.3
"""The part of it that must be seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Doubt:
    """How far the draw of any counts may be above what the factors in use say."""

    watts: Mapping[str, tuple[int, float]]
    """By namespace/name: the factor's number, and the declared watts of a replica."""
    excess: Array
    """What is expected beyond the factors in use."""
    spread: Array
    """Covariance of the factors."""
    expected: Array

    def of(self, counts: Mapping[str, int]) -> Fraction:
        """Watts that these counts may draw beyond what is expected, less what the margin is for."""
        declared = np.zeros(len(self.excess))
        for name, count in counts.items():
            part, watts = self.watts[name]
            declared[part] += count * watts
        deviation = sqrt(max(0.0, float(declared @ self.spread @ declared)))
        more = float(declared @ self.excess) + DEVIATIONS * deviation - EXCUSED * float(declared @ self.expected)
        return Fraction(f"{max(0.0, more):.6g}")


class Trim:
    """Factors between declared and drawn watts, of what runs beyond the base power; `watts` are those declared, by
    namespace/name in the order of priority.
    """

    def __init__(self, watts: Mapping[str, float]) -> None:
        share = max(1, -(-len(watts) // PARTS))
        self._watts = {name: (index // share, each) for index, (name, each) in enumerate(watts.items())}
        self._size = -(-len(watts) // share)
        self._past: deque[tuple[float, Array]] = deque()
        self._factors: Array | None = None
        self._covariance = np.zeros((len(DELAYS), self._size, self._size))
        self._scores = np.zeros(len(DELAYS))
        self._surprised = False
        self._answered: tuple[Array, float] | None = None
        self._used = np.ones(self._size)
        self.measured: float | None = None
        """How many times the declared watts are drawn by what runs; None before the first sample."""

    @property
    def in_use(self) -> dict[str, Fraction]:
        """The factors by which the declared watts are multiplied, by namespace/name; empty where they are right."""
        if (self._used == 1).all():
            return {}
        return {name: Fraction(f"{self._used[part]:.4g}") for name, (part, _) in self._watts.items()}

    @property
    def doubt(self) -> Doubt | None:
        """How far the factors in use may be wrong; None while the declared watts have not been refuted."""
        if self._factors is None or (self._used == 1).all():
            return None
        expected, spread = self._collapse()
        return Doubt(self._watts, expected - self._used, spread, expected)

    def measure(self, at: float, counts: Mapping[str, int], drawn: float) -> None:
        """At `at` (seconds) these pods run, and the meter shows `drawn` watts, both without the base power."""
        declared = np.zeros(self._size)
        for name, (part, watts) in self._watts.items():
            declared[part] += counts.get(name, 0) * watts
        self._past.append((at, declared))
        while len(self._past) > 1 and self._past[1][0] <= at - DELAYS[-1]:
            self._past.popleft()
        times = [time for time, _ in self._past]
        ran = np.stack([self._past[max(0, bisect_right(times, at - delay) - 1)][1] for delay in DELAYS])
        if drawn <= 0 or not ran.sum(axis=1).all():
            return
        if self._factors is None:
            self._begin(drawn / float(ran[0].sum()))
        if not self._answers(ran, drawn):
            return
        self._learn(ran, drawn)
        expected, _ = self._collapse()
        if total := float(declared.sum()):
            self.measured = float(declared @ expected) / total
            self._use(expected, declared)

    def _begin(self, factor: float) -> None:
        """All factors alike; each may differ, the more the sum does."""
        spread = factor * min(SPREAD, LIKELY * abs(factor - 1) + UNSEEN)
        self._factors = np.full((len(DELAYS), self._size), factor)
        self._covariance[:] = np.eye(self._size) * spread**2

    def _learn(self, ran: Array, drawn: float) -> None:
        """One step of every filter: `ran` are the declared watts [delay, factor] that its sample tells of."""
        assert self._factors is not None
        factors, covariance = self._factors, self._covariance
        missed = drawn - np.einsum("hi,hi->h", ran, factors)
        noise = (NOISE * drawn) ** 2
        variance = noise + np.einsum("hi,hij,hj->h", ran, covariance, ran)
        refuted = bool((missed**2 / variance).min() > SURPRISE)
        # One sample that nothing explains may be a bad one; two are a change of all watts, or of each.
        before, self._surprised = self._surprised, refuted
        if refuted and not before:
            return
        self._scores = REMEMBER * self._scores + np.minimum(missed**2 / variance, 100) + np.log(variance / noise)
        if refuted:
            covariance += np.einsum("hi,hj->hij", factors, factors) * SPREAD**2
            covariance += np.einsum("hi,ij->hij", factors**2, np.eye(self._size)) * SPREAD**2 / 4
            variance = noise + np.einsum("hi,hij,hj->h", ran, covariance, ran)
        pointed = np.einsum("hij,hj->hi", covariance, ran)
        gain = pointed / variance[:, None]
        factors += gain * missed[:, None]
        covariance -= np.einsum("hi,hj->hij", gain, pointed)
        covariance += np.einsum("hi,hj->hij", factors, factors) * DRIFT**2

    def _collapse(self) -> tuple[Array, Array]:
        """Mean and covariance of the factors over all delays, each by its likelihood."""
        assert self._factors is not None
        weights = np.exp((self._scores.min() - self._scores) / 2)
        weights /= weights.sum()
        mean = weights @ self._factors
        apart = self._factors - mean
        return mean, np.einsum("h,hij->ij", weights, self._covariance + np.einsum("hi,hj->hij", apart, apart))

    def _answers(self, ran: Array, drawn: float) -> bool:
        """Whether the meter has followed what ran, with any delay: one that stands still moves nothing."""
        totals = ran.sum(axis=1)
        if self._answered is None:
            self._answered = totals, drawn
        before, shown = self._answered
        change = totals - before
        large = np.abs(change) > SEEN * before
        followed = (drawn - shown) * change >= ANSWERED * drawn / totals * change**2
        if large.all() and not followed.any():
            return False
        if (large & followed)[self._scores.argmin()]:
            self._answered = totals, drawn
        return True

    def _use(self, expected: Array, declared: Array) -> None:
        """Takes what is expected where it matters: for what runs, or for a replica more or less."""
        right = bool((np.abs(expected - 1) <= EQUAL).all())
        wanted = np.ones(self._size) if right else np.clip(expected, LEAST, MOST)
        used = float(declared @ self._used)
        moved = abs(float(declared @ wanted) - used) > STEADY * used
        if moved or (np.abs(wanted - self._used) > 5 * STEADY * self._used).any():
            self._used = wanted
