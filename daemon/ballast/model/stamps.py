"""Times that were written down earlier, perhaps by a clock that was wrong."""

import math
from collections.abc import Callable


def _ignore(at: float) -> None:
    """Nobody asks which."""


class Stamps:
    """Reads Unix times of what was saved, at the Unix time `now`; `ahead` hears each that cannot be right.

    What has happened has happened by now, and what ends begins now at the latest. Otherwise a time of the year 2100
    would hold everything up until then. Without `now` every time is right.
    """

    def __init__(self, now: float = math.inf, ahead: Callable[[float], object] = _ignore) -> None:
        self._now, self._ahead = now, ahead

    def past(self, at: float) -> float:
        """When something happened: later than now counts as now."""
        return self._within(at, 0.0)

    def end(self, at: float, longest: float) -> float:
        """When something ends that lasts `longest` seconds at most, as if it began now where it would last longer."""
        return self._within(at, longest)

    def _within(self, at: float, longest: float) -> float:
        if at <= self._now + longest:
            return at
        self._ahead(at)
        return self._now + longest
