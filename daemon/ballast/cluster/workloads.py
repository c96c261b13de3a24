"""From wire objects to workloads, budgets, autoscalers and namespaces."""

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from ballast.base.errors import NOT_JSON
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Shared
from ballast.cluster.objects.templates import to_selector
from ballast.model.disruption import never_allows
from ballast.model.load_limits import quantity
from ballast.model.workload import Autoscaler, DisruptionBudget, Namespace, Quota, QuotaScope, Workload


class WorkloadMeta(wire.Meta):
    """metav1.ObjectMeta with the generation."""

    generation: int = 0


class StartupProbe(wire.WireStruct):
    """v1.Probe, as far as it says how long a container may take to start."""

    initial_delay_seconds: int = 0
    period_seconds: int = 10
    failure_threshold: int = 3


class TemplateContainer(wire.WireStruct):
    """v1.Container, its startup probe alone."""

    startup_probe: StartupProbe | None = None


class TemplateSpec(wire.WireStruct):
    """v1.PodSpec, the startup probes alone."""

    containers: list[TemplateContainer] | None = None


class WireTemplate(wire.WireStruct):
    """v1.PodTemplateSpec, its metadata and startup probes alone."""

    metadata: wire.Meta = msgspec.field(default_factory=wire.Meta)
    spec: TemplateSpec = msgspec.field(default_factory=TemplateSpec)


class WireCondition(wire.WireStruct):
    """The fields that the conditions of apps/v1 share."""

    type: str = ""
    status: str = ""
    reason: str = ""


class RollingUpdate(wire.WireStruct):
    """apps/v1 RollingUpdateStatefulSetStrategy and RollingUpdateDeployment. Only other kinds have a partition that is
    text, such as "50%"."""

    partition: int | str | None = None
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None


class Ordinals(wire.WireStruct):
    """apps/v1 StatefulSetOrdinals."""

    start: int = 0


class UpdateStrategy(wire.WireStruct):
    """apps/v1 StatefulSetUpdateStrategy and DeploymentStrategy."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class ClaimRetention(wire.WireStruct):
    """apps/v1 StatefulSetPersistentVolumeClaimRetentionPolicy, what follows a fall alone."""

    when_scaled: str = ""


class ClaimTemplate(wire.WireStruct):
    """v1.PersistentVolumeClaim, of which nothing is read: that there is one counts."""


class WorkloadSpec(wire.WireStruct):
    """The spec fields that the kinds of apps/v1 share."""

    replicas: int | None = None
    ordinals: Ordinals | None = None
    paused: bool = False
    update_strategy: UpdateStrategy | None = None
    strategy: UpdateStrategy | None = None
    pod_management_policy: str = ""
    persistent_volume_claim_retention_policy: ClaimRetention | None = None
    volume_claim_templates: list[ClaimTemplate] | None = None
    min_ready_seconds: int = 0
    progress_deadline_seconds: int | None = None
    template: WireTemplate | None = None
    selector: wire.LabelSelector | None = None


class WorkloadStatus(wire.WireStruct):
    """The status fields that the kinds of apps/v1 share."""

    observed_generation: int | None = None
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: list[WireCondition] | None = None

    def has(self, condition: str, status: str, reason: str = "") -> bool:
        """Whether it has this condition, with this reason where one is given."""
        matching = (item for item in self.conditions or () if item.type == condition and item.status == status)
        return any(not reason or match.reason == reason for match in matching)


class WireWorkload(wire.WireStruct):
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet."""

    metadata: WorkloadMeta
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus | None = None


class WireOther(wire.WireStruct):
    """An object of any other kind that has a /scale, of whose fields nothing is known but what it says of claims."""

    metadata: WorkloadMeta
    kind: str = ""
    api_version: str = ""
    description: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"), name="spec")


class QuotaStatus(wire.WireStruct):
    """v1.ResourceQuotaStatus."""

    hard: dict[str, str | int | float] | None = None
    used: dict[str, str | int | float] | None = None


class ScopeRequirement(wire.WireStruct):
    """v1.ScopedResourceSelectorRequirement."""

    scope_name: str = ""
    operator: str = "Exists"
    values: list[str] | None = None


class ScopeSelector(wire.WireStruct):
    """v1.ScopeSelector."""

    match_expressions: list[ScopeRequirement] | None = None


class QuotaSpec(wire.WireStruct):
    """v1.ResourceQuotaSpec, its scopes alone."""

    scopes: list[str] | None = None
    scope_selector: ScopeSelector | None = None


