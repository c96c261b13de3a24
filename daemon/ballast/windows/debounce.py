"""Decisions that do not flutter: consecutive marks, hysteresis, and the load class made of both.

Nothing here reads a clock. Times are seconds of any clock that does not go back; a time that does not lie after the
one before starts a new run.
"""

import math
from typing import Literal

LoadClass = Literal["low", "normal", "high"]


class Streak:
    """Counts marks in a row. A mark follows the one before only when it came later, and at most `gap` seconds later."""

    __slots__ = ("_last", "gap", "length")

    def __init__(self, gap: float) -> None:
        self.gap = gap
        self.length = 0
        self._last = -math.inf

    def mark(self, at: float) -> int:
        """Adds a mark at `at` and returns the length of the run it belongs to."""
        follows = 0 < at - self._last <= self.gap
        if at != self._last:
            self.length = self.length + 1 if follows else 1
        self._last = at
        return self.length

    def reset(self) -> None:
        """Ends the run."""
        self._last = -math.inf


class HysteresisSwitch:
    """A boolean that turns on at `enter` or above and off below `leave`, after `marks` consecutive observations.

    `state` None takes the first known value by `start` alone (`enter` unless given). An unknown value (None or NaN)
    ends the run and leaves the state.
    """

    __slots__ = ("_run", "_start", "enter", "leave", "marks", "state")

    def __init__(
        self,
        enter: float,
        leave: float,
        *,
        gap: float,
        state: bool | None = None,
        start: float | None = None,
        marks: int = 2,
    ) -> None:
        if leave > enter:
            raise ValueError(f"a switch leaves at or below where it enters, got enter {enter} and leave {leave}")
        self.enter = enter
        self.leave = leave
        self.marks = marks
        self.state = state
        self._start = enter if start is None else start
        self._run = Streak(gap)

    def observe(self, at: float, value: float | None) -> bool | None:
        """The state after seeing `value` at `at`; None as long as nothing was ever known."""
        if value is None or math.isnan(value):
            self._run.reset()
        elif self.state is None:
            self.state = value >= self._start
        elif (value >= (self.leave if self.state else self.enter)) == self.state:
            self._run.reset()
        elif self._run.mark(at) >= self.marks:
            self.state = not self.state
            self._run.reset()
        return self.state


class Classifier:
    """The load class of one node. It can begin with the class on the node's label, so a restart changes nothing.

    Two switches rather than one of three positions: a load that swings around `high` leaves `low` all the same.
    """

    __slots__ = ("_above_high", "_above_low")

    def __init__(
        self, low: float, high: float, hysteresis: float, *, gap: float, current: str | None = None, marks: int = 2
    ) -> None:
        known = current in ("low", "normal", "high")
        self._above_low = HysteresisSwitch(
            low + hysteresis, low, start=low, gap=gap, state=current != "low" if known else None, marks=marks
        )
        self._above_high = HysteresisSwitch(
            high, high - hysteresis, gap=gap, state=current == "high" if known else None, marks=marks
        )

    def observe(self, at: float, load: float | None, high: float | None = None) -> LoadClass | None:
        """The class after seeing `load` at `at`; None as long as nothing was ever known.

        `high` is the load that counts against the limit of that name, if it is another.
        """
        above_low = self._above_low.observe(at, load)
        above_high = self._above_high.observe(at, load if high is None else high)
        if above_high:
            return "high"
        return None if above_low is None else "normal" if above_low else "low"
