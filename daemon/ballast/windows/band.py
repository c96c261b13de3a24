"""The steps of the score label: moved seldom, never by noise, and at once when it matters.

A label is one of `STEPS` + 1 whole numbers and follows a score of 0..100. A score that is `FAR` steps away is taken at
once, one that is a whole step away when it has been so for `HOLD`. By measurements/experiments.md,
"windows", this loses at most 3 % of the order of nodes by the mean load, with less than two writes a node and hour.
"""

import math

STEPS = 24
FAR = 3.0
"""Steps; what a burst of pods changes."""

AT_ONCE = 2.0
"""Steps from which a label that was there before this process is replaced at once: it may be of another scale."""

HOLD = 360.0
"""Seconds."""


def position(score: float) -> float:
    """A score 0..100 in steps."""
    return score * STEPS / 100


def label_of(score: float) -> int:
    """The nearest step, halves up."""
    return math.floor(position(score) + 0.5)


class Band:
    """The label of one node's score. It can begin with the label on the node, so a restart changes little."""

    __slots__ = ("_away_since", "_carried", "_gap", "_last", "label")

    def __init__(self, *, gap: float, label: int | None = None) -> None:
        """`gap`: seconds between two scores above which the first says nothing about the time between them."""
        self.label = label
        self._gap = gap
        self._carried = label is not None
        self._away_since: float | None = None
        self._last = -math.inf

    def observe(self, at: float, score: float | None) -> int | None:
        """The label after seeing `score` at `at` (seconds); None as long as nothing was ever known.

        The first known score is taken as it is. An unknown one (None or NaN) begins the waiting again.
        """
        if score is None or math.isnan(score):
            self._away_since = None
            return self.label
        if self.label is None or self._moves(at, abs(position(score) - self.label)):
            self.label, self._away_since = label_of(score), None
        self._carried, self._last = False, at
        return self.label

    def _moves(self, at: float, away: float) -> bool:
        if away >= (AT_ONCE if self._carried else FAR):
            return True
        if away < 1.0:
            self._away_since = None
            return False
        if self._away_since is None or not 0 <= at - self._last <= self._gap:
            self._away_since = at
        return at - self._away_since >= HOLD
