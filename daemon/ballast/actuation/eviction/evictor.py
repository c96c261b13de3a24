"""Evicts what a plan says, step by step: judged again, written down first, followed until its effect is seen."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.events import EvictionEvents, document
from ballast.actuation.eviction.follow_up import Followed, Seen, follow
from ballast.actuation.eviction.journal import Journal
from ballast.actuation.eviction.prepare import at_once, budgets, leaves, other, outlook, prepared
from ballast.actuation.eviction.records import Running, StepRecord, StepStatus
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.eviction.requests import EvictionResponse, answer, eviction, nomination
from ballast.actuation.scaling.api_errors import ApiErrors
from ballast.clock import Clock
from ballast.cluster.events import Events
from ballast.cluster.state import StateStore
from ballast.cluster.write import WriteOutcome
from ballast.cluster.writer import Writer
from ballast.errors import ClusterError
from ballast.eviction.gate import Gate
from ballast.eviction.history import History
from ballast.eviction.plan import Move, Plan
from ballast.eviction.planners.registry import planner
from ballast.eviction.recent_evictions import PastEviction, RecentEvictions
from ballast.metrics import Metrics
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot

PATIENCE = 20.0
"""Seconds in which an eviction is sent or given up: later, what it was judged by is too old."""

FORBIDDEN = 3
"""Forbidden evictions after which a plan is given up for this cycle."""

DRY_RUN = "dry-run"
FOLLOWED = 500
"""Evictions that are followed at a time; what is written down of them has to fit into a ConfigMap."""

REMEMBERED = 100
"""Steps that are shown once they have ended."""


@dataclass(frozen=True)
class Attempt:
    """One step that was tried. `status` is recorded (nobody knows whether it happened), evicted, refused, failed or
    dry-run (it would have been evicted); `why` is a sentence unless it was, `check` the gate's check that refused it.
    """

    pod: str
    status: str
    why: str = ""
    check: str = ""

    @property
    def evicted(self) -> bool:
        return self.status == StepStatus.EVICTED

    @property
    def permitted(self) -> bool:
        return self.status in (StepStatus.EVICTED, DRY_RUN)


class Evictor:
    """All but `document`, `stopped` and `history` belongs to one thread, the job of evictions; `resume` to any."""

    def __init__(
        self,
        *,
        writer: Writer,
        state: StateStore,
        clock: Clock,
        metrics: Metrics,
        events: Events,
        landing: ReplacementReservations,
        prefix: str,
        window: float,
        lag: float = 0.0,
        acts: bool = True,
        grace_period: float | None = None,
        ready_within: float = 300.0,
        nominate: bool = False,
    ) -> None:
        """`window` is the seconds of the primary window, of samples that are means over `lag` seconds themselves: so
        late an effect shows. Unless it `acts`, steps are judged and no more. `grace_period` replaces the pods' own;
        `ready_within` are the seconds a replacement may take; `nominate` sets nominatedNodeName of waiting pods.
        """
        self._writer = writer
        self._journal = Journal(state)
        self._clock = clock
        self._metrics = metrics
        self._telling = EvictionEvents(events, metrics)
        self._landing = landing
        self._prefix = prefix
        self._window, self._lag = window, lag
        self._acts = acts
        self._grace_period = grace_period
        self._ready_within = ready_within
        self._nominate = nominate
        self._errors = ApiErrors(metrics, clock)
        self._lock = threading.Lock()
        self._resuming = threading.Lock()
        self._memory = RecentEvictions()
        self._plans: tuple[Running, ...] = ()
        self._batch: dict[str, Pod] = {}
        self._forbidden = 0
        self._would: list[StepRecord] = []
        self._pods: Sequence[Pod] = ()
        self._ended: deque[tuple[Running, StepRecord, Mapping[str, Any]]] = deque(maxlen=REMEMBERED)
        self._knows = False
        self._unsaved = False

    def resume(self) -> str | None:
        """After leadership was gained: knows again what the leader before had begun, and holds its reservations.

        A sentence if there was any. One request; raises ClusterError when `ballast-state` cannot be read. Then nothing
        is evicted until it could be, which every cycle tries.
        """
        with self._resuming:
            return self._resume()

    def _resume(self) -> str | None:
        self._knows = False
        found = self._journal.read()
        with self._lock:
            self._memory, self._plans, self._batch = found.memory, found.plans, {}
            steps = [step for plan in found.plans for step in plan.steps]
            self._landing.take_over(steps, found.memory.probed, found.reservations)
            self._knows, self._unsaved = True, False
        waiting = sum(step.open for step in steps)
        return f"took over {waiting} evictions that are not finished" if waiting else None

    def history(self) -> History:
        """What earlier evictions mean for the gate. The caller adds what it knows itself: acting, leader, paused,
        confirmed, planned, overloaded. During `carry_out` the steps of that plan are in the gate's tally instead."""
        now = self._clock.wall()
        with self._lock:
            open_steps = [step for plan in self._plans for step in plan.steps if step.open]
            open_steps = [step for step in open_steps if step.uid not in self._batch]
            return replace(
                self._memory.history(now, without=self._batch),
                awaited=frozenset(step.workload for step in open_steps if step.workload is not None),
                replacements=len(open_steps),
                api_errors=self._errors.share(),
            )

    def pending(self) -> Mapping[str, Mapping[str, float]]:
        """{node: {resource: change}}: what was moved and the primary window does not show yet; to be added to its means
        before planning, so that what was moved already is not moved once more."""
        with self._lock:
            return effect.pending(self._plans, self._clock.wall() - self._lag / 2, self._window)

    def stopped(self, kind: str) -> str | None:
        """Why plans of a kind (relieve, rebalance, redistribute) are not carried out now, or None."""
        with self._lock:
            stop = self._memory.stopped.get(kind)
        return stop.why if stop is not None and stop.until > self._clock.wall() else None

    def carry_out(
        self, plan: Plan, gate: Callable[[], Gate], find: Callable[[str], Pod | None], snapshot: Snapshot
    ) -> list[Attempt]:
        """Evicts as many steps as the gate permits, one after the other; of a redistribution one.

        `gate` makes one of the facts of this moment, with `history()` and `acting`; it is asked anew before each step.
        `find` gives a pod by namespace/name as the watch shows it. `snapshot` is the one the plan was made from.
        """
        problem = self._unable() or self.stopped(plan.kind)
        if problem is not None:
            return [Attempt(move.pod, StepStatus.REFUSED, problem) for move in plan.steps[:1]]
        running = self._begin(plan, snapshot)
        one_at_a_time = planner(plan.kind).one_at_a_time
        self._forbidden = 0
        attempts: list[Attempt] = []
        placed = iter(plan.placed)
        try:
            for move in plan.steps:
                if self._following >= FOLLOWED:
                    attempts.append(
                        Attempt(move.pod, StepStatus.REFUSED, f"{FOLLOWED} evictions are still being followed")
                    )
                    break
                waiting = [pod for _ in move.starts if (pod := find(next(placed, ""))) is not None]
                running, attempt, goes_on = self._try(running, move, waiting, gate, find)
                attempts.append(attempt)
                if not goes_on or (one_at_a_time and attempt.permitted):
                    break
        finally:
            with self._lock:
                self._batch, would = {}, self._would
                self._would = []
            for step in would:
                self._landing.unprobe(step)
        if self._unsaved:
            self._save(f"{plan.kind}: what was evicted")
        return attempts

    def follow_up(self, pods: Sequence[Pod], snapshot: Snapshot) -> str | None:
        """Once a cycle: where replacements are, when they were Ready, what came of it. A sentence if anything ended or
        stopped."""
        if self._unable() is not None:
            return None
        now = self._clock.wall()
        self._pods = pods
        changed = False
        told: list[str] = []
        seen = Seen(pods, self._plans)
        for plan in self._plans:
            found = follow(
                plan, seen, snapshot, now=now, window=self._window + self._lag, ready_within=self._ready_within
            )
            changed |= self._take(plan, found, now)
            told += found.told
        with self._lock:
            self._memory.forget(now)
            self._memory.probed = self._landing.failed
        if changed or self._unsaved:
            self._save("what came of evictions")
        return "; ".join(told) or None

    def document(self, limits: Mapping[str, Any] | None = None, breaker: str | None = None) -> dict[str, Any]:
        """`/api/v1/evictions`."""
        with self._lock:
            plans, ended = self._plans, tuple(self._ended)
        return document(plans, ended, self._landing.extender.standing(), limits or {}, breaker)

    @property
    def _following(self) -> int:
        return sum(len(plan.steps) for plan in self._plans)

    def _unable(self) -> str | None:
        if self._knows:
            return None
        try:
            self.resume()
        except ClusterError as error:
            return str(error)
        return None

    def _begin(self, plan: Plan, snapshot: Snapshot) -> Running:
        now = self._clock.wall()
        touched = {name for move in plan.steps for name in (move.source, move.target) if name}
        return Running(
            id=f"{plan.kind}-{now:.3f}",
            kind=plan.kind,
            time=now,
            before=effect.spread(snapshot),
            after=plan.after,
            loads=effect.loads_of(snapshot, sorted(touched)),
            mean=effect.mean_besides(snapshot, touched),
        )

    def _try(
        self,
        running: Running,
        move: Move,
        waiting: Sequence[Pod],
        gate: Callable[[], Gate],
        find: Callable[[str], Pod | None],
    ) -> tuple[Running, Attempt, bool]:
        """The plan with the step in it if there is one, the attempt, and whether the next step may be tried."""
        pod = find(move.pod)
        if pod is None or (problem := other(pod, move)) is not None:
            why = f"{move.pod} is gone" if pod is None else problem or ""
            return running, self._told(running, Attempt(move.pod, StepStatus.FAILED, why)), True
        with self._lock:
            if self._acts and pod.uid in self._memory:
                why = f"{move.pod} was evicted already, or nobody knows whether it was"
                return running, self._told(running, Attempt(move.pod, StepStatus.REFUSED, why, "identity")), True
        judge = gate()
        for each in self._batch.values():
            judge.tally.add(judge.facts, each, shown=leaves(find(f"{each.namespace}/{each.name}"), each))
        refusal = judge.judge(pod, outlook(move, pod, judge.facts, self._landing.extender.fits))
        if refusal is not None:
            refused = Attempt(move.pod, StepStatus.REFUSED, refusal.reason, refusal.check)
            return running, self._told(running, refused), True
        probe = move.target is not None and not self._landing.steered(pod.scheduler_name)
        if probe and not self._landing.may_probe(pod.scheduler_name):
            why = f"whether the landing of {pod.scheduler_name}'s pods is steered is being tried out with another one"
            return running, self._told(running, Attempt(move.pod, StepStatus.REFUSED, why, "reservation")), True
        step = prepared(move, pod, judge.facts, self._pods, self._clock.wall(), probe=probe)
        if step.probe:
            self._landing.probe(step.scheduler, step.uid)
        if self._acts:
            return self._evict(running, step, pod, waiting, judge)
        imagined = PastEviction(step.time, step.uid, step.source, step.workload, at_once(judge, pod), imagined=True)
        with self._lock:
            self._memory.add(imagined)
            self._batch[step.uid] = pod
            self._would.append(step)
        return running, self._told(running, Attempt(move.pod, DRY_RUN)), True

    def _evict(
        self, running: Running, step: StepRecord, pod: Pod, waiting: Sequence[Pod], judge: Gate
    ) -> tuple[Running, Attempt, bool]:
        """Recorded, room held, evicted; in this order."""
        now = self._clock.wall()
        running = msgspec.structs.replace(running, steps=(*running.steps, step))
        with self._lock:
            self._memory.add(PastEviction(now, step.uid, step.source, step.workload, at_once(judge, pod)))
            self._batch[step.uid] = pod
            self._put(running)
        self._landing.hold(self._landing.wanted(step, pod, waiting))
        if (problem := self._save(f"about to evict {step.pod} from {step.source}")) is not None:
            return self._undone(running, step, Attempt(step.pod, StepStatus.FAILED, problem), goes_on=False)
        if self._nominate:
            for each in waiting:
                self._writer.submit(nomination(each, step.source), deadline=self._writer.within(PATIENCE))
        write = eviction(step, running.kind, self._prefix, self._grace_period)
        outcome = self._writer.submit(write, deadline=self._writer.within(PATIENCE))
        return self._outcome(running, step, pod, outcome, judge)

    def _outcome(
        self, running: Running, step: StepRecord, pod: Pod, outcome: WriteOutcome, judge: Gate
    ) -> tuple[Running, Attempt, bool]:
        said = answer(outcome)
        if said is EvictionResponse.DONE:
            self._telling.evicted(running.kind, step, judge.facts)
            running = self._change(running, msgspec.structs.replace(step, status=StepStatus.EVICTED))
            return running, Attempt(step.pod, StepStatus.EVICTED), True
        if said is EvictionResponse.UNKNOWN:
            self._telling.unknown(running.kind)
            running = self._change(running, msgspec.structs.replace(step, why=outcome.reason))
            return running, Attempt(step.pod, StepStatus.RECORDED, outcome.reason), False
        attempt = Attempt(step.pod, StepStatus.FAILED, outcome.reason)
        if said in (EvictionResponse.BUDGET, EvictionResponse.TWO_BUDGETS):
            attempt = Attempt(step.pod, StepStatus.REFUSED, budgets(outcome, pod, judge.facts), "pdb")
        elif said in (EvictionResponse.FORBIDDEN, EvictionResponse.HELD_BACK):
            attempt = Attempt(step.pod, StepStatus.REFUSED, outcome.reason)
        if said not in (EvictionResponse.OTHER_POD, EvictionResponse.HELD_BACK) and step.workload is not None:
            with self._lock:
                self._memory.refused(step.workload, self._clock.wall())
        self._forbidden += said is EvictionResponse.FORBIDDEN
        goes_on = said in (
            EvictionResponse.BUDGET,
            EvictionResponse.TWO_BUDGETS,
            EvictionResponse.OTHER_POD,
            EvictionResponse.FORBIDDEN,
        )
        return self._undone(running, step, attempt, goes_on=goes_on and self._forbidden < FORBIDDEN)

    def _undone(
        self, running: Running, step: StepRecord, attempt: Attempt, *, goes_on: bool
    ) -> tuple[Running, Attempt, bool]:
        """It certainly did not happen."""
        self._landing.release_all(step)
        self._landing.unprobe(step)
        with self._lock:
            self._memory.drop(step.uid)
            self._batch.pop(step.uid, None)
            running = msgspec.structs.replace(
                running, steps=tuple(each for each in running.steps if each.uid != step.uid)
            )
            self._put(running)
            self._ended.append((running, _ended(step, attempt), {}))
            self._unsaved = True
        return running, self._told(running, attempt), goes_on

    def _take(self, plan: Running, found: Followed, now: float) -> bool:
        """Of what following showed; whether anything has to be written down."""
        for step in found.landed:
            self._landing.release(step)
            if step.probe:
                self._landing.probed(step)
        for step in found.leaving:
            self._landing.extend(step)
        for step in (*found.failed, *found.late):
            self._landing.release_all(step)
        for step in found.plan.steps:
            if not step.open:
                self._landing.unprobe(step)
        with self._lock:
            for step in found.returned:
                if step.workload is not None:
                    self._memory.came_back(step.workload, now)
            for step in found.late:
                if step.workload is not None:
                    self._memory.rest(step.workload, now + self._window)
            if found.stop is not None:
                self._memory.stop(plan.kind, found.stop, now)
            if found.finished:
                self._ended.extend((found.plan, step, found.measured) for step in found.plan.steps)
            self._put(found.plan, finished=found.finished)
        self._telling.followed(plan.kind, found)
        return found.changed or found.finished or bool(found.leaving)

    def _change(self, running: Running, step: StepRecord) -> Running:
        running = msgspec.structs.replace(
            running, steps=tuple(step if each.uid == step.uid else each for each in running.steps)
        )
        with self._lock:
            self._put(running)
            self._unsaved = True
        return running

    def _put(self, plan: Running, *, finished: bool = False) -> None:
        """With the lock held."""
        others = [each for each in self._plans if each.id != plan.id]
        self._plans = (*others, plan) if plan.steps and not finished else tuple(others)

    def _save(self, reason: str) -> str | None:
        """Why it could not be written down, or None."""
        with self._lock:
            self._memory.probed = self._landing.failed
            plans, memory = self._plans, self._memory
        self._unsaved = True
        try:
            outcome = self._journal.write(plans, memory, self._landing.extender.standing(), reason=reason)
        except ClusterError as error:
            return f"it could not be written down first: {error}"
        if not outcome.done:
            return f"it could not be written down first: {outcome.reason}"
        self._unsaved = False
        return None

    def _told(self, running: Running, attempt: Attempt) -> Attempt:
        self._telling.refused(running.kind, attempt.status, attempt.check)
        return attempt


def _ended(step: StepRecord, attempt: Attempt) -> StepRecord:
    return msgspec.structs.replace(step, status=StepStatus(attempt.status), why=attempt.why)
