"""Allocation one replica and one dictionary at a time: what the arrays of `ballast.power.allocation` must equal."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from copy import copy
from fractions import Fraction
from math import floor, lcm

from ballast.power.allocation import AllocationTarget, ReplicaAllocation


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
    split = _split(ordered, delta, restore_first, inside_first)
    changes = {target.name: split.counts.get(target.name, target.current) - target.current for target in ordered}
    return ReplicaAllocation(delta, changes, split.quotas(), split.shares, split.redistributed)


def counts_by_change(
    targets: Iterable[AllocationTarget], *, restore_first: bool = True
) -> Callable[[int], dict[str, int]]:
    """For any `delta` the counts that `allocate` leads to, without the reasons; of suspended targets nothing."""
    ordered = sorted(targets, key=lambda target: target.name)
    prepared = _Split([target for target in ordered if not target.suspended], inside_first=True)
    return lambda delta: prepared.fresh().moved(delta, restore_first).counts


def _split(ordered: Sequence[AllocationTarget], delta: int, restore_first: bool, inside_first: bool) -> _Split:
    return _Split([target for target in ordered if not target.suspended], inside_first).moved(delta, restore_first)


class _Split:
    """The counts while they are moved from the present ones to the new ones."""

    def __init__(self, active: Sequence[AllocationTarget], inside_first: bool) -> None:
        self.counts = {target.name: min(max(target.current, target.minimum), target.maximum) for target in active}
        self.repaired = sum(self.counts[target.name] - target.current for target in active)
        self.shares = dict.fromkeys((target.entity for target in active), 0)
        self._distributed: list[tuple[int, Mapping[str, int]]] = []
        self.redistributed = 0
        self._active = active
        self._inside_first = inside_first
        self._members: dict[str, list[AllocationTarget]] = {}
        self._tiers: dict[int, list[AllocationTarget]] = {}
        for target in active:
            self._members.setdefault(target.entity, []).append(target)
            self._tiers.setdefault(target.priority, []).append(target)
        self._watts = whole({target.name: target.watts for target in active})
        self._weights = {
            entity: whole({member.name: member.weight for member in members})
            if len(members) > 1
            else {members[0].name: 1}
            for entity, members in self._members.items()
        }

    def fresh(self) -> _Split:
        """Another one from the same counts; what depends on the targets alone is shared."""
        found = copy(self)
        found.counts, found.shares = dict(self.counts), dict(self.shares)
        found._distributed = []
        return found

    def moved(self, delta: int, restore_first: bool) -> _Split:
        """This one after the sum was moved by `delta`."""
        rest = delta - self.repaired
        self.up(max(0, rest), restore_first)
        self.down(max(0, -rest), restore_first)
        return self

    def quotas(self) -> dict[str, Fraction]:
        """Exact share by entity, over all that was distributed."""
        found = dict.fromkeys(self.shares, Fraction(0))
        for amount, weights in self._distributed:
            for entity, quota in quotas(amount, weights).items():
                found[entity] += quota
        return found

    def up(self, amount: int, restore_first: bool) -> None:
        tiers = [self._tiers[priority] for priority in sorted(self._tiers, reverse=True)]
        for tier in tiers if restore_first else ():
            amount = self._step(1, amount, {t.name: min(t.maximum, _baseline(t)) for t in tier})
        for tier in tiers:
            amount = self._step(1, amount, {t.name: t.maximum for t in tier})

    def down(self, amount: int, restore_first: bool) -> None:
        for priority in sorted(self._tiers):
            amount = self._give(self._tiers[priority], amount, restore_first)
        for priority in sorted(self._tiers):
            amount = self._step(-1, amount, {t.name: t.minimum for t in self._tiers[priority]}, by_count=True)

    def _give(self, tier: Sequence[AllocationTarget], amount: int, restore_first: bool) -> int:
        """What the targets of one priority give before anybody gives what its own load needs."""
        if restore_first:
            amount = self._step(-1, amount, {t.name: max(t.minimum, _baseline(t)) for t in tier})
        return self._step(-1, amount, {t.name: max(t.minimum, t.needed) for t in tier}, by_count=True)

    def _step(self, sign: int, amount: int, limits: Mapping[str, int], *, by_count: bool = False) -> int:
        """Moves the sum of all counts by `amount`, none beyond its limit; returns the rest that found no room."""
        if not amount:
            return 0
        room = dict.fromkeys(self.counts, 0) if len(self._tiers) > 1 else {}
        room.update({name: max(0, sign * (limit - self.counts[name])) for name, limit in limits.items()})
        now = min(amount, sum(room.values()))
        if now:
            counts = {name: count if name in limits else 0 for name, count in self.counts.items()}
            for name, moved in self._distribute(now, room, counts if by_count else room).items():
                self.counts[name] += sign * moved
        return amount - now

    def _distribute(self, amount: int, room: Mapping[str, int], measure: Mapping[str, int]) -> dict[str, int]:
        """What each target moves; an entity's share is amount · m / Σ m with m = Σ measure · watts of its members."""
        weights = {
            entity: sum(measure[member.name] * self._watts[member.name] for member in members)
            for entity, members in self._members.items()
        }
        self._distributed.append((amount, weights))
        moved: dict[str, int] = {}
        rest = 0
        for entity, share in largest_remainder(amount, weights).items():
            self.shares[entity] += share
            rest += self._inside(self._weights[entity], share, room, moved)
        self.redistributed += rest
        hand_out(rest, room, moved)
        return moved

    def _inside(self, weights: Mapping[str, int], share: int, room: Mapping[str, int], moved: dict[str, int]) -> int:
        """Splits the share of one entity by weight; returns what its members have no room for."""
        if len(weights) == 1:
            (name,) = weights
            moved[name] = min(share, room[name])
            return share - moved[name]
        left = share
        for name, count in largest_remainder(share, weights).items():
            moved[name] = min(count, room[name])
            left -= moved[name]
        if not left or not self._inside_first:
            return left
        rest = hand_out(left, {name: room[name] for name in weights}, moved)
        self.redistributed += left - rest
        return rest