class WireQuota(wire.WireStruct):
    """v1.ResourceQuota."""

    metadata: wire.Meta
    spec: QuotaSpec = msgspec.field(default_factory=QuotaSpec)
    status: QuotaStatus = msgspec.field(default_factory=QuotaStatus)


class BudgetSpec(wire.WireStruct):
    """policy/v1 PodDisruptionBudgetSpec."""

    selector: wire.LabelSelector | None = None
    unhealthy_pod_eviction_policy: str = ""
    max_unavailable: int | str | None = None
    min_available: int | str | None = None


class BudgetStatus(wire.WireStruct):
    """policy/v1 PodDisruptionBudgetStatus."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    expected_pods: int = 0


class WireBudget(wire.WireStruct):
    """policy/v1 PodDisruptionBudget."""

    metadata: WorkloadMeta
    spec: BudgetSpec = msgspec.field(default_factory=BudgetSpec)
    status: BudgetStatus = msgspec.field(default_factory=BudgetStatus)


class ScaleTargetRef(wire.WireStruct):
    """The target of an autoscaler."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class AutoscalerSpec(wire.WireStruct):
    """autoscaling/v2 HorizontalPodAutoscalerSpec."""

    scale_target_ref: ScaleTargetRef = msgspec.field(default_factory=ScaleTargetRef)
    min_replicas: int | None = None
    max_replicas: int = 0


class AutoscalerStatus(wire.WireStruct):
    """autoscaling/v2 HorizontalPodAutoscalerStatus."""

    last_scale_time: datetime | None = None
    desired_replicas: int | None = None


class WireAutoscaler(wire.WireStruct):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    metadata: wire.Meta
    spec: AutoscalerSpec = msgspec.field(default_factory=AutoscalerSpec)
    status: AutoscalerStatus = msgspec.field(default_factory=AutoscalerStatus)


class ScaledObjectSpec(wire.WireStruct):
    """keda.sh/v1alpha1 ScaledObjectSpec."""

    scale_target_ref: ScaleTargetRef = msgspec.field(default_factory=ScaleTargetRef)
    min_replica_count: int | None = None
    max_replica_count: int | None = None


class WireScaledObject(wire.WireStruct):
    """keda.sh/v1alpha1 (apis/keda/v1alpha1/scaledobject_types.go)."""

    metadata: wire.Meta
    spec: ScaledObjectSpec = msgspec.field(default_factory=ScaledObjectSpec)


class WireNamespace(wire.WireStruct):
    """v1.Namespace."""

    metadata: wire.Meta


WireKind: TypeAlias = (
    WireWorkload | WireOther | WireBudget | WireAutoscaler | WireScaledObject | WireNamespace | WireQuota
)


def reduce(source: WireKind) -> None:
    """Leaves of an opaque object what is short. A budget then holds for its whole namespace and allows nothing."""
    source.metadata = wire.reduced(source.metadata)
    if isinstance(source, WireWorkload):
        source.spec.selector, source.spec.template = None, None
    elif isinstance(source, WireBudget):
        source.spec.selector, source.status.disruptions_allowed = wire.LabelSelector(), 0
    elif isinstance(source, WireQuota):
        source.status, source.spec = QuotaStatus(), QuotaSpec()
    elif isinstance(source, WireAutoscaler | WireScaledObject):
        target = source.spec.scale_target_ref
        if not wire.short(target.api_version, target.kind, target.name):
            source.spec.scale_target_ref = ScaleTargetRef()


