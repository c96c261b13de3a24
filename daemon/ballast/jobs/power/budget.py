"""One power policy in the cluster: decide, save the plan, apply it, then save it as done.

The order makes a crash harmless: a plan holds absolute counts, so the next leader may apply it again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from operator import is_
from types import MappingProxyType

from ballast.actuation.scaling.actuators import Actuators
from ballast.actuation.scaling.target_status import TargetStatus
from ballast.base.clock import AHEAD
from ballast.base.errors import ClusterError, Superseded
from ballast.cluster.write import Result
from ballast.cluster.write import WriteOutcome as Written
from ballast.jobs.power.metering import Metering, StartTimes, believed
from ballast.jobs.power.participants import (
    Participants,
    autoscaled_targets,
    bounds_with_needs,
    find_participants,
    ignores_cap,
    leaving_watts,
    surge_watts,
    unbound_replicas,
    watts_drawn,
)
from ballast.jobs.power.store import PowerStore, Record, SavedState
from ballast.jobs.power.tick_report import Action, IdleReason, Inputs, Outcome, TickContext, TickDecision, TickReport
from ballast.power.absolute import may_rise, metered, without_rise
from ballast.power.autoscaled import unmet_demand
from ballast.power.controller import is_emergency, observe, resumed, review_plan
from ballast.power.controller_state import ControllerResult, ControllerState, PowerPlan, Reason, Sample
from ballast.power.learned_watts import WattsLearner
from ballast.power.plausible import IMPOSSIBLE
from ballast.power.policy import PowerPolicy
from ballast.power.sections import Need, NoEffect
from ballast.power.values import exact
from ballast.power.verification import MissedEffect
from ballast.power.waiting import LearnedWindow
from ballast.telemetry.feeds.budget_feed import Watts

PLAN_LASTS = 600.0
"""Seconds after which an open plan is dropped, because the sample behind it is too old."""

ATTEMPTS = 2
"""Ticks in which an open plan is tried before it is dropped and the next one decides about the rest."""

ROUND = 100
"""Targets that a plan changes in one tick at most, so that an emergency does not wait long for it."""

BATCH = 500
"""Targets of an urgent plan that are changed before it is seen whether the tick is over."""

STUCK = 60
"""Seconds for which an absolute budget takes a target as unchangeable after a write to it has failed."""


IGNORED = 30
"""Seconds after which an autoscaler that has more replicas than its cap counts with these: two of its syncs."""

NO_NEEDS: Mapping[str, Need] = MappingProxyType({})


class PolicyController:
    """One policy: its targets, its saved state, and one tick at a time.

    `needs` gives the replicas that targets need for their own load, from their counts. `loads` gives the nodes' loads
    (fractions by node), for policies with `hotPodsFirst`. `traces` gives the targets that Ballast changed last.

    With `shadow` (dry run) the counts are those that would be, and only the state is written.
    """

    def __init__(
        self,
        policy: PowerPolicy,
        targets: Actuators,
        store: PowerStore,
        *,
        shadow: bool,
        needs: Callable[[Mapping[str, int]], Mapping[str, Need]] = lambda counts: NO_NEEDS,
        loads: Callable[[], Mapping[str, float] | None] = lambda: None,
        traces: Callable[[Mapping[str, TargetStatus]], Iterable[str]] = lambda statuses: (),
        meter: WattsLearner | None = None,
    ) -> None:
        self.policy = policy
        self._targets = targets
        self._saved = SavedState(policy, store, traces)
        self._shadow = shadow
        self._needs = needs
        self._loads = loads
        self._metering = Metering(policy, meter, shadow=shadow, keys=None if shadow else store.keys)
        self._waiting = LearnedWindow(policy)
        self._started = StartTimes()
        self._record: Record | None = None
        self._attempts = 0
        self._tried: set[str] = set()
        self._last_valid: Fraction | None = None
        self._limit: str | None = None
        self._held: tuple[float, Fraction | None] | None = None
        self._stuck: dict[str, Fraction] = {}
        self._ignoring: dict[str, Fraction] = {}
        self._pending: dict[str, Fraction] = {}
        self._last_participants: tuple[object, Sequence[TargetStatus], Participants] | None = None
        self._bounds: Mapping[str, tuple[int, int]] = {}
        self._bounded = policy

    @property
    def in_force(self) -> PowerPolicy:
        """The policy with the measured watts."""
        return self._metering.applied(self.policy)

    @property
    def changing(self) -> frozenset[str]:
        """Namespace/name of the targets of the open plan, as far as this replica knows."""
        plan = self._record.state.plan if self._record is not None else None
        return frozenset(plan.replicas) if plan is not None else frozenset()

    def forget(self) -> None:
        """Drops what is known after a change of leader; the saved state is read again."""
        self._record, self._attempts = None, 0
        self._tried.clear()

    def cycle(self, now: TickContext, watts: Watts) -> TickReport:
        """One tick. Errors of the cluster end up in the report, none is raised."""
        inputs = self._read(now, watts)
        report = self._rest(inputs) or self._decide(inputs)
        self._metering.record(report)
        return self._with_load(report)

    def _read(self, now: TickContext, watts: Watts) -> Inputs:
        """What this tick decides from, as far as the cluster answers. A replica on hold does not read the state."""
        if watts.watts is not None or self._last_valid is None:
            self._last_valid = now.at
        inputs = Inputs(self.policy, now, watts, float(now.at - self._last_valid))
        try:
            statuses = self._targets.read(self.policy)
        except ClusterError as error:
            return replace(inputs, unread=(f"the targets cannot be seen: {error}", str(error)))
        self._started.see(now.at, statuses)
        if watts.watts is not None:
            self._waiting.measure(now.at, watts.watts, watts.bound, self._started.seconds)
        watts = replace(watts, consumed=believed(watts.consumed, statuses))
        inputs = replace(inputs, watts=watts, prices=self._waiting.prices())
        participants = self._participants(statuses, now.at, emergency=False)
        learned, missed = self._metering.measure(now, watts.consumed, statuses, participants.counts)
        inputs = replace(inputs, statuses=statuses, participants=participants, learned=learned, missed=missed)
        inputs = replace(inputs, factor=self._metering.factor)
        if now.hold is not None:
            return inputs
        try:
            self._record = self._record or self._saved.read()
        except ClusterError as error:
            return replace(inputs, unread=(f"the state cannot be read: {error}", str(error)))
        return self._complete(inputs, self._saved.still_valid(self._record, now.confirmed))

    def _complete(self, inputs: Inputs, record: Record) -> Inputs:
        """The inputs with the saved state, and what follows from it: counts, needs and the policy in force."""
        statuses = inputs.statuses
        emergency = not self.policy.absolute and is_emergency(self.policy, record.state, inputs.watts.watts)
        participants = self._participants(statuses, inputs.now.at, emergency=emergency)
        counts = _shadow_counts(record, participants.counts) if self._shadow else participants.counts
        # An open plan is finished whatever its targets need now; the next one decides about that.
        needs = {} if record.state.plan is not None else self._needs(counts)
        policy = self._inside(bounds_with_needs(self.policy, statuses, participants, counts, needs))
        if self.policy.absolute and (extra := surge_watts(policy, statuses, counts) + inputs.now.inside):
            policy = policy.with_watts({}, policy.base_power + extra)
        autoscaled = autoscaled_targets(policy, statuses, counts)
        return replace(
            inputs,
            policy=policy,
            participants=participants,
            counts=counts,
            needs=needs,
            autoscaled=autoscaled,
            record=record,
        )

    def _participants(self, statuses: Mapping[str, TargetStatus], at: Fraction, *, emergency: bool) -> Participants:
        """The targets that take part; those of the last call where nothing about them has changed."""
        ignoring = [name for name, status in statuses.items() if ignores_cap(status) and not self._shadow]
        self._ignoring = {name: self._ignoring.get(name, at) for name in ignoring}
        stuck = [name for name, since in self._stuck.items() if at - since < STUCK]
        stuck += [name for name, since in self._ignoring.items() if at - since >= IGNORED]
        key, values, last = (emergency, stuck), tuple(statuses.values()), self._last_participants
        if last is None or last[0] != key or len(last[1]) != len(values) or not all(map(is_, last[1], values)):
            participants = find_participants(self.policy, statuses, emergency=emergency, stuck=stuck)
            last = self._last_participants = key, values, participants
        return last[2]

    def _rest(self, inputs: Inputs) -> TickReport | None:
        """The report of a tick that decides nothing, or None. An open window starts again afterwards."""
        decision = self._idle(inputs)
        if decision is None:
            return None
        outcome = Outcome(counts=inputs.participants.counts)
        if inputs.unread is not None:
            outcome = replace(outcome, words=inputs.unread[0], problem=inputs.unread[1])
        if self._record is not None:
            self._record = replace(self._record, state=self._metered(inputs, resumed(self._record.state)))
            outcome = replace(outcome, state=self._record.state)
            if self._shadow:
                outcome = replace(outcome, counts=_shadow_counts(self._record, outcome.counts))
        return TickReport(inputs, decision, outcome)

    def _metered(self, inputs: Inputs, state: ControllerState) -> ControllerState:
        """The state with the energy that was used, where the targets can be seen."""
        counts = inputs.participants.counts
        if not counts:
            return state
        scaled = autoscaled_targets(self.policy, inputs.statuses, counts)
        sample = Sample(inputs.now.at, None, drawn=self._own(inputs.watts))
        return metered(self.in_force, state, sample, counts, scaled)

    def _idle(self, inputs: Inputs) -> TickDecision | None:
        """Why nothing is decided now, or None."""
        limit, missed = self._limit, inputs.missed
        if inputs.unread is not None:
            return TickDecision(limit=limit)
        if inputs.now.hold is not None:
            return TickDecision(words=inputs.now.hold, limit=limit)
        if self._metering.waits:
            return TickDecision(words="waiting for the first measurement of watts per replica", limit=limit)
        if not inputs.participants.changeable:
            return TickDecision(IdleReason.NO_TARGETS, "no target takes part", limit=limit)
        if missed is not None and self._holds(missed, inputs.watts):
            words = f"nothing more is changed, an action had no effect: {missed.text}"
            return TickDecision(IdleReason.NO_EFFECT, words, limit=limit)
        return None

    def _holds(self, missed: MissedEffect, watts: Watts) -> bool:
        """Whether nothing more is changed after an action without effect: the feed has not fallen further since."""
        if not missed.stops or self.policy.on_no_effect is NoEffect.SHED:
            return False
        level = min((known for known in (watts.watts, watts.bound) if known is not None), default=None)
        if self._held is None or self._held[0] != missed.at:
            self._held = missed.at, level
        before = self._held[1]
        return level is None or before is None or level >= before * (1 - self.policy.deadband)

    def _decide(self, inputs: Inputs) -> TickReport:
        """Finishes the open plan, if there is one that still holds; else decides about this sample."""
        record, dropped = inputs.record, None
        if record.state.plan is not None:
            usable = {name for name in inputs.counts if inputs.statuses[name].usable}
            review = review_plan(
                inputs.policy,
                record.state,
                inputs.watts.watts,
                inputs.counts,
                usable,
                failed=self._attempts > 0,
                outdated=self._outdated(inputs),
            )
            record, dropped = replace(record, state=review.state), review.dropped
            if dropped is None:
                return self._resume(inputs, record, review.moved)
            record = replace(record, planned=None)
            self._attempts = 0
        if not _begun(inputs.policy, record.state) and (waiting := self._awaits(inputs, record)) is not None:
            decision = TickDecision(IdleReason.BASELINE, waiting, dropped, self._limit, rebaselining=waiting)
            return self._remember(inputs, decision, replace(record, lost=record.lost or inputs.now.wall))
        return self._observe(inputs, record, dropped)

    def _outdated(self, inputs: Inputs) -> str | None:
        """Why the open plan is no longer tried, whatever the feed gives, or None."""
        age = inputs.now.wall - (inputs.record.planned or 0.0)
        if age > PLAN_LASTS:
            return f"the open plan is {age / 60:.0f} min old and is dropped"
        if age < -AHEAD:
            return f"the open plan is from {-age / 60:.0f} min in the future, its age is unknown; it is dropped"
        return "the open plan could not be carried out and is dropped" if self._attempts >= ATTEMPTS else None

    def _resume(self, inputs: Inputs, record: Record, moved: Sequence[str]) -> TickReport:
        """Applies the open plan of an earlier tick."""
        decision = TickDecision(IdleReason.RESUMED, limit=self._limit)
        if moved:
            words = f"someone else changed {moved[0]} meanwhile; it leaves the open plan"
            decision = replace(decision, problem=words, foreign=len(moved))
        return self._apply(inputs, decision, record)

    def _observe(self, inputs: Inputs, record: Record, dropped: str | None) -> TickReport:
        """Decides about this sample, and carries the plan out if that makes one."""
        now, watts, policy, counts, before = inputs.now, inputs.watts, inputs.policy, inputs.counts, record.state
        begun = _begun(policy, before)
        if watts.watts is None and before.seen is None:
            before = replace(before, seen=self._last_valid)
        time = watts.time if watts.newest is None else watts.newest
        sample = Sample(now.at, watts.watts, None if time is None else exact(time), watts.bound)
        apart = Fraction(0) if watts.apart is None else exact(watts.apart)
        sample = replace(
            sample, drawn=self._own(watts), forecast=watts.forecast, apart=apart, witnessed=watts.witnessed
        )
        if policy.absolute:
            sample = replace(sample, unbound=self._unbound(inputs), doubt=self._metering.doubt)
            sample = replace(sample, leaving=leaving_watts(policy, inputs.statuses, counts))
        needed = {name: need.least for name, need in inputs.needs.items()}
        result = observe(policy, before, sample, counts, needed, inputs.autoscaled)
        if (inputs.missed is not None and inputs.missed.stops) or not self._may_rise(watts):
            result = without_rise(policy, result, counts)
        self._limit = _limit(result, self._limit)
        foreign = sum(counts.get(name, count) != count for name, count in before.last.items()) if begun else 0
        decision = TickDecision(
            result.reason, "", dropped, self._limit, result.unmet, cancelled=result.cancelled, foreign=foreign
        )
        if self._shadow:
            record = replace(record, real=inputs.participants.counts)
        if not begun and result.state.reference is not None:
            record = replace(record, based=max(now.wall, now.confirmed or 0.0), lost=None)
        record = self._saved.sign(replace(record, state=result.state))
        if result.state.plan is None:
            return self._remember(inputs, decision, record)
        return self._carry_out(inputs, decision, replace(record, planned=now.wall), before)

    def _own(self, watts: Watts) -> Fraction | None:
        """What the policy's own targets draw, as far as the meter shows them alone."""
        return None if self.policy.shares_limit else watts.consumed

    def _may_rise(self, watts: Watts) -> bool:
        """Whether the meter allows a rise, the sample can be right, and a schedule that may bound is known."""
        spec = self.policy.schedule
        unknown = spec is not None and spec.priced_as is None and watts.forecast is None
        if self.policy.absolute and (watts.doubt in IMPOSSIBLE or unknown):
            return False
        return may_rise(self.policy, watts.consumed, watts.watts, watts.bound)

    def _unbound(self, inputs: Inputs) -> Mapping[str, int]:
        """Replicas that no node takes; a dry run does not follow them."""
        waiting = [name for name, status in inputs.statuses.items() if status.unplaced and not self._shadow]
        self._pending = {name: self._pending.get(name, inputs.now.at) for name in waiting}
        return unbound_replicas(inputs.statuses, inputs.counts, self._pending, inputs.now.at)

    def _awaits(self, inputs: Inputs, record: Record) -> str | None:
        now = inputs.now
        return self._saved.awaits(record, inputs.statuses, inputs.counts, now.wall, now.confirmed)

    def _carry_out(self, inputs: Inputs, decision: TickDecision, record: Record, before: ControllerState) -> TickReport:
        """Saves the new plan, applies it and commits it. Where it cannot be saved, nothing is changed."""
        plan = record.state.plan
        assert plan is not None
        if not self._shadow:
            kept = replace(before, seen=record.state.seen, alarm=record.state.alarm, measured=record.state.measured)
            self._record = replace(record, state=kept, planned=None)
            problem = self._save(record, f"plan {plan.id}: {plan.reason}")
            if problem is not None:
                words = f"nothing was changed, the plan cannot be saved: {problem}"
                outcome = Outcome(kept, inputs.counts, None, IdleReason.NOT_STORED, words, problem)
                return TickReport(inputs, decision, outcome)
        self._record = record
        self._attempts = 0
        self._tried.clear()
        return self._apply(inputs, decision, record)

    def _apply(self, inputs: Inputs, decision: TickDecision, record: Record) -> TickReport:
        """Writes the counts of the open plan, ROUND in a tick unless it is urgent, and commits it after the last."""
        counts, plan = inputs.counts, record.state.plan
        assert plan is not None
        due = {
            name: count
            for name, count in plan.replicas.items()
            if name in inputs.participants.changeable
            and name in counts
            and not (self._shadow and count == counts[name])
        }
        at_once = _is_urgent(self.policy, plan)
        later = frozenset() if at_once or self._shadow else self._later(due, counts)
        due = {name: count for name, count in due.items() if name not in later}
        order = self._by_urgency(inputs, due) if at_once else list(due)
        writes: list[Written] = []
        # The rest of an urgent plan waits for the next tick once this one is over: a further fall overtakes it there.
        while order and (not writes or inputs.now.time_left()):
            batch, order = order[:BATCH], order[BATCH:]
            self._tried.update(batch if at_once else ())
            writes += self._targets.apply(
                {name: inputs.statuses[name] for name in batch},
                {name: due[name] for name in batch},
                reason=f"power policy {self.policy.name}, plan {plan.id}: {plan.reason}",
                emergency=at_once,
                loads=self._loads() if self.policy.hot_pods_first else None,
            )
        later |= frozenset(order)
        due = {name: count for name, count in due.items() if name not in later}
        failed = [write for write in writes if write.result not in (Result.DONE, Result.DRY_RUN)]
        self._stuck.update(dict.fromkeys(_unwritable(failed), inputs.now.at))
        done = "dry-run" if self._shadow else "done"
        result = f"{len(failed)} of {len(writes)} writes failed: {failed[0].reason}" if failed else done
        after = {**counts, **due}
        codes = tuple(write.status for write in failed)
        outcome = Outcome(record.state, after, Action(inputs.now.wall, plan.reason, counts, after, result, codes))
        self._record = record
        if failed:
            self._attempts += not later - self._tried
            words = f"{result}; tried again"
            # The report shows the counts from before: which writes came through is seen in the next tick.
            failure = replace(outcome, counts=counts, reason=IdleReason.PLAN_FAILED, words=words, problem=result)
            return TickReport(inputs, decision, failure)
        if later:
            words = f"{len(later)} more targets follow in the next ticks"
            return TickReport(inputs, decision, replace(outcome, words=words))
        return self._remember(inputs, decision, replace(record, state=record.state.committed(), planned=None), outcome)

    def _by_urgency(self, inputs: Inputs, due: Mapping[str, int]) -> list[str]:
        """What changes: not tried before first; falls, caps first, as they would grow again; priority; most watts."""

        def rank(name: str) -> tuple[bool, bool, bool, int, Fraction, str]:
            place, more = inputs.policy.places[name], due[name] - inputs.counts[name]
            capped, watts = name in inputs.autoscaled, more * place.member.watts
            return name in self._tried, more > 0, not capped, place.priority, watts, name

        return sorted((name for name, count in due.items() if count != inputs.counts[name]), key=rank)

    def _later(self, due: Mapping[str, int], counts: Mapping[str, int]) -> frozenset[str]:
        """Targets that are changed in later ticks. Order: not tried before first, then reductions, then by name."""
        order = sorted((name in self._tried, count > counts[name], name) for name, count in due.items())
        changed = [name for _, _, name in order if due[name] != counts[name]]
        self._tried.update(changed[:ROUND])
        return frozenset(changed[ROUND:])

    def _remember(
        self, inputs: Inputs, decision: TickDecision, record: Record, outcome: Outcome | None = None
    ) -> TickReport:
        """Saves the record at the end of a tick; without an `outcome` nothing was changed."""
        self._record = record
        outcome = replace(outcome or Outcome(counts=inputs.counts), state=record.state)
        problem = self._save(record, f"power policy {self.policy.name}: {outcome.reason or decision.reason}")
        if problem is not None:
            outcome = replace(outcome, problem=f"the state is not saved: {problem}")
        return TickReport(inputs, decision, outcome)

    def _with_load(self, report: TickReport) -> TickReport:
        """The report with the watts of what runs, where they are known."""
        inputs, counts = report.inputs, report.counts
        if not inputs.policy.absolute or not counts or inputs.unread is not None or self._metering.waits:
            return report
        scaled = autoscaled_targets(inputs.policy, inputs.statuses, counts)
        outcome = replace(
            report.outcome,
            load=watts_drawn(inputs.policy, inputs.statuses, counts),
            unmet_demand=unmet_demand(scaled.values()),
            unmet_watts=sum(
                (each.unmet * inputs.policy.places[name].member.watts for name, each in scaled.items()), Fraction(0)
            ),
        )
        return replace(report, outcome=outcome)

    def _inside(self, bounds: Mapping[str, tuple[int, int]]) -> PowerPolicy:
        """The policy within the bounds of the objects."""
        if bounds != self._bounds:
            self._bounds, self._bounded = bounds, self.policy.within(bounds)
        return self._waiting.applied(self._metering.applied(self._bounded))

    def _save(self, record: Record, reason: str) -> str | None:
        try:
            return self._saved.save(record, reason)
        except Superseded as error:
            self.forget()
            return str(error)


