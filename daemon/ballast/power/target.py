"""A workload as an allocation sees it."""

from __future__ import annotations

from fractions import Fraction

import msgspec

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
