"""Splits a change of the total number of replicas over the targets.

An entity is a group or a target without one. Entity e gets amount · m(e) / Σ m, where m(e) is the sum over its members
of watts · replicas (on the way down) or watts · room below the limit (on the way up). Shares become whole numbers by
largest remainder; inside a group they are split by weight. Every target stays within its bounds. Entities of a lower
priority give all they can before higher ones give any, and get back last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from ballast.power.shares import quotas
from ballast.power.split import Split
from ballast.power.target import AllocationTarget


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
    targets: Iterable[AllocationTarget], delta: int, *, restore_first: bool = True, inside_first: bool = True
) -> ReplicaAllocation:
    """Splits `delta` over `targets` so that each stays between its minimum and maximum; what cannot be met is `unmet`.

    Reductions go in proportion to the replicas of entities, increases in proportion to their room. What a target cannot
    take goes replica by replica to the target with the most room, in its own group first with `inside_first`.
    A target outside its bounds is brought back first, as part of `delta`; the others make up for it.
    `restore_first`: increases fill up to the baselines first, reductions first take what is above them.
    """
    found = sorted(targets, key=lambda target: target.name)
    active = [target for target in found if not target.suspended]
    if not active:
        return ReplicaAllocation(delta, {target.name: 0 for target in found}, {}, {}, 0)
    split = Split(active, restore_first=restore_first, inside_first=inside_first)
    counts = split.dictionary(split.after(delta))
    exact, shares, redistributed = dict.fromkeys(split.entities, Fraction(0)), dict.fromkeys(split.entities, 0), 0
    for spread in split.explained(delta):
        each = quotas(spread.amount, spread.weights.tolist())
        for entity, quota, share in zip(split.entities, each, spread.shares.tolist(), strict=True):
            exact[entity] += quota
            shares[entity] += share
        redistributed += spread.redistributed
    changes = {target.name: counts.get(target.name, target.current) - target.current for target in found}
    return ReplicaAllocation(delta, changes, exact, shares, redistributed)
