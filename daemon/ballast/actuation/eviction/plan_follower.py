"""Follows plans under way: finds their replacements, sees whether they are Ready, and judges what came of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.evictor import Evictor, EvictorOptions
from ballast.actuation.eviction.records import SKEW, Followed, Running, StepRecord, StepStatus
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.eviction.replacement_use import Ask, ReplacementUse
from ballast.actuation.eviction.undone import Undone
from ballast.answers.evictions import Measured
from ballast.base.clock import Clock
from ballast.eviction.facts import WorkloadKey
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.shape import Shape
from ballast.model.snapshot import Snapshot
from ballast.placement.node_constraints import NodeConstraints
from ballast.planners.built_in import find, moves
from ballast.planners.planner import Effect

UNSURE = 30.0
"""Seconds after which a pod that is still there was not evicted."""

ENDING = 3600.0
"""Seconds an evicted pod may take to end; one that takes longer is stuck, and no room is held any more."""


class FollowedPods:
    """The pods that plans under way are about: evicted ones, those that come instead, and those that wait."""

    def __init__(
        self, pods: Iterable[Pod], plans: Sequence[Running], replicas: Mapping[WorkloadKey, int] | None = None
    ) -> None:
        """`replicas` are the replicas that workloads ask for now."""
        self._replicas = replicas or {}
        steps = [step for plan in plans for step in plan.steps]
        owners = {step.owner for step in steps if step.owner}
        uids = {uid for step in steps for uid in (step.uid, *step.starts)}
        self.pods: dict[str, Pod] = {}
        self._owned: dict[str, list[Pod]] = {}
        for pod in pods if steps else ():
            if pod.uid in uids:
                self.pods[pod.uid] = pod
            if pod.maker in owners and not pod.finished:
                self._owned.setdefault(pod.maker, []).append(pod)
        self._taken = {step.replacement for step in steps if step.replacement} | {step.uid for step in steps}

    def enough(self, step: StepRecord) -> bool:
        """Whether its workload has all the pods that it wants now without a replacement: it was scaled down."""
        replicas = self._replicas.get(step.workload) if step.workload is not None else None
        there = sum(not pod.deleting for pod in self._owned.get(step.owner, ()))
        return replicas is not None and replicas < step.replicas and there >= replicas

    def replacement(self, step: StepRecord) -> Pod | None:
        """The pod that came instead; one that was chosen before stays it as long as it is there."""
        owned = [pod for pod in self._owned.get(step.owner, ()) if not pod.deleting and pod.uid != step.uid]
        known = next((pod for pod in owned if pod.uid == step.replacement), None)
        known_before = self._taken.union(step.besides)
        new = [pod for pod in owned if pod.created >= step.time - SKEW and pod.uid not in known_before]
        chosen = known or min(
            new, key=lambda pod: (pod.node != step.target, not pod.node, pod.created, pod.name), default=None
        )
        if chosen is not None:
            self._taken.add(chosen.uid)
        return chosen


def follow_steps(
    plan: Running,
    watched: FollowedPods,
    *,
    now: float,
    ready_within: float,
    roll_back: Callable[[StepRecord], bool] = lambda step: True,
) -> Followed:
    """What became of the steps of the plan by `now`. `ready_within` is seconds, more where a step is more patient.

    `roll_back` ends a rollout whose pod is late, and says whether nothing is left to be done for it. Where that cannot
    be done for an hour, the step ends all the same.
    """
    followed = Followed(plan)
    before = [_follow_step(_past(step, now), watched, followed, now) for step in plan.steps]
    steps = tuple(_unless_late(step, watched, followed, now, ready_within, roll_back) for step in before)
    followed.plan = replace(plan, time=min(plan.time, now), steps=steps)
    followed.changed = steps != plan.steps
    if followed.late:
        followed.sentences += [f"{step.why}; its workload is left alone for an hour" for step in followed.late]
    return followed


def _past(step: StepRecord, now: float) -> StepRecord:
    """With no time after `now`: a clock that was turned back would keep the plan open until it is as late again."""
    ahead = {name: now for name in ("time", "gone_at", "landed_at", "ready_at") if getattr(step, name) > now}
    return replace(step, **ahead) if ahead else step


def _follow_step(step: StepRecord, watched: FollowedPods, followed: Followed, now: float) -> StepRecord:
    started = tuple(
        uid for uid in step.starts if uid in step.started or (uid in watched.pods and watched.pods[uid].node)
    )
    if started != step.started:
        step = replace(step, started=started)
    victim = watched.pods.get(step.uid)
    there = victim is not None and not victim.finished
    if not step.open:
        return replace(step, gone_at=now) if step.happened and not there and not step.gone_at else step
    if step.status is StepStatus.RECORDED:
        if there and victim is not None and not victim.deleting:
            if now - step.time < UNSURE:
                return step
            if not step.rollout:
                failed = replace(step, status=StepStatus.FAILED, why=step.why or f"{step.pod} was not evicted")
                followed.failed.append(failed)
                return failed
        # The pod of a rollout stays until another is Ready: one that was not begun is late, and rolled back.
        step = replace(step, status=StepStatus.EVICTED, why="")
    if there and step.status is StepStatus.EVICTED:
        followed.leaving.append(step)
    elif not there and not step.gone_at:
        step = replace(step, gone_at=now)
    step = _with_replacement(step, watched, followed, now)
    if step.open and not there and not step.replacement and watched.enough(step):
        return replace(step, status=StepStatus.READY, ready_at=now, why="its workload has as many pods as it wants")
    return step


def _unless_late(
    step: StepRecord,
    watched: FollowedPods,
    followed: Followed,
    now: float,
    ready_within: float,
    roll_back: Callable[[StepRecord], bool],
) -> StepRecord:
    victim, patience = watched.pods.get(step.uid), max(ready_within, step.patience)
    ends = victim is not None and not victim.finished and not step.rollout
    passed = now - max(step.time, step.gone_at)
    if not step.open or step.status is StepStatus.RECORDED or passed <= (ENDING if ends else patience):
        return step
    back = not step.rollout or roll_back(step)
    if not back and passed <= patience + ENDING:
        return step
    step = replace(step, status=StepStatus.STOPPED, why=_lateness(step, patience, there=ends, back=back))
    followed.late.append(step)
    return step


def _with_replacement(step: StepRecord, watched: FollowedPods, followed: Followed, now: float) -> StepRecord:
    if not step.owner:
        return replace(step, status=StepStatus.READY, ready_at=now) if step.gone_at else step
    pod = watched.replacement(step)
    if pod is None or not pod.node:
        return replace(step, status=StepStatus.EVICTED, replacement=pod.uid if pod else "", landed_on="", landed_at=0.0)
    if step.status is StepStatus.EVICTED:
        bound = min(now, pod.scheduled_at or now)
        step = replace(step, status=StepStatus.LANDED, replacement=pod.uid, landed_on=pod.node, landed_at=bound)
        followed.landed.append(step)
        if pod.node == step.source and moves(followed.plan.kind):
            followed.returned.append(step)
            followed.sentences.append(f"the replacement of {step.pod} went back to {step.source}")
    if not pod.ready:
        return step
    step = replace(step, status=StepStatus.READY, ready_at=now)
    followed.ready.append(step)
    return step


def _lateness(step: StepRecord, ready_within: float, *, there: bool, back: bool) -> str:
    if there:
        return f"{step.pod} has not ended within {ENDING / 60:.0f} minutes"
    left = "" if back else ", and its rollout could not be rolled back"
    if not step.replacement:
        return f"no replacement of {step.pod} came within {ready_within:.0f} s{left}"
    where = f" on {step.landed_on}" if step.landed_on else ""
    left = ", so its rollout was rolled back" if step.rollout and back else left
    return f"the replacement of {step.pod}{where} was not Ready within {ready_within:.0f} s{left}"


def _judge(
    followed: Followed, snapshot: Snapshot, now: float, window: float, options: EvictorOptions, use: ReplacementUse
) -> None:
    """Once every step has ended: whether the plan did what it said."""
    plan = followed.plan
    happened = [step for step in plan.steps if step.happened]
    if not happened:
        followed.finished = True
        return
    planner = find(plan.kind)
    if planner is not None and planner.effect is Effect.NONE:
        followed.finished = True
        return
    if planner is not None and planner.effect is Effect.STARTS:
        _judge_starts(followed, happened, now, options.ready_within)
        return
    if any(not step.gone_at and now - step.time < ENDING for step in happened):
        return  # A pod that is still ending is still load.
    ended = max(max(step.ready_at, step.landed_at, step.gone_at) for step in happened)
    if snapshot.time < ended + window:
        return
    followed.finished = True
    verdict = effect.judge(plan, happened, snapshot, use.of)
    followed.share = None if verdict.share is None else verdict.share.value
    followed.measured = {step.uid: verdict.of(step) for step in plan.steps}
    pods = "1 pod" if len(happened) == 1 else f"{len(happened)} pods"
    if verdict.share is None:
        followed.sentences.append(f"{plan.kind} of {pods}: what replaced them was not measured")
        return
    effect_seen = f"what replaced them uses {effect.in_words(verdict.share)}"
    followed.sentences.append(f"{plan.kind} of {pods}: {effect_seen}")
    if verdict.failed and planner is not None and planner.needs_confirmation:
        followed.ineffective = verdict.ineffective
    elif verdict.failed:
        followed.stop = f"{plan.kind} is stopped for a while: {effect_seen}"


def _judge_starts(followed: Followed, happened: Sequence[StepRecord], now: float, ready_within: float) -> None:
    awaited = sum(len(step.starts) for step in happened)
    started = sum(len(step.started) for step in happened)
    if started < awaited and now < followed.plan.time + ready_within:
        return
    followed.finished = True
    followed.share = started / awaited if awaited else None
    measured = Measured(started=started, share=followed.share)
    followed.measured = {step.uid: measured for step in followed.plan.steps}
    followed.sentences.append(f"{followed.plan.kind} started {started} of {awaited} waiting pods")
    if awaited and not started:
        followed.stop = f"{followed.plan.kind} stops: none of {awaited} waiting pods that it made room for started"


def had_a_choice(
    step: StepRecord, pods: Iterable[Pod], nodes: Sequence[Node], fits: Callable[[str, Shape], bool | None]
) -> bool:
    """Whether the replacement could have gone to another node than it did, as far as nodes and requests tell.

    False where other pods may have decided: kube-scheduler scores nothing while one node is feasible.
    """
    pod = next((candidate for candidate in pods if candidate.uid == step.replacement), None)
    if pod is None or pod.template.looks_at_pods:
        return False
    allowed = NodeConstraints(nodes).allowed(pod.template).tolist()
    open_nodes = (node for node, may in zip(nodes, allowed, strict=True) if may and node.name != step.landed_on)
    return any(fits(node.name, pod.shape) for node in open_nodes)


class PlanFollower:
    """Follows the plans under way, in the thread of the job alone."""

    def __init__(
        self, evictor: Evictor, replacements: ReplacementReservations, clock: Clock, use: Ask = lambda names: {}
    ) -> None:
        """`use` tells what pods use now."""
        self._use = ReplacementUse(use, evictor.options.window, evictor.options.lag)
        self.undone = Undone()
        restarts = evictor.options.restarts
        self._roll_back = restarts.roll_back if restarts is not None else lambda step: False
        self._recorder, self._events, self._options = evictor.recorder, evictor.events, evictor.options
        self._reserved, self._clock = replacements, clock

    def follow_plans(
        self, pods: Sequence[Pod], snapshot: Snapshot, replicas: Mapping[WorkloadKey, int] | None = None
    ) -> str | None:
        """Once a cycle: where replacements are, when they were Ready, what came of it. A sentence if anything ended or
        stopped. `replicas` are what workloads ask for now."""
        if self._recorder.unreadable() is not None:
            return None
        now = self._clock.wall()
        self._recorder.look(pods, snapshot.nodes)
        uses = self._use.look(self._recorder.plans, pods, now, self.undone.pods(now))
        changed = False
        sentences: list[str] = []
        followed_pods = FollowedPods(pods, self._recorder.plans, replicas)
        window = self._options.window + self._options.lag
        for plan in self._recorder.plans:
            within = self._options.ready_within
            followed = follow_steps(plan, followed_pods, now=now, ready_within=within, roll_back=self._roll_back)
            self._update_reservations(followed)
            if not followed.plan.open:
                _judge(followed, snapshot, now, window, self._options, self._use)
            self._recorder.learn(plan.kind, followed, now, rest=self._options.window)
            self._events.report_followed(plan.kind, followed)
            changed |= followed.changed or followed.finished or bool(followed.leaving)
            sentences += followed.sentences
        self.undone.look(self._recorder.plans, pods, snapshot.nodes, now, uses)
        self._recorder.forget(now)
        if changed or self._recorder.unsaved:
            self._recorder.save("what came of evictions")
        return "; ".join(sentences) or None

    def _update_reservations(self, followed: Followed) -> None:
        for step in followed.landed:
            self._reserved.release(step)
            if step.probe:
                fits = self._reserved.extender.fits
                chosen = had_a_choice(step, self._recorder.pods, self._recorder.nodes, fits)
                self._reserved.end_probe(step, chosen=chosen)
        for step in followed.leaving:
            self._reserved.extend(step)
        for step in (*followed.failed, *followed.late):
            self._reserved.release_all(step)
        for step in followed.plan.steps:
            if not step.open:
                self._reserved.unprobe(step)
