"""Figures that describe a replay: how far it was from the ideal, over the feed, and below it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from ballast.power.policy import PowerPolicy

ZERO = Fraction(0)
HOUR = 3600


@dataclass(frozen=True, slots=True)
class Overload:
    """More load than the feed gives, without margin."""

    share: Fraction
    """Of the time that could be judged."""
    watt_hours: Fraction
    worst_watts: Fraction
    unknown: Fraction
    """The share of the time without a valid sample, all of it where the watts of replicas are not known."""


class Ideal:
    """Measures how far the replicas are from the ones in proportion to the watts."""

    def __init__(self, policy: PowerPolicy, replicas: Mapping[str, int]) -> None:
        self._base, self._floor, self._total = base_of(policy), policy.floor, sum(replicas.values())
        members = [
            policy.places[name].member
            for name, count in replicas.items()
            if count or not policy.places[name].member.min
        ]
        self._lowest, self._highest = sum(m.min for m in members), sum(m.max for m in members)
        self._first: Fraction | None = None
        self._pending: list[tuple[Fraction, int]] = []
        self._sum, self._count = ZERO, 0

    def compare(self, watts: Fraction, total: int) -> None:
        """Adds a valid tick with its total of replicas."""
        watts = max(ZERO, watts - self._base)
        self._pending.append((watts, total))
        if self._first is None and watts >= self._floor:
            self._first = watts
        if self._first is not None:
            for power, replicas in self._pending:
                ideal = max(self._total * power / self._first, Fraction(self._lowest))
                self._sum += abs(replicas - min(ideal, Fraction(self._highest)))
                self._count += 1
            self._pending.clear()

    def mean(self) -> Fraction | None:
        """Over all ticks since the first watts that carry a replica; None without one."""
        return self._sum / self._count if self._count else None


class FeedUtilisation:
    """Adds up what was over the feed and what was left unused; each valid sample holds until the next.

    Watts of a replica are those of the policy where every member has them, or `true` ones, else such that the first
    valid sample carries the first replicas.
    """

    def __init__(self, policy: PowerPolicy, replicas: Mapping[str, int], true: Mapping[str, Fraction]) -> None:
        self._policy = policy
        members = {name: place.member for name, place in policy.places.items()}
        self._known = not policy.paper and all(isinstance(m.watts_per_replica, Fraction) for m in members.values())
        self._watts = {name: true.get(name, member.watts) for name, member in members.items()}
        self._known |= members.keys() <= true.keys()
        self._base = base_of(policy) if self._known else ZERO
        self._first = sum((self._watts[name] * count for name, count in replicas.items()), ZERO)
        self._scaled = self._known
        self._last: tuple[Fraction, Fraction, Fraction] | None = None
        self._time = self._over = self._over_time = self._unused = self._worst = ZERO
        self._since: Fraction | None = None
        self._unknown = ZERO

    def add(
        self,
        at: Fraction,
        watts: Fraction,
        replicas: Mapping[str, int],
        most: Mapping[str, int],
        ending: Fraction = ZERO,
        idle: Fraction = ZERO,
        factors: Mapping[str, Fraction] = MappingProxyType({}),
    ) -> None:
        """A valid tick at `at` seconds, `ending` being watts of removed replicas, `idle` those that do not serve yet.

        `most` are the replicas that maxima and demand allow, `factors` how many times its watts a replica draws.
        """
        if not self._scaled and watts and self._first:
            self._watts = {name: value * watts / self._first for name, value in self._watts.items()}
            self._scaled = True
        self._close(at)
        if not self._scaled:
            self._since = at
        watts_of = {name: value * factors.get(name, 1) for name, value in self._watts.items()}
        load = sum((watts_of[name] * count for name, count in replicas.items()), ending) + self._base
        over = max(ZERO, load - watts) if self._scaled else ZERO
        spare = watts * (1 - self._policy.margin_in_force) - load if self._scaled else ZERO
        self._worst = max(self._worst, over)
        self._last = at, over, _fitting(watts_of, spare, replicas, most) + min(idle, watts)

    def skip(self, at: Fraction) -> None:
        """A tick at `at` seconds without a valid sample: until the next one nothing is judged."""
        self._close(at)
        self._last, self._since = None, at

    def over(self) -> Overload:
        """What was over the feed, up to the last valid sample."""
        whole = self._time + self._unknown
        share = self._over_time / self._time if self._time else ZERO
        unknown = self._unknown / whole if whole else Fraction(not self._scaled)
        return Overload(share, self._over / HOUR, self._worst, unknown)

    def unused(self) -> Fraction:
        """Watt-hours of the whole replicas that feed · (1 - margin), maxima and demand would have let run, and of
        those that run and do not serve yet.
        """
        return self._unused / HOUR

    def _close(self, at: Fraction) -> None:
        if self._since is not None:
            self._unknown += at - self._since
            self._since = None
            return
        if self._last is None:
            return
        since, over, unused = self._last
        span = at - since
        self._time += span
        self._over += over * span
        self._over_time += span if over else ZERO
        self._unused += unused * span


def _fitting(
    watts: Mapping[str, Fraction], spare: Fraction, replicas: Mapping[str, int], most: Mapping[str, int]
) -> Fraction:
    """Watts of the whole replicas that fit into `spare`, the heaviest first."""
    total = ZERO
    for name in sorted(most, key=lambda name: (-watts[name], name)):
        if watts[name]:
            more = min(most[name] - replicas.get(name, 0), int((spare - total) / watts[name]))
            total += max(0, more) * watts[name]
    return total


def base_of(policy: PowerPolicy) -> Fraction:
    """Watts used without any replica; the published model knows none."""
    return ZERO if policy.paper else policy.base_power
