"""The two writes of an eviction, and what the API server's answer to it means."""

from enum import Enum, auto
from typing import Any

from ballast.actuation.eviction.records import StepRecord
from ballast.base.parts import Part
from ballast.cluster.write import MERGE_PATCH, Result, Write, WriteOutcome, WriteTarget, object_path
from ballast.model.pod import Pod

PART = Part.EVICTION
REASON = 256
"""Characters of the reason on the Eviction, where an audit policy may log it."""


class EvictionResponse(Enum):
    DONE = auto()
    UNKNOWN = auto()
    """It may have happened all the same."""
    BUDGET = auto()
    TWO_BUDGETS = auto()
    OTHER_POD = auto()
    """It is gone, or another one has its name."""
    FORBIDDEN = auto()
    """By rights."""
    REJECTED = auto()
    """By an admission webhook or policy: this pod, not every pod."""
    HELD_BACK = auto()
    FAILED = auto()


def answer(outcome: WriteOutcome) -> EvictionResponse:
    if outcome.done:
        return EvictionResponse.DONE
    if outcome.result in (Result.REFUSED, Result.DRY_RUN):
        return EvictionResponse.HELD_BACK
    if outcome.result in (Result.CONFLICT, Result.GONE):
        return EvictionResponse.OTHER_POD
    if outcome.admission or outcome.status in (400, 422):
        return EvictionResponse.REJECTED
    if outcome.causes:
        return EvictionResponse.BUDGET
    if outcome.status == 403:
        return EvictionResponse.FORBIDDEN
    if outcome.status == 429:
        return EvictionResponse.HELD_BACK
    # kube-apiserver pkg/registry/core/pod/storage/eviction.go
    if outcome.status == 500 and "more than one PodDisruptionBudget" in outcome.reason:
        return EvictionResponse.TWO_BUDGETS
    return EvictionResponse.UNKNOWN if outcome.status == 0 or outcome.status >= 500 else EvictionResponse.FAILED


def eviction(step: StepRecord, planner: str, prefix: str, grace_period: float | None) -> Write:
    """policy/v1, of exactly this pod: one of another UID is not evicted by it."""
    namespace, _, name = step.pod.partition("/")
    options: dict[str, Any] = {"preconditions": {"uid": step.uid}}
    if grace_period is not None:
        options["gracePeriodSeconds"] = int(grace_period)
    return Write(
        kind="eviction",
        part=PART,
        method="POST",
        path=f"{_pod(namespace, name)}/eviction",
        target=WriteTarget("Pod", name, namespace, step.uid),
        reason=f"{planner}: {step.reason}",
        body={
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": {f"{prefix}/reason": f"{planner}: {step.reason}"[:REASON]},
            },
            "deleteOptions": options,
        },
        event="Eviction",
    )


def nomination(pod: Pod, node: str) -> Write:
    """The scheduler tries this node first for a pod that waits."""
    return Write(
        kind="nomination",
        part=PART,
        method="PATCH",
        path=f"{_pod(pod.namespace, pod.name)}/status",
        target=WriteTarget("Pod", pod.name, pod.namespace, pod.uid),
        reason=f"room is being made for it on {node}",
        body={"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}},
        content_type=MERGE_PATCH,
    )


def _pod(namespace: str, name: str) -> str:
    return object_path(f"/api/v1/namespaces/{namespace}/pods", name)
