"""What evictions have done so far: plans under way and past evictions, in memory and in `ballast-state`."""

import math
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

import msgspec
from msgspec import UNSET

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.eviction_events import Ended, document
from ballast.actuation.eviction.records import Followed, Journal, Running, StepRecord, StepStatus
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.answers.evictions import Evictions, Limits, Measured
from ballast.base.errors import ClusterError
from ballast.cluster.state import StateStore
from ballast.eviction.facts import WorkloadKey
from ballast.eviction.history import History
from ballast.eviction.recent_evictions import PastEviction, PlannerStop, RecentEvictions
from ballast.model.ledger import Ledger, together
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.planners.built_in import moves

REMEMBERED = 100
"""Steps that are shown once they have ended."""


class EvictionRecorder:
    """Safe to read from any thread; all that changes it belongs to the job of evictions, but `resume`.

    Times are Unix seconds. Nothing is evicted before it is saved, so the next leader knows of all that happened.
    """

    def __init__(self, state: StateStore, replacements: ReplacementReservations) -> None:
        self._state = state
        self._journal = Journal(state)
        self._replacements = replacements
        self._lock = threading.Lock()
        self._resuming = threading.Lock()
        self._memory = RecentEvictions()
        self._batch: dict[str, Pod] = {}
        self._ended: deque[Ended] = deque(maxlen=REMEMBERED)
        self._tally = Ledger()
        self._loaded = False
        self.plans: tuple[Running, ...] = ()
        self.pods: Sequence[Pod] = ()
        self.nodes: Sequence[Node] = ()
        self.unsaved = False

    def resume(self) -> str | None:
        """Reads what the leader before has begun. Raises ClusterError when `ballast-state` cannot be read."""
        with self._resuming:
            self._loaded = False
            saved = self._journal.read()
            with self._lock:
                self._memory, self.plans, self._batch, self._tally = saved.memory, saved.plans, {}, saved.tally
                steps = [step for plan in saved.plans for step in plan.steps]
                self._replacements.take_over(steps, saved.memory.probed, saved.reservations)
                self._loaded, self.unsaved = True, False
        waiting = sum(step.open for step in steps)
        return f"took over {waiting} evictions that are not finished" if waiting else None

    def lost(self) -> None:
        """Another replica may lead from now on: what it does is read before this one says what has happened."""
        self._loaded = False

    def unreadable(self) -> str | None:
        """Why it is unknown what was begun, after another attempt to read it; None if it is known."""
        if self._loaded:
            return None
        try:
            self.resume()
        except ClusterError as error:
            return str(error)
        return None

    @property
    def batch(self) -> Sequence[Pod]:
        """The pods that the plan which is carried out now has evicted."""
        return tuple(self._batch.values())

    @property
    def following(self) -> int:
        """How many evictions are followed."""
        return sum(len(plan.steps) for plan in self.plans)

    def awaited_from(self) -> frozenset[str]:
        """The nodes of evicted pods whose replacement is not bound yet."""
        with self._lock:
            steps = [step for plan in self.plans for step in plan.steps]
        return frozenset(step.source for step in steps if step.unbound)

    def history(self, now: float, api_errors: float, *, imagined: bool = False) -> History:
        """What earlier evictions mean for the gate; steps of the plan that is carried out now are left out.

        Against rates only those count that were as `imagined`.
        """
        with self._lock:
            steps = [step for plan in self.plans for step in plan.steps if step.open]
            steps = [step for step in steps if step.uid not in self._batch]
            return replace(
                self._memory.history(now, without=self._batch, imagined=imagined),
                awaited=frozenset(step.workload for step in steps if step.workload is not None),
                replacements=len(steps),
                api_errors=api_errors,
                set_back=-math.inf if self._state.set_back is None else self._state.set_back,
            )

    def look(self, pods: Sequence[Pod], nodes: Sequence[Node]) -> None:
        """The pods and nodes by which the plans are followed from now on."""
        self.pods, self.nodes = pods, nodes

    def pending(self, now: float, window: float) -> Mapping[str, Mapping[str, float]]:
        """{node: {resource: change of load}} that a mean over `window` seconds does not show yet."""
        with self._lock:
            return effect.pending(self.plans, now, window, {node.name: node for node in self.nodes})

    def stopped(self, kind: str, now: float) -> str | None:
        """Why plans of a planner are not carried out now, or None."""
        with self._lock:
            stop = self._memory.stopped.get(kind)
        return stop.why if stop is not None and stop.until > now else None

    def stops(self, now: float) -> Mapping[str, PlannerStop]:
        """{planner: until when and why} of those that make no moves now."""
        with self._lock:
            return {kind: stop for kind, stop in self._memory.stopped.items() if stop.until > now}

    def end_stops(self) -> None:
        """Lets every planner go on."""
        with self._lock:
            self.unsaved |= bool(self._memory.stopped)
            self._memory.stopped.clear()

    def knows(self, uid: str) -> bool:
        """Whether the pod was evicted, or may have been."""
        with self._lock:
            return uid in self._memory

    def record(self, past: PastEviction, pod: Pod, running: Running | None = None) -> None:
        """An eviction that is about to happen, or in dry-run (without `running`) would."""
        with self._lock:
            self._memory.add(past)
            self._batch[past.uid] = pod
            if running is not None:
                self._put(running)

    def take_up(self, running: Running) -> None:
        """A plan that was begun elsewhere and is followed from now on; steps of it that are followed already stay."""
        with self._lock:
            for step in running.steps:
                self._count(None, step)
            new = {step.uid for step in running.steps}
            kept = [step for plan in self.plans if plan.id == running.id for step in plan.steps if step.uid not in new]
            running = msgspec.structs.replace(running, steps=(*kept, *running.steps))
            self._put(running)
            self.unsaved = True

    def update(self, running: Running, step: StepRecord) -> Running:
        """The plan with this step in place of the one of the same pod."""
        running = msgspec.structs.replace(
            running, steps=tuple(step if other.uid == step.uid else other for other in running.steps)
        )
        with self._lock:
            self._count(StepStatus.RECORDED, step)
            self._put(running)
            self.unsaved = True
        return running

    def undo(self, running: Running, step: StepRecord, *, sent: bool) -> Running:
        """The plan without a step that certainly did not happen; `step` is shown as it ended.

        It counts where the API server was asked (`sent`).
        """
        with self._lock:
            if sent:
                self._count(StepStatus.RECORDED, step)
            self._memory.drop(step.uid)
            self._batch.pop(step.uid, None)
            running = msgspec.structs.replace(
                running, steps=tuple(other for other in running.steps if other.uid != step.uid)
            )
            self._put(running)
            self._ended.append((running, step, Measured()))
            self.unsaved = True
        return running

    def back_off(self, workload: WorkloadKey | None, now: float) -> None:
        """A pod of this workload was not to be evicted, by the API server or by who keeps its replicas."""
        with self._lock:
            if workload is not None:
                self._memory.back_off(workload, now)

    def end_batch(self) -> None:
        """The plan is carried out: its steps count as history from now on."""
        with self._lock:
            self._batch = {}

    def learn(self, kind: str, followed: Followed, now: float, rest: float) -> None:
        """What following a plan showed; restart times above `rest` seconds count as that."""
        with self._lock:
            for step in followed.landed if moves(kind) else ():
                if step.workload is not None:
                    self._memory.note_landing(step.workload, step.landed_on, now)
            for step in followed.ready:
                if step.workload is not None:
                    took = step.ready_at - step.time
                    self._memory.note_restart(step.workload, min(max(0.0, took), rest))  # A clock may have been turned.
            for step in followed.late:
                if step.workload is not None and self._memory.note_late(step.workload, now):
                    followed.stop = f"{kind} stops: replacements of several workloads were late, the last: {step.why}"
                    followed.sentences.append(followed.stop)
            for (node, resource), why in followed.ineffective.items():
                self._memory.note_useless(node, resource, why, now)
            if followed.stop is not None:
                self._memory.stop(kind, followed.stop, now)
            self._count_followed(followed)
            if followed.finished:
                measured = followed.measured
                self._ended.extend(
                    (followed.plan, step, measured.get(step.uid, Measured())) for step in followed.plan.steps
                )
            self._put(followed.plan, finished=followed.finished)

    def forget(self, now: float) -> None:
        """Drops what is too old to count."""
        with self._lock:
            self._memory.forget(now)
            self._memory.probed = self._replacements.failed

    def save(self, reason: str) -> str | None:
        """Why it could not be written down, or None."""
        with self._lock:
            self._memory.probed = self._replacements.failed
            plans, memory, tally = self.plans, self._memory, self._tally.encode()
        self.unsaved = True
        try:
            outcome = self._journal.write(plans, memory, self._replacements.extender.active(), tally, reason=reason)
        except ClusterError as error:
            return f"it could not be written down first: {error}"
        if not outcome.done:
            return f"it could not be written down first: {outcome.reason}"
        self.unsaved = False
        return None

    def document(self, limits: Limits, breaker: str | None) -> Evictions:
        """`/api/v1/evictions`; `breaker` is why all evictions are halted."""
        with self._lock:
            plans, ended = self.plans, tuple(self._ended)
        return document(plans, ended, self._replacements.extender.active(), limits, breaker)

    def tally(self) -> Ledger | None:
        """A copy of what the ledger has of evictions; None where `ballast-state` was not read."""
        with self._lock:
            return together([self._tally]) if self._loaded else None

    def _count(self, before: StepStatus | None, step: StepRecord) -> None:
        """With the lock held: an outcome that was not known `before`."""
        if before not in (None, StepStatus.RECORDED):
            return
        if step.happened:
            self._tally.add(step.time, evicted=1)
        elif step.status in (StepStatus.REFUSED, StepStatus.FAILED):
            self._tally.add(step.time, **{step.status.value: 1})

    def _count_followed(self, followed: Followed) -> None:
        """With the lock held: what was not known of its steps before, and their effect once it is judged."""
        known = [plan for plan in self.plans if plan.id == followed.plan.id]
        before = {step.uid: step.status for plan in known for step in plan.steps}
        for step in followed.plan.steps:
            self._count(before.get(step.uid), step)
        if not followed.finished:
            return
        moved = any(each.load is not UNSET for each in followed.measured.values())
        steps = [step for step in followed.plan.steps if step.happened]
        relief = effect.relief(steps, followed.share if moved else None)
        if relief is not None:
            self._tally.add(followed.plan.time, predicted=relief[0], measured=relief[1])

    def _put(self, plan: Running, *, finished: bool = False) -> None:
        """With the lock held."""
        others = [other for other in self.plans if other.id != plan.id]
        self.plans = (*others, plan) if plan.steps and not finished else tuple(others)
