"""Splits a change of the total number of replicas over the targets.

An entity is a group or a target without one. Entity e gets amount · m(e) / Σ m, where m(e) is the sum over its members
of watts · replicas (on the way down) or watts · room below the limit (on the way up). Shares become whole numbers by
largest remainder; inside a group they are split by weight. Every target stays within its bounds. Entities of a lower
priority give all they can before higher ones give any, and get back last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction

from ballast.power.shares import hand_out, largest_remainder, quotas, whole

ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Target:
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
    targets: Iterable[Target], delta: int, *, restore_first: bool = True, inside_first: bool = True
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


def counts_by_change(targets: Iterable[Target], *, restore_first: bool = True) -> Callable[[int], dict[str, int]]:
    """For any `delta` the counts that `allocate` leads to, without the reasons; of suspended targets nothing."""
    ordered = sorted(targets, key=lambda target: target.name)
    prepared = _Split([target for target in ordered if not target.suspended], inside_first=True)
    return lambda delta: prepared.fresh().moved(delta, restore_first).counts


def _split(ordered: Sequence[Target], delta: int, restore_first: bool, inside_first: bool) -> _Split:
    return _Split([target for target in ordered if not target.suspended], inside_first).moved(delta, restore_first)


class _Split:
    """The counts while they are moved from the present ones to the new ones."""

    def __init__(self, active: Sequence[Target], inside_first: bool) -> None:
        self.counts = {target.name: min(max(target.current, target.minimum), target.maximum) for target in active}
        self.repaired = sum(self.counts[target.name] - target.current for target in active)
        self.shares = dict.fromkeys((target.entity for target in active), 0)
        self._distributed: list[tuple[int, Mapping[str, int]]] = []
        self.redistributed = 0
        self._active = active
        self._inside_first = inside_first
        self._members: dict[str, list[Target]] = {}
        self._tiers: dict[int, list[Target]] = {}
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

    def _give(self, tier: Sequence[Target], amount: int, restore_first: bool) -> int:
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


def _baseline(target: Target) -> int:
    return target.current if target.baseline is None else target.baseline