def to_workload(kind: str, source: WireWorkload, shared: Shared, keep: Callable[[str], bool]) -> Workload:
    """A workload of the model from an object of apps/v1."""
    meta = source.metadata
    replicas = 1 if source.spec.replicas is None else source.spec.replicas
    return Workload(
        kind=kind,
        namespace=shared.string(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        replicas=replicas,
        rolling=_rolling(kind, source, replicas),
        stalled=_stalled(source),
        update_revision=shared.string(source.status.update_revision) if source.status else "",
        current_revision=shared.string(source.status.current_revision) if source.status else "",
        updates_from=_updates_from(source.spec, source.status),
        deletes_claims=_deletes_claims(source.spec),
        gapless=kind == "Deployment" and gapless(source.spec),
        uncreated=bool(source.status and source.status.has("ReplicaFailure", "True")),
        starts_within=_starts_within(source.spec),
        ordered=kind == "StatefulSet" and source.spec.pod_management_policy != "Parallel",
        annotations=_kept(meta.annotations, keep),
        owner=shared.owner(meta.owner_references),
        version=meta.resource_version,
        generation=meta.generation,
        observed=source.status.observed_generation if source.status else None,
        ready=source.status.ready_replicas if source.status else 0,
        present=source.status.replicas if source.status else 0,
        available=source.status.available_replicas if source.status and source.spec.min_ready_seconds else None,
        selector=to_selector(source.spec.selector),
        pod_labels=shared.labels(source.spec.template.metadata.labels if source.spec.template else None),
        api_version="apps/v1",
    )


def to_other(source: WireOther, shared: Shared, keep: Callable[[str], bool]) -> Workload:
    """A workload of unknown replicas from an object of another kind."""
    meta = source.metadata
    return Workload(
        kind=shared.string(source.kind),
        namespace=shared.string(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        replicas=None,
        deletes_claims=_may_delete_claims(source.description),
        annotations=_kept(meta.annotations, keep),
        owner=shared.owner(meta.owner_references),
        version=meta.resource_version,
        generation=meta.generation,
        api_version=shared.string(source.api_version),
    )


def to_budget(source: WireBudget, shared: Shared) -> DisruptionBudget:
    """A disruption budget of the model."""
    return DisruptionBudget(
        namespace=shared.string(source.metadata.namespace),
        name=source.metadata.name,
        selector=to_selector(source.spec.selector),
        allowed=max(0, source.status.disruptions_allowed),
        frees_unready=source.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        settled=source.status.observed_generation >= source.metadata.generation,
        never=never_allows(source.spec.max_unavailable, source.spec.min_available, source.status.expected_pods) or "",
    )


_OF_PODS = ("pods", "count/pods", "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")


def to_quota(source: WireQuota, shared: Shared) -> Quota:
    """A quota of the model, by what its controller has counted."""
    hard, used = source.status.hard or {}, source.status.used or {}
    full = tuple(name for name in _OF_PODS if name in hard and quantity(used.get(name, 0)) >= quantity(hard[name]))
    chosen = (source.spec.scope_selector or ScopeSelector()).match_expressions or ()
    scopes = [QuotaScope(shared.string(name)) for name in source.spec.scopes or ()]
    scopes += [QuotaScope(each.scope_name, each.operator, tuple(each.values or ())) for each in chosen]
    return Quota(shared.string(source.metadata.namespace), source.metadata.name, full, tuple(scopes))


def to_autoscaler(source: WireAutoscaler, shared: Shared, keep: Callable[[str], bool]) -> Autoscaler:
    """An autoscaler of the model from a HorizontalPodAutoscaler."""
    meta, spec, status = source.metadata, source.spec, source.status
    return Autoscaler(
        namespace=shared.string(meta.namespace),
        kind=shared.string(spec.scale_target_ref.kind),
        name=spec.scale_target_ref.name,
        scaled_at=status.last_scale_time.timestamp() if status.last_scale_time else None,
        own_name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        group=shared.string(spec.scale_target_ref.api_version.rpartition("/")[0]),
        minimum=1 if spec.min_replicas is None else spec.min_replicas,
        maximum=spec.max_replicas,
        desired=status.desired_replicas,
        annotations=_kept(meta.annotations, keep),
        owner=shared.owner(meta.owner_references),
    )


def to_scaled_object(source: WireScaledObject, shared: Shared, keep: Callable[[str], bool]) -> Autoscaler:
    """What it leaves out is what KEDA takes: a Deployment, between 0 and 100 replicas."""
    meta, spec = source.metadata, source.spec
    target = spec.scale_target_ref
    return Autoscaler(
        namespace=shared.string(meta.namespace),
        kind=shared.string(target.kind or "Deployment"),
        name=target.name,
        own_name=meta.name,
        own_kind="ScaledObject",
        uid=meta.uid,
        version=meta.resource_version,
        group=shared.string(target.api_version.rpartition("/")[0] if target.api_version else "apps"),
        minimum=spec.min_replica_count or 0,
        maximum=100 if spec.max_replica_count is None else spec.max_replica_count,
        annotations=_kept(meta.annotations, keep),
    )


def to_namespace(source: wire.HasMeta | WireNamespace, keep: Callable[[str], bool]) -> Namespace:
    """A namespace of the model."""
    meta = source.metadata
    return Namespace(name=meta.name, labels=meta.labels or {}, annotations=_kept(meta.annotations, keep))


def _rolling(kind: str, source: WireWorkload, replicas: int) -> bool:
    """Whether pods of an older template are being replaced, as `kubectl rollout status` tells it."""
    status = source.status
    if status is None or status.observed_generation is None or kind not in ("Deployment", "StatefulSet"):
        return False
    if status.observed_generation < source.metadata.generation:
        return True
    if kind == "Deployment":
        return status.updated_replicas < min(replicas, status.replicas) or status.replicas > status.updated_replicas
    if not status.update_revision or status.update_revision == status.current_revision:
        return False
    # Some strategies never promote a revision, even once all pods are of it.
    return not replicas or min(status.updated_replicas, status.ready_replicas) < replicas


def _updates_from(spec: WorkloadSpec, status: WorkloadStatus | None) -> int | None:
    """As the controller of StatefulSets decides it (pkg/controller/statefulset, newVersionedStatefulSetPod)."""
    strategy, start = spec.update_strategy or UpdateStrategy(), spec.ordinals.start if spec.ordinals else 0
    if strategy.type not in ("", "RollingUpdate"):
        return 0
    if strategy.rolling_update is None:
        return start + (status.current_replicas if status else 0)
    partition = strategy.rolling_update.partition or 0
    return start + partition if isinstance(partition, int) else None


def _stalled(source: WireWorkload) -> bool:
    """Whether a rollout would not go on by itself: paused, beyond its deadline, partitioned, or on deletion only."""
    strategy, status = source.spec.update_strategy, source.status
    partition = strategy.rolling_update.partition if strategy is not None and strategy.rolling_update else None
    late = status is not None and status.has("Progressing", "False", "ProgressDeadlineExceeded")
    return source.spec.paused or late or bool(partition) or (strategy is not None and strategy.type == "OnDelete")


def gapless(spec: WorkloadSpec) -> bool:
    """Whether a rollout of one replica adds a pod before it takes one. The controller of Deployments rounds up what is
    added and down what is taken; where both come to nothing it takes the pod."""
    strategy = spec.strategy or UpdateStrategy()
    limits = strategy.rolling_update or RollingUpdate()
    rolls = strategy.type in ("", "RollingUpdate") and not spec.paused
    return rolls and _of_one(limits.max_surge) > 0 and _of_one(limits.max_unavailable) < 1


def _of_one(limit: int | str | None) -> float:
    """A limit of one replica, by default a quarter; NaN where it cannot be read."""
    if limit is None or isinstance(limit, int):
        return 0.25 if limit is None else limit
    number = limit.removesuffix("%")
    return int(number) / 100 if limit.endswith("%") and number.isdecimal() and len(number) < 9 else math.nan


def _deletes_claims(spec: WorkloadSpec) -> bool:
    """Without a word the controller of apps/v1 keeps the claims; any word but Retain counts as deleting."""
    retention = spec.persistent_volume_claim_retention_policy or ClaimRetention()
    return bool(spec.volume_claim_templates) and retention.when_scaled not in ("", "Retain")


def _may_delete_claims(spec: msgspec.Raw) -> bool:
    """Of other kinds what they say decides, else whether they make claims: many delete those of a member that goes."""
    try:
        words = list(_claim_words(msgspec.json.decode(spec)))
    except NOT_JSON:
        return True
    said = [value for key, value in words if key == "whenScaled"]
    return any(value != "Retain" for value in said) if said else bool(words)


def _claim_words(value: Any) -> Iterator[tuple[str, Any]]:
    """What the spec says of claims, at any depth. Claims of ephemeral volumes go with each pod, whoever ends it."""
    if isinstance(value, list):
        for each in value:
            yield from _claim_words(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key == "whenScaled" or (each and key in _CLAIM_KEYS):
                yield key, each
            elif key != "ephemeral":
                yield from _claim_words(each)


_CLAIM_KEYS = frozenset({"volumeClaimTemplates", "volumeClaimTemplate", "deleteClaim"})


def _starts_within(spec: WorkloadSpec) -> float:
    """Seconds: the deadline of its progress, or the budget of its slowest startup probe."""
    containers = (spec.template.spec.containers if spec.template else None) or ()
    probes = [container.startup_probe for container in containers if container.startup_probe is not None]
    budgets = [probe.initial_delay_seconds + probe.period_seconds * probe.failure_threshold for probe in probes]
    return float(max([spec.progress_deadline_seconds or 0, *budgets]))


def _kept(annotations: Mapping[str, str] | None, keep: Callable[[str], bool]) -> Mapping[str, str]:
    return {key: value for key, value in (annotations or {}).items() if keep(key)}
