"""Before a reduction, pods on hot nodes get a lower deletion cost, so that their ReplicaSet takes them first.

A cost that someone else has set stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ballast.actuation.scaling.cap import PART
from ballast.cluster.write import MERGE_PATCH, Write, WriteTarget, object_path
from ballast.model.marks import DELETION_COST
from ballast.model.pod import Pod

KINDS = ("Deployment", "ReplicaSet")
MARK = "deletion-cost"


@dataclass(frozen=True, slots=True)
class Cost:
    """`cost` None takes back what Ballast set before."""

    pod: Pod
    cost: int | None


def costs(pods: Iterable[Pod], loads: Mapping[str, float], fewer: int, prefix: str) -> Iterator[Cost]:
    """The changes of costs before `fewer` of these pods are deleted: those on the hottest nodes cost the least.

    `loads` are fractions by node; pods on nodes whose load is not known are left alone.
    """
    mark = f"{prefix}/{MARK}"
    free = [pod for pod in pods if not pod.deleting and not pod.finished and _is_free(pod, mark)]
    known = [pod for pod in free if pod.node in loads]
    first = sorted(known, key=lambda pod: (-loads[pod.node], pod.namespace, pod.name))[:fewer]
    wanted = {pod.uid: -round(100 * max(0.0, loads[pod.node])) for pod in first}
    for pod in free:
        cost = wanted.get(pod.uid) or None
        if pod.annotations.get(mark) != (None if cost is None else str(cost)):
            yield Cost(pod, cost)


def write(change: Cost, prefix: str, reason: str) -> Write:
    """The patch that sets or removes the cost of one pod."""
    pod, value = change.pod, None if change.cost is None else str(change.cost)
    return Write(
        kind="deletion-cost",
        part=PART,
        method="PATCH",
        path=object_path(f"/api/v1/namespaces/{pod.namespace}/pods", pod.name),
        target=WriteTarget("Pod", pod.name, pod.namespace, pod.uid),
        reason=reason,
        body={"metadata": {"uid": pod.uid, "annotations": {DELETION_COST: value, f"{prefix}/{MARK}": value}}},
        content_type=MERGE_PATCH,
    )


def _is_free(pod: Pod, mark: str) -> bool:
    """Without a cost, or with one that is Ballast's."""
    return pod.annotations.get(DELETION_COST) == pod.annotations.get(mark)
