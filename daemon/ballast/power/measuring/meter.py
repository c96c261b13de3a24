"""The measured watts of a policy's replicas, steady enough to decide by."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ballast.power.measuring.averaging import range_of
from ballast.power.measuring.learning import Learned, WattsModel
from ballast.power.policy import PowerPolicy

STEADY = 0.02
"""Relative change from which on a learned value replaces the one in use."""


class Meter:
    """Learns from what a policy's replicas draw; members with `wattsPerReplica: measured` are decided by it.

    Without `baseWatts` the base is what was measured last beyond the replicas: then the load is the measured one, and
    the watts of a replica only tell what a change will do.
    """

    def __init__(self, policy: PowerPolicy) -> None:
        members = {name: place.member for name, place in policy.places.items()}
        self._measured = [name for name, member in members.items() if member.measured]
        declared = {name: None if member.measured else float(member.watts) for name, member in members.items()}
        query = policy.consumption.query if policy.consumption is not None else None
        averaged = float(range_of(query or ""))
        self._learns_base = bool(self._measured) and "base_power" not in policy.model_fields_set
        self._model = WattsModel(declared, float(policy.base_power), averaged or None)
        self._used: dict[str, Fraction] = {}
        self._base: Fraction | None = None
        self._applied: tuple[PowerPolicy, dict[str, Fraction], Fraction | None, PowerPolicy] | None = None

    @property
    def measures(self) -> bool:
        """Whether any member is decided by what is learned."""
        return bool(self._measured)

    @property
    def waits(self) -> bool:
        """Whether the watts of a replica are still unknown."""
        return bool(self._measured) and not self._used

    def saw(self, at: Fraction, counts: Mapping[str, int], consumption: Fraction) -> None:
        """`consumption` watts were measured at `at` (seconds), from which on these replicas run."""
        self._model.saw(float(at), counts, float(consumption))
        learned = self._model.learned()
        assert learned is not None
        for name in self._measured:
            self._used[name] = _steady(self._used.get(name), max(learned.watts[name][0], 1e-3))
        if self._learns_base:
            self._base = _steady(self._base, max(self._model.offset, 0.0))

    def learned(self) -> Learned | None:
        """Watts with their standard errors; None before the first sample."""
        return self._model.learned()

    def applied(self, policy: PowerPolicy) -> PowerPolicy:
        """The policy with the measured watts."""
        if not self._used:
            return policy
        known = self._applied
        if known is None or known[0] is not policy or known[1:3] != (self._used, self._base):
            found = policy.with_watts(self._used, self._base)
            known = self._applied = policy, dict(self._used), self._base, found
        return known[3]


def _steady(used: Fraction | None, value: float) -> Fraction:
    if used is not None and abs(value - float(used)) <= STEADY * float(used):
        return used
    return Fraction(f"{value:.4g}")
