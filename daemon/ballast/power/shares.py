"""Splits whole numbers in exact proportions (largest remainder, Hamilton's method)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import lcm
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Whole: TypeAlias = npt.NDArray[Any]
"""Whole numbers: 64-bit ones, or Python's own where products could be larger."""


def whole(numbers: Sequence[Fraction]) -> tuple[list[int], int]:
    """The numbers as whole multiples of 1 / unit, and the unit."""
    pairs = [number.as_integer_ratio() for number in numbers]
    unit = lcm(*{denominator for _, denominator in pairs})
    return [numerator * (unit // denominator) for numerator, denominator in pairs], unit


def quotas(amount: int, weights: Iterable[int]) -> list[Fraction]:
    """`amount` in proportion to `weights`, not all of which are 0."""
    weights = list(weights)
    total = sum(weights)
    return [Fraction(amount * weight, total) for weight in weights]


def largest_remainder(amount: int, weights: Whole) -> Whole:
    """Whole shares of `amount` in proportion to `weights`, equal ones where all are 0; ties go to the first."""
    total = weights.sum()
    if not total:
        weights, total = np.ones_like(weights), len(weights)
    parts = weights * amount
    shares: Whole = parts // total
    rest = int(amount - shares.sum())
    if rest:
        shares[np.argsort(shares * total - parts, kind="stable")[:rest]] += 1
    return shares


def hand_out(amount: int, room: Sequence[int]) -> list[int]:
    """What each gets of `amount`, one at a time to the one with most room left, ties to the first.

    What is left of the room ends at one level L: those with more get room - L, and some of the first one more.
    """
    if amount >= sum(room):
        return list(room)
    ranked = sorted(room, reverse=True)
    level, number, rest = ranked[0], 1, amount
    while number < len(ranked) and number * (level - ranked[number]) <= rest:
        rest -= number * (level - ranked[number])
        level = ranked[number]
        number += 1
    lower, more = divmod(rest, number)
    level -= lower
    given = []
    for each in room:
        one = each >= level and more > 0
        more -= one
        given.append(max(0, each - level) + one)
    return given
