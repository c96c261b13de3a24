"""Averages what is known at once over the range that a measured consumption is averaged over."""

import re
from collections import deque
from fractions import Fraction
from itertools import pairwise

from ballast.power.values import seconds

_RANGE = re.compile(r"\[\s*((?:[0-9]+(?:ms|[smhdw]))+)\s*(?::[^\]]*)?\]")
_WEEK = re.compile(r"([0-9]+)w")


def range_of(query: str) -> Fraction:
    """Seconds of the longest range in a PromQL query, such as 300 of `rate(joules_total[5m])`; 0 without one."""
    ranges = [_WEEK.sub(lambda week: f"{7 * int(week[1])}d", text) for text in _RANGE.findall(query)]
    return max(map(seconds, ranges), default=Fraction(0))


class Average:
    """The mean over the last `length` seconds of a value that holds from each report to the next."""

    def __init__(self, length: Fraction) -> None:
        self._length = length
        self._values: deque[tuple[Fraction, Fraction]] = deque()

    def add(self, at: Fraction, value: Fraction) -> Fraction:
        """The mean at `at` (seconds), from which on the value is this one; the value itself where nothing is known."""
        if self._values and at <= self._values[-1][0]:
            self._values.clear()
        start = at - self._length
        while len(self._values) > 1 and self._values[1][0] <= start:
            self._values.popleft()
        mean = self._mean(start, at) if self._length else None
        self._values.append((at, value))
        return value if mean is None else mean

    def _mean(self, start: Fraction, at: Fraction) -> Fraction | None:
        if not self._values:
            return None
        times = [max(start, time) for time, _ in self._values] + [at]
        spans = [later - earlier for earlier, later in pairwise(times)]
        whole = sum(spans, Fraction(0))
        weighted = (span * value for span, (_, value) in zip(spans, self._values, strict=True))
        return sum(weighted, Fraction(0)) / whole if whole else None
