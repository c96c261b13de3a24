"""Which nodes a pod may run on by its volumes and devices.

Source: kubernetes pkg/scheduler/framework/plugins volumebinding, volumezone, volumerestrictions, nodevolumelimits. Two
things are stricter than there: a ReadWriteOnce volume that a pod of another node holds could not be attached, and a
volume needs a node that has its driver. Devices are compared, not allocated: a node has to have all devices of the
pod's own node, and no other pod may claim any of them.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np

from ballast.model.attachments import (
    NO_PROVISIONER,
    UNKNOWN,
    Attachments,
    PersistentVolume,
    StorageClass,
    VolumeClaim,
    in_use,
)
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Ints
from ballast.model.template import NodeTerm
from ballast.placement.node_constraints import holds

Name: TypeAlias = tuple[str, str]
_ALONE = "ReadWriteOncePod"


class AttachmentConstraints:
    """Follows moves through `shift`. Masks are [node]."""

    def __init__(self, nodes: Sequence[Node], pods: Sequence[Pod], attachments: Attachments = UNKNOWN) -> None:
        self._nodes, self._pods, self._given = nodes, pods, attachments
        self._claims = {(claim.namespace, claim.name): claim for claim in attachments.claims or ()}
        self._volumes = {volume.name: volume for volume in attachments.volumes or ()}
        self._classes = {option.name: option for option in attachments.classes or ()}
        self._default = next(
            (storage_class for storage_class in attachments.classes or () if storage_class.default), None
        )
        self._holders: dict[Name, Counter[int]] = {}
        self._attached: dict[tuple[int, str], Counter[str]] = {}
        self._claimants: Counter[int] = Counter()
        self._where: dict[tuple[NodeTerm, ...] | str, Bools] = {}
        rows = {node.name: row for row, node in enumerate(nodes)}
        self._drivers = {rows[e.name]: e.drivers for e in attachments.csi_nodes or () if e.name in rows}
        self._registered = {driver for drivers in self._drivers.values() for driver in drivers}
        self._devices = _devices(nodes, attachments)

    def allowed(self, pod: int, home: int) -> Bools:
        """For a pod that was taken away from `home`, -1 where it comes from nowhere."""
        needs = self._pods[pod]
        template = needs.template
        mask = np.ones(len(self._nodes), bool)
        if template.claims or template.ephemeral:
            mask &= self._by_volumes(needs)
        if template.device_claims or template.shared_devices:
            mask &= self._by_devices(needs, home)
        return mask

    def shift(self, pod: int, row: int, count: int) -> None:
        """`count` is 1 where the pod comes to the node, -1 where it leaves."""
        needs = self._pods[pod]
        for claim in _names(needs):
            self._holders.setdefault(claim, Counter())[row] += count
            driver, handle = self._attachment(claim)
            if driver:
                self._attached.setdefault((row, driver), Counter())[handle] += count
        if needs.template.device_claims or needs.template.shared_devices:
            self._claimants[row] += count

    def _by_volumes(self, pod: Pod) -> Bools:
        none = np.zeros(len(self._nodes), bool)
        if self._given.claims is None or self._given.volumes is None:
            return none
        mask = np.ones(len(self._nodes), bool)
        for name in pod.template.claims:
            claim = self._claims.get(name)
            if claim is None or claim.deleting:
                return none
            mask &= self._by_claim(claim) & self._by_holders(claim)
        for volume, named in pod.template.ephemeral:
            chosen = self._default if named is None else self._classes.get(named)
            old = self._claims.get((pod.namespace, f"{pod.name}-{volume}"))
            if not pod.node:
                mask &= none if old is None or old.deleting else self._by_claim(old)
                continue
            if chosen is None and named is None and old is not None:
                chosen = self._classes.get(old.storage_class)
            mask &= none if chosen is None or not chosen.waits else self._by_class(chosen)
        return mask & self._by_limits(pod)

    def _by_claim(self, claim: VolumeClaim) -> Bools:
        if not claim.volume:
            return self._by_provisioning(claim)
        volume = self._volumes.get(claim.volume)
        if volume is None or claim.phase not in ("", "Bound"):
            return np.zeros(len(self._nodes), bool)
        return self._reach(volume)

    def _reach(self, volume: PersistentVolume) -> Bools:
        """Nodes from which the volume can be used."""
        mask = np.ones(len(self._nodes), bool)
        if volume.node_affinity is not None:
            mask &= self._in(volume.node_affinity)
        if volume.zones:
            mask &= np.array([_zoned(volume, node) for node in self._nodes], bool)
        return mask

    def _by_provisioning(self, claim: VolumeClaim) -> Bools:
        """Where an unbound claim could get its volume; one that does not wait for a pod is bound first."""
        none = np.zeros(len(self._nodes), bool)
        chosen = self._classes.get(claim.storage_class)
        if chosen is None or not chosen.waits or claim.phase not in ("", "Pending"):
            return none
        if claim.chosen_node:
            return np.array([node.name == claim.chosen_node for node in self._nodes], bool) & self._by_class(chosen)
        mask = none if claim.selective else self._by_class(chosen)
        for volume in self._volumes.values() if not claim.selective else ():
            if _matches(volume, claim):
                mask = mask | self._reach(volume)
        return mask

    def _by_class(self, chosen: StorageClass) -> Bools:
        """Where a volume could be made."""
        if chosen.provisioner == NO_PROVISIONER:
            return np.zeros(len(self._nodes), bool)
        return np.ones(len(self._nodes), bool) if chosen.topologies is None else self._in(chosen.topologies)

    def _by_holders(self, claim: VolumeClaim) -> Bools:
        """By the other pods that use the claim."""
        mask = np.ones(len(self._nodes), bool)
        rows = [row for row, count in self._holders.get((claim.namespace, claim.name), Counter()).items() if count]
        if not rows or claim.shared or not claim.access_modes:
            return mask
        alone = len(rows) > 1 or _ALONE in claim.access_modes
        mask[:] = False
        if not alone:
            mask[rows[0]] = True
        return mask

    def _by_limits(self, pod: Pod) -> Bools:
        """By what may be attached to each node at once."""
        volumes: dict[str, set[str]] = {}
        for name in _names(pod):
            driver, handle = self._attachment(name)
            if driver:
                volumes.setdefault(driver, set()).add(handle)
        mask = np.ones(len(self._nodes), bool)
        for row, drivers in self._drivers.items():
            mask[row] = all(self._takes(row, drivers.get(d, 0), d, handles) for d, handles in volumes.items())
        return mask

    def _takes(self, row: int, limit: int | None, driver: str, handles: set[str]) -> bool:
        if driver not in self._registered or limit is None:
            return True
        there = {handle for handle, count in self._attached.get((row, driver), Counter()).items() if count}
        return len(there | handles) <= limit if handles - there else True

    def _attachment(self, name: Name) -> tuple[str, str]:
        """The driver and the volume behind a claim; a volume that is not there yet is one of its own."""
        claim = self._claims.get(name)
        if claim is None:
            return "", ""
        volume = self._volumes.get(claim.volume)
        if volume is not None:
            return volume.driver, volume.handle
        chosen = self._classes.get(claim.storage_class)
        driver = chosen.provisioner if chosen is not None else ""
        return ("", "") if driver == NO_PROVISIONER else (driver, f"{name[0]}/{name[1]}")

    def _by_devices(self, pod: Pod, home: int) -> Bools:
        mask = np.zeros(len(self._nodes), bool)
        if self._devices is None or pod.template.shared_devices or home < 0 or not self._devices[home]:
            return mask
        for row, there in enumerate(self._devices):
            mask[row] = not self._claimants[row] and not self._devices[home] - there
        return mask

    def _in(self, terms: tuple[NodeTerm, ...]) -> Bools:
        mask = self._where.get(terms)
        if mask is None:
            mask = np.array([any(holds(term, node) for term in terms) for node in self._nodes], bool)
            self._where[terms] = mask
        return mask


def _names(pod: Pod) -> Iterator[Name]:
    """All its claims; those made for it are named after it."""
    yield from dict.fromkeys(pod.template.claims)
    for volume, _ in pod.template.ephemeral:
        yield pod.namespace, f"{pod.name}-{volume}"


def _zoned(volume: PersistentVolume, node: Node) -> bool:
    """A node without any zone or region takes every volume; the old names of the labels count as the new ones."""
    mine = {_stable(key): value for key, value in node.labels.items() if _stable(key) in _STABLE}
    return not mine or all(mine.get(_stable(key)) in values for key, values in volume.zones)


_STABLE = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def _stable(key: str) -> str:
    return key.replace("failure-domain.beta.kubernetes.io/", "topology.kubernetes.io/")


def _matches(volume: PersistentVolume, claim: VolumeClaim) -> bool:
    return (
        volume.available
        and volume.storage_class == claim.storage_class
        and volume.size >= claim.size
        and set(claim.access_modes) <= set(volume.access_modes)
    )


def _devices(nodes: Sequence[Node], attachments: Attachments) -> list[Counter[str]] | None:
    """[node]: its devices by their properties; devices that several nodes reach are nobody's."""
    if attachments.slices is None:
        return None
    rows = {node.name: row for row, node in enumerate(nodes)}
    devices: list[Counter[str]] = [Counter() for _ in nodes]
    for device_slice in in_use(attachments.slices):
        if device_slice.node in rows:
            devices[rows[device_slice.node]].update(device_slice.devices)
    return devices


def holders(pods: Sequence[Pod], on: Ints, present: Bools) -> Iterator[tuple[int, int]]:
    """(pod, row) of the pods on nodes that attach something."""
    for row, pod in enumerate(pods):
        if present[row] and pod.template.attaches:
            yield row, int(on[row])
