"""One power policy followed in the cluster: decide, write the plan down, apply it, then remember it as done."""

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
"""Seconds after which an open plan is dropped: what it was made from is too old then."""

ROUND = 100
"""Targets that a plan changes in one tick, so that an emergency never waits long for a plan without haste."""

AHEAD = 60.0
"""Seconds by which the clock of the leader that made a plan may have been ahead of ours."""

ATTEMPTS = 2
"""Ticks in which a plan is tried before what could not be done is planned anew."""

RECENT = 600.0
"""Seconds before a loss was noticed in which its confirmation may have been given; older ones were for another."""


class Targets(Protocol):
    """What looks at the targets of a policy and changes them; `apply` takes absolute counts and skips what is so."""

    def look(self, policy: PowerPolicy) -> Mapping[str, TargetStatus]: ...
    def apply(
        self,
        standings: Mapping[str, TargetStatus],
        counts: Mapping[str, int],
        *,
        reason: str,
        emergency: bool = False,
        loads: Mapping[str, float] | None = None,
    ) -> Sequence[Written]: ...


class PolicyController:
    """`needs` asks what the targets' own loads say, given their counts; `loads` is that of the nodes, for policies that
    want pods on hot ones to go first; `traces` tells which targets carry our marks.

    With `shadow` the counts are those that would be, and nothing but the state is written.
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
        traces: Callable[[Mapping[str, TargetStatus]], Iterable[str]] = lambda standings: (),
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
        self._spoken: Fraction | None = None
        self._limit: str | None = None
        self._bounds: Mapping[str, tuple[int, int]] = {}
        self._bounded = policy
        self._meaning = policy_fingerprint(policy)
        self._watts = {name: place.member.watts for name, place in policy.places.items()}

    @property
    def changing(self) -> frozenset[str]:
        """Namespace/name of the targets of the plan that is open, as far as it is known here."""
        plan = self._record.state.plan if self._record is not None else None
        return frozenset(plan.replicas) if plan is not None else frozenset()

    def forget(self) -> None:
        """After a change of leader: what is stored counts."""
        self._record, self._attempts = None, 0
        self._tried.clear()

    def cycle(self, now: TickContext, watts: Watts) -> TickReport:
        """One tick. Raises nothing for what the cluster answers."""
        if watts.watts is not None or self._spoken is None:
            self._spoken = now.at
        view = TickReport(self.policy, now, watts, silent_for=float(now.at - self._spoken), limit=self._limit)
        try:
            standings = self._targets.look(self.policy)
        except ClusterError as error:
            return replace(self._resting(view), words=f"the targets cannot be seen: {error}", problem=str(error))
        found = {name: each.count for name, each in standings.items() if each.usable and each.count is not None}
        view = replace(view, standings=standings, counts=found)
        if now.hold is not None:
            return replace(self._resting(view), words=now.hold)
        try:
            record = self._record = self._record or self._read()
        except ClusterError as error:
            return replace(self._resting(view), words=f"the state cannot be read: {error}", problem=str(error))
        record = self._valid(record, now)
        view = replace(view, state=record.state, counts=self._shadowed(record, found))
        view = replace(view, policy=self._inside(view))
        if not found:
            return replace(self._resting(view), reason=Why.NO_TARGETS, words="no target takes part")
        return self._decide(view, record, found)

    def _valid(self, record: Record, now: TickContext) -> Record:
        """What still holds of it: nothing once people have confirmed a new baseline, or the policy means other numbers;
        of targets that have left the policy, nothing either."""
        if now.confirmed is not None and record.based is not None and now.confirmed > record.based:
            return Record(rebaselined(record.state))
        if self._other_meaning(record):
            return replace(record, state=rebaselined(record.state), based=None, planned=None, found=None)
        state = record.state
        named = {*state.last, *state.baseline, *state.away, *(state.plan.replicas if state.plan else ())}
        left = named - self._watts.keys()
        if not left:
            return record
        gone = {name: (record.watts or {}).get(name, Fraction(1)) for name in left}
        return replace(record, state=without(self.policy, state, gone))

    def _other_meaning(self, record: Record) -> bool:
        if record.meaning is None or (record.meaning == self._meaning and record.watts is self._watts):
            return False
        pairs = ((each, self._watts.get(name, each)) for name, each in (record.watts or {}).items())
        return record.meaning != self._meaning or any(old != new for old, new in pairs)

    def _decide(self, view: TickReport, record: Record, found: Mapping[str, int]) -> TickReport:
        now, policy, counts = view.now, view.policy, view.counts
        if record.state.plan is not None:
            dropped = self._outdated(record, counts, view)
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
            before = replace(before, seen=self._spoken)
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
            record = replace(record, meaning=self._meaning, watts=self._watts)
        if state.plan is None:
            return self._remember(view, record)
        return self._carry_out(view, replace(record, planned=now.wall), before)

    def _carry_out(self, view: TickReport, record: Record, before: ControllerState) -> TickReport:
        """Writes the plan down, applies it, commits it."""
        plan = record.state.plan
        assert plan is not None
        if not self._shadow:
            kept = replace(before, seen=record.state.seen, alarm=record.state.alarm)
            self._record = replace(record, state=kept, planned=None)
            problem = self._save(record, f"plan {plan.id}: {plan.reason}")
            if problem is not None:
                words = f"nothing was changed, the plan cannot be written down: {problem}"
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
        standings = {name: view.standings[name] for name in wanted}
        outcomes = self._targets.apply(
            standings,
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
        """What is to change, but only in the next ticks: reductions go first, and last what was tried before."""
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
        """Nothing is decided; a window that was open begins anew afterwards."""
        if self._record is None:
            return view
        self._record = replace(self._record, state=resumed(self._record.state))
        return replace(view, state=self._record.state, counts=self._shadowed(self._record, view.counts))

    def _shadowed(self, record: Record, found: Mapping[str, int]) -> Mapping[str, int]:
        """Of a dry run, what would be: what is, and what we would have changed."""
        if not self._shadow or record.found is None:
            return found
        last, base = record.state.last, record.found
        return {name: max(0, last.get(name, n) + n - base.get(name, n)) for name, n in found.items()}

    def _inside(self, view: TickReport) -> PowerPolicy:
        """The policy within what the objects themselves allow; who is in a rollout stays, but in an emergency."""
        emergency = self._emergency(view)
        standings = view.standings
        bounds = {
            name: (count, count)
            if (each := standings[name]).rolling and not emergency
            else (each.minimum, each.maximum)
            for name, count in view.counts.items()
        }
        if bounds != self._bounds:
            self._bounds, self._bounded = bounds, self.policy.within(bounds)
        return self._bounded

    def _outdated(self, record: Record, counts: Mapping[str, int], view: TickReport) -> str | None:
        """Why an open plan must not be carried out any more."""
        state, plan = record.state, record.state.plan
        assert plan is not None
        age = view.now.wall - (record.planned or 0.0)
        if age > PLAN_LASTS:
            return f"the open plan is {age / 60:.0f} min old and is dropped"
        if age < -AHEAD:
            return f"the open plan is from {-age / 60:.0f} min in the future, nobody knows how old it is; it is dropped"
        moved = [
            name
            for name, count in counts.items()
            if name in plan.replicas and count not in (plan.replicas[name], state.last.get(name))
        ]
        if moved:
            return f"someone else changed {moved[0]} meanwhile; the open plan is dropped"
        if self._attempts >= ATTEMPTS:
            return "the open plan could not be carried out and is dropped"
        if self._emergency(view) and plan.reason != Reason.EMERGENCY:
            return "the open plan gives way to an emergency"
        return None

    def _emergency(self, view: TickReport) -> bool:
        """Whether the feed is as low as an emergency is."""
        drop, watts, reference = self.policy.emergency_drop, view.watts.watts, view.state.reference
        if drop is None or watts is None or reference is None:
            return False
        return max(watts - self.policy.base_power, self.policy.floor) <= reference * (1 - drop.relative)

    def _baseline(self, view: TickReport, record: Record) -> str | None:
        """What a new baseline waits for, None where the next valid sample may be it."""
        confirmed, noticed = view.now.confirmed, record.lost or view.now.wall
        if self.policy.nominal is not None or (confirmed is not None and confirmed > noticed - RECENT):
            return None
        bound = {
            name: standing
            for name, count in view.counts.items()
            if _at_a_bound(count, standing := view.standings[name], self.policy.places[name].member)
        }
        ours = next(iter(self._traces(bound)), None) if bound else None
        if ours is None:
            return None
        why = (
            "the policy's feed, basePower, nominal or wattsPerReplica are not those of the baseline"
            if self._other_meaning(record)
            else "the state was lost"
        )
        return (
            f"{why}, and {ours} is at a bound where Ballast may have put it: set nominal in the policy, or confirm the "
            "present replicas with key power.rebaseline of ballast-switches"
        )

    def _needed(self, view: TickReport, state: ControllerState) -> Mapping[str, int]:
        """Asked only when replicas may be taken away."""
        watts, band = view.watts.watts, view.band
        return self._needs(view.counts) if band and watts is not None and watts < band[0] else NOTHING


_DECIDED = (Reason.SCALED_UP, Reason.SCALED_DOWN, Reason.EMERGENCY, Reason.AT_LIMIT, Reason.ROUNDS_TO_ZERO)


def _limit(outcome: ControllerResult, before: str | None) -> str | None:
    """What limits a policy after a tick; what nothing was decided about is as it was."""
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
    """With an open plan, what is there by our own doing: the plan's count where it is there, else the one before."""
    plan = state.plan
    assert plan is not None
    return {
        name: count if counts.get(name) == count else state.last.get(name, count)
        for name, count in {**state.last, **plan.replicas}.items()
    }


def _at_a_bound(count: int, standing: TargetStatus, member: Member) -> bool:
    highest = min(member.max, standing.maximum) if standing.capped else member.max
    return count <= max(member.min, standing.minimum) or count >= highest
