"""From wire objects to workloads, budgets, autoscalers and namespaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from ballast.cluster import wire
from ballast.cluster.decoding import Shared
from ballast.cluster.templates import to_selector
from ballast.model.workload import Autoscaler, Budget, Namespace, Workload


class WorkloadMeta(wire.Meta):
    generation: int = 0


class WorkloadSpec(wire.Wire):
    replicas: int | None = None


class WorkloadStatus(wire.Wire):
    observed_generation: int | None = None
    replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class WireWorkload(wire.Wire):
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""

    metadata: WorkloadMeta
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus | None = None


class BudgetSpec(wire.Wire):
    selector: wire.LabelSelector | None = None


class BudgetStatus(wire.Wire):
    observed_generation: int = 0
    disruptions_allowed: int = 0


class WireBudget(wire.Wire):
    metadata: WorkloadMeta
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class Target(wire.Wire):
    kind: str = ""
    name: str = ""


class AutoscalerSpec(wire.Wire):
    scale_target_ref: Target = msgspec.field(default_factory=Target)


class AutoscalerStatus(wire.Wire):
    last_scale_time: datetime | None = None


class WireAutoscaler(wire.Wire):
    metadata: wire.Meta
    spec: AutoscalerSpec = msgspec.field(default_factory=AutoscalerSpec)
    status: AutoscalerStatus = msgspec.field(default_factory=AutoscalerStatus)


class WireNamespace(wire.Wire):
    metadata: wire.Meta


def to_workload(kind: str, found: WireWorkload, shared: Shared, keep: Callable[[str], bool]) -> Workload:
    meta = found.metadata
    replicas = 1 if found.spec.replicas is None else found.spec.replicas
    return Workload(
        kind=kind,
        namespace=shared.string(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        replicas=replicas,
        rolling=_rolling(kind, found, replicas),
        annotations=_kept(meta.annotations, keep),
        owner=shared.owner(meta.owner_references),
    )


def to_budget(found: WireBudget, shared: Shared) -> Budget:
    return Budget(
        namespace=shared.string(found.metadata.namespace),
        name=found.metadata.name,
        selector=to_selector(found.spec.selector),
        allowed=max(0, found.status.disruptions_allowed),
        settled=found.status.observed_generation >= found.metadata.generation,
    )


def to_autoscaler(found: WireAutoscaler, shared: Shared) -> Autoscaler:
    target, scaled = found.spec.scale_target_ref, found.status.last_scale_time
    return Autoscaler(
        namespace=shared.string(found.metadata.namespace),
        kind=target.kind,
        name=target.name,
        scaled_at=scaled.timestamp() if scaled else None,
    )


def to_namespace(found: wire.HasMeta | WireNamespace, keep: Callable[[str], bool]) -> Namespace:
    meta = found.metadata
    return Namespace(name=meta.name, labels=meta.labels or {}, annotations=_kept(meta.annotations, keep))


def _rolling(kind: str, found: WireWorkload, replicas: int) -> bool:
    """Whether pods of an older template are being replaced, as `kubectl rollout status` tells it."""
    status = found.status
    if status is None or status.observed_generation is None or kind not in ("Deployment", "StatefulSet"):
        return False
    if status.observed_generation < found.metadata.generation:
        return True
    if kind == "Deployment":
        return status.updated_replicas < min(replicas, status.replicas) or status.replicas > status.updated_replicas
    return bool(status.update_revision) and status.update_revision != status.current_revision


def _kept(annotations: Mapping[str, str] | None, keep: Callable[[str], bool]) -> Mapping[str, str]:
    return {key: value for key, value in (annotations or {}).items() if keep(key)}
