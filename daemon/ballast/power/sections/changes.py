"""When and how far replicas are changed."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Self

from pydantic import field_validator, model_validator

from ballast.power.policy_section import PolicySection
from ballast.power.sections.choices import WhenSilent
from ballast.power.values import Count, OpenShare, Period, Positive, PositiveCount, Seconds, Share


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
