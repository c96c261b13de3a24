"""Brings targets within a budget of watts: first into their bounds, then down or up by `allocate`."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import floor

import numpy as np
from msgspec.structs import replace

from ballast.power.allocation import AllocationTarget, Split, Whole


def watts_of(targets: Sequence[AllocationTarget], counts: Mapping[str, int]) -> Fraction:
    """The watts of these counts; targets without a count draw nothing."""
    return sum((target.watts * counts.get(target.name, 0) for target in targets), Fraction(0))


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
    if split.draw(split.current) <= limit:
        return split.dictionary(split.current)
    return split.dictionary(_fill_rest(split, _search(split, limit), split.current, limit))


def fill(targets: Sequence[AllocationTarget], watts: Fraction, *, restore_first: bool) -> dict[str, int]:
    """Counts of at most `watts`, from the present ones by as many replicas as fit below the maxima."""
    split = Split(targets, restore_first=restore_first)
    limit = watts * split.unit
    if split.draw(split.current) > limit:
        return split.dictionary(split.current)
    return split.dictionary(_fill_rest(split, _search(split, limit), split.maximum, limit))


def _search(split: Split, limit: Fraction) -> Whole:
    """The counts after the largest change of the total that draw at most `limit`.

    That change lies between the numbers of the heaviest and of the lightest replicas that make up what is missing.
    """
    spare = limit - split.draw(split.current)
    low, high = sorted(floor(spare / int(watts)) for watts in (split.watts.min(), split.watts.max()))
    while low < high:
        middle = (low + high + 1) // 2
        if split.draw(split.after(middle)) <= limit:
            low = middle
        else:
            high = middle - 1
    return split.after(low)


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
