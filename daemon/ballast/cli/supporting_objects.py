"""Reads what stands behind the pods of a cluster file: workloads, budgets, autoscalers, volumes, devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from ballast.base.errors import BadFile
from ballast.cli.files import ClusterFile, name_of
from ballast.cluster import workloads as wire
from ballast.cluster.objects import attachments as attached
from ballast.cluster.objects.decoding import Shared
from ballast.eviction.facts import LISTED
from ballast.model.attachments import Attachments, NodeClaim, ScaleUp
from ballast.model.workload import Autoscaler, DisruptionBudget, Namespace, Workload

T = TypeVar("T")
W = TypeVar("W")

ABSENT = {
    "PodDisruptionBudget": "no disruption budget protects a pod",
    "Deployment": "rollouts and annotations of Deployments are ignored",
    "ReplicaSet": "pods of ReplicaSets are not moved",
    "StatefulSet": "pods of StatefulSets are not moved",
    "DaemonSet": "annotations of DaemonSets are ignored",
    "HorizontalPodAutoscaler": "recent scaling is ignored",
    "Namespace": "annotations of namespaces are ignored",
    "PersistentVolumeClaim": "pods with volume claims are not moved",
    "PersistentVolume": "pods with volume claims are not moved",
}
"""Kinds that the checks use, with the effect when a file has none of them."""


@dataclass(frozen=True)
class SupportingObjects:
    """Objects behind the pods. `absent` lists the kinds of `ABSENT` that the file does not have."""

    workloads: tuple[Workload, ...]
    budgets: tuple[DisruptionBudget, ...]
    autoscalers: tuple[Autoscaler, ...]
    namespaces: tuple[Namespace, ...]
    attachments: Attachments
    node_claims: tuple[NodeClaim, ...]
    scale_ups: tuple[ScaleUp, ...]
    absent: tuple[str, ...]


def supporting_objects(cluster: ClusterFile, source: str, keep: Callable[[str], bool]) -> SupportingObjects:
    """Reads the objects of a cluster file. Raises BadFile, beginning with `source`, for an object that is invalid."""
    shared = Shared()

    def read(kind: str, form: type[W], build: Callable[[W], T]) -> Iterator[T]:
        for each in cluster.objects.get(kind, ()):
            try:
                yield build(msgspec.convert(each, form))
            except msgspec.ValidationError as error:
                raise BadFile(f"{source}: {kind} {name_of(each)}: {error}.") from None

    def workloads(kind: str) -> Iterator[Workload]:
        return read(kind, wire.WireWorkload, lambda each: wire.to_workload(kind, each, shared, keep))

    def known(kind: str, form: type[W], build: Callable[[W], T]) -> tuple[T, ...] | None:
        """None where the file does not have the kind."""
        return tuple(read(kind, form, build)) if kind in cluster.objects else None

    return SupportingObjects(
        workloads=tuple(workload for kind in LISTED for workload in workloads(kind)),
        budgets=tuple(read("PodDisruptionBudget", wire.WireBudget, lambda each: wire.to_budget(each, shared))),
        autoscalers=tuple(
            read("HorizontalPodAutoscaler", wire.WireAutoscaler, lambda each: wire.to_autoscaler(each, shared, keep))
        ),
        namespaces=tuple(read("Namespace", wire.WireNamespace, lambda each: wire.to_namespace(each, keep))),
        attachments=Attachments(
            claims=known("PersistentVolumeClaim", attached.WireClaim, attached.to_claim),
            volumes=known("PersistentVolume", attached.WireVolume, attached.to_volume),
            classes=known("StorageClass", attached.WireStorageClass, attached.to_storage_class),
            csi_nodes=known("CSINode", attached.WireCsiNode, attached.to_csi_node),
            slices=known("ResourceSlice", attached.WireSlice, attached.to_slice),
        ),
        node_claims=tuple(read("NodeClaim", attached.WireNodeClaim, attached.to_node_claim)),
        scale_ups=tuple(read("Event", attached.WireEvent, attached.to_scale_up)),
        absent=tuple(kind for kind in ABSENT if not cluster.objects.get(kind)),
    )
