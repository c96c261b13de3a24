"""A power policy: its feed, when to act on it, and the targets that share the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, PlainValidator, field_validator

from ballast.power.allocation import whole
from ballast.power.averaging import range_of
from ballast.power.energy import EnergySpec
from ballast.power.feed_spec import DEFAULT_FLOOR, ConsumptionScope, FeedSpec, ScheduleSpec
from ballast.power.sections import (
    Actuation,
    BudgetKind,
    Confirm,
    Decrease,
    EmergencyDrop,
    Fallback,
    ForeignChanges,
    Increase,
    MaxStep,
    Needs,
    NoEffect,
    Nominal,
    PolicySection,
    Rounding,
    Side,
    Stability,
    TargetBasis,
)
from ballast.power.values import INT32, Count, Integer, Name, NotNegative, OpenShare, Reference, exact

ONE = Fraction(1)
LONG = Fraction(180)
"""Seconds of a range from which on a consumption counts as averaged over minutes."""

DEFAULT_MARGIN = Fraction(2, 100)


AUTO: Literal["auto"] = "auto"


def _share_or_auto(value: object) -> Fraction | str:
    if value is None or value == AUTO:
        return AUTO
    try:
        share = exact(value)
    except ValueError:
        raise ValueError("expected a fraction, such as 0.02, or auto") from None
    if not 0 <= share < 1:
        raise ValueError("expected a fraction of at least 0 and below 1, such as 0.02, or auto")
    return share


def _true_or_false(value: object) -> object:
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


MEASURED: Literal["measured"] = "measured"


def _watts_per_replica(value: object) -> Fraction | str:
    if value == MEASURED:
        return MEASURED
    try:
        number = exact(value)
    except ValueError:
        raise ValueError("expected a number of watts, or measured") from None
    if number <= 0:
        raise ValueError("expected something larger than 0")
    return number


class Member(PolicySection):
    """A workload under the policy; offline commands start at `replicas` (default: max)."""

    other_names = MappingProxyType({"share": "weight"})

    ref: Reference
    min: Count = 1
    max: Count
    weight: NotNegative = ONE
    """Its share of what its group gives or gets."""
    priority: Integer | None = None
    """Members of a lower priority give first and get back last; in a group the group's priority counts."""
    replicas: Count | None = None
    watts_per_replica: Annotated[Fraction | str, PlainValidator(_watts_per_replica)] | None = None
    """Watts of one replica, or "measured": learned from the policy's `consumption`."""
    max_step: MaxStep | None = None
    """How far it alone may be changed in a period."""
    min_ready: Count | None = None
    """A reduction leaves at least so many replicas, and waits while fewer are ready."""
    needs: Needs | None = None
    delete_claims: bool = False
    """Whether a fall may take replicas away whose volume claims are deleted with them."""

    @field_validator("delete_claims", mode="before")
    @classmethod
    def _yes_or_no(cls, value: object) -> object:
        return _true_or_false(value)

    @property
    def name(self) -> str:
        """namespace/name"""
        return self.ref.split("/", 1)[1]

    @property
    def kind(self) -> str:
        """kind.group"""
        return self.ref.split("/", 1)[0]

    @property
    def watts(self) -> Fraction:
        """Watts of one replica; 1 where not given or not measured yet."""
        return self.watts_per_replica if isinstance(self.watts_per_replica, Fraction) else ONE

    @property
    def measured(self) -> bool:
        """Whether its watts are learned."""
        return self.watts_per_replica == MEASURED

    @property
    def start(self) -> int:
        """Replicas at which offline commands start."""
        return self.max if self.replicas is None else self.replicas


class Group(PolicySection):
    """Members that share as one entity."""

    name: Name
    members: tuple[Member, ...] = Field(min_length=1)
    priority: Integer = 0


@dataclass(frozen=True, slots=True)
class PolicyMember:
    """A member and the group it is in, if any."""

    member: Member
    group: str | None
    priority: int = 0


