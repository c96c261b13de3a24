"""The batch job: gathers pods behind the gate, plans them together, and lets them go in the order of the plan.

The gates themselves are the state: a new leader finds in the cluster which pods wait and for how long they have, so
nothing is stored, and a plan that its leader did not finish is simply made again or given up.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from ballast.actuation.gates import gate_name
from ballast.base.errors import WorkerError
from ballast.base.parts import Part
from ballast.base.text import duration
from ballast.cluster.context import Context
from ballast.cluster.watch import WATCH_SILENT
from ballast.cluster.write import Result, WriteOutcome, WriteTarget
from ballast.cluster.writer import BURST, QPS, EmergencyWriter
from ballast.jobs.batch import batch_sentences
from ballast.jobs.batch.batch_planner import BatchPlanner
from ballast.jobs.batch.held_pods import DONE_WELL, HeldPods, ReleasedPods, ReleaseResult, RoomHolder
from ballast.jobs.progress import settling
from ballast.model.pod import Pod
from ballast.placement.batch import BatchOrder, BatchRules, BatchStep
from ballast.planning.process import PlanningProcess
from ballast.serving.board import Board
from ballast.settings import Mode

PART = Part.BATCH
KINDS = ("namespaces",)
"""What affinities look at beside nodes and pods."""

WORKED = 0.8
"""The share of its interval for which a cycle lets pods go."""

GLANCE = 0.05
"""Seconds of the machine between two looks at what became of them."""

PLAN_HOLDS = 30.0
"""Seconds after which what is left of a plan is planned again."""

MARGIN = 5.0
"""Seconds by which the gates are to be gone before the timeout."""

_PROGRESS = frozenset({ReleaseResult.PLANNED, ReleaseResult.ELSEWHERE, ReleaseResult.REFUSED, ReleaseResult.GONE})


def build(context: Context, room: RoomHolder, board: Board) -> BatchJob | None:
    """None where the part is off. The load of `board` counts while it is current and not frozen."""
    settings = context.settings.batch
    if settings.mode is Mode.OFF:
        return None
    released = ReleasedPods(
        EmergencyWriter(context.writer),
        room,
        context.clock,
        context.metrics,
        gate=gate_name(context.settings.publishing.prefix),
        held_for=settings.timeout,
    )
    rules = BatchRules(BatchOrder(settings.order), settings.aging)
    planner = BatchPlanner(
        context,
        PlanningProcess(deadline=settings.timeout / 3),
        rules,
        room,
        lambda: None if board.frozen or board.current() is None else board.snapshot,
    )
    return BatchJob(context, released=released, planner=planner)


class BatchJob:
    """`cycle` in the job's thread alone; `gained` and `stop` from any."""

    def __init__(self, context: Context, *, released: ReleasedPods, planner: BatchPlanner) -> None:
        settings = context.settings
        self._settings, self._clock, self._machine = settings.batch, context.clock, context.machine_clock
        self._context, self._conditions, self._events = context, context.conditions, context.events
        self._released, self._planner = released, planner
        self._gate = gate_name(settings.publishing.prefix)
        self._held = HeldPods(self._gate, context.clock)
        self._acts = settings.batch.mode is Mode.ON
        self._stopped = threading.Event()
        self._new_leader = threading.Event()
        self._cycles = 0
        self._reset()

    def gained(self) -> None:
        """This replica leads from now on."""
        self._new_leader.set()

    def stop(self) -> None:
        """Ends a cycle after the writes under way."""
        self._stopped.set()
        self._planner.worker.stop()

    def cycle(self) -> str:
        """Never raises for what the cluster or the planning process does: then the gates go."""
        held = self._held.observe(self._context.cache.pods_on(""))
        self._context.metrics.batch_gated.set(len(held))
        if (elsewhere := self._context.leadership.standing_by()) is not None:
            return elsewhere
        if self._new_leader.is_set():
            self._new_leader.clear()
            self._reset()
            self._cycles = 0
        settled = self._settle()
        try:
            sentence = self._work(held, settled)
        finally:
            self._cycles += 1
            self._compare(settled)
        return f"{sentence}; next in {duration(self._settings.interval)}"

    def _reset(self) -> None:
        self._released.forget()
        self._steps: list[BatchStep] = []
        self._misfits: dict[str, str] = {}
        self._never: list[str] = []
        self._planned: frozenset[str] = frozenset()
        self._planned_at = 0.0
        self._progress_at: float | None = None
        self._gave_up: str | None = None

    def _work(self, held: list[Pod], settled: Counter[ReleaseResult]) -> str:
        waiting = [pod for pod in held if pod.uid not in self._released]
        hindered = self._hindrance()
        long = [pod for pod in waiting if self._held.age(pod) >= self._settings.timeout]
        self._conditions.report(
            "BatchGatesHeld",
            "NobodyRemovesThem",
            batch_sentences.held_up(long, hindered, self._gate) if hindered else None,
        )
        if not waiting:
            self._gave_up = None
            self._steps, self._planned = [], frozenset()
            return batch_sentences.landed(settled) or f"no pod has the gate {self._gate}"
        if self._acts and hindered is None and (why := self._hurry(waiting)) is not None:
            return self._give_up(waiting, why)
        if hindered is not None and self._acts:
            return f"{batch_sentences.counted(len(waiting))} gated, and they stay so: {hindered}"
        if (reason := self._not_yet(waiting)) is not None:
            return reason
        try:
            self._plan(waiting)
        except WorkerError as error:
            if self._stopped.is_set():
                return "stopped: Ballast is stopping"
            return self._give_up(waiting, f"no plan could be made: {error}")
        if not self._acts:
            return batch_sentences.would_release(self._steps, self._misfits)
        return self._carry_out(held, settled)

    def _hindrance(self) -> str | None:
        """Why no gate may be removed by anybody here."""
        if not self._acts:
            return "BALLAST_BATCH__MODE is dry-run"
        return self._context.switches.paused(PART)

    def _hurry(self, waiting: Sequence[Pod]) -> str | None:
        """Why all gates have to go now, so that none is left when the timeout has passed without progress."""
        if self._gave_up is not None:
            return self._gave_up
        needed = max(0, len(waiting) - BURST) / QPS + self._settings.interval + MARGIN
        idle = max(self._held.age(pod) for pod in waiting)
        if self._progress_at is not None:
            idle = min(idle, self._clock.monotonic() - self._progress_at)
        if idle < self._settings.timeout - min(needed, self._settings.timeout / 2):
            return None
        return f"no progress for {duration(idle)}"

    def _not_yet(self, waiting: Sequence[Pod]) -> str | None:
        """Why nothing is planned now."""
        if (fresh := settling(self._cycles)) is not None:
            return f"{batch_sentences.counted(len(waiting))} wait: {fresh}"
        cache = self._context.cache
        for kind in ("nodes", "pods"):
            if cache.problem(kind) or cache.age(kind) > WATCH_SILENT:
                age = duration(cache.age(kind))
                return f"{batch_sentences.counted(len(waiting))} wait: the {kind} were last seen {age} ago"
        ages = [self._held.age(pod) for pod in waiting]
        fresh_batch = not self._planned & {pod.uid for pod in waiting} and not len(self._released)
        if fresh_batch and min(ages) < self._settings.gather and max(ages) < self._settings.timeout / 6:
            try:
                self._planner.worker.prepare()
            except WorkerError as error:
                return self._give_up(waiting, str(error))
            return f"gathering: {batch_sentences.counted(len(waiting))} so far"
        return None

    def _plan(self, waiting: Sequence[Pod]) -> None:
        """Plans what waits, unless the plan still holds. Raises WorkerError."""
        uids = frozenset(pod.uid for pod in waiting)
        if uids == self._planned and self._clock.monotonic() - self._planned_at < PLAN_HOLDS:
            return
        plan = self._planner.plan(uids, self._released)
        self._steps = list(plan.steps)
        self._misfits = {misfit.uid: misfit.reason for misfit in plan.misfits}
        self._planned, self._planned_at = uids, self._clock.monotonic()
        self._never = [misfit.uid for misfit in plan.misfits if not misfit.ever]

    def _carry_out(self, held: Sequence[Pod], settled: Counter[ReleaseResult]) -> str:
        """Lets pods go, `ahead` at a time, until the plan or the time of the cycle ends."""
        pods = {pod.uid: pod for pod in held}
        count, until = 0, self._machine.monotonic() + WORKED * self._settings.interval
        self._release_misfits(pods, self._never)
        while self._steps or len(self._released):
            settled += self._settle()
            now = self._steps[: max(0, self._settings.ahead - len(self._released))]
            self._steps = self._steps[len(now) :]
            known = [(step, pods[step.uid]) for step in now if step.uid in pods]
            outcomes = self._released.release(known) if known else []
            count += sum(outcome.done for outcome in outcomes)
            if (stopped := self._stopped_by(outcomes)) is not None:
                return stopped
            if self._machine.monotonic() >= until or self._machine.wait(self._stopped, GLANCE):
                break
        if not self._steps and not len(self._released):
            self._release_misfits(pods, list(self._misfits))
        self._planned = frozenset(step.uid for step in self._steps) | frozenset(self._misfits)
        return batch_sentences.released(count, len(self._steps), len(self._misfits), settled)

    def _stopped_by(self, outcomes: Sequence[WriteOutcome]) -> str | None:
        """What a failed or refused write means for the rest of the plan."""
        bad = next((outcome for outcome in outcomes if outcome.result not in DONE_WELL), None)
        if bad is None:
            return None
        self._steps, self._planned = [], frozenset()
        if bad.result is Result.REFUSED:
            return f"stopped: {bad.reason}"
        self._gave_up = f"a gate could not be removed: {bad.reason}"
        return self._give_up(self._held.observe(self._context.cache.pods_on("")), self._gave_up)

    def _release_misfits(self, pods: dict[str, Pod], uids: Sequence[str]) -> None:
        """Releases pods without a place, so that the scheduler and autoscalers see them as pending."""
        leaving = [(pods[uid], self._misfits.pop(uid)) for uid in uids if uid in pods and uid in self._misfits]
        outcomes = self._released.release_without_plan(leaving, "no-room") if leaving else []
        for (pod, reason), outcome in zip(leaving, outcomes, strict=True):
            if outcome.done:
                target = WriteTarget("Pod", pod.name, pod.namespace, pod.uid)
                self._events.emit(target, "BatchNoRoom", f"released without a node: {reason}", part=PART, warning=True)
                self._progress_at = self._clock.monotonic()

    def _give_up(self, waiting: Sequence[Pod], why: str) -> str:
        """Removes every gate: nobody waits for a planner that does not plan."""
        self._gave_up = why
        self._steps, self._misfits, self._planned = [], {}, frozenset()
        rest = [pod for pod in waiting if pod.uid not in self._released]
        if not self._acts:
            self._conditions.report("BatchGivenUp", "PlanFailed", why)
            return f"planned nothing: {why}"
        outcomes = self._released.release_without_plan([(pod, why) for pod in rest], "unplanned")
        done = sum(outcome.result in DONE_WELL for outcome in outcomes)
        failed = next((outcome.reason for outcome in outcomes if outcome.result not in DONE_WELL), None)
        sentence = batch_sentences.gave_up(done, len(rest), why, failed)
        self._conditions.report("BatchGivenUp", "GatesRemoved" if failed is None else "GatesRemain", sentence)
        return sentence

    def _settle(self) -> Counter[ReleaseResult]:
        unbound = {pod.uid: pod for pod in self._context.cache.pods_on("")}
        bound: dict[str, Pod] = {}

        def find(uid: str) -> Pod | None:
            if uid in unbound:
                return unbound[uid]
            if not bound:
                bound.update((pod.uid, pod) for pod in self._context.cache.pods())
            return bound.get(uid)

        settled = self._released.settle(find) if len(self._released) else Counter[ReleaseResult]()
        if any(result in _PROGRESS for result in settled):
            self._progress_at = self._clock.monotonic()
        return settled

    def _compare(self, settled: Counter[ReleaseResult]) -> None:
        """Whether the scheduler puts pods where they are planned."""
        if settled[ReleaseResult.PLANNED]:
            self._conditions.report("BatchGivenUp", "GatesRemoved", None)
            self._conditions.report("BatchNotSteered", "LandedElsewhere", None)
        elif settled[ReleaseResult.ELSEWHERE]:
            self._conditions.report("BatchNotSteered", "LandedElsewhere", batch_sentences.NOT_STEERED)
