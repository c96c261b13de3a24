"""Volumes, their claims and devices decide where a pod can go."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from ballast.cluster.objects import attachment_decoding as read
from ballast.model.attachments import Attachments, CsiNode, DeviceSlice, PersistentVolume, StorageClass, VolumeClaim
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.selector import Requirement
from ballast.model.template import NodeTerm, Template
from ballast.placement.layout import layout
from ballast.placement.simulated_placement import SimulatedPlacement
from tests.worlds.planning import a_node, a_pod

ZONE = "topology.kubernetes.io/zone"
BETA = "failure-domain.beta.kubernetes.io/zone"
NODES = tuple(a_node(f"n{n}", labels={ZONE: "ab"[n // 2], "kubernetes.io/hostname": f"n{n}"}) for n in range(4))
ANY = PersistentVolume("any", driver="csi.x", handle="any")


def at(key: str, *values: str) -> tuple[NodeTerm, ...]:
    return (NodeTerm((Requirement(key, "In", values),)),)


def claim(name: str, volume: str = "", *modes: str, **more: Any) -> VolumeClaim:
    return VolumeClaim("a", name, volume, access_modes=modes or ("ReadWriteOnce",), **more)


def where(
    attachments: Attachments,
    *others: Pod,
    claims: tuple[str, ...] = ("c",),
    on: str = "n0",
    nodes: tuple[Node, ...] = NODES,
    **template: Any,
) -> str:
    """The numbers of the nodes that a pod of `on` can be on."""
    made = Template(claims=tuple(("a", name) for name in claims), volume_claims=bool(claims), **template)
    pod = a_pod("p", on=on, template=made, waiting=None if on else 1.0)
    arranged = layout(nodes, [pod, *others], (), np.zeros((len(nodes), 0)))
    standing = SimulatedPlacement(arranged, targets=np.ones(len(nodes), bool), ceiling=1, attachments=attachments)
    row = arranged.pods.index(pod)
    before = standing.free.copy()
    mask = standing.feasible(row)
    assert (standing.free == before).all()
    assert [bool(mask[node]) for node in range(len(nodes))] == [
        standing.runs_on(row, node) for node in range(len(nodes))
    ]
    return "".join(str(node) for node in np.flatnonzero(mask).tolist())


def with_volume(volume: PersistentVolume, *modes: str, **more: Any) -> Attachments:
    return Attachments((claim("c", volume.name, *modes),), (volume,), **more)


def user(name: str, on: str, *claims: str, **more: Any) -> Pod:
    return a_pod(name, on=on, template=Template(claims=tuple(("a", each) for each in claims)), **more)


def test_a_pod_without_claims_goes_anywhere() -> None:
    assert where(Attachments(), claims=()) == "0123"


@pytest.mark.parametrize(
    "known",
    [
        Attachments(),
        Attachments(claims=(claim("c", "any"),)),
        Attachments(volumes=(ANY,)),
        Attachments((claim("other", "any"),), (ANY,)),
        Attachments((claim("c", "gone"),), (ANY,)),
        Attachments((claim("c", "any", deleting=True),), (ANY,)),
        Attachments((claim("c", "any", phase="Lost"),), (ANY,)),
        Attachments((claim("c"),), (ANY,)),
        Attachments((claim("c", storage_class="fast"),), (ANY,)),
        Attachments((claim("c", storage_class="fast"),), (ANY,), (StorageClass("fast", "csi.x"),)),
    ],
    ids=(
        "nothing",
        "no volumes",
        "no claims",
        "other claim",
        "no volume",
        "deleting",
        "lost",
        "no class",
        "class unknown",
        "immediate",
    ),
)
def test_what_is_not_known_or_not_bound_goes_nowhere(known: Attachments) -> None:
    assert where(known) == ""


def test_volumes_say_which_nodes_reach_them() -> None:
    local = PersistentVolume("v", node_affinity=at("kubernetes.io/hostname", "n2"))
    assert where(with_volume(local)) == "2"
    assert where(with_volume(PersistentVolume("v", node_affinity=at(ZONE, "b")))) == "23"
    assert (
        where(with_volume(PersistentVolume("v", node_affinity=(*at(ZONE, "a"), *at("kubernetes.io/hostname", "n3")))))
        == "013"
    )
    assert where(with_volume(PersistentVolume("v", node_affinity=()))) == ""
    assert where(with_volume(ANY)) == "0123"
    two = Attachments(
        (claim("c", "v"), claim("d", "w")),
        (local, PersistentVolume("v2"), PersistentVolume("w", node_affinity=at(ZONE, "a"))),
    )
    assert where(two, claims=("c", "d")) == ""


@pytest.mark.parametrize("key", [ZONE, BETA])
def test_zones_of_volumes(key: str) -> None:
    assert where(with_volume(PersistentVolume("v", zones=((key, ("b",)),)))) == "23"
    assert where(with_volume(PersistentVolume("v", zones=((key, ("a", "b")),)))) == "0123"
    bare = (*NODES[:3], a_node("n3"))
    assert where(with_volume(PersistentVolume("v", zones=((key, ("a",)),))), nodes=bare) == "013"
    region = (*NODES[:3], a_node("n3", labels={"topology.kubernetes.io/region": "r"}))
    assert where(with_volume(PersistentVolume("v", zones=((key, ("a",)),))), nodes=region) == "01"


def test_a_volume_for_one_pod_is_not_shared() -> None:
    once, alone, many = (with_volume(ANY, mode) for mode in ("ReadWriteOnce", "ReadWriteOncePod", "ReadWriteMany"))
    assert where(once) == "0123"
    assert where(alone) == "0123"
    assert where(once, user("q", "n1", "c")) == "1"
    assert where(once, user("q", "n1", "c", deleting=True)) == "1"
    assert where(once, user("q", "n1", "c", phase="Succeeded")) == "0123"
    assert where(once, user("q", "n1", "c"), user("r", "n2", "c")) == ""
    assert where(alone, user("q", "n1", "c")) == ""
    assert where(many, user("q", "n1", "c")) == "0123"
    assert where(with_volume(ANY, "ReadWriteOnce", "ReadOnlyMany"), user("q", "n1", "c")) == "0123"


def test_attach_limits() -> None:
    volumes = tuple(PersistentVolume(name, driver="csi.x", handle=name) for name in ("v", "w", "x"))
    claims = tuple(claim(f"c{each.name}", each.name, "ReadWriteMany") for each in volumes)
    limits = tuple(CsiNode(f"n{n}", {"csi.x": limit}) for n, limit in enumerate((2, 1, None)))
    known = Attachments(claims, volumes, csi_nodes=limits)
    assert where(known, claims=("cv",)) == "0123"
    assert where(known, user("q", "n1", "cw"), claims=("cv",)) == "023"
    assert where(known, user("q", "n1", "cv"), claims=("cv",)) == "0123"
    assert where(known, user("q", "n1", "cv"), user("r", "n1", "cv"), claims=("cv",)) == "0123"
    assert where(known, claims=("cv", "cw")) == "023"
    assert where(known, claims=("cv", "cw", "cx")) == "23"
    others = Attachments(claims, volumes, csi_nodes=(CsiNode("n0", {"csi.x": 5}), CsiNode("n1", {"csi.y": 5})))
    assert where(others, claims=("cv",)) == "023"


def test_claims_that_wait_for_a_pod() -> None:
    waiting = claim("c", storage_class="fast", size=10.0)
    anywhere = StorageClass("fast", "csi.x", waits=True)
    assert where(Attachments((waiting,), (), (anywhere,)), on="") == "0123"
    zonal = msgspec.structs.replace(anywhere, topologies=at(ZONE, "b"))
    assert where(Attachments((waiting,), (), (zonal,)), on="") == "23"
    chosen = msgspec.structs.replace(waiting, chosen_node="n2")
    assert where(Attachments((chosen,), (), (zonal,)), on="") == "2"
    static = StorageClass("fast", "kubernetes.io/no-provisioner", waits=True)
    local = PersistentVolume(
        "v", at("kubernetes.io/hostname", "n1"), storage_class="fast", access_modes=("ReadWriteOnce",), size=10.0
    )
    for available, size, found in ((True, 10.0, "1"), (False, 10.0, ""), (True, 9.0, "")):
        volume = msgspec.structs.replace(local, available=available, size=size)
        assert where(Attachments((waiting,), (volume,), (static,)), on="") == found


def test_ephemeral_claims_are_made_again() -> None:
    zonal = StorageClass("fast", "csi.x", waits=True, topologies=at(ZONE, "b"), default=True)
    known = Attachments((claim("p-scratch", "v"),), (PersistentVolume("v", at(ZONE, "a")),), (zonal,))
    assert where(known, claims=(), ephemeral=(("scratch", "fast"),)) == "23"
    assert where(known, claims=(), ephemeral=(("scratch", None),)) == "23"
    assert where(known, claims=(), ephemeral=(("scratch", "other"),)) == ""
    assert where(Attachments(), claims=(), ephemeral=(("scratch", None),)) == ""
    # Where a volume is made at once, nobody knows before.
    at_once = msgspec.structs.replace(zonal, waits=False)
    assert where(Attachments((), (), (at_once,)), claims=(), ephemeral=(("scratch", "fast"),)) == ""


def test_a_waiting_pod_goes_where_its_own_ephemeral_claim_can() -> None:
    zonal = StorageClass("fast", "csi.x", waits=True, topologies=at(ZONE, "b"))
    volumes = (PersistentVolume("v", at(ZONE, "a")),)
    own = {"claims": (), "ephemeral": (("scratch", "fast"),), "on": ""}
    assert where(Attachments((), volumes, (zonal,)), **own) == ""
    assert where(Attachments((claim("p-scratch", storage_class="fast"),), volumes, (zonal,)), **own) == "23"
    assert where(Attachments((claim("p-scratch", "v"),), volumes, (zonal,)), **own) == "01"


def test_devices() -> None:
    def devices(**counts: int) -> Attachments:
        slices = [DeviceSlice(name, "gpu.x", name, node=name, devices=("a100",) * n) for name, n in counts.items()]
        return Attachments(slices=tuple(slices))

    own = {"resource_claims": True, "device_claims": 1, "claims": ()}
    assert where(Attachments(), **own) == ""
    assert where(devices(n0=2, n1=2, n2=1), **own) == "01"
    assert where(devices(n1=2), **own) == ""
    busy = a_pod("q", on="n1", template=Template(device_claims=1))
    assert where(devices(n0=1, n1=2, n2=1), busy, **own) == "02"
    assert where(devices(n0=1, n1=1), resource_claims=True, shared_devices=True, claims=()) == ""
    assert where(devices(n0=1, n1=1), resource_claims=True, device_claims=1, claims=(), on="") == ""


def test_devices_count_where_their_pool_is_complete_and_new() -> None:
    def pools(**of_n1: Any) -> Attachments:
        plain = DeviceSlice("n0", "gpu.x", "n0", node="n0", devices=("a100",), names=("g",))
        return Attachments(
            slices=(plain, msgspec.structs.replace(plain, name="n1", pool="n1", node="n1", **of_n1), *old)
        )

    own = {"resource_claims": True, "device_claims": 1, "claims": ()}
    old: tuple[DeviceSlice, ...] = ()
    assert where(pools(), **own) == "01"
    assert where(pools(slices=2), **own) == "0"
    old = (DeviceSlice("old", "gpu.x", "n1", node="n1", devices=("a100",), names=("g",), generation=1),)
    assert where(pools(generation=1, slices=2), **own) == "01", "both slices are there, each with a device"
    assert where(pools(generation=2, devices=(), names=()), **own) == "0", "the older one is outdated"


def test_a_device_that_not_every_claim_may_have_is_like_no_other() -> None:
    def slice_of(name: str, device: Mapping[str, Any]) -> DeviceSlice:
        spec = {"driver": "gpu.x", "nodeName": name, "pool": {"name": name}, "devices": [{"name": "g", **device}]}
        return read.to_slice(msgspec.convert({"metadata": {"name": name}, "spec": spec}, read.WireSlice))

    own = {"resource_claims": True, "device_claims": 1, "claims": ()}
    taint = {"key": "broken", "effect": "NoSchedule"}
    for special in (
        {"taints": [taint]},
        {"consumesCounters": [{"counterSet": "g"}]},
        {"allowMultipleAllocations": True},
        {"bindingConditions": ["attached"], "bindingFailureConditions": ["failed"]},
        {"basic": {"taints": [taint]}},
    ):
        plain = {"basic": {}} if "basic" in special else {}
        assert where(Attachments(slices=(slice_of("n0", plain), slice_of("n1", plain))), **own) == "01"
        assert where(Attachments(slices=(slice_of("n0", plain), slice_of("n1", special))), **own) == "0"
        assert where(Attachments(slices=(slice_of("n0", special), slice_of("n1", special))), **own) == "0"


def test_objects_on_the_wire() -> None:
    def built(form: type[Any], build: Any, **document: Any) -> Any:
        return build(msgspec.convert(document, form))

    meta: Mapping[str, Any] = {"name": "x", "namespace": "a"}
    volume = built(
        read.WireVolume,
        read.to_volume,
        metadata={"name": "x", "labels": {ZONE: "a__b"}},
        spec={
            "csi": {"driver": "csi.x", "volumeHandle": "h"},
            "storageClassName": "fast",
            "capacity": {"storage": "1Gi"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]
                }
            },
        },
    )
    assert volume.driver == "csi.x"
    assert volume.zones == ((ZONE, ("a", "b")),)
    assert volume.node_affinity == at(ZONE, "a")
    assert volume.available
    in_tree = {"awsElasticBlockStore": {"volumeID": "vol-1"}, "claimRef": {"name": "c"}}
    ebs = built(read.WireVolume, read.to_volume, metadata=meta, spec=in_tree, status={"phase": "Bound"})
    assert (ebs.driver, ebs.handle, ebs.available) == ("ebs.csi.aws.com", "vol-1", False)
    unreadable = built(read.WireVolume, read.to_volume, metadata=meta, spec={"nodeAffinity": {}, "capacity": None})
    assert unreadable.node_affinity is None
    found = built(
        read.WireClaim,
        read.to_claim,
        metadata={**meta, "annotations": {"volume.beta.kubernetes.io/storage-class": "old"}},
        spec={"volumeName": "x", "resources": {"requests": {"storage": "many"}}, "accessModes": None},
    )
    assert (found.storage_class, found.size, found.access_modes) == ("old", float("inf"), ())
    zones = {"key": ZONE, "values": ["b"]}
    fast = built(
        read.WireStorageClass,
        read.to_storage_class,
        metadata=meta,
        provisioner="csi.x",
        volumeBindingMode="WaitForFirstConsumer",
        allowedTopologies=[{"matchLabelExpressions": [zones]}],
    )
    assert (fast.waits, fast.topologies) == (True, at(ZONE, "b"))
    csi = built(
        read.WireCsiNode,
        read.to_csi_node,
        metadata=meta,
        spec={"drivers": [{"name": "csi.x", "allocatable": {"count": 3}}, {"name": "csi.y", "allocatable": None}]},
    )
    assert csi.drivers == {"csi.x": 3, "csi.y": None}
    devices = [{"name": "g0", "attributes": {"model": {"string": "a100"}}}, {"name": "g1", "basic": {}}, {}]
    slices = built(
        read.WireSlice, read.to_slice, metadata=meta, spec={"driver": "gpu.x", "nodeName": "n", "devices": devices}
    )
    assert slices.node == "n"
    assert len(slices.devices) == 3
    assert slices.in_parts == ()
    parts = [
        {"name": "g0", "consumesCounters": [{"counterSet": "g"}]},
        {"name": "g1", "basic": {"consumesCounters": [{"counterSet": "g"}]}},
        {"name": "g2", "allowMultipleAllocations": True},
        {"name": "g3", "consumesCounters": [], "allowMultipleAllocations": False},
    ]
    slices = built(read.WireSlice, read.to_slice, metadata=meta, spec={"driver": "gpu.x", "devices": parts})
    assert slices.in_parts == ("g0", "g1", "g2")
    conditions = [{"type": "Consolidatable", "status": "True"}, {"type": "Drifted", "status": "False"}]
    node = built(
        read.WireNodeClaim, read.to_node_claim, metadata=meta, status={"nodeName": "n", "conditions": conditions}
    )
    assert (node.node, node.removable) == ("n", "Consolidatable")