def _baseline(target: AllocationTarget) -> int:
    return target.current if target.baseline is None else target.baseline


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


def watts_of(targets: Sequence[AllocationTarget], counts: Mapping[str, int]) -> Fraction:
    """The watts of these counts; targets without a count draw nothing."""
    scale = lcm(*(target.watts.denominator for target in targets))
    return Fraction(
        sum(counts.get(t.name, 0) * t.watts.numerator * (scale // t.watts.denominator) for t in targets), scale
    )


def shed(targets: Sequence[AllocationTarget], watts: Fraction, *, restore_first: bool) -> dict[str, int]:
    """Counts of at most `watts`, from the present ones by the fewest replicas; the minima where these need more.

    What whole replicas leave over goes back to lighter targets. All counts are within bounds before.
    """
    present = {target.name: target.current for target in targets}
    if watts_of(targets, present) <= watts:
        return present
    return _filled(targets, _search(targets, watts, restore_first), present, watts)


def fill(targets: Sequence[AllocationTarget], watts: Fraction, *, restore_first: bool) -> dict[str, int]:
    """Counts of at most `watts`, from the present ones by as many replicas as fit below the maxima."""
    present, highest = ({t.name: getattr(t, end) for t in targets} for end in ("current", "maximum"))
    if watts_of(targets, present) > watts:
        return present
    return _filled(targets, _search(targets, watts, restore_first), highest, watts)


def _search(targets: Sequence[AllocationTarget], watts: Fraction, restore_first: bool) -> dict[str, int]:
    """The counts after the largest change of the sum that draw at most `watts`."""
    after = counts_by_change(targets, restore_first=restore_first)
    spare = watts - sum(target.watts * target.current for target in targets)
    kinds = [target.watts for target in targets]
    low, high = sorted((floor(spare / min(kinds)), floor(spare / max(kinds))))
    while low < high:
        middle = (low + high + 1) // 2
        fits = watts_of(targets, after(middle)) <= watts
        low, high = (middle, high) if fits else (low, middle - 1)
    return after(low)


def _filled(
    targets: Sequence[AllocationTarget], counts: dict[str, int], limits: Mapping[str, int], watts: Fraction
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
