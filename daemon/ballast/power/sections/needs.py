"""How many replicas a workload needs for its own load."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Self

from pydantic import model_validator

from ballast.power.policy_section import PolicySection
from ballast.power.values import INT32, Positive, PositiveCount


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
    """What tells how many replicas a workload needs: a PromQL query for its `load` per replica or its `latency`.

    `target` is the load a replica should have, or the highest good latency. It keeps `floor` replicas while it needs
    them, whatever the watts are.
    """

    load: str | None = None
    latency: str | None = None
    target: Positive
    floor: PositiveCount | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.load is None) == (self.latency is None):
            raise ValueError("expected either load or latency")
        return self

    @property
    def query(self) -> str:
        """The query that is given."""
        return self.load or self.latency or ""

    def of(self, value: Fraction | None, count: int) -> Need:
        """Of `count` replicas: ceil(count · load / target), or all of them above the target latency.

        Where it is unknown, all are needed and more may come.
        """
        if value is None:
            return Need(count)
        if self.load is not None:
            needed = min(ceil(count * max(value, Fraction(0)) / self.target), INT32)
            return Need(needed, needed)
        return Need(count) if value > self.target else Need(0, count)
