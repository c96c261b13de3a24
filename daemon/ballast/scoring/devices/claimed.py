"""Devices of resource claims (DRA): which are free on each node, and what pods ask for.

A device is one entry of a ResourceSlice that belongs to one node; it is free while no ResourceClaim was given it. The
driver of a device class is known from claims of that class that were given devices; until one was, a class that has the
name of a driver is taken for it, as drivers name theirs. A device that shares counters or capacity with others is not
counted: how many of these are free depends on each other, and the number of them would be too good. A claim that a pod
names is asked for by each such pod until it was given devices; from then on nobody asks for anything by it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ballast.model.attachments import DeviceClaim, DeviceSlice, in_use
from ballast.model.devices import CLAIMED
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.scoring.demand import Units


@dataclass(frozen=True)
class ClaimedDevices:
    """`free` are devices by node and resource (CLAIMED and the driver), `asked` by the UID of a pod.

    `named` is what claims ask for that were given nothing yet, by (namespace, name).
    """

    free: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    asked: Mapping[str, Units] = field(default_factory=dict)
    named: Mapping[tuple[str, str], Units] = field(default_factory=dict)

    def on(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """The nodes with what is free there among what pods may ask for."""
        return tuple(self._with(node) for node in nodes)

    def of(self, pod: Pod) -> Pod:
        """The pod with what it asks for."""
        claims = self.asked.get(pod.uid)
        names = ((pod.namespace, name) for name in pod.template.named_claims)
        named = [self.named[device] for device in names if device in self.named]
        if named:
            claims = dict(sum(map(Counter, named), Counter(claims)))
        return pod if not claims or pod.claimed == claims else msgspec.structs.replace(pod, claimed=claims)

    def _with(self, node: Node) -> Node:
        free = self.free.get(node.name)
        return node if not free else msgspec.structs.replace(node, allocatable={**node.allocatable, **free})


def claimed_devices(slices: Iterable[DeviceSlice], claims: Sequence[DeviceClaim]) -> ClaimedDevices:
    """Devices that several nodes reach belong to none; pools that are not complete do not count."""
    taken = {(allocation.driver, allocation.pool, allocation.device) for claim in claims for allocation in claim.given}
    free: dict[str, dict[str, float]] = defaultdict(dict)
    drivers: set[str] = set()
    for device_slice in in_use(list(slices)):
        whole = [name for name in device_slice.names if name not in device_slice.in_parts]
        if not device_slice.node or (not whole and device_slice.names):
            continue
        there = free[device_slice.node]
        count = sum((device_slice.driver, device_slice.pool, name) not in taken for name in whole)
        there[CLAIMED + device_slice.driver] = there.get(CLAIMED + device_slice.driver, 0.0) + count
        drivers.add(device_slice.driver)
    requests, named = _asked(claims, drivers)
    return ClaimedDevices(free, requests, named)


def _asked(
    claims: Sequence[DeviceClaim], drivers: set[str]
) -> tuple[Mapping[str, Units], Mapping[tuple[str, str], Units]]:
    driver_of = {driver: driver for driver in drivers}
    for claim in claims:
        drivers_of = {result.request: result.driver for result in claim.given}
        driver_of |= {
            request.device_class: drivers_of[request.name] for request in claim.requests if request.name in drivers_of
        }
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    named: dict[tuple[str, str], Counter[str]] = {}
    for claim in claims:
        devices: Counter[str] = Counter()
        for request in claim.requests:
            if driver_of.get(request.device_class) in drivers:
                devices[CLAIMED + driver_of[request.device_class]] += request.count
        if not devices:
            continue
        for uid in claim.pods:
            counts[uid] += devices
        if not claim.given and not claim.pods:
            named[claim.namespace, claim.name] = devices
    return counts, named
