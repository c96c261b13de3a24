"""A power policy: its feed, when to act on it, and the targets that share the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from math import ceil
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PlainValidator, field_validator, model_validator

from ballast.power.feed_spec import DEFAULT_FLOOR, FeedSpec
from ballast.power.policy_section import PolicySection
from ballast.power.schedule import EnergySpec, ScheduleSpec
from ballast.power.values import (
    INT32,
    Count,
    Integer,
    Name,
    NotNegative,
    OpenShare,
    Period,
    Positive,
    PositiveCount,
    Reference,
    Seconds,
    Share,
    exact,
)

ONE = Fraction(1)
DEFAULT_MARGIN = Fraction(2, 100)


def _below_one(value: Fraction) -> Fraction:
    if value >= 1:
        raise ValueError("expected a fraction of at least 0 and below 1, such as 0.02")
    return value


class BudgetKind(StrEnum):
    """What the watts of the feed are held against.

    ABSOLUTE: the watts of all replicas. ANCHOR: one pair of watts and replicas, from which all others follow.
    """

    ABSOLUTE = "absolute"
    ANCHOR = "anchor"


class Stability(StrEnum):
    """Whether every sample of a window must confirm a change, or its two ends alone."""

    WINDOW = "window"
    ENDPOINT = "endpoint"


class Basis(StrEnum):
    """What a target is computed from: a fixed (watts, replicas) pair, or the last reference and the current count."""

    ANCHOR = "anchor"
    PAPER = "paper"


class Rounding(StrEnum):
    """SAFE rounds halves towards fewer replicas, NEAREST_AWAY halves of the change away from 0, FLOOR always down."""

    SAFE = "safe"
    NEAREST_AWAY = "nearest-away"
    FLOOR = "floor"


class Foreign(StrEnum):
    """What a change of replicas by someone else does: it moves the anchor, or it is undone."""

    REBASE = "rebase"
    ENFORCE = "enforce"


class WhenSilent(StrEnum):
    """What a silent feed leads to: nothing, every target at its min, or the numbers given."""

    HOLD = "hold"
    FLOOR = "floor"
    REPLICAS = "replicas"


class Actuation(StrEnum):
    """How targets may be changed: as detected, by replicas alone, by caps alone, or not at all."""

    AUTO = "auto"
    DIRECT = "direct"
    CAP = "cap"
    OBSERVE = "observe"


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


class MaxStep(PolicySection):
    """At most `percent` of the replicas (rounded down, at least one) or so many `pods` in a `period` (seconds)."""

    percent: Positive | None = None
    pods: PositiveCount | None = None
    period: Period = Fraction(15)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.percent is None) == (self.pods is None):
            raise ValueError("expected either percent or pods")
        return self

    def of(self, total: int) -> int:
        """The largest step from `total` replicas."""
        return self.pods or max(1, int(total * (self.percent or 0) / 100))


class Side(PolicySection):
    """How a change in one direction is confirmed: `window` in seconds, `tolerance` a fraction."""

    window: Seconds
    tolerance: Share
    max_step: MaxStep | None = None


class Increase(Side):
    """Defaults of an increase."""

    window: Seconds = Fraction(60)
    tolerance: Share = Fraction(4, 100)


class Decrease(Side):
    """Defaults of a decrease."""

    window: Seconds = Fraction(120)
    tolerance: Share = Fraction(5, 100)


class EmergencyDrop(PolicySection):
    """A drop by the fraction `relative` in `samples` samples in a row needs no window."""

    relative: OpenShare
    samples: Count = 2

    @field_validator("samples")
    @classmethod
    def _several(cls, samples: int) -> int:
        if samples < 2:
            raise ValueError("expected at least 2, so that one bad sample is no emergency")
        return samples


class Fallback(PolicySection):
    """What is done when the feed gave no usable sample for `after` seconds."""

    after: Period = Fraction(300)
    policy: WhenSilent = WhenSilent.HOLD
    replicas: Mapping[str, Count] | None = None


class Nominal(PolicySection):
    """A fixed anchor: `watts` carry `replicas`."""

    watts: Positive
    replicas: PositiveCount


class Needs(PolicySection):
    """How many replicas a workload needs for its own load: a PromQL query for its `load` per replica or its `latency`.

    `target` is the load a replica should have, or the highest good latency.
    """

    load: str | None = None
    latency: str | None = None
    target: Positive

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.load is None) == (self.latency is None):
            raise ValueError("expected either load or latency")
        return self

    @property
    def query(self) -> str:
        """The query that is given."""
        return self.load or self.latency or ""

    def replicas(self, value: Fraction | None, count: int) -> int:
        """Replicas needed of `count`: ceil(count · load / target), or all above the target latency; all if unknown."""
        if value is None:
            return count
        if self.load is not None:
            return min(ceil(count * max(value, Fraction(0)) / self.target), INT32)
        return count if value > self.target else 0


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
    margin: Annotated[Share, AfterValidator(_below_one)] | None = None
    """The part of the feed that stays unused; None: 0.02 for an absolute budget, else 0."""
    deadband: OpenShare = Fraction(5, 100)
    increase: Increase = Increase()
    decrease: Decrease = Decrease()
    emergency_drop: EmergencyDrop | None = None
    stability: Stability = Stability.WINDOW
    reference: Basis = Basis.ANCHOR
    rounding: Rounding | None = None
    on_foreign_change: Foreign = Foreign.REBASE
    fallback: Fallback = Fallback()
    restore_first: bool = True
    hot_pods_first: bool = False
    """Whether a direct reduction first marks the pods on the hottest nodes as the cheapest to delete."""
    actuation: Actuation = Actuation.AUTO
    allow_exclude: bool | None = None
    """Whether an excluded target leaves the budget; None: not an absolute one, whose watts it goes on using."""
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
        if not isinstance(value, bool):
            raise ValueError("expected true or false")
        return value

    @property
    def paper(self) -> bool:
        """Whether the published model is followed to the letter."""
        return self.compat == "paper"

    @property
    def absolute(self) -> bool:
        """Whether the watts of all replicas are held against the feed."""
        if self.budget is None:
            return not self.paper and all(place.member.watts_per_replica for place in self.places.values())
        return self.budget is BudgetKind.ABSOLUTE and not self.paper

    @property
    def margin_in_force(self) -> Fraction:
        """The part of the feed that stays unused."""
        if self.margin is not None:
            return self.margin
        return DEFAULT_MARGIN if self.absolute else Fraction(0)

    @property
    def falls(self) -> Side:
        """How a decrease is confirmed: with an absolute budget by the next sample, unless a window is given."""
        if self.absolute and "window" not in self.decrease.model_fields_set:
            return self.decrease.model_copy(update={"window": Fraction(0)})
        return self.decrease

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

    def within(self, bounds: Mapping[str, tuple[int, int]]) -> PowerPolicy:
        """The policy with its members also inside `bounds`: lowest and highest replicas by namespace/name."""
        return self._changed(lambda member: _bounded(member, bounds))

    def with_watts(self, watts: Mapping[str, Fraction], base: Fraction | None = None) -> PowerPolicy:
        """The policy with these watts of one replica, by namespace/name, and these base watts."""
        found = self._changed(
            lambda each: each.model_copy(update={"watts_per_replica": watts.get(each.name, each.watts)})
        )
        return found if base is None else found.model_construct(**{**dict(found), "base_power": base})

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
