"""One power policy in the cluster: decide, save the plan, apply it, then save it as done.

The order makes a crash harmless: a plan holds absolute counts, so the next leader may apply it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from operator import is_
from types import MappingProxyType
from typing import Protocol

from ballast.actuation.scaling.target_status import TargetStatus
from ballast.base.errors import ClusterError, Superseded
from ballast.cluster.write import Result
from ballast.cluster.write import WriteOutcome as Written
from ballast.jobs.power.metering import Metering
from ballast.jobs.power.open_plan import ROUND, is_emergency, leaving, outdated, set_by_ballast, urgent, without_moved
from ballast.jobs.power.saved_state import SavedState
from ballast.jobs.power.seen_targets import SeenTargets, autoscaled, drawn, gated, seen, surging
from ballast.jobs.power.store import PowerStore, Record
from ballast.jobs.power.view import Action, IdleReason, TickContext, TickReport
from ballast.power.autoscaled import unmet_demand
from ballast.power.controller import abandon, commit, observe, resumed
from ballast.power.controller_result import ControllerResult, Reason, Sample
from ballast.power.controller_state import ControllerState
from ballast.power.measuring.meter import Meter
from ballast.power.policy import PowerPolicy
from ballast.power.sections.needs import Need
from ballast.power.values import exact
from ballast.telemetry.feeds.budget_feed import Watts

STUCK = 60
"""Seconds for which an absolute budget takes a target as unchangeable after a write to it has failed."""


NO_NEEDS: Mapping[str, Need] = MappingProxyType({})


class Targets(Protocol):
    """Reads and changes the targets of a policy (see `Actuators`)."""

    def read(self, policy: PowerPolicy) -> Mapping[str, TargetStatus]:
        """The status of every target, by namespace/name. Raises ClusterError."""

    def apply(
        self,
        statuses: Mapping[str, TargetStatus],
        counts: Mapping[str, int],
        *,
        reason: str,
        emergency: bool = False,
        loads: Mapping[str, float] | None = None,
    ) -> Sequence[Written]:
        """Sets absolute counts; a target that has its count already is skipped."""


class PolicyController:
    """One policy: its targets, its saved state, and one tick at a time.

    `needs` gives the replicas that targets need for their own load, from their counts. `loads` gives the nodes' loads
    (fractions by node), for policies with `hotPodsFirst`. `traces` gives the targets that Ballast changed last.

    With `shadow` (dry run) the counts are those that would be, and only the state is written.
    """

    def __init__(
        self,
        policy: PowerPolicy,
        targets: Targets,
        store: PowerStore,
        *,
        shadow: bool,
        needs: Callable[[Mapping[str, int]], Mapping[str, Need]] = lambda counts: NO_NEEDS,
        loads: Callable[[], Mapping[str, float] | None] = lambda: None,
        traces: Callable[[Mapping[str, TargetStatus]], Iterable[str]] = lambda statuses: (),
        meter: Meter | None = None,
    ) -> None:
        self.policy = policy
        self._targets = targets
        self._saved = SavedState(policy, store, traces)
        self._shadow = shadow
        self._needs = needs
        self._loads = loads
        self._metering = Metering(policy, meter, shadow=shadow)
        self._record: Record | None = None
        self._attempts = 0
        self._tried: set[str] = set()
        self._last_valid: Fraction | None = None
        self._limit: str | None = None
        self._stuck: dict[str, Fraction] = {}
        self._seen_last: tuple[object, Sequence[TargetStatus], SeenTargets] | None = None
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
        """One tick. Answers of the cluster end up in the report, none is raised."""
        if watts.watts is not None or self._last_valid is None:
            self._last_valid = now.at
        view = TickReport(self.policy, now, watts, silent_for=float(now.at - self._last_valid), limit=self._limit)
        try:
            statuses = self._targets.read(self.policy)
        except ClusterError as error:
            return _failed(self._resting(view), f"the targets cannot be seen: {error}", str(error))
        view = replace(view, statuses=statuses)
        view = self._metering.saw(replace(view, counts=self._seen(view).counts))
        if now.hold is not None:
            return self._weighed(replace(self._resting(view), words=now.hold))
        try:
            record = self._record = self._record or self._saved.read()
        except ClusterError as error:
            return _failed(self._resting(view), f"the state cannot be read: {error}", str(error))
        record = self._saved.valid(record, now)
        view = replace(view, state=record.state)
        targets = self._seen(view)
        view = replace(view, counts=_shadowed(record, targets.counts) if self._shadow else targets.counts)
        needs = {} if record.state.plan is not None else self._needs(view.counts)
        view = replace(view, needs=needs)
        view = replace(view, policy=self._inside(gated(view, targets)))
        if self.policy.absolute and (extra := surging(view)):
            view = replace(view, policy=view.policy.with_watts({}, view.policy.base_power + extra))
        if self._metering.waits:
            return replace(self._resting(view), words="waiting for the first measurement of watts per replica")
        if not targets.changeable:
            return self._weighed(
                replace(self._resting(view), reason=IdleReason.NO_TARGETS, words="no target takes part")
            )
        if view.missed is not None and view.missed.stops:
            words = f"nothing more is changed, an action had no effect: {view.missed.text}"
            return self._weighed(replace(self._resting(view), reason=IdleReason.NO_EFFECT, words=words))
        return self._weighed(self._metering.acted(self._decide(view, record, targets)))

    def _seen(self, view: TickReport) -> SeenTargets:
        stuck = [name for name, since in self._stuck.items() if view.now.at - since < STUCK]
        emergency = not self.policy.absolute and is_emergency(self.policy, view)
        statuses, asked = tuple(view.statuses.values()), (emergency, stuck)
        last = self._seen_last
        if last is None or last[0] != asked or len(last[1]) != len(statuses) or not all(map(is_, last[1], statuses)):
            found = seen(self.policy, view.statuses, emergency=emergency, stuck=stuck)
            last = self._seen_last = asked, statuses, found
        return last[2]

    def _weighed(self, view: TickReport) -> TickReport:
        """The report with the watts of what runs, where they are known."""
        if not self.policy.absolute or not view.counts:
            return view
        scaled = autoscaled(view.policy, view.statuses, view.counts)
        load = drawn(view.policy, view.statuses, view.counts)
        return replace(view, load=load, unmet_demand=unmet_demand(scaled.values()))

    def _decide(self, view: TickReport, record: Record, targets: SeenTargets) -> TickReport:
        now, policy, counts = view.now, view.policy, view.counts
        if record.state.plan is not None:
            dropped = outdated(policy, record, view, self._attempts)
            if dropped is None and (moved := without_moved(policy, record.state, counts)):
                record = replace(record, state=leaving(policy, record.state, counts, moved))
                words = f"someone else changed {moved[0]} meanwhile; it leaves the open plan"
                view = replace(view, problem=words, foreign=len(moved))
            if dropped is None:
                return self._apply(view, record, IdleReason.RESUMED, targets.changeable)
            own = set_by_ballast(record.state, counts)
            record = replace(record, state=abandon(policy, record.state, own), planned=None)
            view = replace(view, problem=dropped)
            self._attempts = 0
        begun = record.state.reference if policy.paper or policy.absolute else record.state.anchor
        if begun is None and (waiting := self._saved.waiting(view, record)) is not None:
            view = replace(view, state=record.state, reason=IdleReason.BASELINE, words=waiting, rebaselining=waiting)
            return self._remember(view, replace(record, lost=record.lost or now.wall))
        before = record.state
        if view.watts.watts is None and before.seen is None:
            before = replace(before, seen=self._last_valid)
        if self._shadow:
            record = replace(record, found=targets.counts)
        time = view.watts.time if view.watts.newest is None else view.watts.newest
        sample = Sample(now.at, view.watts.watts, None if time is None else exact(time), view.watts.bound)
        scaled = autoscaled(policy, view.statuses, counts)
        needed = {name: need.least for name, need in view.needs.items()}
        outcome = observe(policy, before, sample, counts, needed, scaled)
        state = outcome.state
        if begun is None and state.reference is not None:
            based = max(now.wall, now.confirmed or 0.0)
            record = replace(record, based=based, lost=None)
        foreign = sum(counts.get(name, count) != count for name, count in before.last.items() if begun is not None)
        self._limit = _limit(outcome, self._limit)
        view = replace(
            view,
            state=state,
            reason=outcome.reason,
            limit=self._limit,
            unmet=outcome.unmet,
            cancelled=outcome.cancelled,
            foreign=foreign,
        )
        record = self._saved.marked(replace(record, state=state))
        if state.plan is None:
            return self._remember(view, record)
        return self._carry_out(view, replace(record, planned=now.wall), before, targets.changeable)

    def _carry_out(
        self, view: TickReport, record: Record, before: ControllerState, changeable: frozenset[str]
    ) -> TickReport:
        """Saves the plan, applies it and commits it."""
        plan = record.state.plan
        assert plan is not None
        if not self._shadow:
            kept = replace(before, seen=record.state.seen, alarm=record.state.alarm, measured=record.state.measured)
            self._record = replace(record, state=kept, planned=None)
            problem = self._save(record, f"plan {plan.id}: {plan.reason}")
            if problem is not None:
                words = f"nothing was changed, the plan cannot be saved: {problem}"
                return _failed(replace(view, state=kept, reason=IdleReason.NOT_STORED), words, problem)
        self._record = record
        self._attempts = 0
        self._tried.clear()
        return self._apply(view, record, plan.reason, changeable)

    def _apply(self, view: TickReport, record: Record, reason: str, changeable: frozenset[str]) -> TickReport:
        state, counts = record.state, view.counts
        plan = state.plan
        assert plan is not None
        wanted = {
            name: count
            for name, count in plan.replicas.items()
            if name in changeable and name in counts and not (self._shadow and count == counts[name])
        }
        at_once = urgent(self.policy, plan)
        later = frozenset() if at_once or self._shadow else self._later(wanted, counts)
        wanted = {name: count for name, count in wanted.items() if name not in later}
        statuses = {name: view.statuses[name] for name in wanted}
        outcomes = self._targets.apply(
            statuses,
            wanted,
            reason=f"power policy {self.policy.name}, plan {plan.id}: {plan.reason}",
            emergency=at_once,
            loads=self._loads() if self.policy.hot_pods_first else None,
        )
        failed = [each for each in outcomes if each.result not in (Result.DONE, Result.DRY_RUN)]
        self._stuck.update(dict.fromkeys(_unwritable(failed), view.now.at))
        done = "dry-run" if self._shadow else "done"
        result = f"{len(failed)} of {len(outcomes)} writes failed: {failed[0].reason}" if failed else done
        action = Action(
            view.now.wall, plan.reason, counts, {**counts, **wanted}, result, tuple(each.status for each in failed)
        )
        view = replace(view, action=action, reason=reason)
        if failed:
            self._attempts += not later - self._tried
            self._record = record
            return _failed(replace(view, state=state, reason=IdleReason.PLAN_FAILED), f"{result}; tried again", result)
        if later:
            self._record = record
            words = f"{len(later)} more targets follow in the next ticks"
            return replace(view, state=state, counts={**counts, **wanted}, words=words)
        committed = commit(state)
        record = replace(record, state=committed, planned=None)
        return self._remember(replace(view, state=committed, counts={**counts, **wanted}), record)

    def _later(self, wanted: Mapping[str, int], counts: Mapping[str, int]) -> frozenset[str]:
        """Targets that are changed in later ticks. Order: not tried before first, then reductions, then by name."""
        due = [(name in self._tried, count > counts[name], name) for name, count in wanted.items()]
        changed = [name for _, _, name in sorted(due) if wanted[name] != counts[name]]
        self._tried.update(changed[:ROUND])
        return frozenset(changed[ROUND:])

    def _remember(self, view: TickReport, record: Record) -> TickReport:
        self._record = record
        problem = self._save(record, f"power policy {self.policy.name}: {view.reason}")
        if problem is None:
            return view
        return replace(view, problem=f"the state is not saved: {problem}", problem_in_words=False)

    def _resting(self, view: TickReport) -> TickReport:
        """The report of a tick without a decision; an open window starts again afterwards."""
        if self._record is None:
            return view
        self._record = replace(self._record, state=resumed(self._record.state))
        return replace(
            view, state=self._record.state, counts=_shadowed(self._record, view.counts) if self._shadow else view.counts
        )

    def _inside(self, bounds: Mapping[str, tuple[int, int]]) -> PowerPolicy:
        """The policy within the bounds of the objects."""
        if bounds != self._bounds:
            self._bounds, self._bounded = bounds, self.policy.within(bounds)
        return self._metering.applied(self._bounded)

    def _save(self, record: Record, reason: str) -> str | None:
        try:
            return self._saved.save(record, reason)
        except Superseded as error:
            self.forget()
            return str(error)


def _unwritable(failed: Iterable[Written]) -> Iterable[str]:
    """Namespace/name of targets that cannot be written; a conflict only asks for a new decision."""
    for each in failed:
        if each.result is not Result.CONFLICT:
            yield f"{each.write.target.namespace}/{each.write.target.name}"


def _shadowed(record: Record, found: Mapping[str, int]) -> Mapping[str, int]:
    """The counts of a dry run: last + found - base, the decided counts plus what others changed since."""
    if record.found is None:
        return found
    last, base = record.state.last, record.found
    return {name: max(0, last.get(name, n) + n - base.get(name, n)) for name, n in found.items()}


_DECIDED = (Reason.SCALED_UP, Reason.SCALED_DOWN, Reason.EMERGENCY, Reason.AT_LIMIT, Reason.ROUNDS_TO_ZERO)


def _limit(outcome: ControllerResult, before: str | None) -> str | None:
    """What limits the policy after a tick; the same as `before` where the tick decided nothing."""
    if outcome.reason in _DECIDED:
        if outcome.unmet:
            return "AtMax" if outcome.unmet > 0 else "AtMin"
        if outcome.state.plan is not None and outcome.state.plan.ramp is not None:
            return "RateLimited"
        return "RoundsToZero" if outcome.reason == Reason.ROUNDS_TO_ZERO else None
    if outcome.reason in (Reason.BOOTSTRAPPED, Reason.FALLBACK):
        return None
    if outcome.reason in (Reason.INSIDE, Reason.CANCELLED) and before in ("RateLimited", "RoundsToZero"):
        return None
    return before


def _failed(view: TickReport, words: str, problem: str) -> TickReport:
    """The report with `words` that contain the problem."""
    return replace(view, words=words, problem=problem, problem_in_words=True)
