"""From wire objects to volumes, their claims and classes, CSI nodes, resource slices and node claims."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from ballast.cluster.objects import wire
from ballast.cluster.objects.templates import node_terms
from ballast.model.attachments import (
    CsiNode,
    DeviceClaim,
    DeviceRequest,
    DeviceSlice,
    GivenDevice,
    NodeClaim,
    PersistentVolume,
    ScaleUp,
    StorageClass,
    VolumeClaim,
)
from ballast.model.load_limits import quantity
from ballast.model.node import Taint
from ballast.model.selector import Requirement
from ballast.model.template import NodeTerm
from ballast.model.workload import Recommendation

_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
# Volumes that were migrated to CSI: the driver, and the field that says which one it is (csi-translation-lib/plugins).
_MIGRATED = {
    "awsElasticBlockStore": ("ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("pd.csi.storage.gke.io", "pdName"),
    "azureDisk": ("disk.csi.azure.com", "diskURI"),
    "cinder": ("cinder.csi.openstack.org", "volumeID"),
    "vsphereVolume": ("csi.vsphere.vmware.com", "volumePath"),
    "portworxVolume": ("pxd.portworx.com", "volumeID"),
}
TRIGGERED = "TriggeredScaleUp"
"""The reason of the event by which cluster-autoscaler says that it adds a node for a pod."""

_CANDIDATE = ("Drifted", "Consolidatable")
_BOUND = ("Bound", "Released", "Failed")


class ClaimResources(wire.WireStruct):
    """v1.VolumeResourceRequirements."""

    requests: wire.Quantities | None = None


class ClaimSpec(wire.WireStruct):
    """v1.PersistentVolumeClaimSpec."""

    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    resources: ClaimResources | None = None
    selector: wire.LabelSelector | None = None


class Phase(wire.WireStruct):
    """The status of a volume or a claim."""

    phase: str = ""


class WireClaim(wire.WireStruct):
    """v1.PersistentVolumeClaim."""

    metadata: wire.Meta
    spec: ClaimSpec = msgspec.field(default_factory=ClaimSpec)
    status: Phase = msgspec.field(default_factory=Phase)


class CsiSource(wire.WireStruct):
    """v1.CSIPersistentVolumeSource."""

    driver: str = ""
    volume_handle: str = ""
    volume_attributes: dict[str, str] | None = None


class VolumeNodeAffinity(wire.WireStruct):
    """v1.VolumeNodeAffinity."""

    required: wire.NodeSelector | None = None


class VolumeSpec(wire.WireStruct):
    """v1.PersistentVolumeSpec."""

    csi: CsiSource | None = None
    node_affinity: VolumeNodeAffinity | None = None
    storage_class_name: str = ""
    access_modes: list[str] | None = None
    capacity: wire.Quantities | None = None
    claim_ref: dict[str, Any] | None = None
    aws_elastic_block_store: dict[str, Any] | None = None
    gce_persistent_disk: dict[str, Any] | None = None
    azure_disk: dict[str, Any] | None = None
    cinder: dict[str, Any] | None = None
    vsphere_volume: dict[str, Any] | None = None
    portworx_volume: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    local: dict[str, Any] | None = None
    nfs: dict[str, Any] | None = None
    iscsi: dict[str, Any] | None = None
    fc: dict[str, Any] | None = None
    rbd: dict[str, Any] | None = None
    cephfs: dict[str, Any] | None = None
    glusterfs: dict[str, Any] | None = None
    azure_file: dict[str, Any] | None = None
    flex_volume: dict[str, Any] | None = None
    quobyte: dict[str, Any] | None = None
    scale_io: dict[str, Any] | None = msgspec.field(default=None, name="scaleIO")
    storageos: dict[str, Any] | None = None
    flocker: dict[str, Any] | None = None
    photon_persistent_disk: dict[str, Any] | None = None


class WireVolume(wire.WireStruct):
    """v1.PersistentVolume."""

    metadata: wire.Meta
    spec: VolumeSpec = msgspec.field(default_factory=VolumeSpec)
    status: Phase = msgspec.field(default_factory=Phase)


class TopologyLabel(wire.WireStruct):
    """v1.TopologySelectorLabelRequirement."""

    key: str = ""
    values: list[str] | None = None


class TopologyTerm(wire.WireStruct):
    """v1.TopologySelectorTerm."""

    match_label_expressions: list[TopologyLabel] | None = None


class WireStorageClass(wire.WireStruct):
    """storage.k8s.io/v1 StorageClass."""

    metadata: wire.Meta
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class Allocatable(wire.WireStruct):
    """storage.k8s.io/v1 VolumeNodeResources."""

    count: int | None = None


class CsiDriver(wire.WireStruct):
    """storage.k8s.io/v1 CSINodeDriver."""

    name: str = ""
    allocatable: Allocatable | None = None


class CsiNodeSpec(wire.WireStruct):
    """storage.k8s.io/v1 CSINodeSpec."""

    drivers: list[CsiDriver] | None = None


class WireCsiNode(wire.WireStruct):
    """storage.k8s.io/v1 CSINode."""

    metadata: wire.Meta
    spec: CsiNodeSpec = msgspec.field(default_factory=CsiNodeSpec)


class DevicePool(wire.WireStruct):
    """resource.k8s.io ResourcePool."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 1


