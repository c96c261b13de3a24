"""Evicts what a plan says, step by step: judged again, written down first, followed until its effect is seen."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.eviction_events import EvictionEvents
from ballast.actuation.eviction.recorder import EvictionRecorder
from ballast.actuation.eviction.records import SKEW, Running, StepRecord, StepStatus
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.eviction.requests import EvictionResponse, answer, eviction, nomination
from ballast.actuation.eviction.restart import Restarts, Rollout, restart
from ballast.actuation.eviction.shadow import Shadow
from ballast.actuation.eviction.surge import Surges
from ballast.actuation.eviction.trial import TRIAL, UNTRIED, ReplacementTrial, Tried
from ballast.base.clock import Clock
from ballast.base.metrics import Metrics
from ballast.cluster.events import Events
from ballast.cluster.state import StateStore
from ballast.cluster.write import WriteOutcome
from ballast.cluster.writer import Writer
from ballast.eviction.check_input import LOOKED_NOWHERE, Feasibility
from ballast.eviction.checks.availability import restarting
from ballast.eviction.checks.limits import own_rate
from ballast.eviction.facts import Facts, leaving
from ballast.eviction.gate import Gate
from ballast.eviction.history import History
from ballast.eviction.misfit import misfit
from ballast.eviction.recent_evictions import PastEviction
from ballast.model.marks import EVICTION_UNDER_WAY, EVICTS_ITSELF
from ballast.model.pod import Pod, move_of
from ballast.model.shape import Shape
from ballast.model.snapshot import Snapshot
from ballast.model.workload import Workload
from ballast.placement.load_spread import spread
from ballast.planners.built_in import planner
from ballast.planners.eviction_plan import EvictionPlan, Move

TIMES_MEASURED = 3.0
"""Times of the measured restart after which a replacement is late."""

PATIENCE = 20.0
"""Seconds in which an eviction is sent or given up: later, what it was judged by is too old."""

FORBIDDEN = 3
"""Forbidden evictions after which a plan is given up for this cycle."""

DRY_RUN, SURGING = "dry-run", "surging"
"""Outcomes of a step beside `StepStatus`."""

PASSED_OVER = "an earlier step of its workload was not carried out; the next plan looks again where it can go"
FOLLOWED = 500
"""Evictions that are followed at a time; what is written down of them has to fit into a ConfigMap."""


@dataclass(frozen=True)
class Attempt:
    """One step that was tried. `status` is recorded (it is unknown whether it happened), evicted, refused, failed,
    surging (its replacement is started first) or dry-run (it would have been evicted); `why` is a sentence unless it
    was, `check` the gate's check that refused it.
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
        return self.status in (StepStatus.EVICTED, DRY_RUN, SURGING)


@dataclass(frozen=True)
class EvictorOptions:
    """How evictions are carried out."""

    prefix: str
    """Prefix of Ballast's annotations and labels."""
    window: float
    """Seconds of the primary window."""
    lag: float = 0.0
    """Seconds over which a sample itself is a mean: an effect shows that much later."""
    acts: bool = True
    """Whether pods are evicted; otherwise steps are only judged."""
    imagining: frozenset[str] = frozenset()
    """Planners whose steps are only judged all the same."""
    grace_period: float | None = None
    """Seconds that replace the pods' own grace periods."""
    ready_within: float = 300.0
    """Seconds that a replacement may take to be Ready."""
    nominate: bool = False
    """Whether `nominatedNodeName` of the waiting pods is set."""
    restarts: Restarts | None = None
    """Moves the only pods of Deployments by a rollout, where the rules say so."""
    trial: ReplacementTrial | None = None
    """Asks first whether the API server would take the replacement; None: nobody asks."""

    def carries_out(self, planner: str) -> bool:
        """Whether the steps of this planner are sent."""
        return self.acts and planner not in self.imagining


class StepTried(NamedTuple):
    """One step that was tried."""

    running: Running
    """The plan, with the step in it if it happened or may have."""
    attempt: Attempt
    goes_on: bool = True
    """Whether the next step may be tried."""


OVER = 300.0
"""Seconds over which failures of the API are counted."""

ENOUGH = 20
"""Requests from which on a share means something."""

_NO_REQUEST = frozenset({"refused", "dry-run", "dropped"})
_ANSWERS = frozenset({"ok", "done", "conflict", "gone", "403", "404", "409", "410", "429"})


