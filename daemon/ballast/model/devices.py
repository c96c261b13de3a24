"""Devices that pods take whole or in part: which a node has, what a pod asks for, and on which of them it sits.

Whole devices are extended resources (`nvidia.com/gpu`). Parts of a device are known from the annotations of the
scheduler extension that hands them out: gpu-share (github.com/alibaba/open-gpu-share, `alibabacloud.com/gpu-milli`,
`gpu-count`, `gpu-index`) and HAMi (github.com/Project-HAMi/HAMi, `nvidia.com/gpucores`,
`hami.io/vgpu-devices-allocated`, `hami.io/node-nvidia-register`).
"""

import math
from collections.abc import Mapping

import msgspec

from ballast.base.errors import NOT_JSON
from ballast.model.load_limits import quantity
from ballast.model.node import Node
from ballast.model.pod import Pod

MILLI = 1000
"""A whole device, in thousandths."""

WHOLE = ("nvidia.com/gpu", "amd.com/gpu")
"""Extended resources that count devices."""

SHARE_MILLI, SHARE_COUNT = "alibabacloud.com/gpu-milli", "alibabacloud.com/gpu-count"
SHARE_INDEX = "alibabacloud.com/gpu-index"
HAMI_COUNT, HAMI_CORES = "nvidia.com/gpu", "nvidia.com/gpucores"
HAMI_ALLOCATED, HAMI_REGISTER = "hami.io/vgpu-devices-allocated", "hami.io/node-nvidia-register"
ANNOTATIONS = (SHARE_MILLI, SHARE_COUNT, SHARE_INDEX, HAMI_ALLOCATED, HAMI_REGISTER)

CLAIMED = "resource.k8s.io/"
"""With the name of a driver behind it: its devices in ResourceSlices, which pods ask for by ResourceClaims."""

PARTS = frozenset((SHARE_MILLI, SHARE_COUNT, HAMI_CORES, "nvidia.com/gpumem", "nvidia.com/gpumem-percentage"))
"""Resources by which parts of a device are asked for; the scheduler itself does not count them."""

MOST = 64
"""More devices than this of one node, or one pod, are not looked at."""


_NOTHING: Mapping[str, int] = {}


class Claim(msgspec.Struct, frozen=True, gc=False):
    """`milli` thousandths on each of `count` different devices."""

    count: int
    milli: int
    shared: bool = False
    """Only nodes whose devices are handed out in parts can take it."""
    on: tuple[tuple[str, int], ...] | None = None
    """(device, thousandths) where it is known on which it sits."""


class _Registered(msgspec.Struct):
    id: str
    health: bool = True


def devices_of(node: Node) -> tuple[str, ...]:
    """The devices that are handed out in parts, by their names; none where they are handed out whole."""
    registered = node.annotations.get(HAMI_REGISTER)
    if registered:
        return _registered(registered)[:MOST]
    count = node.allocatable.get(SHARE_COUNT, 0.0)
    if not count:
        return ()
    return tuple(str(index) for index in range(min(int(count), MOST)))


def parts_of(pod: Pod) -> Mapping[str, int]:
    """What a pod asks for by annotations, as if they were requests; a size that cannot be read is a whole device."""
    annotations = pod.annotations
    if not annotations or (SHARE_MILLI not in annotations and SHARE_COUNT not in annotations):
        return _NOTHING
    count = _number(annotations.get(SHARE_COUNT, "1"), 1)
    milli = min(_number(annotations.get(SHARE_MILLI, str(MILLI)), MILLI), MILLI)
    return {SHARE_COUNT: count, SHARE_MILLI: milli} if count > 0 and milli > 0 else _NOTHING


def claim_in(asked: Mapping[str, float]) -> Claim | None:
    """What requests, with `parts_of` among them, ask of devices that are handed out in parts; None if nothing."""
    milli = min(int(asked.get(SHARE_MILLI, 0)), MILLI)
    if milli > 0:
        return Claim(max(int(asked.get(SHARE_COUNT, 1)), 1), milli, True)
    count = int(asked.get(HAMI_COUNT, 0))
    if count <= 0:
        return None
    cores = asked.get(HAMI_CORES, 0)
    return Claim(count, min(math.ceil(cores * MILLI / 100), MILLI) if cores > 0 else MILLI, cores > 0)


def claim_of(pod: Pod) -> Claim | None:
    """What a pod asks of devices, and where its annotations say that it got them."""
    claim = claim_in({**pod.shape.requests, **parts_of(pod)})
    if claim is None:
        return None
    if claim.shared and (index := pod.annotations.get(SHARE_INDEX)):
        return msgspec.structs.replace(claim, on=tuple((name, claim.milli) for name in index.split("-")))
    if allocated := pod.annotations.get(HAMI_ALLOCATED):
        return msgspec.structs.replace(claim, on=_allocated(allocated, claim.milli))
    return claim


def _allocated(text: str, milli: int) -> tuple[tuple[str, int], ...] | None:
    """ "UUID,type,memory,cores:…;…", containers apart by ";", devices by ":"."""
    devices = []
    for device in text.replace(";", ":").split(":"):
        fields = device.split(",")
        if len(fields) >= 4 and fields[0]:
            cores = _number(fields[3], 0)
            devices.append((fields[0], min(cores * MILLI // 100, MILLI) or milli))
    return tuple(devices) or None


def _registered(text: str) -> tuple[str, ...]:
    """JSON, or "UUID,count,memory,cores,type,numa,health:…" of older versions; devices that are ill do not count."""
    if text.lstrip().startswith("["):
        try:
            return tuple(device.id for device in msgspec.json.decode(text, type=list[_Registered]) if device.health)
        except NOT_JSON:
            return ()
    lines = [line.split(",") for line in text.split(":") if line]
    return tuple(fields[0] for fields in lines if len(fields) >= 4 and fields[0] and fields[-1] != "false")


def _number(text: str, otherwise: int) -> int:
    try:
        return math.ceil(min(quantity(text), 1e6))
    except ValueError:
        return otherwise
