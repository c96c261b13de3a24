"""Reports evictions: Events, metrics, and the document of `/api/v1/evictions`."""

from collections.abc import Iterable, Sequence

from msgspec import UNSET
from msgspec.structs import replace

from ballast.actuation.eviction.records import Followed, Running, StepRecord, StepStatus
from ballast.actuation.eviction.requests import PART
from ballast.answers.evictions import Eviction, Evictions, HeldRoom, Limits, Measured, Predicted
from ballast.base.metrics import Metrics
from ballast.cluster.events import Events
from ballast.cluster.write import WriteTarget
from ballast.eviction.facts import Facts, WorkloadKey
from ballast.placement.reservations import Reservation

_GROUPS = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}

Ended = tuple[Running, StepRecord, Measured]
"""A step that has ended, its plan, and the effect that was measured."""

_NOT_MEASURED = Measured()


class EvictionEvents:
    """The Event on the pod is the writer's; these are those on its node and its workload."""

    def __init__(self, events: Events, metrics: Metrics) -> None:
        self._events = events
        self._count = metrics.evictions
        self._effects = metrics.eviction_effects

    def report_eviction(self, planner: str, step: StepRecord, facts: Facts) -> None:
        self._count.labels(planner, "evicted").inc()
        node = facts.nodes.get(step.source)
        to = f", to go to {step.target}" if step.target else ""
        how = "leaves" if step.rollout else "was evicted from"
        to += f", by a restart of its {step.workload[1]}" if step.rollout and step.workload else ""
        self._emit(
            WriteTarget("Node", step.source, uid=node.uid if node else ""),
            "PodEvicted",
            f"{step.pod}{to}: {step.reason}",
        )
        if step.workload is not None:
            moved = f"{step.pod} {how} {step.source}{to}: {step.reason}"
            self._emit(_target(step.workload), "PodEvicted", moved)

    def report_refusal(self, planner: str, status: str, check: str) -> None:
        self._count.labels(planner, "budget" if check == "pdb" else status).inc()

    def report_unknown(self, planner: str) -> None:
        self._count.labels(planner, "unknown").inc()

    def report_followed(self, planner: str, followed: Followed) -> None:
        for step in followed.landed:
            result = "landed" if step.target in (None, step.landed_on) else "elsewhere"
            self._effects.labels(planner, "returned" if step in followed.returned else result).inc()
        self._effects.labels(planner, "ready").inc(len(followed.ready))
        for step in followed.late:
            self._effects.labels(planner, "late").inc()
            if step.workload is not None:
                self._emit(_target(step.workload), "ReplacementLate", f"{step.why}; {planner} stops", warning=True)
        for step in followed.returned:
            if step.workload is not None:
                why = f"the replacement of {step.pod} went back to {step.source}; the workload is left alone"
                self._emit(_target(step.workload), "ReplacementReturned", why, warning=True)
        if followed.finished and followed.share is not None:
            result = "without-effect" if followed.stop or followed.ineffective else "effective"
            self._effects.labels(planner, result).inc()

    def _emit(self, target: WriteTarget, reason: str, message: str, *, warning: bool = False) -> None:
        self._events.emit(target, reason, message, part=PART, warning=warning)


def document(
    plans: Sequence[Running],
    ended: Iterable[Ended],
    reservations: Iterable[Reservation],
    limits: Limits,
    breaker: str | None,
) -> Evictions:
    """`/api/v1/evictions` without the mode, the newest first."""
    steps: list[Ended] = [(plan, step, _NOT_MEASURED) for plan in plans for step in plan.steps]
    rows = [_row(*row) for row in (*ended, *steps)]
    return Evictions(
        mode=None,
        paused=None,
        limits=limits,
        breaker=breaker,
        recent=sorted(rows, key=lambda row: row.time, reverse=True),
        reservations=[
            HeldRoom(
                node=held.node,
                for_=held.pod,
                kind=held.purpose.value,
                until=held.until,
                cpu=held.shape.requests.get("cpu", 0.0),
                memory=held.shape.requests.get("memory", 0.0),
            )
            for held in sorted(reservations, key=lambda each: (each.node, each.name))
        ],
    )


def _row(plan: Running, step: StepRecord, measured: Measured) -> Eviction:
    return Eviction(
        pod=step.pod,
        uid=step.uid,
        workload="/".join(step.workload) if step.workload else None,
        source=step.source,
        to=step.target,
        time=step.time,
        kind=plan.kind,
        plan=plan.id,
        status=step.status.value,
        landed_on=step.landed_on or None,
        ready_at=step.ready_at or None,
        predicted=Predicted(
            gain=step.gain, load=step.load, before=plan.before, after=plan.after, starts=len(step.starts) or UNSET
        ),
        measured=_measured(step, measured) if step.status is not StepStatus.RECORDED else _NOT_MEASURED,
        why=step.why or step.reason,
    )


def _measured(step: StepRecord, measured: Measured) -> Measured:
    """Of the loads, those of its own nodes."""
    if measured.load is UNSET:
        return measured
    return replace(measured, load={node: changes for node, changes in measured.load.items() if node in step.load})


def _target(workload: WorkloadKey) -> WriteTarget:
    namespace, kind, name = workload
    return WriteTarget(kind, name, namespace, api_version=_GROUPS.get(kind, "v1"))
