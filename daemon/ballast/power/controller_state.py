"""What a budget's controller remembers: small, exact, and written ahead of everything it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

import msgspec


class ControllerMode(StrEnum):
    STABLE = "STABLE"
    PENDING_INCREASE = "PENDING_INCREASE"
    PENDING_DECREASE = "PENDING_DECREASE"

    @property
    def sign(self) -> int:
        return {ControllerMode.STABLE: 0, ControllerMode.PENDING_INCREASE: 1, ControllerMode.PENDING_DECREASE: -1}[self]

    @classmethod
    def of(cls, sign: int) -> ControllerMode:
        return (cls.STABLE, cls.PENDING_INCREASE, cls.PENDING_DECREASE)[sign]


@dataclass(frozen=True, slots=True)
class Anchor:
    """`load` (watts of all replicas, or their number) belongs to `watts` of budget."""

    watts: Fraction
    load: Fraction


@dataclass(frozen=True, slots=True)
class Away:
    """What a target had when it ceased to take part: its share of the anchor's load, and its replicas."""

    load: Fraction
    count: int


@dataclass(frozen=True, slots=True)
class ChangeWindow:
    """The samples since `since` (seconds): the first, the lowest and the highest watts, and how many there are."""

    since: Fraction
    first: Fraction
    low: Fraction
    high: Fraction
    count: int = 1

    @classmethod
    def opened(cls, at: Fraction, watts: Fraction) -> ChangeWindow:
        return cls(at, watts, watts, watts)

    def add(self, watts: Fraction) -> ChangeWindow:
        return ChangeWindow(self.since, self.first, min(self.low, watts), max(self.high, watts), self.count + 1)


@dataclass(frozen=True, slots=True)
class Ramp:
    """A change to `level` (watts) that a rate limit has cut into steps, the last one at `stepped` (seconds)."""

    level: Fraction
    stepped: Fraction


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """Absolute replicas by namespace/name, written down before they are applied; `reference`, `ramp` and `mode` hold
    after it.

    `at` is the time of the sample that led to it, `id` counts up. One that only undoes what someone else did leaves the
    window open.
    """

    id: int
    at: Fraction
    reason: str
    replicas: Mapping[str, int]
    reference: Fraction
    ramp: Ramp | None = None
    mode: ControllerMode = ControllerMode.STABLE
    closes_window: bool = True


@dataclass(frozen=True, slots=True)
class ControllerState:
    """Watts are those above the base power. `reference` and `anchor` are None before the first valid sample.

    `last` and `baseline` are replicas by namespace/name: those last seen or decided, and those to return to first.
    `baseline` also knows those in `away`, who do not take part now. `alarm` holds the samples of an emergency, `seen`
    is the time of the newest valid sample, or since when one is missed.
    """

    mode: ControllerMode = ControllerMode.STABLE
    reference: Fraction | None = None
    anchor: Anchor | None = None
    last: Mapping[str, int] = field(default_factory=dict)
    baseline: Mapping[str, int] = field(default_factory=dict)
    away: Mapping[str, Away] = field(default_factory=dict)
    window: ChangeWindow | None = None
    alarm: ChangeWindow | None = None
    ramp: Ramp | None = None
    plan: PowerPlan | None = None
    seen: Fraction | None = None
    sequence: int = 0
    schema: int = 1

    def dump(self) -> str:
        """JSON; fractions as text such as "1000" or "2/3"."""
        return msgspec.json.encode(self, enc_hook=str, order="deterministic").decode()

    @classmethod
    def load(cls, text: str) -> ControllerState:
        """Raises ValueError for what `dump` did not write."""
        try:
            state = msgspec.json.decode(text, type=cls, dec_hook=_fraction)
        except msgspec.DecodeError as error:
            raise ValueError(str(error)) from None
        if state.schema != 1:
            raise ValueError(f"schema {state.schema} is unknown, expected 1")
        return state

    def lasting(self) -> ControllerState:
        """Without what every sample changes: two states with the same lasting part need not be written again."""
        return replace(self, seen=None, window=None, alarm=None)

    def settled(self) -> ControllerState:
        """STABLE, with no window open; the reference stays."""
        return replace(self, mode=ControllerMode.STABLE, window=None, ramp=None)


def _fraction(kind: type[Any], value: Any) -> Any:
    return kind(value)
