"""One power policy in the cluster: decide, save the plan, apply it, then save it as done.

The order makes a crash harmless: a plan holds absolute counts, so the next leader may apply it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Protocol

from ballast.actuation.scaling.target_status import TargetStatus
from ballast.cluster.write import Result
from ballast.cluster.write import WriteOutcome as Written
from ballast.errors import ClusterError, Superseded
from ballast.jobs.power.store import PowerStore, Record
from ballast.jobs.power.view import Action, TickContext, TickReport, Why
from ballast.power.controller import abandon, commit, observe, rebaselined, resumed, without
from ballast.power.controller_result import NOTHING, ControllerResult, Reason, Sample
from ballast.power.controller_state import ControllerState
from ballast.power.fingerprint import policy_fingerprint
from ballast.power.policy import Member, PowerPolicy
from ballast.telemetry.budget_feed import Watts

PLAN_LASTS = 600.0
"""Seconds after which an open plan is dropped, because the sample behind it is too old."""

ROUND = 100
"""Targets that a plan changes in one tick at most, so that an emergency does not wait long for it."""

AHEAD = 60.0
"""Seconds that the clock of the leader that made a plan may be ahead of ours."""

ATTEMPTS = 2
"""Ticks in which an open plan is tried before it is dropped and the next one decides about the rest."""

RECENT = 600.0
"""A confirmation counts from this many seconds before the loss of the state was noticed; older ones do not."""


class Targets(Protocol):
    """Reads and changes the targets of a policy (see `Actuators`)."""

    def look(self, policy: PowerPolicy) -> Mapping[str, TargetStatus]:
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
        needs: Callable[[Mapping[str, int]], Mapping[str, int]] = lambda counts: NOTHING,
        loads: Callable[[], Mapping[str, float] | None] = lambda: None,
        traces: Callable[[Mapping[str, TargetStatus]], Iterable[str]] = lambda statuses: (),
    ) -> None:
        self.policy = policy
        self._targets = targets
        self._store = store
        self._shadow = shadow
        self._needs = needs
        self._loads = loads
        self._traces = traces
        self._record: Record | None = None
        self._attempts = 0
        self._tried: set[str] = set()
        self._last_valid: Fraction | None = None
        self._limit: str | None = None
        self._bounds: Mapping[str, tuple[int, int]] = {}
        self._bounded = policy
        self._fingerprint = policy_fingerprint(policy)
        self._watts = {name: place.member.watts for name, place in policy.places.items()}

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
            statuses = self._targets.look(self.policy)
        except ClusterError as error:
            return replace(self._resting(view), words=f"the targets cannot be seen: {error}", problem=str(error))
        found = {name: each.count for name, each in statuses.items() if each.usable and each.count is not None}
        view = replace(view, statuses=statuses, counts=found)
        if now.hold is not None:
            return replace(self._resting(view), words=now.hold)
        try:
            record = self._record = self._record or self._read()
        except ClusterError as error:
            return replace(self._resting(view), words=f"the state cannot be read: {error}", problem=str(error))
        record = self._valid(record, now)
        view = replace(view, state=record.state, counts=_shadowed(record, found) if self._shadow else found)
        view = replace(view, policy=self._inside(view))
        if not found:
            return replace(self._resting(view), reason=Why.NO_TARGETS, words="no target takes part")
        return self._decide(view, record, found)

    def _valid(self, record: Record, now: TickContext) -> Record:
        """The part of the saved record that is still valid.

        A confirmed new baseline or a changed fingerprint empties it; targets that left the policy are taken out.
        """
        if now.confirmed is not None and record.based is not None and now.confirmed > record.based:
            return Record(rebaselined(record.state))
        if self._fingerprint_changed(record):
            return replace(record, state=rebaselined(record.state), based=None, planned=None, found=None)
        state = record.state
        named = {*state.last, *state.baseline, *state.away, *(state.plan.replicas if state.plan else ())}
        left = named - self._watts.keys()
        if not left:
            return record
        gone = {name: (record.watts or {}).get(name, Fraction(1)) for name in left}
        return replace(record, state=without(self.policy, state, gone))

    def _fingerprint_changed(self, record: Record) -> bool:
        if record.meaning is None or (record.meaning == self._fingerprint and record.watts is self._watts):
            return False
        pairs = ((each, self._watts.get(name, each)) for name, each in (record.watts or {}).items())
        return record.meaning != self._fingerprint or any(old != new for old, new in pairs)

    def _decide(self, view: TickReport, record: Record, found: Mapping[str, int]) -> TickReport:
        now, policy, counts = view.now, view.policy, view.counts
        if record.state.plan is not None:
            dropped = _outdated(policy, record, view, self._attempts)
            if dropped is None:
                return self._apply(view, record, Why.RESUMED)
            record = replace(record, state=abandon(policy, record.state, _own(record.state, counts)), planned=None)
            view = replace(view, problem=dropped)
            self._attempts = 0
        begun = record.state.reference if policy.paper else record.state.anchor
        if begun is None and (waiting := self._baseline(view, record)) is not None:
            view = replace(view, state=record.state, reason=Why.BASELINE, words=waiting, rebaselining=waiting)
            return self._remember(view, replace(record, lost=record.lost or now.wall))
        before = record.state
        if view.watts.watts is None and before.seen is None:
            before = replace(before, seen=self._last_valid)
        if self._shadow:
            record = replace(record, found=found)
        sample = Sample(now.at, view.watts.watts)
        outcome = observe(policy, before, sample, counts, self._needed(view, before))
        state = outcome.state
        if begun is None and state.reference is not None:
            based = max(now.wall, now.confirmed or 0.0)
            record = replace(record, based=based, lost=None)
        foreign = sum(counts.get(name, count) != count for name, count in before.last.items() if before.anchor)
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
        record = replace(record, state=state)
        if state.reference is not None:
            record = replace(record, meaning=self._fingerprint, watts=self._watts)
        if state.plan is None:
            return self._remember(view, record)
        return self._carry_out(view, replace(record, planned=now.wall), before)

    def _carry_out(self, view: TickReport, record: Record, before: ControllerState) -> TickReport:
        """Saves the plan, applies it and commits it."""
        plan = record.state.plan
        assert plan is not None
        if not self._shadow:
            kept = replace(before, seen=record.state.seen, alarm=record.state.alarm)
            self._record = replace(record, state=kept, planned=None)
            problem = self._save(record, f"plan {plan.id}: {plan.reason}")
            if problem is not None:
                words = f"nothing was changed, the plan cannot be saved: {problem}"
                return replace(view, state=kept, reason=Why.NOT_STORED, words=words, problem=problem)
        self._record = record
        self._attempts = 0
        self._tried.clear()
        return self._apply(view, record, plan.reason)

    def _apply(self, view: TickReport, record: Record, reason: str) -> TickReport:
        state, counts = record.state, view.counts
        plan = state.plan
        assert plan is not None
        wanted = {
            name: count
            for name, count in plan.replicas.items()
            if name in counts and not (self._shadow and count == counts[name])
        }
        later = frozenset() if plan.reason == Reason.EMERGENCY or self._shadow else self._later(wanted, counts)
        wanted = {name: count for name, count in wanted.items() if name not in later}
        statuses = {name: view.statuses[name] for name in wanted}
        outcomes = self._targets.apply(
            statuses,
            wanted,
            reason=f"power policy {self.policy.name}, plan {plan.id}: {plan.reason}",
            emergency=plan.reason == Reason.EMERGENCY,
            loads=self._loads() if self.policy.hot_pods_first else None,
        )
        failed = [each for each in outcomes if each.result not in (Result.DONE, Result.DRY_RUN)]
        done = "dry-run" if self._shadow else "done"
        result = f"{len(failed)} of {len(outcomes)} writes failed: {failed[0].reason}" if failed else done
        action = Action(
            view.now.wall, plan.reason, counts, {**counts, **wanted}, result, tuple(each.status for each in failed)
        )
        view = replace(view, action=action, reason=reason)
        if failed:
            self._attempts += not later - self._tried
            self._record = record
            return replace(view, state=state, reason=Why.PLAN_FAILED, problem=result, words=f"{result}; tried again")
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
        return view if problem is None else replace(view, problem=f"the state is not saved: {problem}")

    def _save(self, record: Record, reason: str) -> str | None:
        try:
            return self._store.save(record, reason=reason)
        except Superseded as error:
            self.forget()
            return str(error)
        except ClusterError as error:
            return str(error)

    def _read(self) -> Record:
        try:
            found = self._store.read()
        except ValueError:
            found = None
        return Record() if found is None else replace(found, state=resumed(found.state))

    def _resting(self, view: TickReport) -> TickReport:
        """The report of a tick without a decision; an open window starts again afterwards."""
        if self._record is None:
            return view
        self._record = replace(self._record, state=resumed(self._record.state))
        return replace(
            view, state=self._record.state, counts=_shadowed(self._record, view.counts) if self._shadow else view.counts
        )

    def _inside(self, view: TickReport) -> PowerPolicy:
        """The policy within the bounds of the objects. A rollout keeps its count, except in an emergency."""
        emergency = _emergency(self.policy, view)
        statuses = view.statuses
        bounds = {
            name: (count, count) if (each := statuses[name]).rolling and not emergency else (each.minimum, each.maximum)
            for name, count in view.counts.items()
        }
        if bounds != self._bounds:
            self._bounds, self._bounded = bounds, self.policy.within(bounds)
        return self._bounded

    def _baseline(self, view: TickReport, record: Record) -> str | None:
        """What a new baseline waits for; None where the next valid sample may be the baseline."""
        confirmed, noticed = view.now.confirmed, record.lost or view.now.wall
        if self.policy.nominal is not None or (confirmed is not None and confirmed > noticed - RECENT):
            return None
        bound = {
            name: status
            for name, count in view.counts.items()
            if _at_a_bound(count, status := view.statuses[name], self.policy.places[name].member)
        }
        ours = next(iter(self._traces(bound)), None) if bound else None
        if ours is None:
            return None
        why = (
            "the policy's feed, basePower, nominal or wattsPerReplica changed since the baseline"
            if self._fingerprint_changed(record)
            else "the state was lost"
        )
        return (
            f"{why}, and {ours} is at a bound where Ballast may have put it: set nominal in the policy, or confirm the "
            "present replicas with key power.rebaseline of ballast-switches"
        )

    def _needed(self, view: TickReport, state: ControllerState) -> Mapping[str, int]:
        """The counts that targets need; asked only below the dead band, when replicas may be taken away."""
        watts, band = view.watts.watts, view.band
        return self._needs(view.counts) if band and watts is not None and watts < band[0] else NOTHING


def _outdated(policy: PowerPolicy, record: Record, view: TickReport, attempts: int) -> str | None:
    """Why the open plan must be dropped, or None."""
    state, plan = record.state, record.state.plan
    assert plan is not None
    age = view.now.wall - (record.planned or 0.0)
    if age > PLAN_LASTS:
        return f"the open plan is {age / 60:.0f} min old and is dropped"
    if age < -AHEAD:
        return f"the open plan is from {-age / 60:.0f} min in the future, its age is unknown; it is dropped"
    moved = [
        name
        for name, count in view.counts.items()
        if name in plan.replicas and count not in (plan.replicas[name], state.last.get(name))
    ]
    if moved:
        return f"someone else changed {moved[0]} meanwhile; the open plan is dropped"
    if attempts >= ATTEMPTS:
        return "the open plan could not be carried out and is dropped"
    if _emergency(policy, view) and plan.reason != Reason.EMERGENCY:
        return "the open plan gives way to an emergency"
    return None


def _emergency(policy: PowerPolicy, view: TickReport) -> bool:
    """Whether the sample is low enough for an emergency: W <= R · (1 - emergencyDrop.relative)."""
    drop, watts, reference = policy.emergency_drop, view.watts.watts, view.state.reference
    if drop is None or watts is None or reference is None:
        return False
    return max(watts - policy.base_power, policy.floor) <= reference * (1 - drop.relative)


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


def _own(state: ControllerState, counts: Mapping[str, int]) -> dict[str, int]:
    """With an open plan, the counts Ballast has set: the plan's where it was applied, else the last ones."""
    plan = state.plan
    assert plan is not None
    return {
        name: count if counts.get(name) == count else state.last.get(name, count)
        for name, count in {**state.last, **plan.replicas}.items()
    }


def _at_a_bound(count: int, status: TargetStatus, member: Member) -> bool:
    highest = min(member.max, status.maximum) if status.capped else member.max
    return count <= max(member.min, status.minimum) or count >= highest