class ApiErrors:
    """Counted from what reads and writes have counted. Refusals are answers; evictions answer for themselves."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._seen: deque[tuple[float, float, float]] = deque()

    def share(self) -> float:
        """Of the requests since 5 minutes ago or the oldest look at them; 0 while they are few."""
        now, (requests, errors) = self._clock.monotonic(), self._totals()
        self._seen.append((now, requests, errors))
        while len(self._seen) > 1 and self._seen[1][0] <= now - OVER:
            self._seen.popleft()
        _, before, failed = self._seen[0]
        return (errors - failed) / (requests - before) if requests - before >= ENOUGH else 0.0

    def _totals(self) -> tuple[float, float]:
        requests = errors = 0.0
        for family in (*self._metrics.reads.collect(), *self._metrics.writes.collect()):
            for sample in family.samples:
                result = sample.labels.get("result", "")
                own = sample.labels.get("kind") in ("eviction", TRIAL)
                if not sample.name.endswith("_total") or result in _NO_REQUEST or own:
                    continue
                requests += sample.value
                errors += sample.value if result not in _ANSWERS else 0.0
        return requests, errors


class Evictor:
    """Carries out plans. Any thread may call `stopped`, `history` and `pending`; all else is for the job of evictions.

    `recorder` keeps what has happened, `events` tell of it.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        state: StateStore,
        clock: Clock,
        metrics: Metrics,
        events: Events,
        replacements: ReplacementReservations,
        options: EvictorOptions,
        surges: Surges | None = None,
    ) -> None:
        """With `surges` pods of Deployments are moved by one more replica that is Ready first."""
        self.recorder = EvictionRecorder(state, replacements)
        self._writer, self._clock = writer, clock
        self.events = EvictionEvents(events, metrics)
        self._reserved = replacements
        self.options, self._surges = options, surges
        self._errors = ApiErrors(metrics, clock)
        self._forbidden, self._passed_over = 0, set[str]()
        self._imagined: list[StepRecord] = []
        self.shadow = Shadow()

    def history(self, *, imagined: bool | None = None) -> History:
        """What earlier evictions mean for the gate, with those of a dry run where it is `imagined` too; by default
        where nothing is evicted. The caller adds what it knows itself: acting, leader, paused, confirmed, planned,
        overloaded. During `carry_out` steps of that plan are in the gate's tally instead."""
        imagined = not self.options.acts if imagined is None else imagined
        return self.recorder.history(self._clock.wall(), self._errors.share(), imagined=imagined)

    def pending(self, window: float | None = None) -> Mapping[str, Mapping[str, float]]:
        """{node: {resource: change}}: what was moved and a window of so many seconds, or the primary one, does not show
        yet; to be added to its means before planning, so that what was moved already is not moved once more."""
        return self.recorder.pending(self._clock.wall() - self.options.lag / 2, window or self.options.window)

    def stopped(self, kind: str) -> str | None:
        """Why plans of a planner are not carried out now, or None."""
        return self.recorder.stopped(kind, self._clock.wall())

    def carry_out(
        self, plan: EvictionPlan, gate: Callable[[Pod], Gate], find: Callable[[str], Pod | None], snapshot: Snapshot
    ) -> list[Attempt]:
        """Evicts as many steps as the gate permits, one after the other; one if the planner plans again after each.

        `gate` makes one of the facts of this moment for a pod, with `history()` and `acting`, before each step.
        `find` gives a pod by namespace/name as the watch shows it. `snapshot` is the one the plan was made from.
        """
        problem = self.recorder.unreadable() or self.stopped(plan.kind)
        if problem is not None:
            return [Attempt(move.pod, StepStatus.REFUSED, problem) for move in plan.steps[:1]]
        running = self._begin(plan, snapshot)
        self._reserved.begin(snapshot, self.pending(), running.time)
        one_at_a_time = planner(plan.kind).one_at_a_time
        self._forbidden, self._passed_over = 0, set[str]()
        attempts: list[Attempt] = []
        placed = iter(plan.placed)
        try:
            for move in plan.steps:
                if self.recorder.following >= FOLLOWED:
                    attempts.append(
                        Attempt(move.pod, StepStatus.REFUSED, f"{FOLLOWED} evictions are still being followed")
                    )
                    break
                waiting = [pod for _ in move.starts if (pod := find(next(placed, ""))) is not None]
                tried = self._try(running, move, waiting, gate, find)
                running = tried.running
                pod = find(move.pod)
                if not tried.attempt.permitted and pod is not None and pod.owner is not None:
                    self._passed_over.add(pod.owner.uid)
                attempts.append(tried.attempt)
                if not tried.goes_on or (one_at_a_time and tried.attempt.permitted):
                    break
        finally:
            self.recorder.end_batch()
            for step in self._imagined:
                self._reserved.unprobe(step)
            self._imagined = []
        if self.recorder.unsaved:
            self.recorder.save(f"{plan.kind}: what was evicted")
        return attempts

    def _begin(self, plan: EvictionPlan, snapshot: Snapshot) -> Running:
        now = self._clock.wall()
        touched = {name for move in plan.steps for name in (move.source, move.target) if name}
        return Running(
            id=f"{plan.kind}-{now:.3f}",
            kind=plan.kind,
            time=now,
            before=spread(snapshot),
            after=plan.after,
            loads=effect.loads_of(snapshot, sorted(touched)),
            mean=effect.mean_besides(snapshot, touched),
        )

    def _try(
        self,
        running: Running,
        move: Move,
        waiting: Sequence[Pod],
        gate: Callable[[Pod], Gate],
        find: Callable[[str], Pod | None],
    ) -> StepTried:
        pod, acts = find(move.pod), self.options.carries_out(running.kind)
        if pod is None or (problem := other(pod, move)) is not None:
            why = f"{move.pod} is gone" if pod is None else problem or ""
            return self._report(running, Attempt(move.pod, StepStatus.FAILED, why))
        if acts and self.recorder.knows(pod.uid):
            why = f"{move.pod} was evicted already, or it is unknown whether it was"
            return self._report(running, Attempt(move.pod, StepStatus.REFUSED, why, "identity"))
        judge = gate(pod)
        for evicted in self.recorder.batch:
            judge.tally.add(judge.facts, evicted, shown=leaves(find(f"{evicted.namespace}/{evicted.name}"), evicted))
        refused = self._refused(move, pod, judge)
        if refused is not None:
            return self._report(running, refused)
        rollout = self._rollout(pod, judge) if acts else None
        deployment = judge.facts.surging(pod) if self._surges is not None and rollout is None else None
        tried = self._replacement(move, pod, judge.facts, rollout) if acts and deployment is None else UNTRIED
        if tried.refusal is not None:
            return self._report(running, Attempt(move.pod, StepStatus.REFUSED, tried.refusal, "returnable"))
        probe = move.target is not None and not self._reserved.steered(pod.scheduler_name)
        if probe and not self._reserved.may_probe(pod.scheduler_name):
            name = pod.scheduler_name
            why = f"one eviction at a time tests whether the extender steers {name}'s pods; waiting for it"
            return self._report(running, Attempt(move.pod, StepStatus.REFUSED, why, "reservation"))
        step = prepare_step(
            move,
            pod,
            judge.facts,
            self.recorder.pods,
            self._clock.wall(),
            probe=probe,
            patience=patience(pod, judge.facts, judge.history),
        )
        if step.probe:
            self._reserved.probe(step.scheduler, step.uid)
        if acts and deployment is not None:
            return self._surge(running, step, pod, deployment, judge)
        if acts:
            return self._evict(running, step, pod, waiting, judge, tried.comes or pod, rollout)
        past = past_eviction(step, running.kind, judge, imagined=True)
        self.recorder.record(past, pod)
        self._imagined.append(step)
        self.shadow.move(step)
        return self._report(running, Attempt(move.pod, DRY_RUN))

    def _refused(self, move: Move, pod: Pod, judge: Gate) -> Attempt | None:
        """By the gate; or because it counted on a step that was not made, without which its target may hold too many
        of its workload."""
        refusal = judge.judge(pod, outlook(move, pod, judge.facts, self._reserved.extender.fits))
        if refusal is not None:
            return Attempt(move.pod, StepStatus.REFUSED, refusal.reason, refusal.check)
        waits = pod.owner is not None and pod.owner.uid in self._passed_over
        return Attempt(move.pod, StepStatus.REFUSED, PASSED_OVER) if waits else None

    def _replacement(self, move: Move, pod: Pod, facts: Facts, rollout: Rollout | None) -> Tried:
        """What would come for the pod. Its workload rests where it could not be created, or would not fit."""
        tried = UNTRIED if rollout is None else Tried(rollout.problem)
        if tried.refusal is None and self.options.trial is not None and pod.owner is not None and not pod.finished:
            tried = self.options.trial.replacement(pod, PATIENCE)
        if tried.comes is not None:
            aims = [node for name, node in facts.nodes.items() if move.target in (None, name)]
            fits = self._reserved.extender.fits
            tried = tried._replace(refusal=misfit(pod, tried.comes, aims, facts.attachments, fits))
        if tried.refusal is not None:
            self.recorder.back_off(facts.key(pod), self._clock.wall())
        return tried

    def _surge(self, running: Running, step: StepRecord, pod: Pod, deployment: Workload, judge: Gate) -> StepTried:
        """One more replica, towards the target; `surges` follows it."""
        assert self._surges is not None
        self._reserved.hold(self._reserved.reservations_for(step, pod, ()))
        problem = self._reserved.keep_off(step) or self._surges.begin(running, step, deployment)
        if problem is not None:
            self._reserved.release_all(step)
            self.recorder.back_off(step.workload, step.time)
            return self._report(running, Attempt(step.pod, StepStatus.REFUSED, problem))
        past = past_eviction(step, running.kind, judge)
        self.recorder.record(past, pod)
        return StepTried(running, Attempt(step.pod, SURGING))

    def _rollout(self, pod: Pod, judge: Gate) -> Rollout | None:
        """The Deployment whose rollout is to replace its only pod."""
        restarts, deployment = self.options.restarts, restarting(judge.facts, judge.rules, pod)
        return None if restarts is None or deployment is None else restarts.look(deployment)

    def _evict(
        self,
        running: Running,
        step: StepRecord,
        pod: Pod,
        waiting: Sequence[Pod],
        judge: Gate,
        comes: Pod,
        rollout: Rollout | None,
    ) -> StepTried:
        """Recorded, room held for what `comes`, evicted, or replaced by a `rollout`; in this order."""
        if rollout is not None:
            move, uid = move_of(pod.namespace, pod.uid), rollout.deployment.uid
            step = msgspec.structs.replace(step, owner=move, rollout=uid, before=rollout.before, besides=())
        running = msgspec.structs.replace(running, steps=(*running.steps, step))
        past = past_eviction(step, running.kind, judge)
        self.recorder.record(past, pod, running)
        self._reserved.hold(self._reserved.reservations_for(step, comes, waiting))
        problem = self.recorder.save(f"about to evict {step.pod} from {step.source}")
        if problem is None and planner(running.kind).moves:
            problem = self._reserved.keep_off(step)
        if problem is not None:
            return self._undo(running, step, Attempt(step.pod, StepStatus.FAILED, problem), sent=False, goes_on=False)
        if self.options.nominate:
            for pod_waiting in waiting:
                self._writer.submit(nomination(pod_waiting, step.source), deadline=self._writer.within(PATIENCE))
        if rollout is not None:
            write = restart(step, rollout.version, running.kind)
        else:
            write = eviction(step, running.kind, self.options.prefix, self.options.grace_period)
        outcome = self._writer.submit(write, deadline=self._writer.within(PATIENCE))
        return self._outcome(running, step, pod, outcome, judge)

    def _outcome(self, running: Running, step: StepRecord, pod: Pod, outcome: WriteOutcome, judge: Gate) -> StepTried:
        said = answer(outcome)
        if said is EvictionResponse.DONE or (said is EvictionResponse.REJECTED and evicts_itself(pod, outcome)):
            self.events.report_eviction(running.kind, step, judge.facts)
            running = self.recorder.update(running, msgspec.structs.replace(step, status=StepStatus.EVICTED))
            return StepTried(running, Attempt(step.pod, StepStatus.EVICTED))
        if said is EvictionResponse.UNKNOWN:
            self.events.report_unknown(running.kind)
            running = self.recorder.update(running, msgspec.structs.replace(step, why=outcome.reason))
            return StepTried(running, Attempt(step.pod, StepStatus.RECORDED, outcome.reason), goes_on=False)
        attempt = Attempt(step.pod, StepStatus.FAILED, outcome.reason)
        if said in (EvictionResponse.BUDGET, EvictionResponse.TWO_BUDGETS):
            attempt = Attempt(step.pod, StepStatus.REFUSED, budgets(outcome, pod, judge.facts), "pdb")
        elif said in (EvictionResponse.FORBIDDEN, EvictionResponse.REJECTED, EvictionResponse.HELD_BACK):
            attempt = Attempt(step.pod, StepStatus.REFUSED, outcome.reason)
        if said not in (EvictionResponse.OTHER_POD, EvictionResponse.HELD_BACK):
            self.recorder.back_off(step.workload, self._clock.wall())
        self._forbidden += said is EvictionResponse.FORBIDDEN
        goes_on = said in (
            EvictionResponse.BUDGET,
            EvictionResponse.TWO_BUDGETS,
            EvictionResponse.OTHER_POD,
            EvictionResponse.FORBIDDEN,
            EvictionResponse.REJECTED,
        )
        sent = said is not EvictionResponse.HELD_BACK
        return self._undo(running, step, attempt, sent=sent, goes_on=goes_on and self._forbidden < FORBIDDEN)

    def _undo(self, running: Running, step: StepRecord, attempt: Attempt, *, sent: bool, goes_on: bool) -> StepTried:
        """It certainly did not happen."""
        self._reserved.release_all(step)
        self._reserved.unprobe(step)
        ended = msgspec.structs.replace(step, status=StepStatus(attempt.status), why=attempt.why)
        return self._report(self.recorder.undo(running, ended, sent=sent), attempt)._replace(goes_on=goes_on)

    def _report(self, running: Running, attempt: Attempt) -> StepTried:
        self.events.report_refusal(running.kind, attempt.status, attempt.check)
        return StepTried(running, attempt)


