"""What a policy could shed within some time, by priority: what its owner may promise to a grid or a landlord."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from ballast.power.policy import PowerPolicy

ZERO = Fraction(0)
WITHIN: Mapping[Literal["10s", "1m", "10m"], Fraction] = {"10s": Fraction(10), "1m": Fraction(60), "10m": Fraction(600)}
"""The times of which something is promised, in seconds."""


@dataclass(frozen=True, slots=True)
class Pledge:
    """Watts that are shed `within` a time, and from which priorities."""

    within: Literal["10s", "1m", "10m"]
    watts: Fraction
    by_priority: Mapping[int, Fraction]


def pledges(
    policy: PowerPolicy, running: Mapping[str, int], changeable: Collection[str], delay: Fraction
) -> list[Pledge]:
    """What falls of these replicas, by namespace/name, down to their minima would shed.

    `delay` is the seconds from an event until what is removed draws nothing: the next tick, and its pods' end. A fall
    that has to be confirmed, or goes by `maxStep`, sheds less within a time. Empty where watts are not known.
    """
    if not policy.absolute:
        return []
    places = sorted(
        (place for name, place in policy.places.items() if name in changeable and name in running),
        # As a fall takes them: the lowest priority first, of that the heaviest.
        key=lambda place: (place.priority, -place.member.watts, place.member.name),
    )
    found = []
    for name, seconds in WITHIN.items():
        left = seconds - delay - policy.falls.window
        shed: dict[int, Fraction] = {}
        total = sum(running[place.member.name] for place in places)
        step = policy.falls.max_step
        most = total if step is None else step.of(total) * (1 + left // step.period)
        for place in places if left >= 0 else ():
            member, now = place.member, running[place.member.name]
            count = min(max(0, now - member.min), most)
            if member.max_step is not None:
                count = min(count, member.max_step.of(now) * (1 + left // member.max_step.period))
            most -= count
            if count:
                shed[place.priority] = shed.get(place.priority, ZERO) + count * member.watts
        found.append(Pledge(name, sum(shed.values(), ZERO), shed))
    return found
