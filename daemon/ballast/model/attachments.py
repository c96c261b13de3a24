"""What pods attach to their nodes beside containers: volumes behind their claims, and devices of resource slices."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ballast.model.node import Node, Taint
from ballast.model.template import NodeTerm

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

SHARED_MODES = frozenset(("ReadWriteMany", "ReadOnlyMany"))
"""Access modes with which pods on several nodes may use a volume."""


class VolumeClaim(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolumeClaim."""

    namespace: str
    name: str
    volume: str = ""
    """The name of the volume that it is bound to."""
    phase: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    size: float = 0.0
    """Requested bytes."""
    deleting: bool = False
    chosen_node: str = ""
    """The node that its volume is being provisioned for."""
    selective: bool = False
    """Whether it asks for volumes of some labels only."""

    @property
    def shared(self) -> bool:
        """Whether pods on several nodes may use it at once."""
        return not SHARED_MODES.isdisjoint(self.access_modes)


class PersistentVolume(msgspec.Struct, frozen=True, gc=False):
    """A PersistentVolume."""

    name: str
    node_affinity: tuple[NodeTerm, ...] | None = None
    zones: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Its zone and region labels, each with the values that they list."""
    driver: str = ""
    """The CSI driver, also that of an in-tree volume that was migrated to it."""
    handle: str = ""
    storage_class: str = ""
    access_modes: tuple[str, ...] = ()
    size: float = 0.0
    available: bool = False
    """Whether a claim may still be bound to it."""
    on_one_node: bool = False
    """Whether its data are on one node although no affinity says so, or its source is not known."""


class StorageClass(msgspec.Struct, frozen=True, gc=False):
    """A StorageClass."""

    name: str
    provisioner: str = ""
    waits: bool = False
    """Whether volumes are bound once a pod is scheduled (WaitForFirstConsumer)."""
    topologies: tuple[NodeTerm, ...] | None = None
    """Where volumes may be provisioned; None: anywhere."""
    default: bool = False


class CsiNode(msgspec.Struct, frozen=True, gc=False):
    """A CSINode: the drivers of a node, each with the volumes that may be attached; None: no limit."""

    name: str
    drivers: Mapping[str, int | None] = {}


class DeviceSlice(msgspec.Struct, frozen=True, gc=False):
    """A ResourceSlice. `devices` are their properties as one text each, equal for equal devices."""

    name: str
    driver: str = ""
    pool: str = ""
    node: str = ""
    """The node that has the devices; empty where `terms` or `everywhere` say it."""
    terms: tuple[NodeTerm, ...] | None = None
    everywhere: bool = False
    devices: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    """The names of the devices, in the order of `devices`."""
    in_parts: tuple[str, ...] = ()
    """Those of them that share counters with others, or that several claims may share: how many are free is unknown."""
    generation: int = 0
    """Of the pool; slices of older generations are outdated."""
    slices: int = 1
    """How many slices the pool has when it is complete."""


def in_use(slices: Sequence[DeviceSlice]) -> Iterator[DeviceSlice]:
    """Those of the newest generation of their pool, where all of them are there.

    Source: kubernetes dynamic-resource-allocation structured/internal/stable/pools_stable.go, GatherPools.
    """
    newest: dict[tuple[str, str], int] = {}
    for entry in slices:
        pool = entry.driver, entry.pool
        newest[pool] = max(newest.get(pool, entry.generation), entry.generation)
    current = [entry for entry in slices if entry.generation == newest[entry.driver, entry.pool]]
    there = Counter((device_slice.driver, device_slice.pool) for device_slice in current)
    yield from (
        device_slice for device_slice in current if there[device_slice.driver, device_slice.pool] == device_slice.slices
    )


class DeviceRequest(msgspec.Struct, frozen=True, gc=False):
    """One request of a ResourceClaim: so many devices of a class."""

    name: str
    device_class: str
    count: int


class GivenDevice(msgspec.Struct, frozen=True, gc=False):
    """A device that a request of a ResourceClaim was given."""

    request: str
    driver: str
    pool: str
    device: str


class DeviceClaim(msgspec.Struct, frozen=True, gc=False):
    """A ResourceClaim. Requests for all devices, and for access as an administrator, are not among the `requests`."""

    namespace: str
    name: str
    pods: tuple[str, ...] = ()
    """The UIDs of the pods that it was made for or is reserved for."""
    requests: tuple[DeviceRequest, ...] = ()
    given: tuple[GivenDevice, ...] = ()


class NodeClaim(msgspec.Struct, frozen=True, gc=False):
    """A NodeClaim of Karpenter."""

    name: str
    node: str = ""
    """The node that came of it; empty while it is on its way."""
    removable: str = ""
    """The condition for which Karpenter would remove it: `Consolidatable` or `Drifted`; else empty."""
    ready: bool = False
    """Whether the node is initialized."""
    labels: Mapping[str, str] = {}
    allocatable: Mapping[str, float] = {}
    taints: tuple[Taint, ...] = ()

    @property
    def coming(self) -> Node:
        """The node that it will be."""
        return Node(self.name, labels=self.labels, allocatable=self.allocatable, taints=self.taints)


class ScaleUp(msgspec.Struct, frozen=True, gc=False):
    """An event by which cluster-autoscaler says that it adds a node for a pod."""

    namespace: str
    name: str
    pod: str = ""
    """namespace/name of the pod."""
    at: float = 0.0
    """Unix seconds."""


@dataclass(frozen=True)
class Attachments:
    """The objects behind volumes and devices. A kind that is None is not known: what needs it goes nowhere."""

    claims: Sequence[VolumeClaim] | None = None
    volumes: Sequence[PersistentVolume] | None = None
    classes: Sequence[StorageClass] | None = None
    csi_nodes: Sequence[CsiNode] | None = None
    slices: Sequence[DeviceSlice] | None = None


UNKNOWN = Attachments()
