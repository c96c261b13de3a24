"""Whose replicas change when their sum has to: entities in proportion, members by weight, everyone within bounds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from ballast.power.shares import hand_out, largest_remainder, quotas, whole

ONE = Fraction(1)


@dataclass(frozen=True, slots=True)
class Target:
    """A workload under a budget, `name` is namespace/name; without a `group` it is an entity of its own.

    `baseline` is the count it returns to first when power comes back. `needed` is what its own load asks for: it
    gives up those replicas only when the others have nothing left to give. `watts` are those of one replica.
    """

    name: str
    current: int
    minimum: int
    maximum: int
    group: str | None = None
    weight: Fraction = ONE
    watts: Fraction = ONE
    baseline: int | None = None
    needed: int = 0

    @property
    def entity(self) -> str:
        return self.group or self.name

    @property
    def suspended(self) -> bool:
        """Someone set it to 0 although it may not be: it is left alone and counts nowhere."""
        return self.current == 0 and self.minimum > 0


@dataclass(frozen=True, slots=True)
class ReplicaAllocation:
    """`changes` per target, signed; `quotas` (exact) and `shares` (whole) per entity are magnitudes.

    `redistributed` counts the replicas that went to another target than their share said.
    """

    delta: int
    changes: Mapping[str, int]
    quotas: Mapping[str, Fraction]
    shares: Mapping[str, int]
    redistributed: int

    @property
    def effective(self) -> int:
        return sum(self.changes.values())

    @property
    def unmet(self) -> int:
        return self.delta - self.effective


def allocate(
    targets: Iterable[Target], delta: int, *, restore_first: bool = True, inside_first: bool = True
) -> ReplicaAllocation:
    """Splits `delta` over `targets` so that each stays between its minimum and maximum; what cannot be met is `unmet`.

    Less goes in proportion to what entities have, more in proportion to the room they have; inside a group by weight.
    What one cannot carry goes replica by replica to the one with most room, inside its group first (`inside_first`).
    A target that is outside its bounds is brought back first, as part of `delta`; the others make up for it.
    `restore_first`: the way back up leads through the baselines, and the way down first takes what is above them.
    """
    ordered = sorted(targets, key=lambda target: target.name)
    split = _Split([target for target in ordered if not target.suspended], inside_first)
    rest = delta - split.repaired
    split.up(max(0, rest), restore_first)
    split.down(max(0, -rest), restore_first)
    changes = {target.name: split.counts.get(target.name, target.current) - target.current for target in ordered}
    return ReplicaAllocation(delta, changes, split.quotas, split.shares, split.redistributed)


class _Split:
    """The counts on their way from what is to what shall be."""

    def __init__(self, active: Sequence[Target], inside_first: bool) -> None:
        self.counts = {target.name: min(max(target.current, target.minimum), target.maximum) for target in active}
        self.repaired = sum(self.counts[target.name] - target.current for target in active)
        self.quotas = dict.fromkeys((target.entity for target in active), Fraction(0))
        self.shares = dict.fromkeys(self.quotas, 0)
        self.redistributed = 0
        self._active = active
        self._inside_first = inside_first
        self._members: dict[str, list[Target]] = {}
        for target in active:
            self._members.setdefault(target.entity, []).append(target)
        self._watts = whole({target.name: target.watts for target in active})
        self._weights = {
            entity: whole({member.name: member.weight for member in members})
            for entity, members in self._members.items()
        }

    def up(self, amount: int, restore_first: bool) -> None:
        if restore_first:
            amount = self._step(1, amount, {t.name: min(t.maximum, _baseline(t)) for t in self._active})
        self._step(1, amount, {t.name: t.maximum for t in self._active})

    def down(self, amount: int, restore_first: bool) -> None:
        if restore_first:
            amount = self._step(-1, amount, {t.name: max(t.minimum, _baseline(t)) for t in self._active})
        for limits in (
            {t.name: max(t.minimum, t.needed) for t in self._active},
            {t.name: t.minimum for t in self._active},
        ):
            amount = self._step(-1, amount, limits, by_count=True)

    def _step(self, sign: int, amount: int, limits: Mapping[str, int], *, by_count: bool = False) -> int:
        """Moves all counts together by `amount`, none beyond its limit; returns what is left of the amount."""
        if not amount:
            return 0
        room = {name: max(0, sign * (limit - self.counts[name])) for name, limit in limits.items()}
        now = min(amount, sum(room.values()))
        if now:
            for name, moved in self._distribute(now, room, self.counts if by_count else room).items():
                self.counts[name] += sign * moved
        return amount - now

    def _distribute(self, amount: int, room: Mapping[str, int], measure: Mapping[str, int]) -> dict[str, int]:
        """What each target moves; entities share in proportion to the `measure` of their members, in watts."""
        weights = {
            entity: sum(measure[member.name] * self._watts[member.name] for member in members)
            for entity, members in self._members.items()
        }
        for entity, quota in quotas(amount, weights).items():
            self.quotas[entity] += quota
        moved: dict[str, int] = {}
        homeless = 0
        for entity, share in largest_remainder(amount, weights).items():
            self.shares[entity] += share
            homeless += self._inside(self._weights[entity], share, room, moved)
        self.redistributed += homeless
        hand_out(homeless, room, moved)
        return moved

    def _inside(self, weights: Mapping[str, int], share: int, room: Mapping[str, int], moved: dict[str, int]) -> int:
        """Splits the share of one entity by weight; returns what its members cannot carry."""
        left = share
        for name, count in largest_remainder(share, weights).items():
            moved[name] = min(count, room[name])
            left -= moved[name]
        if not left or not self._inside_first:
            return left
        homeless = hand_out(left, {name: room[name] for name in weights}, moved)
        self.redistributed += left - homeless
        return homeless


def _baseline(target: Target) -> int:
    return target.current if target.baseline is None else target.baseline
