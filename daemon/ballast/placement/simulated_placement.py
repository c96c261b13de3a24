"""The layout as it changes while a plan grows."""

from collections.abc import Hashable, Mapping
from enum import Enum, auto

import msgspec
import numpy as np

from ballast.model.attachments import Attachments
from ballast.model.devices import Claim, claim_of, devices_of
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.attachment_constraints import AttachmentConstraints
from ballast.placement.layout import Layout
from ballast.placement.node_constraints import NodeConstraints
from ballast.placement.pod_constraints import PodConstraints
from ballast.placement.siblings import SiblingCounts, numbers_of
from ballast.scoring.devices.room import PlacedDevices, taken

# Loads that differ by less are the same.
ROUNDING = 1e-9


class Preferences(Enum):
    """What becomes of a move to a node that the pod likes less than the one that it is on."""

    IGNORED = auto()
    SECOND = auto()
    """It is made where no other node is left."""
    KEPT = auto()
    """It is not made."""


class SimulatedPlacement:
    """Loads, room and places after the steps so far, and where a pod could go.

    `targets` [node] are nodes that moved pods may go to at all; `ceiling` is the load they may be predicted to reach,
    one number or [resource]. What a node does not have is not loaded there.
    """

    def __init__(
        self,
        layout: Layout,
        *,
        targets: Bools,
        ceiling: float | Floats,
        namespaces: Mapping[str, Mapping[str, str]] | None = None,
        attachments: Attachments | None = None,
        workload: Ints | None = None,
    ) -> None:
        """Without `attachments` volumes and devices are not looked at; of a kind that is not known they say so.

        `workload` [pod] is a number that the pods of a workload share, -1 without one; None: by their owners.
        """
        self.layout = layout
        self.ceiling: Floats = np.broadcast_to(np.asarray(ceiling, float) + ROUNDING, (len(layout.resources),))
        self.targets = targets & layout.known
        if layout.now is not None:
            self.targets &= ~(layout.now > self.ceiling).any(axis=1)
        self.load: Floats = np.where(layout.there, layout.load, 0.0)
        self.free: Ints = layout.free.copy()
        self.on: Ints = layout.on.copy()
        self.sites = NodeConstraints(layout.nodes)
        attached = None if attachments is None else AttachmentConstraints(layout.nodes, layout.pods, attachments)
        self.neighbours = PodConstraints(
            layout.nodes, layout.pods, self.on, layout.present, self.sites, namespaces, attached
        )
        self.aims: Ints | None = None
        """[pod]: the only node that it may be moved to, where that is set."""
        self.preferences = Preferences.IGNORED
        """What nodes that a pod likes less than its own are to it."""
        self._whole = np.where(layout.whole > 0, layout.whole, np.nan)
        self._devices = DevicesOfPods(layout)
        self._numbers = np.arange(len(layout.nodes))
        self._last: tuple[object, Bools] | None = None
        """What `open_to` answered last, and for what."""
        if workload is None:
            owners = (pod.owner for pod in layout.pods)
            workload = numbers_of([owner.uid if owner and owner.controller else None for owner in owners])
        stays = np.array([not pod.deleting for pod in layout.pods], bool)
        self.siblings = SiblingCounts(workload, np.where(layout.present & stays, layout.on, -1), layout.nodes)

    def increments(self, pod: int) -> Floats:
        """[node, resource]: what the pod adds to the load of each node."""
        return np.asarray(self.layout.used[pod] / self._whole)

    def increment(self, pod: int, row: int) -> Floats:
        return np.asarray(self.layout.used[pod] / self._whole[row])

    def feasible(self, pod: int) -> Bools:
        """[node]: constraints and requests allow it there, its own node included."""
        needs = self.layout.asked[pod]
        mask = ((self.free >= needs) | (needs == 0)).all(axis=1) & self.sites.allowed(self.layout.pods[pod].template)
        mask &= self._devices.fits(pod)
        near = self.neighbours.allowed(pod)
        return np.asarray(mask if near is None else mask & near)

    def open_to(self, pod: int, home: int | None = None) -> Bools:
        """[node]: other nodes of its pool than `home`, where it is, that can take it and stay under the ceiling.

        Those are left out where it would make more pods of its workload on a node, then in a zone, than `home` has, and
        those that it likes less than `home`, unless no others are left or `preferences` says otherwise.
        """
        home = int(self.on[pod]) if home is None else home
        key = (pod, home, self.preferences)
        if self._last is None or self._last[0] != key:
            self._last = key, self.apart(pod, home, self._can_take(pod, _ALL, home))
        return self._aimed(pod, self._numbers, self._last[1].copy())

    def open_among(self, pod: int, rows: Ints, home: int | None = None, *, alone: bool = False) -> Bools:
        """[row]: `open_to` for some nodes; where they are `alone` the question, no other node has to be left."""
        home = int(self.on[pod]) if home is None else home
        chooses = self._chooses(pod)
        if chooses and not alone:
            return self.open_to(pod, home)[rows]
        mask = self._can_take(pod, rows, home)
        if chooses and mask.any():
            everywhere = np.zeros(len(self.layout.nodes), bool)
            everywhere[rows] = mask
            mask = self.apart(pod, home, everywhere)[rows]
        return self._aimed(pod, rows, mask)

    def _aimed(self, pod: int, rows: Ints, mask: Bools) -> Bools:
        return mask if self.aims is None else mask & (rows == self.aims[pod])

    def apart(self, pod: int, home: int, mask: Bools) -> Bools:
        """[node] without those where its workload would be less spread, and those that it likes less, as far as any are
        left."""
        if home < 0 or not self._chooses(pod):
            return mask
        alone = self.siblings.alone(pod)
        if not alone:
            mask = _rather(mask, self.siblings.stacked(pod, home))
        if self._prefers(pod):
            disliked = self._disliked(pod, home, mask)
            mask = mask & ~disliked if self.preferences is Preferences.KEPT else _rather(mask, disliked)
        return mask if alone else _rather(mask, self.siblings.crowding(pod, home))

    def _chooses(self, pod: int) -> bool:
        return self._prefers(pod) or not self.siblings.alone(pod)

    def _prefers(self, pod: int) -> bool:
        return self.preferences is not Preferences.IGNORED and self.layout.pods[pod].template.prefers

    def _disliked(self, pod: int, home: int, mask: Bools) -> Bools:
        """[node]: those that kube-scheduler would score lower than `home` by what the pod prefers."""
        among = mask.copy()
        among[home] = True
        preference = self.neighbours.preference(pod, among)
        return np.asarray(preference < preference[home] - ROUNDING)

    def _can_take(self, pod: int, rows: Ints | slice, home: int) -> Bools:
        requests = self.layout.asked[pod]
        mask = self.targets[rows] & self.sites.allowed(self.layout.pods[pod].template)[rows]
        mask &= (self.layout.pool[rows] == self.layout.pool[home]) & (self._numbers[rows] != home)
        for kind in np.flatnonzero(requests).tolist():
            mask &= self.free[rows, kind] >= requests[kind]
        for resource in range(len(self.layout.resources)):
            added = self.layout.used[pod, resource] / self._whole[rows, resource]
            mask &= self.load[rows, resource] + added <= self.ceiling[resource]
        mask &= self._devices.fits(pod, rows)
        near = self.neighbours.allowed(pod)
        return np.asarray(mask if near is None else mask & near[rows])

    def alike(self, pod: int) -> Hashable | None:
        """As `PodConstraints.alike`; None also where single devices have to be looked at."""
        return None if self._devices.asks(pod) else self.neighbours.alike(pod)

    def affected(self, pod: int, home: int) -> Ints:
        """Pods to which it may have opened or closed nodes by moving from `home` to where it is, beside these two."""
        return np.union1d(self.neighbours.related(pod), self.siblings.freed(pod, home, int(self.on[pod]), self.on))

    def crowded(self, pod: int) -> bool:
        """Whether other nodes of its pool could take it, but for their load."""
        home = int(self.on[pod])
        others = self.targets & (self.layout.pool == self.layout.pool[home])
        others[home] = False
        return bool((self.feasible(pod) & others).any())

    def fits(self, pod: int, row: int) -> bool:
        """Whether `open_to` holds for one node of its pool; cheaper."""
        if not self.targets[row] or row == self.on[pod] or (self.aims is not None and row != self.aims[pod]):
            return False
        if not (self.load[row] + self.increment(pod, row) <= self.ceiling).all() or not self.runs_on(pod, row):
            return False
        if not (self._prefers(pod) or self.siblings.worse(pod, int(self.on[pod]), row)):
            return True
        return bool(self.open_to(pod)[row])

    def runs_on(self, pod: int, row: int) -> bool:
        """Whether `feasible` holds for one node; cheaper."""
        requests = self.layout.asked[pod]
        if not ((self.free[row] >= requests) | (requests == 0)).all():
            return False
        if not self.sites.allowed(self.layout.pods[pod].template)[row] or not self._devices.fits(pod, row):
            return False
        near = self.neighbours.allowed(pod)
        return bool(near is None or near[row])

    def move(self, pod: int, target: int) -> None:
        """From where it is to `target`; -1 takes it away, from -1 it starts."""
        home, requests = int(self.on[pod]), self.layout.asked[pod]
        self._last = None
        if home >= 0:
            self.free[home] += requests
            self.load[home] -= np.nan_to_num(self.increment(pod, home))
        if target >= 0:
            self.free[target] -= requests
            self.load[target] += np.nan_to_num(self.increment(pod, target))
        self._devices.move(pod, home, target)
        self.siblings.move(pod, home, target)
        self.neighbours.move(pod, target)