def patience(pod: Pod, facts: Facts, history: History) -> float:
    """Seconds that a replacement may take: by its workload's own account, and thrice what was measured."""
    key = facts.key(pod)
    measured = history.restarts.get(key, 0.0) if key else 0.0
    return max([TIMES_MEASURED * measured, *(workload.starts_within for workload in facts.chain(pod))])


def prepare_step(
    move: Move, pod: Pod, facts: Facts, pods: Iterable[Pod], now: float, *, probe: bool, patience: float = 0.0
) -> StepRecord:
    """The step as it is written down; `pods` are those of a moment ago."""
    # A failed pod has been replaced already.
    owner = "" if pod.finished else pod.maker
    siblings = (sibling for sibling in pods if owner and sibling.maker == owner)
    return StepRecord(
        pod=move.pod,
        uid=pod.uid,
        source=move.source,
        target=move.target,
        time=now,
        workload=facts.key(pod),
        owner=owner,
        scheduler=pod.scheduler_name,
        gain=move.gain,
        reason=move.reason,
        used=effect.known(move.used),
        load=effect.predicted(move, facts.nodes),
        starts=move.starts,
        starts_on=move.starts_on,
        replicas=facts.replicas(pod) or 0,
        besides=tuple(sibling.uid for sibling in siblings if sibling.created >= now - SKEW),
        prefers=move.aim if move.target is None else "",
        probe=probe,
        patience=patience,
    )