class SliceSpec(wire.WireStruct):
    """resource.k8s.io ResourceSliceSpec."""

    driver: str = ""
    pool: DevicePool = msgspec.field(default_factory=DevicePool)
    node_name: str | None = None
    node_selector: wire.NodeSelector | None = None
    all_nodes: bool | None = None
    devices: list[dict[str, Any]] | None = None


class WireSlice(wire.WireStruct):
    """resource.k8s.io ResourceSlice."""

    metadata: wire.Meta
    spec: SliceSpec = msgspec.field(default_factory=SliceSpec)


class NodeClaimStatus(wire.WireStruct):
    """karpenter.sh NodeClaimStatus."""

    node_name: str = ""
    conditions: list[wire.Condition] | None = None
    allocatable: wire.Quantities | None = None


class NodeClaimSpec(wire.WireStruct):
    """karpenter.sh NodeClaimSpec."""

    taints: list[Taint] | None = None


class WireNodeClaim(wire.WireStruct):
    """karpenter.sh NodeClaim."""

    metadata: wire.Meta
    spec: NodeClaimSpec = msgspec.field(default_factory=NodeClaimSpec)
    status: NodeClaimStatus = msgspec.field(default_factory=NodeClaimStatus)


class ContainerRecommendation(wire.WireStruct):
    """autoscaling.k8s.io RecommendedContainerResources."""

    target: wire.Quantities | None = None


class VpaRecommendation(wire.WireStruct):
    """autoscaling.k8s.io RecommendedPodResources."""

    container_recommendations: list[ContainerRecommendation] | None = None


class VpaStatus(wire.WireStruct):
    """autoscaling.k8s.io VerticalPodAutoscalerStatus."""

    recommendation: VpaRecommendation | None = None


class VpaUpdatePolicy(wire.WireStruct):
    """autoscaling.k8s.io PodUpdatePolicy."""

    update_mode: str = ""


class VpaTarget(wire.WireStruct):
    """autoscaling/v1 CrossVersionObjectReference."""

    kind: str = ""
    name: str = ""


class VpaSpec(wire.WireStruct):
    """autoscaling.k8s.io VerticalPodAutoscalerSpec."""

    target_ref: VpaTarget | None = None
    update_policy: VpaUpdatePolicy | None = None


class WireVpa(wire.WireStruct):
    """autoscaling.k8s.io VerticalPodAutoscaler."""

    metadata: wire.Meta
    spec: VpaSpec = msgspec.field(default_factory=VpaSpec)
    status: VpaStatus | None = None


