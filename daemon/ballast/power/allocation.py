"""Splits a change of the total number of replicas over the targets.

An entity is a group or a target without one. Entity e gets amount · m(e) / Σ m, where m(e) is the sum over its members
of watts · replicas (on the way down) or watts · room below the limit (on the way up). Shares become whole numbers by
largest remainder (Hamilton's method); inside a group they are split by weight. Every target stays within its bounds.
Entities of a lower priority give all they can before higher ones give any, and get back last.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

ONE = Fraction(1)


class AllocationTarget(msgspec.Struct, frozen=True, gc=False):
    """A workload under a budget."""

    name: str
    """namespace/name"""
    current: int
    """Replicas, or the cap, now."""
    minimum: int
    maximum: int
    group: str | None = None
    """The group it belongs to; None: it is an entity of its own."""
    weight: Fraction = ONE
    """Its part of the group's share."""
    watts: Fraction = ONE
    """Watts of one replica."""
    baseline: int | None = None
    """Replicas it returns to first when power comes back; None: the present ones."""
    needed: int = 0
    """Replicas its own load asks for; it gives them up only when no other target can give any."""
    priority: int = 0
    """Lower ones give first and get back last."""

    @property
    def entity(self) -> str:
        """Name of the entity that its share is computed for."""
        return self.group or self.name

    @property
    def suspended(self) -> bool:
        """Whether someone set it to 0 although its minimum is above 0: it is left alone and counts nowhere."""
        return self.current == 0 and self.minimum > 0


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
    shares = []
    for left in room:
        one = left >= level and more > 0
        more -= one
        shares.append(max(0, left - level) + one)
    return shares


LARGEST = 2**62
"""Products from here on are computed with Python's own numbers."""


@dataclass(frozen=True, slots=True)
class SplitStep:
    """A part of a move, in which every target goes at most to one limit."""

    begins: int
    """Replicas that are moved before it."""
    amount: int
    """Replicas that it can move."""
    before: Whole
    """Counts when it begins."""
    room: Whole
    """How far each target can go."""
    measure: Whole
    """Entities share in proportion to watts · measure."""


@dataclass(frozen=True, slots=True)
class SplitResult:
    """How a part of a step was split: by target `moved`, by entity `weights` and `shares`."""

    amount: int
    weights: Whole
    shares: Whole
    moved: Whole
    redistributed: int
    """Replicas that another target than the intended one took."""


