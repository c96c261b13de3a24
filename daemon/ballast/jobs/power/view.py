"""What one tick of a power policy saw and did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from ballast.actuation.scaling.target_status import TargetStatus
from ballast.power.anchor import affordable, load_of
from ballast.power.controller_result import targets_of
from ballast.power.controller_state import ControllerMode, ControllerState
from ballast.power.policy import PowerPolicy
from ballast.telemetry.budget_feed import Watts

ZERO = Fraction(0)


class Why(StrEnum):
    """Why a tick did nothing, beside the reasons of the controller itself."""

    HELD = "Held"
    NO_TARGETS = "NoTargets"
    BASELINE = "WaitingForBaseline"
    NOT_STORED = "StateNotStored"
    PLAN_FAILED = "PlanFailed"
    RESUMED = "PlanResumed"


@dataclass(frozen=True)
class TickContext:
    """`at` is steady time for the controller, `wall` Unix time. `hold`: why nothing is decided now. `confirmed`: the
    time (Unix) that people confirmed a new baseline for."""

    at: Fraction
    wall: float
    hold: str | None = None
    confirmed: float | None = None


@dataclass(frozen=True)
class Action:
    """A plan and what became of it."""

    time: float
    reason: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    result: str
    codes: tuple[int, ...] = ()

    @property
    def changes(self) -> dict[str, int]:
        return {
            name: count - self.before.get(name, count)
            for name, count in self.after.items()
            if count != self.before.get(name, count)
        }


@dataclass(frozen=True)
class TickReport:
    """What one cycle saw and did. Watts include the base power.

    `limit` is what keeps replicas from following the watts since the last decision: AtMin, AtMax, RateLimited or
    RoundsToZero.
    """

    policy: PowerPolicy
    now: TickContext
    watts: Watts
    standings: Mapping[str, TargetStatus] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    state: ControllerState = field(default_factory=ControllerState)
    reason: str = Why.HELD
    words: str = ""
    unmet: int = 0
    cancelled: bool = False
    foreign: int = 0
    action: Action | None = None
    problem: str | None = None
    rebaselining: str | None = None
    limit: str | None = None
    silent_for: float = 0.0

    @property
    def reference(self) -> Fraction | None:
        base = ZERO if self.policy.paper else self.policy.base_power
        return None if self.state.reference is None else self.state.reference + base

    @property
    def band(self) -> tuple[Fraction, Fraction] | None:
        if self.state.reference is None or self.reference is None:
            return None
        reach = self.state.reference * self.policy.deadband
        return self.reference - reach, self.reference + reach

    @property
    def window_length(self) -> Fraction:
        return (
            self.policy.increase.window
            if self.state.mode is ControllerMode.PENDING_INCREASE
            else self.policy.decrease.window
        )

    @property
    def window_age(self) -> Fraction | None:
        window = self.state.window
        return (
            None
            if window is None or self.state.mode is ControllerMode.STABLE
            else max(ZERO, self.now.at - window.since)
        )

    @property
    def ideal(self) -> Fraction | None:
        """Replicas that the watts carry, without bounds and rounding."""
        anchor, total = self.state.anchor, sum(self.counts.values())
        if anchor is None or self.watts.watts is None or not total:
            return None
        base = ZERO if self.policy.paper else self.policy.base_power
        differ = any(place.member.watts_per_replica for place in self.policy.places.values())
        each = load_of(targets_of(self.policy, self.counts, {})) / total if differ else Fraction(1)
        return affordable(anchor, max(ZERO, self.watts.watts - base)) / each if each else None
