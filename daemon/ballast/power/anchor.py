"""How much load (replicas, weighted with their watts) a power budget carries.

The anchor is one pair of watts W0 and load L0. A budget of W watts carries L(W) = L0 · W / W0. This is absolute: errors
of earlier steps do not add up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, floor, lcm

from ballast.power.controller_state import Anchor
from ballast.power.sections.choices import Rounding
from ballast.power.target import AllocationTarget

HALF = Fraction(1, 2)
_PRECISION = 10**30


def load_of(targets: Sequence[AllocationTarget]) -> Fraction:
    """The sum of replicas · watts per replica over all targets."""
    scale = lcm(*(target.watts.denominator for target in targets))
    whole = (target.current * target.watts.numerator * (scale // target.watts.denominator) for target in targets)
    return Fraction(sum(whole), scale)


def affordable(anchor: Anchor, watts: Fraction) -> Fraction:
    """The load that `watts` carry: L0 · watts / W0."""
    return anchor.load * watts / anchor.watts


def price(anchor: Anchor, load: Fraction) -> Fraction | None:
    """The watts that carry `load`: W0 · load / L0; None where the anchor has no load."""
    return anchor.watts * load / anchor.load if anchor.load else None


def shifted(anchor: Anchor, before: Fraction, change: Fraction, reference: Fraction, heaviest: Fraction) -> Anchor:
    """The anchor after someone else changed the load of `before` by `change` at `reference` watts R.

    Usually L0' = L0 + change · W0 / R, so that L(R) changes by exactly `change`. Where bounds keep the load further
    from L(R) than rounding to whole replicas (of `heaviest` watts) would, L0' = L0 · (before + change) / before: the
    absolute change would be many times itself at other watts. When all load goes or comes the anchor stays as it is.
    """
    after, carried = before + change, affordable(anchor, reference)
    if anchor.load and (before <= 0 or after <= 0):
        return anchor
    if not anchor.load or (-HALF * heaviest <= carried - before <= heaviest and carried + change > 0):
        moved = max(Fraction(0), anchor.load + change * anchor.watts / reference)
    else:
        moved = anchor.load * after / before
    return Anchor(anchor.watts, moved.limit_denominator(_PRECISION))


def rounded(ideal: Fraction, current: int, rounding: Rounding) -> int:
    """`ideal` replicas as a whole number; NEAREST_AWAY rounds halves away from `current`."""
    if rounding is Rounding.FLOOR:
        return floor(ideal)
    if rounding is Rounding.NEAREST_AWAY and ideal > current:
        return floor(ideal + HALF)
    return ceil(ideal - HALF)


def wanted_change(
    targets: Sequence[AllocationTarget], load: Fraction, rounding: Rounding, after: Callable[[int], Fraction]
) -> int:
    """By how many replicas the total should change to reach `load`; bounds of targets are ignored.

    With equal watts w per replica: round(load / w) − current. Otherwise the largest change whose load, `after(change)`,
    stays within `load`, found by bisection.
    """
    current = sum(target.current for target in targets)
    watts = {target.watts for target in targets}
    if len(watts) == 1:
        return rounded(load / watts.pop(), current, rounding) - current
    lowest = sum(min(0, target.minimum - target.current) for target in targets)
    highest = sum(max(0, target.maximum - target.current) for target in targets)
    if load_of(targets) > load:
        highest = 0
    else:
        lowest = 0
    while lowest < highest:
        middle = -((-lowest - highest) // 2)
        if after(middle) <= load:
            lowest = middle
        else:
            highest = middle - 1
    return lowest
