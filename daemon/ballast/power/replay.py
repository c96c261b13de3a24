"""Runs a recorded feed through the daemon's own controller; every plan is applied at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import median
from typing import Any

from ballast.power.controller import commit, observe
from ballast.power.controller_result import Sample
from ballast.power.controller_state import ControllerMode, ControllerState
from ballast.power.policy import PowerPolicy


@dataclass(frozen=True, slots=True)
class Tick:
    """One sample and the state after it."""

    t: Fraction | None
    """Seconds since the first row; None where the row has no time."""
    watts: Fraction | None
    """None for an invalid sample."""
    state: ControllerMode
    reference: Fraction | None
    """Watts; None before the first valid sample."""
    delta: int
    """Change of the total of replicas in this tick."""
    replicas: Mapping[str, int]
    """By namespace/name."""
    reason: str

    @property
    def total(self) -> int:
        """All replicas together."""
        return sum(self.replicas.values())

    def document(self) -> dict[str, Any]:
        """The tick as JSON."""
        return {
            "t": _number(self.t),
            "watts": _number(self.watts),
            "state": self.state.value,
            "reference": _number(self.reference),
            "delta": self.delta,
            "replicas": dict(self.replicas),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Replay:
    """`actions` are the ticks that changed replicas, `cancels` the windows that ended without an action.

    `error` is the mean of |replicas - ideal| over valid ticks, with ideal = first replicas · watts / first valid watts,
    within the bounds; None without valid ticks.
    """

    ticks: Sequence[Tick]
    actions: int
    cancels: int
    error: Fraction | None

    def document(self) -> dict[str, Any]:
        """The replay as JSON."""
        last = self.ticks[-1] if self.ticks else None
        final = (
            {"state": last.state.value, "reference": _number(last.reference), "replicas": dict(last.replicas)}
            | {"total": last.total}
            if last
            else {}
        )
        return {
            "ticks": [tick.document() for tick in self.ticks],
            "actions": self.actions,
            "cancels": self.cancels,
            "final": final,
            "mean_abs_error_replicas": _number(self.error),
        }


def replay(policy: PowerPolicy, samples: Iterable[Sample], replicas: Mapping[str, int]) -> Replay:
    """One tick for each sample, starting with `replicas` by namespace/name."""
    state, now, ticks = ControllerState(), dict(sorted(replicas.items())), []
    actions = cancels = 0
    start: Fraction | None = None
    ideal = _Ideal(policy, now)
    for sample in samples:
        start = sample.at if start is None else start
        valid = sample.watts is not None and sample.at is not None and (state.seen is None or sample.at > state.seen)
        outcome = observe(policy, state, sample, now)
        state, before = outcome.state, now
        if state.plan is not None:
            now = dict(state.plan.replicas)
            state = commit(state)
        actions += now != before
        cancels += outcome.cancelled
        tick = Tick(
            t=None if sample.at is None or start is None else sample.at - start,
            watts=sample.watts if valid else None,
            state=state.mode,
            reference=None if state.reference is None else state.reference + _base(policy),
            delta=sum(now.values()) - sum(before.values()),
            replicas=now,
            reason=outcome.reason,
        )
        ticks.append(tick)
        if tick.watts is not None:
            ideal.compare(tick.watts, tick.total)
    return Replay(ticks, actions, cancels, ideal.mean())


def usual_gap(samples: Iterable[Sample]) -> Fraction | None:
    """The median of the seconds between rows; None where there are not two."""
    times = [sample.at for sample in samples if sample.at is not None]
    gaps = [later - earlier for earlier, later in pairwise(times) if later > earlier]
    return median(gaps) if gaps else None


class _Ideal:
    """Measures how far the replicas are from the ones in proportion to the watts."""

    def __init__(self, policy: PowerPolicy, replicas: Mapping[str, int]) -> None:
        self._base, self._floor, self._total = _base(policy), policy.floor, sum(replicas.values())
        members = [
            policy.places[name].member
            for name, count in replicas.items()
            if count or not policy.places[name].member.min
        ]
        self._lowest, self._highest = sum(m.min for m in members), sum(m.max for m in members)
        self._first: Fraction | None = None
        self._pending: list[tuple[Fraction, int]] = []
        self._sum, self._count = Fraction(0), 0

    def compare(self, watts: Fraction, total: int) -> None:
        watts = max(Fraction(0), watts - self._base)
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
        return self._sum / self._count if self._count else None


def _base(policy: PowerPolicy) -> Fraction:
    return Fraction(0) if policy.paper else policy.base_power


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
