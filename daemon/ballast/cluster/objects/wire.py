"""What is read from Kubernetes objects on the wire. What is not named here is skipped while parsing and never built."""

from datetime import datetime
from typing import Any, TypeAlias, TypeVar

import msgspec

from ballast.model.node import Taint
from ballast.model.template import Toleration

Quantities: TypeAlias = dict[str, str | int | float]
M = TypeVar("M", bound="Meta")


class WireStruct(msgspec.Struct, gc=False, rename="camel"):
    """Base of the wire types: Go's camelCase names, garbage collection off because none of them holds a cycle."""


class OwnerReference(WireStruct):
    """metav1.OwnerReference."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    api_version: str = ""


class Meta(WireStruct):
    """metav1.ObjectMeta."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


LONGEST_NAME = 253
"""Characters of a text that an opaque object keeps."""

MOST_NOTES = 16
"""Annotations that an opaque object keeps."""


def short(*texts: str) -> bool:
    """Whether an opaque object keeps these texts."""
    return all(len(text) <= LONGEST_NAME for text in texts)


def reduced(meta: M) -> M:
    """The metadata of an opaque object: no labels, few and short annotations, owners with short names."""
    notes = [item for item in sorted((meta.annotations or {}).items()) if short(*item)][:MOST_NOTES]
    owners = [owner for owner in meta.owner_references or () if short(owner.kind, owner.name, owner.uid)]
    controllers = [owner for owner in owners if owner.controller] or owners
    return msgspec.structs.replace(meta, labels=None, annotations=dict(notes), owner_references=controllers[:1])


class Condition(WireStruct):
    """The condition of a node or pod."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: datetime | None = None


class Address(WireStruct):
    """v1.NodeAddress."""

    type: str = ""
    address: str = ""


class NodeSpec(WireStruct):
    """v1.NodeSpec."""

    taints: list[Taint] | None = None
    unschedulable: bool | None = None
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeInfo(WireStruct):
    """v1.NodeSystemInfo."""

    operating_system: str = ""
    architecture: str = ""
    kubelet_version: str = ""
    os_image: str = ""


class NodeImage(WireStruct):
    """v1.ContainerImage."""

    names: list[str] | None = None


class NodeStatus(WireStruct):
    """v1.NodeStatus."""

    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    addresses: list[Address] | None = None
    conditions: list[Condition] | None = None
    node_info: NodeInfo | None = None
    images: list[NodeImage] | None = None


class Node(WireStruct):
    """v1.Node."""

    metadata: Meta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class ResourceRequirements(WireStruct):
    """v1.ResourceRequirements."""

    requests: Quantities | None = None
    limits: Quantities | None = None


class ContainerPort(WireStruct):
    """v1.ContainerPort."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class Container(WireStruct):
    """v1.Container."""

    resources: ResourceRequirements | None = None
    restart_policy: str | None = None
    ports: list[ContainerPort] | None = None
    name: str = ""
    image: str = ""
    image_pull_policy: str = ""


class Volume(WireStruct):
    """v1.Volume."""

    name: str = ""
    empty_dir: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    persistent_volume_claim: dict[str, Any] | None = None
    ephemeral: dict[str, Any] | None = None


class LabelRequirement(WireStruct):
    """metav1.LabelSelectorRequirement; for nodes v1.NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(WireStruct):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[LabelRequirement] | None = None


class NodeSelectorTerm(WireStruct):
    """v1.NodeSelectorTerm."""

    match_expressions: list[LabelRequirement] | None = None
    match_fields: list[LabelRequirement] | None = None


class NodeSelector(WireStruct):
    """v1.NodeSelector."""

    node_selector_terms: list[NodeSelectorTerm] | None = None


class PreferredSchedulingTerm(WireStruct):
    """v1.PreferredSchedulingTerm."""

    weight: int = 0
    preference: NodeSelectorTerm = msgspec.field(default_factory=NodeSelectorTerm)


class NodeAffinity(WireStruct):
    """v1.NodeAffinity."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: list[PreferredSchedulingTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(WireStruct):
    """v1.PodAffinityTerm."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(WireStruct):
    """v1.WeightedPodAffinityTerm."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = msgspec.field(default_factory=PodAffinityTerm)


class PodAffinity(WireStruct):
    """v1.PodAffinity or v1.PodAntiAffinity."""

    required: list[PodAffinityTerm] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[WeightedPodAffinityTerm] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(WireStruct):
    """v1.Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(WireStruct):
    """v1.TopologySpreadConstraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: list[str] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class SchedulingGate(WireStruct):
    """v1.PodSchedulingGate."""

    name: str = ""


class LeanPodSpec(WireStruct):
    """v1.PodSpec, as far as it tells what the pod asks for and who places it."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    resources: ResourceRequirements | None = None
    overhead: Quantities | None = None
    priority_class_name: str = ""
    scheduling_gates: list[SchedulingGate] | None = None


class PodSpec(LeanPodSpec):
    """v1.PodSpec, with where the pod may run and what it keeps on its node."""

    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    affinity: Affinity | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[dict[str, Any]] | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    workload_ref: dict[str, Any] | None = None
    scheduling_group: dict[str, Any] | None = None


class ContainerStatus(WireStruct):
    """v1.ContainerStatus: what the container was given (allocated), and what it has now (actuated)."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None
    restart_count: int = 0


class PodStatus(WireStruct):
    """v1.PodStatus."""

    phase: str = "Pending"
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: Quantities | None = None
    resources: ResourceRequirements | None = None


class Pod(WireStruct):
    """v1.Pod."""

    metadata: Meta
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class LeanPod(WireStruct):
    """v1.Pod, its spec lean."""

    metadata: Meta
    spec: LeanPodSpec = msgspec.field(default_factory=LeanPodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class ConfigMap(WireStruct):
    """v1.ConfigMap."""

    metadata: Meta
    data: dict[str, str] | None = None


class LeaseSpec(WireStruct):
    """coordination.k8s.io/v1 LeaseSpec."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(WireStruct):
    """coordination.k8s.io/v1 Lease."""

    metadata: Meta
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class ListMeta(WireStruct):
    """metav1.ListMeta."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(WireStruct):
    """A page of a list whose items are parsed later, one by one."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class WatchEvent(WireStruct):
    """metav1.WatchEvent."""

    type: str
    object: msgspec.Raw


class HasMeta(WireStruct):
    """The metadata of any object."""

    metadata: Meta = msgspec.field(default_factory=Meta)


class Identity(WireStruct):
    """Of metav1.ObjectMeta what tells objects and their versions apart."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class HasIdentity(WireStruct):
    """The identity of any object."""

    metadata: Identity = msgspec.field(default_factory=Identity)


class Cause(WireStruct):
    """metav1.StatusCause."""

    reason: str = ""
    message: str = ""


class StatusDetails(WireStruct):
    """metav1.StatusDetails."""

    kind: str = ""
    name: str = ""
    causes: list[Cause] | None = None
    retry_after_seconds: int | None = None


class ApiStatus(WireStruct):
    """The API's answer when something was refused; also the object of an ERROR event."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None
