"""Which targets take part in a policy, with how many replicas, within which bounds, and what they draw."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ballast.actuation.scaling.target_status import ObstacleKind, TargetStatus
from ballast.power.autoscaled import NO_AUTOSCALERS, Autoscaled
from ballast.power.policy import Member, PowerPolicy
from ballast.power.sections import Need

Bounds = tuple[int, int]

UNBOUND = 60
"""Seconds after which Pending pods no longer hold the watts of others."""


@dataclass(frozen=True)
class Participants:
    """Counts, bounds and autoscalers by namespace/name of the targets that take part."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Replicas, or caps in force."""
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    changeable: frozenset[str] = frozenset()
    """Those that may be changed; the others only draw their watts."""

    def bounds_at(self, counts: Mapping[str, int]) -> dict[str, Bounds]:
        """The bounds where these are the counts, as in a dry run: what is fixed is fixed to them."""
        return {
            name: (counts[name], counts[name]) if bounds == (self.counts[name],) * 2 else bounds
            for name, bounds in self.bounds.items()
        }


def find_participants(
    policy: PowerPolicy, statuses: Mapping[str, TargetStatus], *, emergency: bool, stuck: Collection[str] = ()
) -> Participants:
    """An anchored budget knows the targets that it can change; an absolute one all that draw watts.

    `stuck` are targets whose writes fail: an absolute budget counts with what they have.
    """
    rows = dict(_absolute(policy, statuses, stuck) if policy.absolute else _anchored(statuses, emergency))
    return Participants(
        {name: count for name, (count, _) in rows.items()},
        {name: bounds for name, (_, bounds) in rows.items()},
        frozenset(name for name in rows if statuses[name].usable and not (policy.absolute and name in stuck)),
    )


def bounds_with_needs(
    policy: PowerPolicy,
    statuses: Mapping[str, TargetStatus],
    participants: Participants,
    counts: Mapping[str, int],
    needs: Mapping[str, Need],
) -> dict[str, Bounds]:
    """The bounds at these counts, within what targets need; autoscalers know their own needs."""
    bounds = participants.bounds_at(counts)
    for name, need in needs.items():
        section = policy.places[name].member.needs
        if name in bounds and section is not None and statuses[name].autoscaler is None:
            bounds[name] = need.within(counts[name], bounds[name], section.floor)
    return bounds


def surge_watts(policy: PowerPolicy, statuses: Mapping[str, TargetStatus], counts: Mapping[str, int]) -> Fraction:
    """Watts of the pods that rollouts have beyond the replicas asked for.

    Where the workload's controller has not seen the newest generation, they may be those that a reduction removes.
    """
    total = Fraction(0)
    for name, count in counts.items():
        workload = statuses[name].workload
        if workload is None or not workload.rolling or workload.replicas is None:
            continue
        if workload.observed is None or workload.observed >= workload.generation:
            total += max(0, workload.present - max(workload.replicas, count)) * policy.places[name].member.watts
    return total


def autoscaled_targets(
    policy: PowerPolicy, statuses: Mapping[str, TargetStatus], counts: Mapping[str, int]
) -> Mapping[str, Autoscaled]:
    """The targets with an autoscaler that can be capped; `counts` are the caps in force."""
    scaled = {}
    for name, count in counts.items():
        status = statuses[name]
        if status.autoscaler is None or not status.usable:
            continue
        original = status.original if status.original is not None else status.autoscaler.maximum
        most = max(min(original, policy.places[name].member.max), status.minimum)
        running = min(status.replicas or 0, count) if policy.absolute else status.replicas or 0
        scaled[name] = Autoscaled(most, count, running, status.autoscaler.desired)
    return scaled or NO_AUTOSCALERS


def ignores_cap(status: TargetStatus) -> bool:
    """Whether an autoscaled target has more replicas than its cap in force allows."""
    return status.autoscaler is not None and (status.replicas or 0) > (status.count or 0)


def unbound_replicas(
    statuses: Mapping[str, TargetStatus], counts: Mapping[str, int], since: Mapping[str, Fraction], at: Fraction
) -> dict[str, int]:
    """Replicas that no node takes for UNBOUND seconds, of targets that nothing else scales."""
    return {
        name: min(count, statuses[name].unplaced)
        for name, count in counts.items()
        if name in since and at - since[name] >= UNBOUND and statuses[name].autoscaler is None
    }


def leaving_watts(policy: PowerPolicy, statuses: Mapping[str, TargetStatus], counts: Mapping[str, int]) -> Fraction:
    """Watts of pods that are being deleted."""
    return policy.drawn({name: statuses[name].leaving for name in counts})


def watts_drawn(policy: PowerPolicy, statuses: Mapping[str, TargetStatus], counts: Mapping[str, int]) -> Fraction:
    """Watts of what runs, with the base power: of autoscaled targets their replicas, of the others `counts`.

    Pods that are being deleted draw too.
    """
    running = {}
    for name, count in counts.items():
        status = statuses[name]
        scaled = status.autoscaler is not None and status.replicas is not None
        running[name] = status.replicas or 0 if scaled else count
    return policy.base_power + policy.drawn(running) + leaving_watts(policy, statuses, counts)


def running_pods(statuses: Mapping[str, TargetStatus]) -> dict[str, int]:
    """Pods that draw: as the controllers of the workloads count them (of kinds that do not tell, replicas asked for),
    without Pending ones, with those that are being deleted.
    """
    return {name: max(0, (status.running or 0) - status.pending) + status.leaving for name, status in statuses.items()}


def _anchored(statuses: Mapping[str, TargetStatus], emergency: bool) -> Iterator[tuple[str, tuple[int, Bounds]]]:
    """A rollout keeps its count, except in an emergency."""
    for name, status in statuses.items():
        count = status.count
        if status.usable and count is not None:
            held = status.rolling and not emergency
            yield name, (count, (count, count) if held else (status.minimum, status.maximum))


def _absolute(
    policy: PowerPolicy, statuses: Mapping[str, TargetStatus], stuck: Collection[str]
) -> Iterator[tuple[str, tuple[int, Bounds]]]:
    """What cannot be changed keeps its count and draws its watts; a rollout may shrink, but not grow."""
    for name, status in statuses.items():
        hold = status.hold
        if hold is not None and hold.kind is ObstacleKind.EXCLUDED and policy.excludes:
            continue
        if hold is not None or name in stuck or status.count is None:
            running = status.replicas if status.replicas is not None else status.count
            if running:
                yield name, (running, (running, running))
            continue
        yield name, (status.count, _bounds(policy.places[name].member, status, status.count))


def _bounds(member: Member, status: TargetStatus, count: int) -> Bounds:
    if status.autoscaler is not None:
        return status.minimum, status.maximum
    low, high = status.minimum, min(status.maximum, count) if status.rolling else status.maximum
    if member.min_ready is not None:
        ready = status.workload.ready if status.workload is not None else count
        low = count if ready < member.min_ready else max(low, member.min_ready)
    return low, max(low, high)
