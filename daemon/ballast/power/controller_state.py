"""A tick of the controller in values: its sample, its result, and the state between two ticks.

The state is exact (fractions) and saved before anything is changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Self

import msgspec

from ballast.base.errors import NOT_JSON
from ballast.model.stamps import Stamps
from ballast.power.estimator import Doubt
from ballast.power.feed_spec import Schedule
from ballast.power.values import exact


class ControllerMode(StrEnum):
    """Whether a window is open, and in which direction (states of the published model, §3.1)."""

    STABLE = "STABLE"
    PENDING_INCREASE = "PENDING_INCREASE"
    PENDING_DECREASE = "PENDING_DECREASE"

    @property
    def sign(self) -> int:
        """Direction of the change: 0, +1 or −1."""
        return {ControllerMode.STABLE: 0, ControllerMode.PENDING_INCREASE: 1, ControllerMode.PENDING_DECREASE: -1}[self]

    @classmethod
    def of(cls, sign: int) -> ControllerMode:
        """The mode of a direction: 0, +1 or −1."""
        return (cls.STABLE, cls.PENDING_INCREASE, cls.PENDING_DECREASE)[sign]


@dataclass(frozen=True, slots=True)
class Anchor:
    """A budget of `watts` (W0) carries `load` (L0): replicas weighted with their watts, or their number."""

    watts: Fraction
    load: Fraction


@dataclass(frozen=True, slots=True)
class DepartedShare:
    """What a target had when it stopped taking part: its share of the anchor's load, and its replicas."""

    load: Fraction
    count: int


@dataclass(frozen=True, slots=True)
class ChangeWindow:
    """The samples since `since` (seconds): the first, lowest and highest watts, and their number."""

    since: Fraction
    first: Fraction
    low: Fraction
    high: Fraction
    count: int = 1

    @classmethod
    def opened(cls, at: Fraction, watts: Fraction) -> ChangeWindow:
        """A window with its first sample."""
        return cls(at, watts, watts, watts)

    def add(self, watts: Fraction) -> ChangeWindow:
        """The window with one sample more."""
        return ChangeWindow(self.since, self.first, min(self.low, watts), max(self.high, watts), self.count + 1)


NONE = Fraction(0)

SLOW = Fraction(120)
"""Seconds between two samples from which on a feed is slow."""

REMEMBERED = Fraction(300)
"""Seconds for which a sample that was not believed may confirm another one."""


@dataclass(frozen=True, slots=True)
class FeedReading:
    """A sample of the feed: its own time (seconds), its watts, and the watts that count.

    They differ after a large fall: a part of it is believed at once, the rest once a second sample or a witness
    confirms it.
    """

    time: Fraction
    watts: Fraction
    confirmed: Fraction
    apart: Fraction = NONE
    """Seconds since the sample before, where samples have times of their own; 0 where that is not known."""
    doubted: tuple[Fraction, Fraction] | None = None
    """Time and watts of the last sample that was not believed."""
    older: Fraction | None = None
    """Time of an older sample that came later, until a newer one comes."""

    @classmethod
    def after(cls, last: Fraction, time: Fraction, watts: Fraction, trust: Trust) -> FeedReading:
        """A sample after one of `last` watts."""
        confirmed = max(watts, min(last, last * trust.below))
        if trust.witnessed is not None:
            confirmed = max(watts, min(confirmed, trust.witnessed))
        return cls(time, watts, confirmed, doubted=(time, watts) if confirmed > watts else None)

    def then(self, time: Fraction, watts: Fraction, trust: Trust, *, own: bool = True) -> FeedReading:
        """The next sample; the same one where it is no new one. `own`: its time is the feed's, not the tick's.

        An older one is new only where another older one came before it, in order: a clock has been set back.
        """
        if time == self.time:
            return self
        if time < self.time and (self.older is None or time <= self.older):
            return replace(self, older=time)
        apart = time - self.time if own and time > self.time else NONE
        # A feed of rows minutes apart is believed at once: its next row would confirm a fall too late.
        slow = min(apart, max(self.apart, trust.apart)) >= SLOW
        reading = FeedReading.after(self.watts, time, watts, replace(trust, below=NONE) if slow else trust)
        if self.doubted is not None and 0 < abs(time - self.doubted[0]) <= REMEMBERED:
            # Low samples that come again and again confirm one another, also with high ones between them.
            confirmed = min(reading.confirmed, max(watts, self.doubted[1]))
            return replace(reading, apart=apart, confirmed=confirmed, doubted=reading.doubted or self.doubted)
        return replace(reading, apart=apart)

    def pace(self) -> FeedReading | None:
        """What a restart has to know of a slow feed; None of another one."""
        return FeedReading(NONE, NONE, NONE, SLOW) if self.apart >= SLOW else None