class WireEvent(wire.WireStruct):
    """v1.Event."""

    metadata: wire.Meta
    involved_object: wire.Identity = msgspec.field(default_factory=wire.Identity)
    reason: str = ""
    last_timestamp: datetime | None = None
    event_time: datetime | None = None


WireKind: TypeAlias = (
    WireClaim | WireVolume | WireStorageClass | WireCsiNode | WireSlice | WireNodeClaim | WireVpa | WireEvent
)


def to_claim(source: WireClaim) -> VolumeClaim:
    meta, spec = source.metadata, source.spec
    notes = meta.annotations or {}
    return VolumeClaim(
        namespace=meta.namespace,
        name=meta.name,
        volume=spec.volume_name,
        phase=source.status.phase,
        # As in Kubernetes, the beta annotation wins over the field.
        storage_class=notes.get(_CLASS, "") or spec.storage_class_name or "",
        access_modes=tuple(spec.access_modes or ()),
        size=_size(spec.resources.requests if spec.resources else None),
        deleting=meta.deletion_timestamp is not None,
        chosen_node=notes.get(_SELECTED_NODE, ""),
        selective=spec.selector is not None,
    )


def to_volume(source: WireVolume) -> PersistentVolume:
    meta, spec = source.metadata, source.spec
    labels = meta.labels or {}
    driver, handle = _attached(spec)
    required = spec.node_affinity.required if spec.node_affinity else None
    return PersistentVolume(
        name=meta.name,
        node_affinity=None if required is None else node_terms(required),
        # The label of a regional disk has several zones, joined by two underscores.
        zones=tuple((key, tuple(labels[key].split("__"))) for key in _ZONES if key in labels),
        driver=driver,
        handle=handle or meta.name,
        storage_class=(meta.annotations or {}).get(_CLASS, "") or spec.storage_class_name,
        access_modes=tuple(spec.access_modes or ()),
        size=_size(spec.capacity),
        # A released or failed volume has data of its last claim: nothing binds it again.
        available=spec.claim_ref is None and source.status.phase not in _BOUND and meta.deletion_timestamp is None,
        on_one_node=required is None and _on_one_node(spec),
    )


_LOCAL = re.compile(r"hostpath|localpath|topolvm|(^|[./_-])(local|local-path|host-path|localdisk|node-local)($|[./_-])")
"""Names of drivers whose volumes are directories or disks of one node."""
_NETWORK = re.compile(r"nfs|smb|cifs|iscsi|rbd|ceph|gluster|ebs|efs|cloud")
_OF_NODE = re.compile(r"(^|[./_-])node(name|[-_]name)$", re.IGNORECASE)
"""The end of an attribute that names the node of a volume."""
_SOURCES = (
    *("nfs", "iscsi", "fc", "rbd", "cephfs", "glusterfs", "azure_file", "flex_volume", "quobyte", "scale_io"),
    *("storageos", "flocker", "photon_persistent_disk"),
)


def _on_one_node(spec: VolumeSpec) -> bool:
    """By its source: directories of a node are, and what has no source that is known; network volumes never."""
    if spec.host_path is not None or spec.local is not None:
        return True
    if spec.csi is None:
        return _attached(spec) == ("", "") and not any(getattr(spec, name) is not None for name in _SOURCES)
    driver, attributes = spec.csi.driver.lower(), spec.csi.volume_attributes or {}
    if _LOCAL.search(driver) and not _NETWORK.search(driver):
        return True
    locality = any(
        "locality" in key.lower() and value.lower().startswith("strict") for key, value in attributes.items()
    )
    return locality or any(value and _OF_NODE.search(key) for key, value in attributes.items())


def to_storage_class(source: WireStorageClass) -> StorageClass:
    notes = source.metadata.annotations or {}
    return StorageClass(
        name=source.metadata.name,
        provisioner=source.provisioner,
        waits=source.volume_binding_mode == "WaitForFirstConsumer",
        topologies=tuple(map(_term, source.allowed_topologies)) if source.allowed_topologies else None,
        default=any(notes.get(key) == "true" for key in _DEFAULT),
    )


