"""What was learned of a policy's watts, as it is kept over restarts."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

VERSION = 1

MOVED = 0.02
"""A smaller relative change of what is in use is not worth a write."""

SURER = 0.25
"""Likewise of the doubt."""

LARGEST = 1e30
"""No number is; squares of larger ones are infinite."""


class Learning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of base and parts, in this order: what is `used`, what is `expected`, and its covariance `spread`."""

    version: int
    at: float
    """Unix time."""
    watts: Mapping[str, float]
    """Those that factors multiply, by namespace/name."""
    scale: float
    """Watts of one unit of the base."""
    used: list[float]
    expected: list[float]
    spread: list[list[float]]

    def check(self) -> None:
        """Raises ValueError for another version, and for what no estimator writes."""
        if self.version != VERSION:
            raise ValueError(f"version {self.version} is unknown, expected {VERSION}")
        size = len(self.used)
        rows = [self.used, self.expected, *self.spread]
        if len(self.spread) != size or any(len(row) != size for row in rows):
            raise ValueError(f"{size} numbers in use, and others of their doubt")
        numbers = [self.at, self.scale, *self.watts.values(), *(number for row in rows for number in row)]
        variances = [self.spread[row][row] for row in range(size)]
        if not all(abs(number) < LARGEST for number in numbers) or min([self.at, *self.used, *variances]) < 0:
            raise ValueError("a negative or infinite number")
        if min([self.scale, *self.watts.values()]) <= 0:
            raise ValueError("watts that are none")

    def differs(self, other: Learning) -> bool:
        """Whether that is worth a write."""
        if self.watts.keys() != other.watts.keys() or len(self.used) != len(other.used):
            return True
        pairs = zip([*self.used, *self.watts.values()], [*other.used, *other.watts.values()], strict=True)
        moved = any(abs(new - old) > MOVED * max(old, MOVED) for new, old in pairs)
        doubts = ((self.spread[row][row], other.spread[row][row]) for row in range(len(self.used)))
        return moved or any(abs(math.sqrt(new) - math.sqrt(old)) > SURER * math.sqrt(old) for new, old in doubts)
