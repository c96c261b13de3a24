"""What stands behind the pods of a cluster file: workloads, budgets, autoscalers, namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ballast.cli.files import BadFile, ClusterFile, name_of
from ballast.cluster import workloads as wire
from ballast.cluster.decoding import Shared
from ballast.eviction.facts import LISTED
from ballast.model.workload import Autoscaler, DisruptionBudget, Namespace, Workload

T = TypeVar("T")
W = TypeVar("W")

# What the checks go by, with what is done without it.
ABSENT = {
    "PodDisruptionBudget": "no budget protects anything",
    "Deployment": "rollouts and annotations of Deployments are not seen",
    "ReplicaSet": "pods of ReplicaSets are not moved",
    "StatefulSet": "pods of StatefulSets are not moved",
    "DaemonSet": "annotations of DaemonSets are not seen",
    "HorizontalPodAutoscaler": "nothing counts as just scaled",
    "Namespace": "annotations of namespaces are not seen",
    "PersistentVolumeClaim": "volume claims are not looked at",
}


@dataclass(frozen=True)
class Backing:
    """`absent` are the kinds that the file has none of."""

    workloads: tuple[Workload, ...]
    budgets: tuple[DisruptionBudget, ...]
    autoscalers: tuple[Autoscaler, ...]
    namespaces: tuple[Namespace, ...]
    absent: tuple[str, ...]


def backing(cluster: ClusterFile, source: str, keep: Callable[[str], bool]) -> Backing:
    """Raises BadFile, beginning with `source`, for an object that cannot be read."""
    shared = Shared()

    def read(kind: str, form: type[W], build: Callable[[W], T]) -> Iterator[T]:
        for each in cluster.objects.get(kind, ()):
            try:
                yield build(msgspec.convert(each, form))
            except msgspec.ValidationError as error:
                raise BadFile(f"{source}: {kind} {name_of(each)}: {error}.") from None

    def workloads(kind: str) -> Iterator[Workload]:
        return read(kind, wire.WireWorkload, lambda each: wire.to_workload(kind, each, shared, keep))

    return Backing(
        workloads=tuple(workload for kind in LISTED for workload in workloads(kind)),
        budgets=tuple(read("PodDisruptionBudget", wire.WireBudget, lambda each: wire.to_budget(each, shared))),
        autoscalers=tuple(
            read("HorizontalPodAutoscaler", wire.WireAutoscaler, lambda each: wire.to_autoscaler(each, shared, keep))
        ),
        namespaces=tuple(read("Namespace", wire.WireNamespace, lambda each: wire.to_namespace(each, keep))),
        absent=tuple(kind for kind in ABSENT if not cluster.objects.get(kind)),
    )
