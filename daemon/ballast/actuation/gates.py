"""Removes the scheduling gate of Ballast from pods."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from ballast.base.parts import Part
from ballast.cluster.write import Result, Write, WriteOutcome, WriteTarget, object_path
from ballast.cluster.writer import EmergencyWriter, Writer
from ballast.model.pod import Pod

STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PART = Part.BATCH
RELEASED = "released"
_INVALID = 422


def gate_name(prefix: str) -> str:
    """The name of the gate."""
    return f"{prefix}/batch"


def held_by(gate: str, pods: Iterable[Pod]) -> list[Pod]:
    """The unbound pods that carry the gate and are not going away, by namespace and name."""
    held = [pod for pod in pods if gate in pod.gates and not (pod.node or pod.deleting or pod.finished)]
    return sorted(held, key=lambda pod: (pod.namespace, pod.name))


def removal(pod: Pod, gate: str, reason: str, *, event: str = "GateRemoved") -> Write:
    """Takes this gate alone from exactly this pod; once more changes nothing."""
    return Write(
        kind="gate",
        part=PART,
        method="PATCH",
        path=object_path(f"/api/v1/namespaces/{pod.namespace}/pods", pod.name),
        target=WriteTarget("Pod", pod.name, pod.namespace, pod.uid),
        reason=reason,
        body={"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": [{"$patch": "delete", "name": gate}]}},
        content_type=STRATEGIC_MERGE_PATCH,
        event="Gate",
        done_event=event,
        aggregated=True,
    )


def remove(writer: EmergencyWriter, removals: Iterable[Write]) -> list[WriteOutcome]:
    """The outcomes in the order given. A pod that is another one by now counts as gone."""
    return [_gone(outcome) for outcome in writer.each([_sending(write) for write in removals])]


def _sending(write: Write) -> Callable[[Writer], WriteOutcome]:
    return lambda writer: writer.submit(write)


def _gone(outcome: WriteOutcome) -> WriteOutcome:
    other = outcome.status == _INVALID and "metadata.uid" in outcome.reason
    return replace(outcome, result=Result.GONE) if other or outcome.result is Result.CONFLICT else outcome
