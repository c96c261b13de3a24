"""Brings targets within a budget of watts: first into their bounds, then down or up by `allocate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, lcm

from ballast.power.allocation import Target, counts_by_change

GUESSES = 6


def watts_of(targets: Sequence[Target], counts: Mapping[str, int]) -> Fraction:
    """The watts of these counts; targets without a count draw nothing."""
    scale = lcm(*(target.watts.denominator for target in targets))
    return Fraction(
        sum(counts.get(t.name, 0) * t.watts.numerator * (scale // t.watts.denominator) for t in targets), scale
    )


def within_bounds(targets: Sequence[Target]) -> list[Target]:
    """The targets with their present counts brought between minimum and maximum."""
    return [
        target
        if target.minimum <= target.current <= target.maximum
        else replace(target, current=min(max(target.current, target.minimum), target.maximum))
        for target in targets
    ]


def shed(targets: Sequence[Target], watts: Fraction, *, restore_first: bool) -> dict[str, int]:
    """Counts of at most `watts`, from the present ones by the fewest replicas; the minima where these need more.

    What whole replicas leave over goes back to lighter targets. All counts are within bounds before.
    """
    present = {target.name: target.current for target in targets}
    excess = watts_of(targets, present) - watts
    if excess <= 0:
        return present
    most = sum(target.current - target.minimum for target in targets)
    lowest = {target.name: target.minimum for target in targets}
    if not most or watts_of(targets, lowest) >= watts:
        return lowest
    after = counts_by_change(targets, restore_first=restore_first)
    counts = _search(targets, -1, excess, most, watts, after)
    return _filled(targets, counts, present, watts)


def fill(targets: Sequence[Target], watts: Fraction, *, restore_first: bool) -> dict[str, int]:
    """Counts of at most `watts`, from the present ones by as many replicas as fit below the maxima."""
    present = {target.name: target.current for target in targets}
    spare = watts - watts_of(targets, present)
    highest = {target.name: target.maximum for target in targets}
    if spare < 0:
        return present
    if watts_of(targets, highest) <= watts:
        return highest
    most = sum(target.maximum - target.current for target in targets)
    if not most:
        return present
    after = counts_by_change(targets, restore_first=restore_first)
    return _filled(targets, _search(targets, 1, spare, most, watts, after), highest, watts)


def _search(
    targets: Sequence[Target],
    sign: int,
    amount: Fraction,
    most: int,
    watts: Fraction,
    after: Callable[[int], dict[str, int]],
) -> dict[str, int]:
    """The counts with the fewest replicas taken away, or the most added, that end within `watts`.

    The present ones are `amount` from there. The number lies between that of the heaviest and of the lightest replicas
    that make up `amount`. A guess is corrected by the watts it missed, at the watts of a replica between it and the one
    before; after some guesses the rest is bisected.
    """
    moving = [target for target in targets if (target.maximum if sign > 0 else target.minimum) != target.current]
    kinds = [Fraction(*pair) for pair in {t.watts.as_integer_ratio() for t in moving}]
    light, heavy = min(kinds), max(kinds)
    if sign < 0:
        low, high = min(most, ceil(amount / heavy)), min(most, ceil(amount / light))
    else:
        low, high = min(most, int(amount / heavy)), min(most, int(amount / light)) + (light != heavy)
    known: dict[int, dict[str, int]] = {}
    before, missed = (0, -sign * amount), 0
    guess, tried = int(amount * len(kinds) / sum(kinds, Fraction(0))), 0
    while low < high:
        guess, tried = min(max(guess, low), high - 1), tried + 1
        known[guess] = after(sign * guess)
        rest = watts_of(targets, known[guess]) - watts
        reached = (rest <= 0) == (sign < 0)
        low, high = (low, guess) if reached else (guess + 1, high)
        before, each = (guess, rest), _slope((guess, rest), before, heavy)
        missed = max(1, int(abs(rest) / each) + (high - low > missed))
        guess += -missed if reached else missed
        if tried > GUESSES:
            guess = (low + high) // 2
    found = high if sign < 0 or light == heavy else high - 1
    return known[found] if found in known else after(sign * found)


def _slope(one: tuple[int, Fraction], other: tuple[int, Fraction], least: Fraction) -> Fraction:
    """Watts of a replica between two numbers of replicas and the watts that each missed."""
    replicas, watts = abs(one[0] - other[0]), abs(one[1] - other[1])
    return watts / replicas if replicas and watts else least


def _filled(
    targets: Sequence[Target], counts: dict[str, int], limits: Mapping[str, int], watts: Fraction
) -> dict[str, int]:
    """The counts with whole replicas more wherever they still fit, higher priorities first, ties by name."""
    spare = watts - watts_of(targets, counts)
    if spare <= 0:
        return counts
    light = min(Fraction(*pair) for pair in {target.watts.as_integer_ratio() for target in targets})
    if light > spare:
        return counts
    for target in sorted(targets, key=lambda target: (-target.priority, target.name)):
        more = min(limits[target.name] - counts[target.name], int(spare / target.watts))
        if more > 0:
            counts[target.name] += more
            spare -= more * target.watts
    return counts
