"""Brings targets within a budget of watts: first into their bounds, then down or up by `allocate`."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, floor

import numpy as np
from msgspec.structs import replace

from ballast.power.allocation import AllocationTarget, Split, Whole, whole

GUESSES = 6


def watts_of(targets: Sequence[AllocationTarget], counts: Mapping[str, int]) -> Fraction:
    """The watts of these counts; targets without a count draw nothing."""
    watts, unit = whole([target.watts for target in targets])
    return Fraction(sum(counts.get(t.name, 0) * one for t, one in zip(targets, watts, strict=True)), unit)


def within_bounds(targets: Sequence[AllocationTarget]) -> list[AllocationTarget]:
    """The targets with their present counts brought between minimum and maximum."""
    return [
        target
        if target.minimum <= target.current <= target.maximum
        else replace(target, current=min(max(target.current, target.minimum), target.maximum))
        for target in targets
    ]


def shed(targets: Sequence[AllocationTarget], watts: Fraction, *, restore_first: bool) -> dict[str, int]:
    """Counts of at most `watts`, from the present ones by the fewest replicas; the minima where these need more.

    What whole replicas leave over goes back to lighter targets. All counts are within bounds before.
    """
    split = Split(targets, restore_first=restore_first)
    limit = watts * split.unit
    excess = split.draw(split.current) - limit
    if excess <= 0:
        return split.dictionary(split.current)
    most = int((split.current - split.minimum).sum())
    if not most or split.draw(split.minimum) >= limit:
        return split.dictionary(split.minimum)
    return split.dictionary(_fill_rest(split, _search(split, -1, excess, most, limit), split.current, limit))


def fill(targets: Sequence[AllocationTarget], watts: Fraction, *, restore_first: bool) -> dict[str, int]:
    """Counts of at most `watts`, from the present ones by as many replicas as fit below the maxima."""
    split = Split(targets, restore_first=restore_first)
    limit = watts * split.unit
    spare = limit - split.draw(split.current)
    if spare < 0:
        return split.dictionary(split.current)
    if split.draw(split.maximum) <= limit:
        return split.dictionary(split.maximum)
    most = int((split.maximum - split.current).sum())
    if not most:
        return split.dictionary(split.current)
    return split.dictionary(_fill_rest(split, _search(split, 1, spare, most, limit), split.maximum, limit))


def _search(split: Split, sign: int, amount: Fraction, most: int, limit: Fraction) -> Whole:
    """The counts with the fewest replicas taken away, or the most added, that draw at most `limit`.

    The present ones are `amount` from there, both in the unit of the split. The number lies between that of the
    heaviest and of the lightest replicas that make up `amount`. A guess is corrected by the watts it missed, at the
    watts of a replica between it and the one before; after some guesses the rest is bisected.
    """
    moving = split.watts[(split.maximum if sign > 0 else split.minimum) != split.current]
    kinds = np.unique(moving).tolist()
    light, heavy = kinds[0], kinds[-1]
    if sign < 0:
        low, high = min(most, ceil(amount / heavy)), min(most, ceil(amount / light))
    else:
        low, high = min(most, int(amount / heavy)), min(most, int(amount / light)) + (light != heavy)
    known: dict[int, Whole] = {}
    before, missed = (0, -sign * amount), 0
    guess, tried = int(amount * len(kinds) / sum(kinds)), 0
    while low < high:
        guess, tried = min(max(guess, low), high - 1), tried + 1
        known[guess] = split.after(sign * guess)
        rest = split.draw(known[guess]) - limit
        reached = (rest <= 0) == (sign < 0)
        low, high = (low, guess) if reached else (guess + 1, high)
        before, slope = (guess, rest), _slope((guess, rest), before, heavy)
        missed = max(1, int(abs(rest) / slope) + (high - low > missed))
        guess += -missed if reached else missed
        if tried > GUESSES:
            guess = (low + high) // 2
    best = high if sign < 0 or light == heavy else high - 1
    return known[best] if best in known else split.after(sign * best)


def _slope(one: tuple[int, Fraction], other: tuple[int, Fraction], least: int) -> Fraction:
    """Watts of a replica between two numbers of replicas and the watts that each missed."""
    replicas, watts = abs(one[0] - other[0]), abs(one[1] - other[1])
    return watts / replicas if replicas and watts else Fraction(least)


def _fill_rest(split: Split, counts: Whole, limits: Whole, limit: Fraction) -> Whole:
    """The counts with whole replicas more wherever they still fit, higher priorities first, ties by name."""
    spare = floor(limit) - split.draw(counts)
    fitting = split.by_name[((limits > counts) & (split.watts <= spare))[split.by_name]]
    filled = counts.copy()
    for index in fitting[np.argsort(-split.priority[fitting], kind="stable")]:
        watts = int(split.watts[index])
        more = min(int(limits[index] - counts[index]), spare // watts)
        filled[index] += more
        spare -= more * watts
    return filled
