"""Caps of autoscalers that share a budget: entitlements, and room that is lent while its owner is idle."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from msgspec.structs import replace

from ballast.power.allocation import AllocationTarget
from ballast.power.within_budget import fill, watts_of

HEADROOM = 1
"""Replicas that a cap leaves above the demand, so that a rising demand shows."""


@dataclass(frozen=True, slots=True)
class Autoscaled:
    """A target whose autoscaler decides about its replicas, below a cap."""

    original: int
    """The autoscaler's own maximum."""
    cap: int
    """The maximum in force."""
    running: int
    """Replicas asked for now."""
    wanted: int | None = None
    """Replicas that the autoscaler would ask for without a cap; None where only `running` is known."""

    @property
    def demand(self) -> int | None:
        """Replicas that it wants; None: at least as many as its cap, perhaps more."""
        known = self.running if self.wanted is None else max(self.running, self.wanted)
        # An autoscaler never asks for more than its maximum, so at a lowered one its demand does not show.
        return None if known >= self.cap < self.original else known

    @property
    def unmet(self) -> int:
        """Replicas that it wants beyond its cap, as far as that is known."""
        return max(0, (self.wanted or 0) - self.cap)


NO_AUTOSCALERS: Mapping[str, Autoscaled] = MappingProxyType({})


def lend(targets: Sequence[AllocationTarget], autoscaled: Mapping[str, Autoscaled], watts: Fraction) -> dict[str, int]:
    """Caps of at most `watts` together.

    `targets` are the autoscaled ones with their entitlements as present counts. Each may have its entitlement when it
    wants it; what an idle one leaves goes to those that want more. Caps that starve nobody stay as they are.
    """
    needs = {target.name: _need(target, autoscaled[target.name]) for target in targets}
    present = {target.name: autoscaled[target.name].cap for target in targets}
    spare = watts - watts_of(targets, present)
    if spare >= 0 and not _starving(targets, present, needs, spare):
        return present
    # First everybody gets what it needs, up to its entitlement before anybody gets more than that.
    claimed = [
        replace(target, current=min(needs[target.name], target.current), maximum=needs[target.name], baseline=None)
        for target in targets
    ]
    filled = fill(claimed, watts, restore_first=False)
    # What nobody needs now raises the caps up to the entitlements, so that a demand can rise before the next plan.
    resting = [
        replace(target, current=filled[target.name], maximum=max(filled[target.name], target.current), baseline=None)
        for target in targets
    ]
    return fill(resting, watts, restore_first=False)


def unmet_demand(autoscaled: Iterable[Autoscaled]) -> int:
    """Replicas that autoscalers want beyond their caps."""
    return sum(target.unmet for target in autoscaled)


def _need(target: AllocationTarget, each: Autoscaled) -> int:
    demand = each.demand
    return target.maximum if demand is None else max(target.minimum, min(target.maximum, demand + HEADROOM))


def _starving(
    targets: Sequence[AllocationTarget], caps: Mapping[str, int], needs: Mapping[str, int], spare: Fraction
) -> bool:
    """Whether a cap is out of bounds, or keeps a target from what it wants while there is room for it."""
    if any(not target.minimum <= caps[target.name] <= target.maximum for target in targets):
        return True
    hungry = [target for target in targets if caps[target.name] < needs[target.name]]
    # A cap far above its need holds watts that others could have.
    idle = any(caps[target.name] > max(needs[target.name], target.minimum) + HEADROOM for target in targets)
    return any(caps[target.name] < target.current or idle or spare >= target.watts for target in hungry)