def _is_urgent(policy: PowerPolicy, plan: PowerPlan) -> bool:
    """Whether the plan is applied at once, many writes at a time."""
    return plan.reason == Reason.EMERGENCY or (policy.absolute and plan.reason == Reason.SCALED_DOWN)


def _unwritable(failed: Iterable[Written]) -> Iterable[str]:
    """Namespace/name of targets that cannot be written; a conflict only asks for a new decision."""
    for outcome in failed:
        if outcome.result is not Result.CONFLICT:
            yield f"{outcome.write.target.namespace}/{outcome.write.target.name}"


def _shadow_counts(record: Record, counts: Mapping[str, int]) -> Mapping[str, int]:
    """The counts of a dry run: the decided ones plus what others changed since, last + count - real."""
    if record.real is None:
        return counts
    last, real = record.state.last, record.real
    return {name: max(0, last.get(name, n) + n - real.get(name, n)) for name, n in counts.items()}


def _begun(policy: PowerPolicy, state: ControllerState) -> bool:
    """Whether the policy has a baseline."""
    return (state.reference if policy.paper or policy.absolute else state.anchor) is not None


_DECIDED = (Reason.SCALED_UP, Reason.SCALED_DOWN, Reason.EMERGENCY, Reason.AT_LIMIT, Reason.ROUNDS_TO_ZERO)


def _limit(result: ControllerResult, before: str | None) -> str | None:
    """What limits the policy after a tick; the same as `before` where the tick decided nothing."""
    if result.reason in _DECIDED:
        if result.unmet:
            return "AtMax" if result.unmet > 0 else "AtMin"
        if result.state.plan is not None and result.state.plan.ramp is not None:
            return "RateLimited"
        return "RoundsToZero" if result.reason == Reason.ROUNDS_TO_ZERO else None
    if result.reason in (Reason.BOOTSTRAPPED, Reason.FALLBACK):
        return None
    if result.reason in (Reason.INSIDE, Reason.CANCELLED) and before in ("RateLimited", "RoundsToZero"):
        return None
    return before
