"""The score on the label: a tenth of the score, moved seldom and never by noise."""

import math

from ballast.windows.debounce import Streak

MARGIN = 3
"""Points by which a score must have left the band of its label."""

CYCLES = 2
"""For so many cycles in a row."""

STEPS = 2
"""A change of so many steps is taken at once."""


def label_of(score: float) -> int:
    """The label of a score 0..100: a tenth of it, halves up; the band of label k is [10k - 5, 10k + 5)."""
    return math.floor((score + 5) / 10)


class Band:
    """The label of one node's score. It can begin with the label on the node, so a restart changes nothing."""

    __slots__ = ("_run", "label")

    def __init__(self, *, gap: float, label: int | None = None) -> None:
        self.label = label
        self._run = Streak(gap)

    def observe(self, at: float, score: float | None) -> int | None:
        """The label after seeing `score` at `at`; None as long as nothing was ever known.

        The first known score is taken as it is. An unknown one (None or NaN) ends the run and leaves the label.
        """
        if score is None or math.isnan(score):
            self._run.reset()
            return self.label
        target = label_of(score)
        if self.label is None or abs(target - self.label) >= STEPS:
            moved = True
        elif abs(score - 10 * self.label) >= 5 + MARGIN:
            moved = self._run.mark(at) >= CYCLES
        else:
            moved = False
            self._run.reset()
        if moved:
            self.label = target
            self._run.reset()
        return self.label