def to_csi_node(source: WireCsiNode) -> CsiNode:
    drivers = source.spec.drivers or ()
    return CsiNode(source.metadata.name, {d.name: d.allocatable.count if d.allocatable else None for d in drivers})


def to_slice(source: WireSlice) -> DeviceSlice:
    """Devices that each say their own node are nowhere."""
    spec = source.spec
    return DeviceSlice(
        name=source.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        node=spec.node_name or "",
        terms=None if spec.node_selector is None else node_terms(spec.node_selector),
        everywhere=bool(spec.all_nodes),
        devices=tuple(_properties(spec.driver, spec.pool.name, device) for device in spec.devices or ()),
        names=tuple(str(device.get("name", "")) for device in spec.devices or ()),
        in_parts=tuple(str(device.get("name", "")) for device in spec.devices or () if _in_parts(device)),
        # These two tell incomplete and outdated pools, whose devices do not count.
        generation=spec.pool.generation,
        slices=spec.pool.resource_slice_count,
    )


def _in_parts(device: dict[str, Any]) -> bool:
    """Whether it takes from counters that it shares with other devices, or several claims may share it."""
    fields = _described(device)
    return bool(fields.get("consumesCounters") or fields.get("allowMultipleAllocations"))


def _described(device: dict[str, Any]) -> dict[str, Any]:
    """What a device is said to be; up to v1beta1 that stands one level deeper."""
    basic = device.get("basic")
    return basic if isinstance(basic, dict) else device


def to_node_claim(source: WireNodeClaim) -> NodeClaim:
    true = {condition.type for condition in source.status.conditions or () if condition.status == "True"}
    return NodeClaim(
        name=source.metadata.name,
        node=source.status.node_name,
        removable=next((name for name in _CANDIDATE if name in true), ""),
        ready="Initialized" in true,
        labels=source.metadata.labels or {},
        allocatable=_amounts(source.status.allocatable),
        taints=tuple(source.spec.taints or ()),
    )


def to_recommendation(source: WireVpa) -> Recommendation:
    """In mode Off it changes no pod."""
    spec, total = source.spec, dict[str, float]()
    target = spec.target_ref or VpaTarget()
    found = source.status.recommendation if source.status is not None else None
    acts = spec.update_policy is None or spec.update_policy.update_mode != "Off"
    for container in (found.container_recommendations if found is not None and acts else None) or ():
        for name, amount in _amounts(container.target).items():
            total[name] = total.get(name, 0.0) + amount
    return Recommendation(source.metadata.namespace, target.kind, target.name, total)


def to_scale_up(source: WireEvent) -> ScaleUp:
    """Of any other event it is one of no pod."""
    at = source.last_timestamp or source.event_time or source.metadata.creation_timestamp
    pod = source.involved_object
    name = f"{pod.namespace}/{pod.name}" if source.reason == TRIGGERED else ""
    return ScaleUp(source.metadata.namespace, source.metadata.name, name, at.timestamp() if at else 0.0)


def _attached(spec: VolumeSpec) -> tuple[str, str]:
    if spec.csi is not None:
        return spec.csi.driver, spec.csi.volume_handle
    sources = (
        ("awsElasticBlockStore", spec.aws_elastic_block_store),
        ("gcePersistentDisk", spec.gce_persistent_disk),
        ("azureDisk", spec.azure_disk),
        ("cinder", spec.cinder),
        ("vsphereVolume", spec.vsphere_volume),
        ("portworxVolume", spec.portworx_volume),
    )
    for name, source in sources:
        if source is not None:
            driver, field = _MIGRATED[name]
            return driver, str(source.get(field, ""))
    return "", ""


def _term(source: TopologyTerm) -> NodeTerm:
    return NodeTerm(
        tuple(Requirement(e.key, "In", tuple(e.values or ())) for e in source.match_label_expressions or ())
    )


