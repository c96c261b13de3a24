"""Follows a plan: finds its replacements, sees whether they are Ready, and compares loads with the prediction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.records import Loads, Running, StepRecord, StepStatus
from ballast.answers.evictions import Measured
from ballast.eviction.facts import WorkloadKey
from ballast.eviction.planners.planner import Effect
from ballast.eviction.planners.registry import find
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot

UNSURE = 30.0
"""Seconds after which a pod that is still there was not evicted."""

SKEW = 5.0
"""Seconds by which the API server's clock may be behind."""


ENDING = 3600.0
"""Seconds an evicted pod may take to end; one that takes longer is stuck, and no room is held any more."""


class FollowedPods:
    """Of all pods those that the plans ask for."""

    def __init__(
        self, pods: Iterable[Pod], plans: Sequence[Running], wanted: Mapping[WorkloadKey, int] | None = None
    ) -> None:
        """`wanted` are the replicas that workloads ask for now."""
        self._wanted = wanted or {}
        steps = [step for plan in plans for step in plan.steps]
        owners = {step.owner for step in steps if step.owner}
        uids = {uid for step in steps for uid in (step.uid, *step.starts)}
        self.pods: dict[str, Pod] = {}
        self._owned: dict[str, list[Pod]] = {}
        for pod in pods if steps else ():
            if pod.uid in uids:
                self.pods[pod.uid] = pod
            if pod.owner is not None and pod.owner.uid in owners and not pod.finished:
                self._owned.setdefault(pod.owner.uid, []).append(pod)
        self._taken = {step.replacement for step in steps if step.replacement} | {step.uid for step in steps}

    def enough(self, step: StepRecord) -> bool:
        """Whether its workload has all the pods that it wants now without a replacement: it was scaled down."""
        wanted = self._wanted.get(step.workload) if step.workload is not None else None
        there = sum(not pod.deleting for pod in self._owned.get(step.owner, ()))
        return wanted is not None and wanted < step.replicas and there >= wanted

    def replacement(self, step: StepRecord) -> Pod | None:
        """The pod that came instead; one that was chosen before stays it as long as it is there."""
        found = [pod for pod in self._owned.get(step.owner, ()) if not pod.deleting and pod.uid != step.uid]
        known = next((pod for pod in found if pod.uid == step.replacement), None)
        known_before = self._taken.union(step.besides)
        new = [pod for pod in found if pod.created >= step.time - SKEW and pod.uid not in known_before]
        chosen = known or min(
            new, key=lambda pod: (pod.node != step.target, not pod.node, pod.created, pod.name), default=None
        )
        if chosen is not None:
            self._taken.add(chosen.uid)
        return chosen


def all_bound(steps: Sequence[StepRecord], pods: Iterable[Pod]) -> bool:
    """Whether each workload of these steps has as many new pods on nodes as pods were evicted."""
    missing = Counter(step.owner for step in steps if step.owner)
    known = {uid for step in steps for uid in (step.uid, *step.besides)}
    began = min((step.time for step in steps), default=0.0) - SKEW
    for pod in pods if missing else ():
        new = pod.node and not pod.deleting and pod.created >= began and pod.uid not in known
        if new and pod.owner is not None and pod.owner.uid in missing:
            missing[pod.owner.uid] -= 1
    return all(count <= 0 for count in missing.values())


@dataclass
class Followed:
    """`plan` as it is now; `finished`: nothing more is to be learned of it. `stop` says why its planner has to stop,
    `ineffective` of (node, resource) why moves off that node did not help.

    The steps that just `landed`, `returned` to their source, are `ready` or `late`, did not happen (`failed`), or whose
    pod still is `leaving`.
    """

    plan: Running
    finished: bool = False
    changed: bool = False
    stop: str | None = None
    share: float | None = None
    ineffective: Mapping[tuple[str, str], str] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)
    landed: list[StepRecord] = field(default_factory=list)
    returned: list[StepRecord] = field(default_factory=list)
    ready: list[StepRecord] = field(default_factory=list)
    late: list[StepRecord] = field(default_factory=list)
    failed: list[StepRecord] = field(default_factory=list)
    leaving: list[StepRecord] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)


def follow(
    plan: Running, seen: FollowedPods, snapshot: Snapshot, *, now: float, window: float, ready_within: float
) -> Followed:
    """What became of the plan by `now`. `window` and `ready_within` are seconds."""
    found = Followed(plan)
    steps = tuple(_step(_past(step, now), seen, found, now, ready_within) for step in plan.steps)
    found.plan = replace(plan, time=min(plan.time, now), steps=steps)
    found.changed = steps != plan.steps
    if found.late:
        found.stop = f"{plan.kind} stops: {'; '.join(step.why for step in found.late)}"
        found.sentences.append(found.stop)
    if not found.plan.open:
        _judge(found, snapshot, now, window, ready_within)
    return found


def _past(step: StepRecord, now: float) -> StepRecord:
    """With no time after `now`: a clock that was turned back would keep the plan open until it is as late again."""
    ahead = {name: now for name in ("time", "gone_at", "landed_at", "ready_at") if getattr(step, name) > now}
    return replace(step, **ahead) if ahead else step