@dataclass(frozen=True, slots=True)
class Trust:
    """How much of a sudden fall is believed at once: down to `below` times the last watts."""

    below: Fraction = NONE
    apart: Fraction = NONE
    """Seconds between the feed's samples, as far as that is known beforehand."""
    witnessed: Fraction | None = None
    """Watts down to which something else says so too; None where nothing does."""

    @property
    def at_first(self) -> Trust:
        """That in the first sample: one of a feed that is known to be slow is believed."""
        return replace(self, below=NONE) if self.apart >= SLOW else self


@dataclass(frozen=True, slots=True)
class FeedHistory:
    """What the feed allowed lately, since `since` (seconds): each (end, watts) is the lowest up to its end.

    Watts and ends both rise, since a lower value hides the ones before it: the lowest since a time is the first entry
    that ends at it or later. The last entry ends now.
    """

    since: Fraction
    lows: tuple[tuple[Fraction, Fraction], ...]
    samples: int = 1
    """Distinct samples so far, 2 for more."""

    @classmethod
    def begun(cls, at: Fraction, watts: Fraction) -> FeedHistory:
        """The history of one sample."""
        return cls(at, ((at, watts),))

    def add(self, at: Fraction, watts: Fraction, *, fresh: bool, keep: Fraction) -> FeedHistory:
        """With a tick at which the feed allows `watts`; the value before holds until then. Older than `keep`: left out.

        `fresh`: the feed has a new sample.
        """
        ends = [*self.lows[:-1], (at, self.lows[-1][1]), (at, watts)]
        lows = tuple((end, low) for end, low in ends if end > at - keep and (low < watts or (end, low) == (at, watts)))
        return FeedHistory(self.since, lows[: 1 + [low for _, low in lows].index(watts)], min(2, self.samples + fresh))

    def low(self, at: Fraction, length: Fraction) -> Fraction | None:
        """The least watts of the last `length` seconds; None where they, or two samples, are not there yet."""
        if at - self.since < length or self.samples < 2:
            return None
        return next(low for end, low in self.lows if end > at - length or end == at)


DECIDED_FOR = 3600.0
"""Seconds for which watts are decided at most."""


