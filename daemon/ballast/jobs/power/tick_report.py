"""The report of one tick of a power policy: what it read, what it decided, and what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from ballast.actuation.scaling.target_status import TargetStatus
from ballast.jobs.power.participants import Participants
from ballast.jobs.power.store import Record
from ballast.power.absolute import carried
from ballast.power.anchor import affordable
from ballast.power.autoscaled import Autoscaled
from ballast.power.controller_state import ControllerMode, ControllerState
from ballast.power.learned_watts import Learned
from ballast.power.policy import PowerPolicy
from ballast.power.sections import Need, WhenSilent
from ballast.power.verification import MissedEffect
from ballast.power.waiting import WindowPrice
from ballast.telemetry.feeds.budget_feed import Watts

ZERO = Fraction(0)


class IdleReason(StrEnum):
    """Why a tick decided nothing, beside the reasons of the controller itself."""

    HELD = "Held"
    NO_TARGETS = "NoTargets"
    BASELINE = "WaitingForBaseline"
    NOT_STORED = "StateNotStored"
    PLAN_FAILED = "PlanFailed"
    RESUMED = "PlanResumed"
    NO_EFFECT = "NoEffect"


@dataclass(frozen=True)
class TickContext:
    """What a tick gets from outside the policy."""

    at: Fraction
    """Time for the controller (seconds); it never jumps."""
    wall: float
    """Unix time."""
    hold: str | None = None
    """Why nothing is decided now, or None."""
    standby: bool = False
    """Whether another replica leads."""
    inside: Fraction = ZERO
    """Watts drawn by policies within this one."""
    confirmed: float | None = None
    """Unix time for which a new baseline was confirmed."""
    time_left: Callable[[], bool] = lambda: True
    """Whether the next tick is not due yet."""


@dataclass(frozen=True)
class Action:
    """A plan and its outcome: counts `before` and `after` by namespace/name, `codes` HTTP status of failed writes."""

    time: float
    reason: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    result: str
    codes: tuple[int, ...] = ()

    @property
    def changes(self) -> dict[str, int]:
        """Signed changes by namespace/name, without those that are 0."""
        return {
            name: count - self.before.get(name, count)
            for name, count in self.after.items()
            if count != self.before.get(name, count)
        }


@dataclass(frozen=True)
class Inputs:
    """What one tick decides from. Watts include the base power."""

    policy: PowerPolicy
    """The policy in force: with the measured watts, and within the bounds of its targets once they are known."""
    now: TickContext
    watts: Watts
    """The sample of the feed."""
    silent_for: float = 0.0
    """Seconds since the last valid sample."""
    statuses: Mapping[str, TargetStatus] = field(default_factory=dict)
    """By namespace/name, all targets."""
    participants: Participants = field(default_factory=Participants)
    """The targets that take part."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of the participants before the tick, by namespace/name; shadow counts in a dry run."""
    needs: Mapping[str, Need] = field(default_factory=dict)
    """What targets need for their own load, by namespace/name."""
    autoscaled: Mapping[str, Autoscaled] = field(default_factory=dict)
    """The participants with an autoscaler that can be capped, by namespace/name."""
    learned: Learned | None = None
    """Watts of a replica as the measured consumption tells; None without one."""
    factor: float | None = None
    """How many times the declared watts are drawn; None where that is not measured."""
    missed: MissedEffect | None = None
    """The newest action whose effect on the measured draw did not come."""
    prices: Sequence[WindowPrice] = ()
    """With `increase: auto`, what each window would have cost."""
    record: Record = field(default_factory=Record)
    """The saved state, as far as it is still valid; empty where it was not read."""
    unread: tuple[str, str] | None = None
    """What could not be read, as a sentence, and the error in it; None: nothing."""


@dataclass(frozen=True)
class TickDecision:
    """What one tick decided, and why."""

    reason: str = IdleReason.HELD
    words: str = ""
    """A sentence for a reason that has no fixed one."""
    problem: str | None = None
    """Why the open plan was not carried out as it was made, or None."""
    limit: str | None = None
    """What keeps replicas from following the watts: AtMin, AtMax, RateLimited or RoundsToZero; None: nothing."""
    unmet: int = 0
    """Replicas wanted beyond all bounds, signed."""
    cancelled: bool = False
    """Whether a window ended without an action."""
    foreign: int = 0
    """Targets that someone else changed."""
    rebaselining: str | None = None
    """What a new baseline waits for, or None."""


@dataclass(frozen=True)
class Outcome:
    """What came of the decision of one tick. Watts include the base power."""

    state: ControllerState = field(default_factory=ControllerState)
    """The controller's state after the tick."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts after the tick, by namespace/name, of the targets that take part; shadow counts in a dry run."""
    action: Action | None = None
    reason: str | None = None
    """Why the decision was not carried out, or whose plan was; None: the decision's own reason holds."""
    words: str = ""
    """A sentence for what failed or remains to be done. It contains the problem, if there is one."""
    problem: str | None = None
    """What went wrong, or None."""
    load: Fraction | None = None
    """Watts of what runs; None where the watts of a replica are not known."""
    unmet_demand: int = 0
    """Replicas that autoscalers want beyond their caps."""
    unmet_watts: Fraction | None = None
    """Watts that they would draw; None where the watts of a replica are not known."""


