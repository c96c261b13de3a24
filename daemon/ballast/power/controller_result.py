"""A tick's input (sample, targets) and its result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Self

from ballast.power.controller_state import ControllerState
from ballast.power.policy import PowerPolicy
from ballast.power.target import AllocationTarget
from ballast.power.values import exact

NOTHING: Mapping[str, int] = MappingProxyType({})


class Reason(StrEnum):
    """Why a tick did what it did."""

    BOOTSTRAPPED = "Bootstrapped"
    BELOW_FLOOR = "BelowFloor"
    INVALID = "InvalidSample"
    INSIDE = "InsideDeadBand"
    INCREASE_DETECTED = "IncreaseDetected"
    DECREASE_DETECTED = "DecreaseDetected"
    WAITING = "WaitingForWindow"
    CANCELLED = "BackInsideDeadBand"
    UNSTABLE = "Unstable"
    SCALED_UP = "ScaledUp"
    SCALED_DOWN = "ScaledDown"
    EMERGENCY = "EmergencyDrop"
    RATE_LIMITED = "RateLimited"
    ROUNDS_TO_ZERO = "RoundsToZero"
    AT_LIMIT = "AtLimit"
    FALLBACK = "Fallback"
    FOREIGN_CHANGE = "ForeignChange"
    PLAN_OPEN = "PlanOpen"
    OUT_OF_BOUNDS = "OutOfBounds"
    UNCONFIRMED = "UnconfirmedFall"
    CAPS_MOVED = "CapsMoved"

    @classmethod
    def detected(cls, sign: int) -> Reason:
        """The reason for a window that opens in this direction."""
        return cls.INCREASE_DETECTED if sign > 0 else cls.DECREASE_DETECTED

    @classmethod
    def scaled(cls, sign: int) -> Reason:
        """The reason for a plan in this direction."""
        return cls.SCALED_UP if sign > 0 else cls.SCALED_DOWN


@dataclass(frozen=True, slots=True)
class Sample:
    """`watts` of the feed at the tick `at` (seconds); None where there is no usable value.

    `time` is the sample's own (seconds), where it is known: two ticks may see one sample.
    """

    at: Fraction | None
    watts: Fraction | None
    time: Fraction | None = None
    bound: Fraction | None = None
    """An upper bound of the watts that is known beforehand; None without one."""

    @classmethod
    def of(cls, at: float, watts: float | None) -> Self:
        """From floats, read as the decimals they print as. Negative or not finite watts become None."""
        usable = watts is not None and math.isfinite(watts) and watts >= 0
        return cls(exact(at) if math.isfinite(at) else None, exact(watts) if usable else None)


@dataclass(frozen=True, slots=True)
class ControllerResult:
    """The state after a tick and the reason for it.

    `unmet` (replicas, signed) are wanted but beyond the bounds. `cancelled`: a window ended without an action.
    """

    state: ControllerState
    reason: Reason
    cancelled: bool = False
    unmet: int = 0


def after_plan(state: ControllerState) -> ControllerState:
    """The state once its open plan is applied."""
    plan = state.plan
    if plan is None:
        return state
    entitled = state.entitled if plan.entitled is None else plan.entitled
    state = replace(state, plan=None, last=plan.replicas, sequence=plan.id, entitled=entitled)
    if not plan.closes_window:
        return state
    alarm = state.alarm if plan.ramp else None
    return replace(state, mode=plan.mode, reference=plan.reference, ramp=plan.ramp, window=None, alarm=alarm)


def targets_of(
    policy: PowerPolicy, replicas: Mapping[str, int], baseline: Mapping[str, int], needed: Mapping[str, int] = NOTHING
) -> list[AllocationTarget]:
    """The members with a count in `replicas`, as targets of an allocation."""
    places = policy.places
    return [
        AllocationTarget(
            name=name,
            current=count,
            minimum=(member := (place := places[name]).member).min,
            maximum=member.max,
            group=place.group,
            weight=member.weight,
            watts=member.watts,
            baseline=baseline.get(name),
            needed=needed.get(name, 0),
            priority=place.priority,
        )
        for name, count in replicas.items()
        if name in places
    ]
