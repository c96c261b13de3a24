"""The watts of replicas as a meter shows them: those that are declared, corrected, and those to be measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from ballast.power.averaging import range_of
from ballast.power.estimator import Doubt, Estimator
from ballast.power.learning import Learning
from ballast.power.policy import PowerPolicy

LEAST = 1e-3
"""Watts of a replica at least."""


@dataclass(frozen=True, slots=True)
class Learned:
    """Watts of one replica and of the base, each with its standard error."""

    watts: Mapping[str, tuple[float, float]]
    """By namespace/name."""
    base: tuple[float, float]


class WattsLearner:
    """Learns what a policy's replicas draw, and what is drawn beside them.

    Declared watts are corrected by factors. Members with `wattsPerReplica: measured`, and those of other budgets that
    declare none, begin with equal parts of the first sample. An absolute budget is decided by what is learned.
    """

    def __init__(self, policy: PowerPolicy) -> None:
        places = sorted(policy.places.values(), key=lambda place: place.priority)
        self._members = [place.member for place in places]
        self._open = [member.name for member in self._members if not isinstance(member.watts_per_replica, Fraction)]
        self._policy = policy
        self._estimator: Estimator | None = None
        self._watts = {member.name: member.watts for member in self._members}
        """Those that factors multiply."""
        if not self._open:
            self._estimator = self._begun()
        self._used: dict[str, Fraction] = {}
        self._base: Fraction | None = None
        self._margin: Fraction | None = None
        self._applied: tuple[PowerPolicy, tuple[object, ...], PowerPolicy] | None = None

    @property
    def measures(self) -> bool:
        """Whether any member is decided by what is learned alone."""
        return any(member.measured for member in self._members)

    @property
    def waits(self) -> bool:
        """Whether the watts of a replica are still unknown."""
        return self.measures and not self._used

    @property
    def factor(self) -> float | None:
        """How many times the declared watts are drawn; None where none are declared, or before the first sample."""
        return None if self._open or self._estimator is None or not self._decides else self._estimator.measured

    @property
    def doubt(self) -> Doubt | None:
        """How far the watts in force may be wrong; None while what is declared has not been refuted."""
        return None if self._estimator is None or not self._decides else self._estimator.doubt

    @property
    def _decides(self) -> bool:
        return self._policy.absolute or self.measures

    def measure(self, at: Fraction, counts: Mapping[str, int], consumption: Fraction) -> None:
        """`consumption` watts were measured at `at` (seconds), when these pods draw, those that are ending too."""
        beyond = consumption - self._policy.base_power
        if self._estimator is None:
            self._share(counts, beyond)
        if self._estimator is None:
            return
        self._estimator.measure(float(at), counts, float(beyond))
        self._take()

    def saved(self, at: float) -> Learning | None:
        """What is kept over restarts, at the Unix time `at`; None where nothing is known yet."""
        return None if self._estimator is None else self._estimator.saved(at)

    def resume(self, learned: Learning, seconds: float) -> None:
        """Goes on with what was known `seconds` ago. Raises ValueError where it is of another policy."""
        if learned.watts.keys() != self._watts.keys():
            raise ValueError("it is of other members than the policy has now")
        before = self._watts
        self._watts = before | {name: Fraction(learned.watts[name]) for name in self._open}
        try:
            estimator = self._begun()
            estimator.resume(learned, seconds)
        except ValueError:
            self._watts = before
            raise
        self._estimator = estimator
        self._take()

    def _take(self) -> None:
        if self._estimator is None or not self._decides or self._estimator.known is None:
            return
        self._margin = Fraction(f"{self._estimator.margin:.3f}")
        factors = self._estimator.in_use
        self._used = {name: max(self._watts[name] * factor, Fraction(LEAST)) for name, factor in factors.items()}
        self._base = self._policy.base_power + self._estimator.base if self._estimator.base else None

    def learned(self) -> Learned | None:
        """Watts with their standard errors; None before the first sample."""
        known = None if self._estimator is None else self._estimator.known
        if known is None:
            return None
        base, watts = known.errors(float(self._policy.base_power))
        return Learned(watts, base)

    def applied(self, policy: PowerPolicy) -> PowerPolicy:
        """The policy with the watts and the margin in force."""
        key = dict(self._used), self._base, self._margin
        if self._applied is None or self._applied[0] is not policy or self._applied[1] != key:
            self._applied = policy, key, policy.with_watts(self._used, self._base, self._margin) if any(key) else policy
        return self._applied[2]

    def _share(self, counts: Mapping[str, int], watts: Fraction) -> None:
        """Where nothing is known of members, all of their replicas draw alike at first."""
        running = sum(counts.get(name, 0) for name in self._open)
        known = sum((self._watts[name] * n for name, n in counts.items() if name not in self._open), Fraction(0))
        if running and watts > 0:
            # What declared members leave may be nothing: their watts may be too large.
            each = max(watts - known, watts / 10) / running
            self._watts |= dict.fromkeys(self._open, each)
            self._estimator = self._begun()

    def _begun(self) -> Estimator:
        return Estimator(
            {name: float(watts) for name, watts in self._watts.items()},
            float(range_of(self._policy.meter_query or "")) or None,
            shared=self._policy.shares_limit,
            unknown=self._open,
        )
