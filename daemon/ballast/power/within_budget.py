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


def restored(targets: Sequence[AllocationTarget], watts: Fraction, *, restore_first: bool) -> dict[str, int]:
    """Counts of at most `watts`, judged from the minima up by priority; the present ones are within `watts`.

    A target below its baseline gets what fits while all lower priorities are at their minimum (or at what they need);
    these give it back. What is left over goes to all as in `fill`.
    """
    counts = {target.name: target.current for target in targets}
    rest = watts - sum((_least(target) * target.watts for target in targets), Fraction(0))
    for tier in _tiers(targets):
        available = rest + sum((_least(target) * target.watts for target in tier), Fraction(0))
        reach = [replace(t, maximum=max(t.current, claim(t, restore_first=restore_first))) for t in tier]
        change = fill if watts_of(tier, counts) <= available else shed
        after = change(reach, available, restore_first=restore_first)
        rest = available - watts_of(tier, after)
        counts.update(after)
    moved = [replace(target, current=counts[target.name]) for target in targets]
    return fill(moved, watts, restore_first=restore_first)


def claim(target: AllocationTarget, *, restore_first: bool) -> int:
    """Replicas for which lower priorities give way: up to the baseline, without `restore_first` up to the maximum."""
    if target.baseline is None or not restore_first:
        return target.maximum
    return min(target.maximum, target.baseline)


def claimed(targets: Sequence[AllocationTarget], *, restore_first: bool) -> Fraction | None:
    """The least watts at which a replica more of a target below its baseline fits in the place of lower priorities.

    None where no target is below its baseline while lower ones have more than their minimum.
    """
    least = sum((_least(target) * target.watts for target in targets), Fraction(0))
    needed: list[Fraction] = []
    for tier in _tiers(targets):
        least += sum(((t.current - _least(t)) * t.watts for t in tier), Fraction(0))
        lower = any(t.current > _least(t) for t in targets if t.priority < tier[0].priority)
        below = [t.watts for t in tier if t.current < claim(t, restore_first=restore_first)]
        if lower and below:
            needed.append(least + min(below))
    return min(needed, default=None)


def _tiers(targets: Sequence[AllocationTarget]) -> list[list[AllocationTarget]]:
    """The targets by priority, the highest first."""
    priorities = sorted({target.priority for target in targets}, reverse=True)
    return [[target for target in targets if target.priority == priority] for priority in priorities]


def _least(target: AllocationTarget) -> int:
    """What lower priorities keep: their minimum, and of what runs what their own load needs."""
    return max(target.minimum, min(target.needed, target.current))


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
