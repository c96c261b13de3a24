"""The keys of a strategy, checked one by one; whatever is left over is unknown."""

import json
import math
from collections.abc import Iterable, Mapping

from ballast.base.errors import UsageError
from ballast.base.text import nearest

LARGEST_WEIGHT = 1e9
"""So that sums of weights stay finite."""

IN_FLIGHT = "in_flight"
IN_FLIGHT_MODES = ("off", "upstream", "full")


class StrategyKeys:
    """Takes keys out of `given`; raises UsageError with the strategy, the key, the value and what is allowed."""

    def __init__(self, strategy: str, given: Mapping[str, object]) -> None:
        self.strategy = strategy
        self._given = dict(given)
        self._asked: list[str] = []

    def take(self, key: str) -> object:
        """The value as given, None without one."""
        self._asked.append(key)
        return self._given.pop(key, None)

    def number(self, key: str, default: float, low: float = -math.inf, high: float = math.inf) -> float:
        """A number within `low` and `high`, `default` without one."""
        value = self.take(key)
        return default if value is None else self.as_number(key, value, low, high)

    def choice(self, key: str, default: str, allowed: Iterable[str]) -> str:
        """One of the `allowed` words, `default` without one."""
        value, choices = self.take(key), list(allowed)
        if value is None:
            return default
        if value not in choices:
            raise self.error(key, value, f"choose one of {', '.join(choices)}")
        return str(value)

    def mapping(self, key: str) -> Mapping[str, object] | None:
        """A map with at least one entry, None without one."""
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, Mapping) or not value:
            raise self.error(key, value, "give an object with at least one entry")
        return {str(name): item for name, item in value.items()}

    def in_flight(self) -> str:
        """`off` counts none, `upstream` what TargetLoadPacking counts, `full` those bound since the window ended."""
        return self.choice(IN_FLIGHT, "off", IN_FLIGHT_MODES)

    def as_number(self, key: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
        """A value that was already taken, as a number within `low` and `high`."""
        number = to_number(value)
        if number is None or not low <= number <= high:
            raise self.error(key, value, f"give a {described(low, high)}")
        return number

    def finish(self) -> None:
        """Raises UsageError for a key that no call took, except `in_flight`, which every strategy has.

        A strategy that counts pods in flight calls `in_flight` itself; for any other, only the value is checked here.
        """
        if IN_FLIGHT not in self._asked:
            self.in_flight()
        for key in self._given:
            hint = nearest(key, self._asked, f"Its keys are {', '.join(self._asked)}.")
            raise UsageError(f"The strategy {self.strategy} has no key {key}. {hint}")

    def error(self, key: str, value: object, allowed: str) -> UsageError:
        """The error for a value; `allowed` says what to give instead."""
        shown = json.dumps(value, default=str)
        return UsageError(
            f"{self.strategy}: {key} cannot be {shown if len(shown) < 200 else shown[:200] + '…'}; {allowed}."
        )


def to_number(value: object) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def described(low: float, high: float) -> str:
    """A range of numbers in words."""
    if low == -math.inf and high == math.inf:
        return "number"
    if high == math.inf:
        return f"number of at least {low:g}"
    if low == -math.inf:
        return f"number of at most {high:g}"
    return f"number from {low:g} to {high:g}"