class PowerPolicy(PolicySection):
    """One budget over many workloads. Powers are in watts, durations in seconds, both exact."""

    other_names = MappingProxyType({"baseWatts": "basePower"})

    name: Name = "power"
    feed: FeedSpec | None = None
    budget: BudgetKind | None = None
    """None: absolute where every member has `wattsPerReplica`, else anchor."""
    margin: Annotated[Fraction | str, PlainValidator(_share_or_auto)] = AUTO
    """The part of the feed that stays unused; "auto": as the meter of an absolute budget shows, 0.02 without one, and 0
    for an anchor."""
    deadband: OpenShare = Fraction(5, 100)
    increase: Increase = Increase()
    decrease: Decrease = Decrease()
    emergency_drop: EmergencyDrop | None = None
    stability: Stability = Stability.WINDOW
    reference: TargetBasis = TargetBasis.ANCHOR
    rounding: Rounding | None = None
    on_foreign_change: ForeignChanges = ForeignChanges.REBASE
    fallback: Fallback = Fallback()
    confirm: Confirm = Confirm()
    on_no_effect: NoEffect = NoEffect.SHED
    """What follows when an action had no measured effect."""
    restore_first: bool = True
    hot_pods_first: bool = False
    """Whether a direct reduction first marks the pods on the hottest nodes as the cheapest to delete."""
    actuation: Actuation = Actuation.AUTO
    allow_exclude: bool | None = None
    """Whether an excluded target leaves the budget; None: not an absolute one, whose watts it goes on using."""
    part_of: Annotated[Name | None, Field(alias="within")] = None
    """The policy whose watts these are part of."""
    consumption: FeedSpec | None = None
    """Watts drawn by what the policy governs."""
    schedule: ScheduleSpec | None = None
    """An upper bound of the watts that is known beforehand."""
    energy: EnergySpec | None = None
    base_power: NotNegative = Fraction(0)
    nominal: Nominal | None = None
    compat: Literal["paper"] | None = None
    groups: tuple[Group, ...] = ()
    independents: tuple[Member, ...] = ()

    @field_validator("restore_first", "hot_pods_first", "allow_exclude", mode="before")
    @classmethod
    def _yes_or_no(cls, value: object) -> object:
        return _true_or_false(value)

    @property
    def paper(self) -> bool:
        """Whether the published model is followed to the letter."""
        return self.compat == "paper"

    @cached_property
    def absolute(self) -> bool:
        """Whether the watts of all replicas are held against the feed."""
        if self.budget is None:
            return not self.paper and all(place.member.watts_per_replica for place in self.places.values())
        return self.budget is BudgetKind.ABSOLUTE and not self.paper

    @property
    def margin_in_force(self) -> Fraction:
        """The part of the feed that stays unused."""
        if isinstance(self.margin, Fraction):
            return self.margin
        return DEFAULT_MARGIN if self.absolute else Fraction(0)

    @property
    def falls(self) -> Side:
        """How a decrease is confirmed: with an absolute budget by the next sample, unless a window is given."""
        if self.absolute and "window" not in self.decrease.model_fields_set:
            return self.decrease.model_copy(update={"window": Fraction(0)})
        return self.decrease

    @property
    def meter_query(self) -> str | None:
        """The query of what is drawn; None where there is none."""
        if self.shares_limit:
            assert self.feed is not None
            assert self.feed.consumption is not None
            return self.feed.consumption.query
        return None if self.consumption is None else self.consumption.query

    @property
    def shares_limit(self) -> bool:
        """Whether the feed is a limit with a meter of all that is under it: the others are the meter's base."""
        feed = self.feed
        if feed is None or feed.consumption is None or self.consumption is not None:
            return False
        return self.absolute and feed.consumption.of is ConsumptionScope.TOTAL and feed.own is None

    @property
    def averaged(self) -> bool:
        """Whether the feed follows a consumption that is averaged over minutes, and so comes to its level slowly."""
        consumption = self.feed.consumption if self.feed is not None else None
        return consumption is not None and not self.shares_limit and range_of(consumption.query) >= LONG

    @cached_property
    def whole_watts(self) -> tuple[Mapping[str, int], int]:
        """Watts of one replica by namespace/name, as multiples of 1 / unit W, and the unit."""
        watts, unit = whole([place.member.watts for place in self.places.values()])
        return dict(zip(self.places, watts, strict=True)), unit

    @cached_property
    def stepping(self) -> Mapping[str, MaxStep]:
        """The members' own `maxStep`, by namespace/name."""
        steps = {name: place.member.max_step for name, place in self.places.items()}
        return {name: step for name, step in steps.items() if step is not None}

    @property
    def excludes(self) -> bool:
        """Whether an excluded target leaves the budget."""
        return not self.absolute if self.allow_exclude is None else self.allow_exclude

    @property
    def floor(self) -> Fraction:
        """Watts below which no replica is affordable."""
        return self.feed.floor_watts if self.feed else DEFAULT_FLOOR

    @property
    def rounds(self) -> Rounding:
        """The rounding in force."""
        if self.rounding is not None:
            return self.rounding
        if self.absolute:
            return Rounding.FLOOR
        return Rounding.NEAREST_AWAY if self.paper else Rounding.SAFE

    @cached_property
    def places(self) -> Mapping[str, PolicyMember]:
        """Every member by namespace/name, in the order of the names."""
        return {place.member.name: place for place in sorted(self._all(), key=lambda place: place.member.name)}

    def drawn(self, counts: Mapping[str, int]) -> Fraction:
        """The watts of these replicas, by namespace/name of members, without the base power."""
        watts, unit = self.whole_watts
        return Fraction(sum(count * watts[name] for name, count in counts.items()), unit)

    def within(self, bounds: Mapping[str, tuple[int, int]]) -> PowerPolicy:
        """The policy with its members also inside `bounds`: lowest and highest replicas by namespace/name."""
        return self._changed(lambda member: _bounded(member, bounds))

    def with_watts(
        self, watts: Mapping[str, Fraction], base: Fraction | None = None, margin: Fraction | None = None
    ) -> PowerPolicy:
        """The policy with these watts of one replica, by namespace/name, these base watts, and this margin if it has
        none of its own.
        """
        changed = self._changed(
            lambda each: each.model_copy(update={"watts_per_replica": watts.get(each.name, each.watts)})
        )
        learned = {} if base is None else {"base_power": base}
        if margin is not None and self.margin == AUTO:
            learned |= {"margin": margin}
        return changed.model_construct(**{**dict(changed), **learned}) if learned else changed

    def _changed(self, change: Callable[[Member], Member]) -> PowerPolicy:
        groups = tuple(group.model_copy(update={"members": tuple(map(change, group.members))}) for group in self.groups)
        independents = tuple(map(change, self.independents))
        # Built from the fields alone: `model_copy` would take the cached `places` along.
        return self.model_construct(**{**dict(self), "groups": groups, "independents": independents})

    def _all(self) -> Iterator[PolicyMember]:
        for group in self.groups:
            yield from (PolicyMember(member, group.name, group.priority) for member in group.members)
        yield from (PolicyMember(member, None, member.priority or 0) for member in self.independents)


def _bounded(member: Member, bounds: Mapping[str, tuple[int, int]]) -> Member:
    low, high = bounds.get(member.name, (0, INT32))
    lowest = max(member.min, low)
    return member.model_copy(update={"min": lowest, "max": max(lowest, min(member.max, high))})
