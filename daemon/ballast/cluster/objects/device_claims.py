"""From wire objects to resource claims: which devices pods ask for, and which they were given."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ballast.cluster.objects import wire
from ballast.model.attachments import DeviceClaim, DeviceRequest, GivenDevice

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


def to_device_claim(found: WireDeviceClaim) -> DeviceClaim:
    meta, status = found.metadata, found.status
    owners = (each.uid for each in meta.owner_references or () if each.kind == _POD)
    reserved = (each.uid for each in status.reserved_for or ())
    given = status.allocation.devices.results if status.allocation else None
    return DeviceClaim(
        namespace=meta.namespace,
        name=meta.name,
        pods=tuple(dict.fromkeys((*owners, *reserved))),
        requests=tuple(_requests(found.spec.devices)),
        given=tuple(GivenDevice(g.request, g.driver, g.pool, g.device) for g in given or () if not g.admin_access),
    )


def _requests(devices: WireDeviceRequests) -> Iterator[DeviceRequest]:
    """Of alternatives, the first one is what is asked for."""
    for each in devices.requests or ():
        alternatives = each.first_available or ()
        wanted = each.exactly or next(iter(alternatives), None)
        if wanted is not None and wanted.allocation_mode in _COUNTED and not wanted.admin_access:
            name = each.name if each.exactly else f"{each.name}/{wanted.name}"
            yield DeviceRequest(name, wanted.device_class_name, max(wanted.count, 1))
