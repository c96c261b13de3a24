"""Whole numbers out of exact proportions."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, MutableMapping
from fractions import Fraction
from math import lcm


def quotas(amount: int, weights: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """`amount` in proportion to `weights`, which are at least 0; equal parts where all of them are 0."""
    total = sum(weights.values(), Fraction(0))
    if not total:
        return dict.fromkeys(weights, Fraction(amount, max(1, len(weights))))
    return {name: amount * weight / total for name, weight in weights.items()}


def largest_remainder(amount: int, weights: Mapping[str, Fraction]) -> dict[str, int]:
    """Whole shares of `amount` in proportion to `weights`, as in `quotas`; they sum to `amount`, ties go by name."""
    scale = lcm(*(weight.denominator for weight in weights.values()))
    whole = {name: int(weight * scale) for name, weight in weights.items()}
    total = sum(whole.values())
    if not total:
        whole, total = dict.fromkeys(weights, 1), len(weights)
    shares, remainders = {}, {}
    for name, weight in whole.items():
        shares[name], remainders[name] = divmod(amount * weight, total)
    rest = amount - sum(shares.values())
    for name in heapq.nsmallest(rest, remainders, key=lambda name: (-remainders[name], name)):
        shares[name] += 1
    return shares


def hand_out(amount: int, room: Mapping[str, int], given: MutableMapping[str, int]) -> int:
    """Adds `amount` to `given`, one at a time to the name with most room left, ties by name.

    `given` counts against `room`. Returns what nobody has room for.
    """
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
