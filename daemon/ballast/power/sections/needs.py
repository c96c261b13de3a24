"""How many replicas a workload needs for its own load."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Self

from pydantic import model_validator

from ballast.power.policy_section import PolicySection
from ballast.power.values import INT32, Positive


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