def _step(step: StepRecord, seen: FollowedPods, found: Followed, now: float, ready_within: float) -> StepRecord:
    started = tuple(uid for uid in step.starts if uid in step.started or (uid in seen.pods and seen.pods[uid].node))
    if started != step.started:
        step = replace(step, started=started)
    if not step.open:
        return step
    victim = seen.pods.get(step.uid)
    there = victim is not None and not victim.finished
    if step.status is StepStatus.RECORDED:
        if there and victim is not None and not victim.deleting:
            if now - step.time < UNSURE:
                return step
            failed = replace(step, status=StepStatus.FAILED, why=step.why or f"{step.pod} was not evicted")
            found.failed.append(failed)
            return failed
        step = replace(step, status=StepStatus.EVICTED, why="")
    if there and step.status is StepStatus.EVICTED:
        found.leaving.append(step)
    elif not there and not step.gone_at:
        step = replace(step, gone_at=now)
    step = _replaced(step, seen, found, now)
    if step.open and not there and not step.replacement and seen.enough(step):
        return replace(step, status=StepStatus.READY, ready_at=now, why="its workload has as many pods as it wants")
    if step.open and now - max(step.time, step.gone_at) > (ENDING if there else ready_within):
        step = replace(step, status=StepStatus.STOPPED, why=_lateness(step, ready_within, there=there))
        found.late.append(step)
    return step


def _replaced(step: StepRecord, seen: FollowedPods, found: Followed, now: float) -> StepRecord:
    if not step.owner:
        return replace(step, status=StepStatus.READY, ready_at=now) if step.gone_at else step
    pod = seen.replacement(step)
    if pod is None or not pod.node:
        return replace(step, status=StepStatus.EVICTED, replacement=pod.uid if pod else "", landed_on="", landed_at=0.0)
    if step.status is StepStatus.EVICTED:
        bound = min(now, pod.scheduled_at or now)
        step = replace(step, status=StepStatus.LANDED, replacement=pod.uid, landed_on=pod.node, landed_at=bound)
        found.landed.append(step)
        if pod.node == step.source:
            found.returned.append(step)
            found.sentences.append(f"the replacement of {step.pod} went back to {step.source}")
    if not pod.ready:
        return step
    step = replace(step, status=StepStatus.READY, ready_at=now)
    found.ready.append(step)
    return step


def _lateness(step: StepRecord, ready_within: float, *, there: bool) -> str:
    if there:
        return f"{step.pod} has not ended within {ENDING / 60:.0f} minutes"
    if not step.replacement:
        return f"no replacement of {step.pod} came within {ready_within:.0f} s"
    where = f" on {step.landed_on}" if step.landed_on else ""
    return f"the replacement of {step.pod}{where} was not Ready within {ready_within:.0f} s"


def _judge(found: Followed, snapshot: Snapshot, now: float, window: float, ready_within: float) -> None:
    """Once every step has ended: whether the plan did what it said."""
    plan = found.plan
    happened = [step for step in plan.steps if step.happened]
    if not happened:
        found.finished = True
        return
    planner = find(plan.kind)
    if planner is not None and planner.effect is Effect.STARTS:
        _judge_starts(found, happened, now, ready_within)
        return
    ended = max(max(step.ready_at, step.landed_at, step.gone_at) for step in happened)
    if snapshot.time < ended + window:
        return
    found.finished = True
    changes = effect.measured(plan, snapshot)
    found.share = effect.share(effect.together(happened), changes)
    found.measured = Measured(load=changes, before=plan.before, after=effect.spread(snapshot), share=found.share)
    if found.share is None:
        found.sentences.append(f"{plan.kind} of {len(happened)} pods: its effect cannot be told from chance")
        return
    pods = "1 pod" if len(happened) == 1 else f"{len(happened)} pods"
    seen = f"loads changed by {found.share:.0%} of what was predicted"
    found.sentences.append(f"{plan.kind} of {pods}: {seen}")
    if found.share < effect.LEAST and planner is not None and planner.needs_confirmation:
        found.ineffective = dict(_ineffective(happened, changes))
    elif found.share < effect.LEAST:
        found.stop = f"{plan.kind} is stopped for a while: {seen}"


def _ineffective(steps: Sequence[StepRecord], changes: Loads) -> Iterator[tuple[tuple[str, str], str]]:
    """((node, resource), why) of the sources whose load did not fall as was said."""
    for node, expected in effect.together(steps).items():
        if not any(step.source == node for step in steps) or not expected:
            continue
        resource = min(expected, key=lambda name: expected[name])
        share = effect.share({node: {resource: expected[resource]}}, changes)
        if share is not None and share < effect.LEAST:
            yield (
                (node, resource),
                f"moving pods off {node} changed its {resource} by {share:.0%} of what was predicted",
            )


def _judge_starts(found: Followed, happened: Sequence[StepRecord], now: float, ready_within: float) -> None:
    wanted = sum(len(step.starts) for step in happened)
    started = sum(len(step.started) for step in happened)
    if started < wanted and now < found.plan.time + ready_within:
        return
    found.finished = True
    found.share = started / wanted if wanted else None
    found.measured = Measured(started=started, share=found.share)
    found.sentences.append(f"{found.plan.kind} started {started} of {wanted} waiting pods")
    if wanted and not started:
        found.stop = f"{found.plan.kind} stops: none of {wanted} waiting pods that it made room for started"
