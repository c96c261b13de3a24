"""The load of a node as a numeric taint, for pods that tolerate it with `Lt` or `Gt`.

Source: KEP-5471, TaintTolerationComparisonOperators; a value is a decimal integer.
"""

import math
from collections.abc import Iterable

from ballast.model.node import Taint
from ballast.windows.debounce import Streak

STEP = 5
"""Percent between two values, so that a node is seldom written."""

UNKNOWN = 100
"""The least value of a node whose load nobody knows."""

CYCLES = 2
"""Cycles in a row for which the load must be lower before the value falls."""


def percent(load: float) -> int:
    """A load (fraction) as a value: its percent, rounded up to a whole step."""
    return max(0, math.ceil(round(100 * load / STEP, 6)) * STEP)


def value_of(taints: Iterable[Taint]) -> int | None:
    """The largest number in these taints; None where there is none that a scheduler would read."""
    numbers = [int(taint.value) for taint in taints if taint.value.isdecimal() and taint.value.isascii()]
    return max((number for number in numbers if number < 2**63), default=None)


def unknown(taints: Iterable[Taint], *, worse: bool) -> int:
    """The value of a node that is not known: what it carries, `UNKNOWN` for nothing or if it has to be `worse`."""
    carried = value_of(taints)
    return max(carried or 0, UNKNOWN) if worse or carried is None else carried


class LoadTaint:
    """The value of one node. It rises at once and falls late, so it never says less than the load.

    It can begin with the value on the node, so a restart changes nothing.
    """

    __slots__ = ("_margin", "_run", "value")

    def __init__(self, margin: float, *, gap: float, value: int | None = None) -> None:
        """It falls once the load plus `margin` (fractions) is a whole step lower."""
        self.value = value
        self._margin = margin
        self._run = Streak(gap)

    def observe(self, at: float, load: float) -> int | None:
        """The value after seeing `load` at `at`; None as long as nothing was ever known. NaN leaves it."""
        if math.isnan(load):
            self._run.reset()
            return self.value
        lower = self.value is not None and percent(load + self._margin) < self.value
        if not lower:
            self._run.reset()
        if self.value is None or percent(load) > self.value or (lower and self._run.mark(at) >= CYCLES):
            self.value = percent(load)
            self._run.reset()
        return self.value