@dataclass(frozen=True)
class TickReport:
    """One tick of a policy, for conditions, metrics, Events, the API and the sentence of the cycle."""

    inputs: Inputs
    decision: TickDecision = field(default_factory=TickDecision)
    outcome: Outcome = field(default_factory=Outcome)

    @property
    def policy(self) -> PowerPolicy:
        """The policy in force."""
        return self.inputs.policy

    @property
    def state(self) -> ControllerState:
        """The controller's state after the tick."""
        return self.outcome.state

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts after the tick."""
        return self.outcome.counts

    @property
    def reason(self) -> str:
        """The reason for what happened, or why nothing did."""
        return self.outcome.reason or self.decision.reason

    @property
    def words(self) -> str:
        """A sentence for a reason that has no fixed one."""
        return self.outcome.words or self.decision.words

    @property
    def problem(self) -> str | None:
        """What went wrong, or None."""
        return self.outcome.problem or self.decision.problem

    @property
    def problem_in_words(self) -> bool:
        """Whether `words` already contains the problem."""
        return bool(self.outcome.problem and self.outcome.words)

    @cached_property
    def left_out(self) -> Sequence[tuple[str, TargetStatus]]:
        """Name and status of the targets that take no part, or cannot be changed."""
        return [(name, status) for name, status in self.inputs.statuses.items() if status.hold is not None]

    @property
    def allowed(self) -> Fraction | None:
        """Watts that may be drawn now: the least of feed, bound and energy; None where none is known.

        While the feed is silent its last level stands, unless a fallback has taken its place.
        """
        level = self.inputs.watts.watts
        replaced = self.policy.fallback.policy is not WhenSilent.HOLD
        fallen_back = replaced and self.inputs.silent_for >= float(self.policy.fallback.after)
        if level is None and self.state.measured is not None and not fallen_back:
            level = self.state.measured.watts
        known = [level, self.inputs.watts.bound, None if self.state.energy is None else self.state.energy.watts]
        return min((watts for watts in known if watts is not None), default=None)

    @property
    def drawn(self) -> Fraction | None:
        """Watts of what runs: the larger of model and meter; None where neither is known."""
        known = [watts for watts in (self.outcome.load, self.inputs.watts.consumed) if watts is not None]
        return max(known, default=None)

    @property
    def over(self) -> Fraction | None:
        """Watts above what is allowed; None while that is kept or not known."""
        drawn, allowed = self.drawn, self.allowed
        if self.outcome.load is None or drawn is None or allowed is None or drawn <= allowed:
            return None
        return drawn - allowed

    @property
    def load_known(self) -> bool:
        """Whether it is known that the feed is kept, or by how much it is not."""
        return self.outcome.load is not None and self.inputs.watts.watts is not None

    @property
    def energy_left(self) -> Fraction | None:
        """Joules that are left of this period's energy; None without a budget of energy."""
        if self.policy.energy is None or self.state.energy is None:
            return None
        return self.policy.energy.left(self.state.energy.used)

    @property
    def reference(self) -> Fraction | None:
        """The reference with the base power (watts)."""
        base = ZERO if self.policy.paper else self.policy.base_power
        return None if self.state.reference is None else self.state.reference + base

    @property
    def band(self) -> tuple[Fraction, Fraction] | None:
        """The dead band (watts, with the base power): reference · (1 ± deadband) above the base power.

        That of an absolute budget only holds rises: its lower end is the reference.
        """
        if self.state.reference is None or self.reference is None:
            return None
        reach = self.state.reference * self.policy.deadband
        return self.reference - (ZERO if self.policy.absolute else reach), self.reference + reach

    @property
    def window_length(self) -> Fraction:
        """Seconds that the window of this mode lasts."""
        rising = self.state.mode is ControllerMode.PENDING_INCREASE
        return self.policy.increase.window if rising else self.policy.falls.window

    @property
    def window_age(self) -> Fraction | None:
        """Seconds since the open window began; None without one."""
        window = self.state.window
        if window is None or self.state.mode is ControllerMode.STABLE:
            return None
        return max(ZERO, self.inputs.now.at - window.since)

    @property
    def ideal(self) -> Fraction | None:
        """Replicas that the watts carry, without bounds and rounding: L(W) / mean watts per replica."""
        anchor, total, watts = self.state.anchor, sum(self.counts.values()), self.inputs.watts.watts
        if watts is None or not total:
            return None
        if self.policy.absolute:
            return carried(self.policy, watts) * total / self.policy.drawn(self.counts)
        if anchor is None:
            return None
        base = ZERO if self.policy.paper else self.policy.base_power
        differ = any(place.member.watts_per_replica for place in self.policy.places.values())
        mean = self.policy.drawn(self.counts) / total if differ else Fraction(1)
        return affordable(anchor, max(ZERO, watts - base)) / mean if mean else None
