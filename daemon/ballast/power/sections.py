"""The sections of a policy: their base class, the words that keys choose from, and what several keys share."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil
from types import MappingProxyType
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, field_validator, model_validator
from pydantic.alias_generators import to_camel

from ballast.power.values import INT32, Count, OpenShare, Period, Positive, PositiveCount, Seconds, Share


class PolicySection(BaseModel):
    """A frozen group of keys, written in camelCase."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, hide_input_in_errors=True)

    other_names: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Second names of keys, and the names they stand for."""

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        doubled = [f"{new} and {old}" for new, old in cls.other_names.items() if new in value and old in value]
        if doubled:
            raise ValueError(f"expected only one of {doubled[0]}, they are the same")
        return {cls.other_names.get(key, key): item for key, item in value.items()}


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


class TargetBasis(StrEnum):
    """What a target is computed from: a fixed (watts, replicas) pair, or the last reference and the current count."""

    ANCHOR = "anchor"
    PAPER = "paper"


class Rounding(StrEnum):
    """SAFE rounds halves towards fewer replicas, NEAREST_AWAY halves of the change away from 0, FLOOR always down."""

    SAFE = "safe"
    NEAREST_AWAY = "nearest-away"
    FLOOR = "floor"


class ForeignChanges(StrEnum):
    """What a change of replicas by someone else does: it moves the anchor, or it is undone."""

    REBASE = "rebase"
    ENFORCE = "enforce"


class WhenSilent(StrEnum):
    """What a silent feed leads to: nothing, every target at its min, or the numbers given."""

    HOLD = "hold"
    FLOOR = "floor"
    REPLICAS = "replicas"


class NoEffect(StrEnum):
    """What follows when an action had no measured effect: nothing rises and falls go on, or nothing is changed."""

    SHED = "shed"
    HOLD = "hold"


class Actuation(StrEnum):
    """How targets may be changed: as detected, by replicas alone, by caps alone, or not at all."""

    AUTO = "auto"
    DIRECT = "direct"
    CAP = "cap"
    OBSERVE = "observe"


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
    """Defaults of an increase; the text `auto` stands for {auto: true}."""

    window: Seconds = Fraction(60)
    tolerance: Share = Fraction(4, 100)
    auto: bool = False
    """Whether the window is learned; it is the first one then."""

    @model_validator(mode="before")
    @classmethod
    def _learned(cls, value: Any) -> Any:
        return {"auto": True} if value == "auto" else value


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


class Confirm(PolicySection):
    """How much of a fall of the feed one sample may cause.

    A fall below this part of the last sample is carried out down to that part at once, the rest when a second sample
    with another time confirms it.
    """

    below: OpenShare = Fraction(1, 2)


class Nominal(PolicySection):
    """A fixed anchor: `watts` carry `replicas`."""

    watts: Positive
    replicas: PositiveCount


@dataclass(frozen=True, slots=True)
class Need:
    """How many replicas a workload needs (`least`), and how many it has a use for (`most`; None: any number)."""

    least: int
    most: int | None = None

    def within(self, count: int, bounds: tuple[int, int], floor: int | None) -> tuple[int, int]:
        """The bounds of a target with `count` replicas: it gets no more than it has a use for.

        With a `floor`, it gives no more than leaves it the smaller of that and what it needs.
        """
        low, high = bounds
        if self.most is not None:
            high = min(high, max(count, self.most, low))
        if floor is not None:
            low = max(low, min(count, floor, self.least))
        return low, max(low, high)


class Needs(PolicySection):
    """What tells how many replicas a workload needs: a query for its `load` per replica, its `latency` or a `hold`.

    `target` is the load a replica should have, the highest good latency, or the value of `hold` above which the count
    stays. It keeps `floor` replicas while it needs them, whatever the watts are.
    """

    load: str | None = None
    latency: str | None = None
    hold: str | None = None
    target: Positive
    floor: PositiveCount | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if [self.load, self.latency, self.hold].count(None) != 2:
            raise ValueError("expected one of load, latency and hold")
        return self

    @property
    def query(self) -> str:
        """The query that is given."""
        return self.load or self.latency or self.hold or ""

    def of(self, value: Fraction | None, count: int) -> Need:
        """Of `count` replicas: ceil(count · load / target), or all of them above the target latency.

        Where it is unknown, all are needed and more may come. `hold` above its target, or unknown, needs just these.
        """
        if self.hold is not None:
            return Need(count, count) if value is None or value > self.target else Need(0)
        if value is None:
            return Need(count)
        if self.load is not None:
            needed = min(ceil(count * max(value, Fraction(0)) / self.target), INT32)
            return Need(needed, needed)
        return Need(count) if value > self.target else Need(0, count)