class Split:
    """Targets, at least one and none of them suspended, and their counts after any change of the total."""

    def __init__(self, targets: Sequence[AllocationTarget], *, restore_first: bool, inside_first: bool = True) -> None:
        self.targets = ordered = sorted(targets, key=lambda target: (target.entity, target.name))
        self.names = [target.name for target in ordered]
        watts, self.unit = whole([target.watts for target in ordered])
        weights, _ = whole([target.weight for target in ordered])
        baseline = np.array([target.current if target.baseline is None else target.baseline for target in ordered])
        needed = np.array([target.needed for target in ordered])
        current = np.array([target.current for target in ordered])
        maximum = np.array([target.maximum for target in ordered])
        most = int(np.maximum(np.maximum(current, maximum), np.maximum(baseline, needed)).sum())
        exact = most * max(most * max(watts), max(weights)) >= LARGEST
        kind: npt.DTypeLike = object if exact else np.int64

        self.current, self.maximum = current.astype(kind), maximum.astype(kind)
        self.minimum = np.array([target.minimum for target in ordered], kind)
        self.watts = np.array(watts, kind)
        """Watts of a replica as multiples of 1 / `unit`."""
        self.priority = np.array([target.priority for target in ordered])
        self.by_name = np.array(sorted(range(len(ordered)), key=self.names.__getitem__), np.intp)
        self.start = np.minimum(np.maximum(self.current, self.minimum), self.maximum)
        self._repaired = int((self.start - self.current).sum())
        self._baseline, self._needed = baseline.astype(kind), needed.astype(kind)
        self._restore_first = restore_first
        self._inside_first = inside_first
        self._enter(weights, kind)
        self._paths: dict[int, list[SplitStep]] = {}

    def _enter(self, weights: Sequence[int], kind: npt.DTypeLike) -> None:
        """Where each entity begins, and the weights of its members."""
        entities = [target.entity for target in self.targets]
        self._starts = np.array([i for i, name in enumerate(entities) if not i or name != entities[i - 1]], np.intp)
        self.entities = [entities[i] for i in self._starts]
        self._sizes = np.diff(np.append(self._starts, len(entities)))
        self._entity = np.repeat(np.arange(len(self._starts)), self._sizes)
        exact_weights = np.array(weights, kind)
        whole_groups = self.by_entity(exact_weights)[self._entity]
        self._weights = np.where(whole_groups == 0, np.ones_like(exact_weights), exact_weights)
        self._totals = self.by_entity(self._weights)[self._entity]

    def by_entity(self, numbers: Whole) -> Whole:
        """The sums over the members of each entity."""
        sums: Whole = np.add.reduceat(numbers, self._starts)
        return sums

    def draw(self, counts: Whole) -> int:
        """The watts of these counts as a multiple of 1 / `unit`."""
        return int((counts * self.watts).sum())

    def dictionary(self, counts: Whole) -> dict[str, int]:
        """The counts by name."""
        return dict(zip(self.names, counts.tolist(), strict=True))

    def after(self, delta: int) -> Whole:
        """The counts once the total was moved by `delta`, as far as bounds allow."""
        sign, amount = self._towards(delta)
        counts: Whole = self.start
        for step in self._path(sign):
            rest = amount - step.begins
            if rest <= 0:
                break
            moved = step.room if rest >= step.amount else self._spread(rest, step).moved
            counts = step.before + sign * moved
        return counts

    def explained(self, delta: int) -> Iterator[SplitResult]:
        """The steps to `after(delta)`."""
        sign, amount = self._towards(delta)
        for step in self._path(sign):
            rest = min(step.amount, amount - step.begins)
            if rest > 0:
                yield self._spread(rest, step)

    def _towards(self, delta: int) -> tuple[int, int]:
        """The direction, and how many replicas are moved after targets were brought into their bounds."""
        rest = delta - self._repaired
        return (1 if rest > 0 else -1), abs(rest)

    def _path(self, sign: int) -> list[SplitStep]:
        if sign not in self._paths:
            self._paths[sign] = list(self._steps(sign))
        return self._paths[sign]

    def _steps(self, sign: int) -> Iterator[SplitStep]:
        counts, begins = self.start, 0
        for inside, limits, by_count in self._ups() if sign > 0 else self._downs():
            room = np.where(inside, np.maximum(sign * (limits - counts), 0), 0)
            amount = int(room.sum())
            if amount:
                yield SplitStep(begins, amount, counts, room, np.where(inside, counts, 0) if by_count else room)
                counts, begins = counts + sign * room, begins + amount

    def _ups(self) -> Iterator[tuple[Whole, Whole, bool]]:
        """Of each step who takes part, up to which count, and whether counts are shared by, not room."""
        tiers = self._tiers()[::-1]
        for inside in tiers if self._restore_first else ():
            yield inside, np.minimum(self.maximum, self._baseline), False
        for inside in tiers:
            yield inside, self.maximum, False

    def _downs(self) -> Iterator[tuple[Whole, Whole, bool]]:
        for inside in self._tiers():
            if self._restore_first:
                yield inside, np.maximum(self.minimum, self._baseline), False
            yield inside, np.maximum(self.minimum, self._needed), True
        for inside in self._tiers():
            yield inside, self.minimum, True

    def _tiers(self) -> list[Whole]:
        return [self.priority == tier for tier in np.unique(self.priority)]

    def _spread(self, amount: int, step: SplitStep) -> SplitResult:
        """Splits `amount`; an entity's share is amount · m / Σ m with m = Σ measure · watts of its members."""
        weights = self.by_entity(step.measure * self.watts)
        shares = largest_remainder(amount, weights)
        moved = np.minimum(self._inside(shares), step.room)
        short = shares - self.by_entity(moved)
        redistributed = 0
        if self._inside_first:
            for entity in np.flatnonzero((short > 0) & (self._sizes > 1)):
                members = slice(self._starts[entity], self._starts[entity] + self._sizes[entity])
                extra = hand_out(int(short[entity]), (step.room - moved)[members].tolist())
                moved[members] += extra
                redistributed += sum(extra)
        rest = int(amount - moved.sum())
        if rest:
            moved[self.by_name] += hand_out(rest, (step.room - moved)[self.by_name].tolist())
        return SplitResult(amount, weights, shares, moved, redistributed + rest)

    def _inside(self, shares: Whole) -> Whole:
        """The shares of entities split over their members by weight (largest remainder)."""
        parts = shares[self._entity] * self._weights
        members_shares = parts // self._totals
        rest = shares - self.by_entity(members_shares)
        if rest.any():
            order = np.argsort(members_shares * self._totals - parts, kind="stable")
            order = order[np.argsort(self._entity[order], kind="stable")]
            rank = np.arange(len(order)) - self._starts[self._entity]
            members_shares[order[rank < rest[self._entity]]] += 1
        return members_shares


@dataclass(frozen=True, slots=True)
class ReplicaAllocation:
    """How a change was split."""

    delta: int
    """The change of the total that was asked for."""
    changes: Mapping[str, int]
    """Signed change by target."""
    quotas: Mapping[str, Fraction]
    """Exact share by entity, without sign."""
    shares: Mapping[str, int]
    """Whole share by entity, without sign."""
    redistributed: int
    """Replicas that another target than the intended one took."""

    @property
    def effective(self) -> int:
        """The change of the total that is possible."""
        return sum(self.changes.values())

    @property
    def unmet(self) -> int:
        """What is missing from `delta`, signed."""
        return self.delta - self.effective


def allocate(
    targets: Iterable[AllocationTarget], delta: int, *, restore_first: bool = True, inside_first: bool = True
) -> ReplicaAllocation:
    """Splits `delta` over `targets` so that each stays between its minimum and maximum; what cannot be met is `unmet`.

    Reductions go in proportion to the replicas of entities, increases in proportion to their room. What a target cannot
    take goes replica by replica to the target with the most room, in its own group first with `inside_first`.
    A target outside its bounds is brought back first, as part of `delta`; the others make up for it.
    `restore_first`: increases fill up to the baselines first, reductions first take what is above them.
    """
    ordered = sorted(targets, key=lambda target: target.name)
    active = [target for target in ordered if not target.suspended]
    if not active:
        return ReplicaAllocation(delta, {target.name: 0 for target in ordered}, {}, {}, 0)
    split = Split(active, restore_first=restore_first, inside_first=inside_first)
    counts = split.dictionary(split.after(delta))
    exact, shares, redistributed = dict.fromkeys(split.entities, Fraction(0)), dict.fromkeys(split.entities, 0), 0
    for spread in split.explained(delta):
        exact_shares = quotas(spread.amount, spread.weights.tolist())
        for entity, quota, share in zip(split.entities, exact_shares, spread.shares.tolist(), strict=True):
            exact[entity] += quota
            shares[entity] += share
        redistributed += spread.redistributed
    changes = {target.name: counts.get(target.name, target.current) - target.current for target in ordered}
    return ReplicaAllocation(delta, changes, exact, shares, redistributed)
