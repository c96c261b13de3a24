"""Splits whole numbers in exact proportions (largest remainder, Hamilton's method)."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, MutableMapping
from fractions import Fraction
from math import lcm


def whole(weights: Mapping[str, Fraction]) -> dict[str, int]:
    """Whole numbers in the same proportions."""
    scale = lcm(*(weight.denominator for weight in weights.values()))
    return {name: weight.numerator * (scale // weight.denominator) for name, weight in weights.items()}


def quotas(amount: int, weights: Mapping[str, int]) -> dict[str, Fraction]:
    """`amount` in proportion to `weights`, not all of which are 0."""
    total = sum(weights.values())
    return {name: Fraction(amount * weight, total) for name, weight in weights.items()}


def largest_remainder(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Whole shares of `amount` in proportion to `weights`, equal ones where all are 0; ties go by name."""
    total = sum(weights.values())
    if not total:
        weights, total = dict.fromkeys(weights, 1), len(weights)
    shares, remainders = {}, {}
    for name, weight in weights.items():
        shares[name], remainders[name] = divmod(amount * weight, total)
    rest = amount - sum(shares.values())
    if rest:
        for name in sorted(remainders, key=lambda name: (-remainders[name], name))[:rest]:
            shares[name] += 1
    return shares


def hand_out(amount: int, room: Mapping[str, int], given: MutableMapping[str, int]) -> int:
    """Adds `amount` to `given`, one at a time to the name with most room left, ties by name.

    `given` counts against `room`. Returns the rest that no name has room for.
    """
    if not amount:
        return 0
    heap = [(given[name] - most, name) for name, most in room.items() if most > given[name]]
    heapq.heapify(heap)
    while amount and heap:
        negative_room, name = heap[0]
        given[name] += 1
        amount -= 1
        if negative_room == -1:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (negative_room + 1, name))
    return amount