@dataclass(frozen=True, slots=True)
class EnergyMeter:
    """What was used in a period that began at `since`: joules until `at` (seconds), and what that leaves for now."""

    since: Fraction
    used: Fraction
    at: Fraction
    watts: Fraction | None = None
    """What may be drawn; None before that is decided."""
    expires: Fraction = NONE
    """Time from which on that is decided anew."""
    drawn: Fraction = NONE
    """Watts drawn at `at`."""
    wanted: Fraction | None = None
    """Watts that were drawn last while neither energy nor feed was short; None where they were wanted all."""

    def coarse(self) -> EnergyMeter:
        """In steps of ten minutes, so that it is not saved with every sample: what is missing is read again."""
        return EnergyMeter(self.since, NONE, Fraction(self.at // 600))


@dataclass(frozen=True, slots=True)
class Ramp:
    """A change to `level` (watts) that a rate limit has cut into steps, the last one at `stepped` (seconds)."""

    level: Fraction
    stepped: Fraction


@dataclass(frozen=True, slots=True)
class PowerPlan:
    """New replicas for all targets, saved before they are applied."""

    id: int
    """Counts up."""
    at: Fraction
    """Time (seconds) of the sample that led to it."""
    reason: str
    replicas: Mapping[str, int]
    """Absolute counts by namespace/name."""
    reference: Fraction
    """The reference (watts) once the plan is applied."""
    ramp: Ramp | None = None
    """The rest of a change that a rate limit has cut, once the plan is applied."""
    mode: ControllerMode = ControllerMode.STABLE
    """The mode once the plan is applied."""
    closes_window: bool = True
    """False for a plan that only undoes someone else's change, or only moves caps."""
    entitled: Mapping[str, int] | None = None
    """Of an absolute budget: what each autoscaled target may have when it wants it, once the plan is applied."""


@dataclass(frozen=True, slots=True)
class ControllerState:
    """What the controller knows between two ticks. Watts are those above the base power."""

    mode: ControllerMode = ControllerMode.STABLE
    reference: Fraction | None = None
    """Watts last acted on; None before the first valid sample."""
    anchor: Anchor | None = None
    """None before the first valid sample."""
    last: Mapping[str, int] = field(default_factory=dict)
    """Replicas last seen or decided, by namespace/name."""
    baseline: Mapping[str, int] = field(default_factory=dict)
    """Replicas to return to first, by namespace/name, also of the targets in `away`."""
    away: Mapping[str, DepartedShare] = field(default_factory=dict)
    """Targets that do not take part now, by namespace/name."""
    window: ChangeWindow | None = None
    """The open window of a change."""
    alarm: ChangeWindow | None = None
    """The samples in a row that are low enough for an emergency."""
    ramp: Ramp | None = None
    """The rest of a change that a rate limit has cut."""
    plan: PowerPlan | None = None
    """The open plan."""
    seen: Fraction | None = None
    """Time (seconds) of the newest valid sample, or the time since which none has come."""
    measured: FeedReading | None = None
    """The newest distinct sample of the feed."""
    history: FeedHistory | None = None
    """Of an absolute budget: what the feed allowed lately."""
    energy: EnergyMeter | None = None
    """What was used in this period, with a budget of energy."""
    entitled: Mapping[str, int] = field(default_factory=dict)
    """Of an absolute budget: what each autoscaled target may have when it wants it, by namespace/name."""
    stepped: Mapping[str, Fraction] = field(default_factory=dict)
    """Time (seconds) of the last step of targets with a `maxStep` of their own, by namespace/name."""
    sequence: int = 0
    """Plans so far."""
    schema: int = 1
    """Version of the stored form."""

    def dump(self) -> str:
        """JSON; fractions as text such as "1000" or "2/3"."""
        return msgspec.json.encode(self, enc_hook=str, order="deterministic").decode()

    @classmethod
    def load(cls, text: str) -> ControllerState:
        """Raises ValueError for what `dump` did not write."""
        try:
            state = msgspec.json.decode(text, type=cls, dec_hook=_fraction)
        except NOT_JSON as error:
            raise ValueError(str(error)) from None
        if state.schema != 1:
            raise ValueError(f"schema {state.schema} is unknown, expected 1")
        return state

    def lasting(self) -> ControllerState:
        """The state without what every sample changes; if the rest is the same, it need not be saved again."""
        energy = None if self.energy is None else self.energy.coarse()
        measured = None if self.measured is None else self.measured.pace()
        return replace(self, seen=None, measured=measured, window=None, alarm=None, history=None, energy=energy)

    def read_at(self, stamps: Stamps) -> ControllerState:
        """The state as it counts when it is read: no step was made and no energy planned later than now."""

        def past(at: Fraction) -> Fraction:
            known = stamps.past(float(at))
            return at if known == float(at) else exact(known)

        ramp, energy = self.ramp, self.energy
        if energy is not None:
            expires = stamps.end(float(energy.expires), DECIDED_FOR)
            late = expires != float(energy.expires)
            energy = replace(energy, since=past(energy.since), at=past(energy.at))
            energy = replace(energy, expires=energy.at) if late else energy
        return replace(
            self,
            stepped={name: past(at) for name, at in self.stepped.items()},
            ramp=None if ramp is None else replace(ramp, stepped=past(ramp.stepped)),
            energy=energy,
        )

    def settled(self) -> ControllerState:
        """The state in STABLE, without window and ramp; the reference stays."""
        return replace(self, mode=ControllerMode.STABLE, window=None, ramp=None)

    def interrupted(self) -> ControllerState:
        """The state after a restart or a silence: windows start again, they are never shortened."""
        return replace(self.settled(), history=None)

    def with_sample(
        self, at: Fraction, sample: Sample, watts: Fraction, below: Fraction = NONE, runs: Fraction = NONE
    ) -> ControllerState:
        """The state after a sample of these watts at the tick `at`.

        `below` is `confirm.below` of the policy; the first sample is held against the watts for what `runs`.
        """
        trust = Trust(below, sample.apart, sample.witnessed)
        own, time, before = sample.time is not None, at if sample.time is None else sample.time, self.measured
        if before is None:
            measured = FeedReading.after(runs, time, watts, trust.at_first)
        else:
            measured = before.then(time, watts, trust, own=own)
        return replace(self, seen=at, measured=measured)

    def has_new_sample(self, before: ControllerState) -> bool:
        """Whether the feed has shown another sample since that state."""
        return before.measured is None or self.measured is None or self.measured.time != before.measured.time

    def committed(self) -> ControllerState:
        """The state once its open plan is applied: the plan is closed, the reference moves."""
        plan = self.plan
        if plan is None:
            return self
        entitled = self.entitled if plan.entitled is None else plan.entitled
        state = replace(self, plan=None, last=plan.replicas, sequence=plan.id, entitled=entitled)
        if not plan.closes_window:
            return state
        alarm = self.alarm if plan.ramp else None
        return replace(state, mode=plan.mode, reference=plan.reference, ramp=plan.ramp, window=None, alarm=alarm)


def _fraction(kind: type[Any], value: Any) -> Any:
    return kind(value)


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
    leaving: Fraction = NONE
    """Watts of pods that are ending: they leave no room for a rise."""
    unbound: Mapping[str, int] = field(default_factory=dict)
    """Replicas that no node takes, by namespace/name: they draw nothing."""
    drawn: Fraction | None = None
    """Watts that are drawn, measured, with the base power; None where only what runs is known."""
    forecast: Schedule | None = None
    """What is known beforehand of watts, carbon intensities or prices."""
    doubt: Doubt | None = None
    """How far the watts of the policy may be wrong; None where no meter tells."""
    apart: Fraction = NONE
    """Seconds between the feed's samples, as far as the feed knows; 0 where it does not."""
    witnessed: Fraction | None = None
    """Watts down to which something else says so too; None where nothing does."""

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