def _properties(driver: str, pool: str, device: dict[str, Any]) -> str:
    """What a claim can ask of a device: all but its name. One that not every claim may have is like no other."""
    fields = _described(device)
    known = {key: value for key, value in fields.items() if key in ("attributes", "capacity")}
    if _in_parts(device) or fields.get("taints") or fields.get("bindingConditions"):
        known["device"] = [pool, device.get("name")]
    return f"{driver} " + msgspec.json.encode(known, order="sorted").decode()


def _amounts(amounts: wire.Quantities | None) -> dict[str, float]:
    """What cannot be read is left out."""
    numbers = {}
    for name, text in (amounts or {}).items():
        with suppress(ValueError):
            numbers[name] = quantity(text)
    return numbers


def _size(amounts: wire.Quantities | None) -> float:
    try:
        return quantity((amounts or {}).get("storage", 0))
    except ValueError:
        return float("inf")


_POD = "Pod"
_COUNTED = ("", "ExactCount")


class WireDeviceRequest(wire.WireStruct):
    """resource.k8s.io DeviceRequest, ExactDeviceRequest and DeviceSubRequest in one."""

    name: str = ""
    exactly: WireDeviceRequest | None = None
    first_available: list[WireDeviceRequest] | None = None
    device_class_name: str = ""
    allocation_mode: str = ""
    count: int = 1
    admin_access: bool | None = None


class WireDeviceRequests(wire.WireStruct):
    """resource.k8s.io DeviceClaim."""

    requests: list[WireDeviceRequest] | None = None


class WireDeviceClaimSpec(wire.WireStruct):
    """resource.k8s.io ResourceClaimSpec."""

    devices: WireDeviceRequests = msgspec.field(default_factory=WireDeviceRequests)


class WireGiven(wire.WireStruct):
    """resource.k8s.io DeviceRequestAllocationResult."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None


class WireGivenDevices(wire.WireStruct):
    """resource.k8s.io DeviceAllocationResult."""

    results: list[WireGiven] | None = None


class WireAllocation(wire.WireStruct):
    """resource.k8s.io AllocationResult."""

    devices: WireGivenDevices = msgspec.field(default_factory=WireGivenDevices)


class WireDeviceClaimStatus(wire.WireStruct):
    """resource.k8s.io ResourceClaimStatus."""

    allocation: WireAllocation | None = None
    reserved_for: list[wire.OwnerReference] | None = None


class WireDeviceClaim(wire.WireStruct):
    """resource.k8s.io ResourceClaim."""

    metadata: wire.Meta
    spec: WireDeviceClaimSpec = msgspec.field(default_factory=WireDeviceClaimSpec)
    status: WireDeviceClaimStatus = msgspec.field(default_factory=WireDeviceClaimStatus)


def to_device_claim(source: WireDeviceClaim) -> DeviceClaim:
    meta, status = source.metadata, source.status
    # The pod that a claim was made for owns it, pods that use it are in reservedFor; one may be both.
    owners = (owner.uid for owner in meta.owner_references or () if owner.kind == _POD)
    reserved = (consumer.uid for consumer in status.reserved_for or ())
    # Access as an administrator takes no device from others, so it is left out below.
    results = status.allocation.devices.results if status.allocation else None
    return DeviceClaim(
        namespace=meta.namespace,
        name=meta.name,
        pods=tuple(dict.fromkeys((*owners, *reserved))),
        requests=tuple(_requests(source.spec.devices)),
        given=tuple(GivenDevice(g.request, g.driver, g.pool, g.device) for g in results or () if not g.admin_access),
    )


def _requests(devices: WireDeviceRequests) -> Iterator[DeviceRequest]:
    """Of alternatives, the first one is what is asked for."""
    for request in devices.requests or ():
        alternatives = request.first_available or ()
        exact = request.exactly or next(iter(alternatives), None)
        if exact is not None and exact.allocation_mode in _COUNTED and not exact.admin_access:
            name = request.name if request.exactly else f"{request.name}/{exact.name}"
            yield DeviceRequest(name, exact.device_class_name, max(exact.count, 1))
