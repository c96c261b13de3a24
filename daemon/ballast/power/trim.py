"""Brings the watts that a policy declares to those that its meter shows.

A meter is late by an unknown time. Each delay that is possible says how many times the declared watts the replicas
draw; only the delays whose answer holds still through changes of the replicas are believed. Where these disagree, the
factor moves no further than all of them ask.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from fractions import Fraction

DELAYS = tuple(range(0, 631, 15))
"""Seconds that a meter may be late."""

FORGET = 0.98
"""Weight of older errors of a delay against a newer one."""

NOISE = 0.01
"""Relative error that says nothing against a delay."""

GAIN = 0.5
"""Part of what is missing from the factor that one sample adds."""

EQUAL = Fraction(2, 100)
"""Relative difference up to which declared watts are right."""

SEEN = 0.05
"""Relative change of the declared watts that a meter has to show before it moves the factor again."""

ANSWERED = 0.3
"""The part of it that must be seen."""

STEADY = Fraction(1, 100)
"""Relative change from which on a new factor replaces the one in use."""


class Trim:
    """The factor between declared and drawn watts, of what runs beyond the base power."""

    def __init__(self) -> None:
        self._past: deque[tuple[float, float]] = deque()
        self._means = [0.0] * len(DELAYS)
        self._errors = [0.0] * len(DELAYS)
        self._factor = 0.0
        self._answered: tuple[float, float] | None = None
        self.in_use = Fraction(1)
        """By which the declared watts are multiplied."""

    @property
    def measured(self) -> float | None:
        """The factor as measured; None before the first sample."""
        return self._factor or None

    def measure(self, at: float, declared: float, drawn: float) -> None:
        """At `at` (seconds) pods of `declared` watts run, and the meter shows `drawn`, both without the base power."""
        self._past.append((at, declared))
        while len(self._past) > 1 and self._past[1][0] <= at - DELAYS[-1]:
            self._past.popleft()
        times = [time for time, _ in self._past]
        factors: dict[int, float] = {}
        for number, delay in enumerate(DELAYS):
            before = self._past[max(0, bisect_right(times, at - delay) - 1)][1]
            if before > 0 and drawn > 0:
                factors[number] = drawn / before
        if not factors:
            return
        for number, factor in factors.items():
            mean = self._means[number] or factor
            self._errors[number] = FORGET * self._errors[number] + (1 - FORGET) * (factor / mean - 1) ** 2
            self._means[number] = mean + (factor - mean) * (1 - FORGET)
        least = min(self._errors[number] for number in factors)
        believed = [factor for number, factor in factors.items() if self._errors[number] <= 4 * least + NOISE**2]
        if self._answers(declared, drawn):
            self._move(min(believed), max(believed))

    def _answers(self, declared: float, drawn: float) -> bool:
        """Whether the meter has followed what runs since it last did: one that stands still moves nothing."""
        before, shown = self._answered or (declared, drawn)
        change = declared - before
        if abs(change) > SEEN * before and (drawn - shown) * change < ANSWERED * self._factor * change**2:
            return False
        if abs(change) > SEEN * before or self._answered is None:
            self._answered = declared, drawn
        return True

    def _move(self, low: float, high: float) -> None:
        nearest = min(max(self._factor or low, low), high)
        self._factor = nearest if not self._factor else self._factor + GAIN * (nearest - self._factor)
        factor = Fraction(f"{self._factor:.4g}")
        if abs(factor - self.in_use) > STEADY * self.in_use:
            self.in_use = Fraction(1) if abs(factor - 1) <= EQUAL else factor