def _rather(mask: Bools, worse: Bools) -> Bools:
    """`mask` without those that are worse, as far as any are left."""
    kept = mask & ~worse
    return kept if kept.any() else mask


_EVERYWHERE = np.array(True)
_ALL = slice(None)


class DevicesOfPods:
    """Which devices the pods of a layout take. A pod that is moved takes those that fit best where it goes."""

    def __init__(self, layout: Layout) -> None:
        self._on = layout.on
        self._devices = PlacedDevices([devices_of(node) for node in layout.nodes])
        self._claims: dict[int, Claim] = {}
        if self._devices.most:
            claims = ((row, claim_of(pod)) for row, pod in enumerate(layout.pods))
            self._claims = {row: claim for row, claim in claims if claim is not None}
        for row, claim in self._claims.items():
            if layout.present[row]:
                self._devices.add(int(layout.on[row]), claim)

    def asks(self, pod: int) -> bool:
        """Whether the pod asks for single devices."""
        return pod in self._claims

    def fits(self, pod: int, rows: Ints | int | slice = slice(None)) -> Bools:
        """[node] of all or some nodes, or one for all: whether as many devices as the pod asks for have room."""
        claim = self._claims.get(pod)
        if claim is None:
            return _EVERYWHERE
        return taken(self._devices.free[rows], claim.count, float(claim.milli))[1]

    def move(self, pod: int, home: int, target: int) -> None:
        """From a node to a node; -1 is none. Back where it came from, it has its own devices again."""
        claim = self._claims.get(pod)
        if claim is None:
            return
        for row, sign in ((home, -1), (target, 1)):
            if row >= 0:
                moved = row != self._on[pod]
                held = msgspec.structs.replace(claim, on=None) if moved else claim
                self._devices.add(row, held, sign, expected=moved)