def other(pod: Pod, move: Move) -> str | None:
    """Why this pod is not the one that was planned for."""
    if move.uid and pod.uid != move.uid:
        return f"another pod is called {move.pod} now"
    if pod.node != move.source:
        return f"{move.pod} is not on {move.source} any more"
    return None


def outlook(move: Move, pod: Pod, facts: Facts, fits: Callable[[str, Shape], bool | None]) -> Feasibility:
    """Whether the target still is one."""
    if move.target is None:
        return LOOKED_NOWHERE
    node = facts.nodes.get(move.target)
    usable = node is not None and node.ready and not leaving(node)
    if not usable or fits(move.target, pod.shape) is False:
        return Feasibility(fits=False)
    return Feasibility(fits=True, only_unknown=move.target in facts.unknown)


def evicts_itself(pod: Pod, outcome: WriteOutcome) -> bool:
    """Whether a refusal for now means that the pod's owner carries the eviction out by itself, as KubeVirt does by
    moving the machine: descheduler counts such a pod as evicted."""
    return outcome.status == 429 and (EVICTS_ITSELF in pod.annotations or EVICTION_UNDER_WAY in pod.annotations)


def leaves(now: Pod | None, evicted: Pod) -> bool:
    """Whether the watch has shown the eviction."""
    return now is None or now.uid != evicted.uid or now.deleting


def past_eviction(step: StepRecord, planner: str, judge: Gate, *, imagined: bool = False) -> PastEviction:
    """The step as limits and rests count it."""
    rate = own_rate(judge.rules, step.source, judge.history)
    return PastEviction(step.time, step.uid, step.source, step.workload, imagined, planner, rate)


def budgets(outcome: WriteOutcome, pod: Pod, facts: Facts) -> str:
    """What the API server said of disruption budgets, with their names where it does not tell them."""
    names = [budget.name for budget in facts.budgets(pod)]
    if answer(outcome) is EvictionResponse.BUDGET or len(names) < 2:
        return outcome.reason
    return f"the disruption budgets {' and '.join(names)} both cover it: {outcome.reason}"
