"""The fleet as it is from one snapshot to the next: what pods take is kept current, pod by pod, in constant time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from ballast.model.devices import Claim, devices_of
from ballast.model.sample import Ints
from ballast.model.shape import Shape
from ballast.model.snapshot import Snapshot
from ballast.model.template import Template
from ballast.placement.candidates import Candidates, candidates
from ballast.placement.changed_rows import ChangedRows
from ballast.placement.node_constraints import allows
from ballast.scoring.demand import demand, predicted, units
from ballast.scoring.devices.room import PlacedDevices
from ballast.scoring.expected_use import Presence, RecentPods, Siblings
from ballast.scoring.fleet import Placed
from ballast.scoring.in_flight import DEFAULTS, MULTIPLIER

MANY = 64
"""From this number of pods of one shape on, sums are added as whole arrays."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """What one pod takes: its shape, on a node, bound (or about to be) at `since` in Unix seconds; its owner's UID.

    `claim` is what it takes of devices; a pod that is `expected` there has not been given any yet.
    """

    node: str
    shape: Shape
    since: float
    owner: str = ""
    claim: Claim | None = None
    expected: bool = False


class PodsInFlight:
    """Pods bound after the end of the window, and sums of what they are expected to use.

    A sum is kept for each (resource, default, multiplier) that was read once, and then follows pod by pod.
    """

    def __init__(self, nodes: int, siblings: Siblings) -> None:
        self._nodes = nodes
        self._siblings = siblings
        self._pods: dict[tuple[int, int, str], tuple[Shape, int]] = {}
        self._sums: dict[tuple[str, int, float], Ints] = {}
        self._uses: dict[tuple[int, str, int, float], tuple[Shape, int]] = {}
        for resource, default in DEFAULTS.items():
            self.use(resource, default, MULTIPLIER)

    def use(self, resource: str, default: int, multiplier: float) -> Ints:
        """[node]: the expected use in milli-cores or bytes; the array changes in place with the pods.

        The measured mean of a pod's siblings counts before what `predicted` makes of its limit and request.
        """
        key = (resource, default, multiplier)
        sums = self._sums.get(key)
        if sums is None:
            sums = np.zeros(self._nodes, np.int64)
            for (row, _, owner), (shape, count) in list(self._pods.items()):
                sums[row] += count * self._use(shape, owner, *key)
            self._sums[key] = sums
        return sums

    def count(self, row: int, shape: Shape, owner: str, sign: int) -> None:
        """Adds a pod to a row; with sign -1 takes it away."""
        key = (row, id(shape), owner)
        count = self._pods.get(key, (shape, 0))[1] + sign
        if count:
            self._pods[key] = (shape, count)
        else:
            self._pods.pop(key, None)
        for profile, amounts in self._sums.items():
            amounts[row] += sign * self._use(shape, owner, *profile)

    def _use(self, shape: Shape, owner: str, resource: str, default: int, multiplier: float) -> int:
        measured = self._siblings.get(owner, {}).get(resource)
        if measured is not None:
            return units(resource, measured)
        # The shape is kept beside the number, so that its id stays its own.
        key = (id(shape), resource, default, multiplier)
        use = self._uses.get(key)
        if use is None:
            use = self._uses[key] = (shape, predicted(shape, resource, default, multiplier))
        return use[1]


class FleetModel:
    """Arrays over the nodes of one snapshot. Not for several threads at once.

    `changes` are the rows that changed; `fleet` is what strategies score.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        previous: FleetModel | None = None,
        *,
        bindings: Mapping[float, Ints] | None = None,
        siblings: Siblings | None = None,
    ) -> None:
        """Shares the sums of `previous` if the nodes are the same; otherwise they begin empty.

        `bindings` are pods bound up to the snapshot, [node] by seconds before it; the arrays are changed in place.
        `siblings` are means of measured use (cores, bytes) of the pods of one owner, by its UID.
        """
        names = [node.name for node in snapshot.nodes]
        self.window_end = snapshot.time
        self.in_flight = PodsInFlight(len(names), siblings or {})
        self.changes = ChangedRows(len(names))
        self.follows = previous is not None and previous.names == names
        self.names: list[str] = names
        self.nodes = snapshot.nodes
        self.rows = snapshot.rows
        self.placed: Placed = previous.placed if previous is not None and self.follows else Placed(len(names))
        self._bindings = bindings or {}
        self.devices: PlacedDevices = PlacedDevices(
            [devices_of(node) for node in snapshot.nodes],
            previous.devices if previous is not None and self.follows else None,
        )
        ratios = previous.expected_use.ratios if previous is not None else None
        self.expected_use: RecentPods = RecentPods(
            len(names), snapshot.time, snapshot.primary.seconds, siblings, ratios
        )
        before = previous.fleet if previous is not None else None
        self.fleet: Candidates = candidates(
            snapshot, self.placed, self.in_flight, self._bindings, self.devices, self.expected_use, self.changes, before
        )

    def fill(self, held: Iterable[Held]) -> None:
        """Counts many pods at once."""
        shapes: dict[int, tuple[Shape, list[int]]] = {}
        for reservation in held:
            row = self.rows.get(reservation.node)
            if row is not None:
                if reservation.claim is not None:
                    self.devices.add(row, reservation.claim, expected=reservation.expected)
                shapes.setdefault(id(reservation.shape), (reservation.shape, []))[1].append(row)
        for shape, rows in shapes.values():
            if len(rows) < MANY:
                for row in rows:
                    self.placed.add(row, shape)
            else:
                counts = np.bincount(rows, minlength=len(self.names)).astype(np.int64)
                self.placed.add(slice(None), shape, counts)

    def takes(self, node: str, shape: Shape, template: Template) -> bool:
        """Whether the node could take the pod: by what it is, and beside all that is bound, assumed and reserved."""
        row = self.rows.get(node)
        return row is not None and allows(self.nodes[row], template) and self.has_room(node, shape)

    def has_room(self, node: str, shape: Shape, usable: Iterable[Shape] = ()) -> bool:
        """Whether a node has room beside all that counts as taken, but for what is `usable`; how many pods it takes
        aside. A node that is not known has no room.
        """
        row = self.rows.get(node)
        if row is None:
            return False
        room = [demand(shape).reserved for shape in usable]
        return all(
            amount <= self._free(row, name) + sum(amounts.get(name, 0) for amounts in room)
            for name, amount in demand(shape).reserved.items()
            if amount and name != "pods"
        )

    def overbooked(self, node: str, shape: Shape) -> bool:
        """Whether more is taken than there is, of what a pod of this shape requests."""
        row = self.rows.get(node)
        names = [name for name, amount in demand(shape).reserved.items() if amount and name != "pods"]
        return row is not None and any(self._free(row, name) < 0 for name in names)

    def _free(self, row: int, resource: str) -> int:
        return int(self.fleet.allocatable(resource)[row] - self.placed.reserved(resource)[row])

    def counts(self, named: Mapping[str, int]) -> Ints:
        """[node]: what is `named` of it, else 0."""
        counts = np.zeros(len(self.names), np.int64)
        rows = [row for name in named if (row := self.rows.get(name)) is not None]
        counts[rows] = [count for name, count in named.items() if name in self.rows]
        return counts

    def place(self, held: Held, sign: int = 1) -> None:
        """A pod is there now; with sign -1 it is not any more."""
        row = self.rows.get(held.node)
        if row is not None:
            self.placed.add(row, held.shape, sign)
            if held.claim is not None:
                self.devices.add(row, held.claim, sign, expected=held.expected)
            self.changes.note(row)

    def fly(self, held: Held, sign: int = 1) -> bool:
        """Counts a pod that was bound after the window ended; returns whether it was."""
        if math.floor(held.since) <= self.window_end:
            return False
        row = self.rows.get(held.node)
        if row is not None:
            self.in_flight.count(row, held.shape, held.owner, sign)
            for counts in self._bindings.values():
                counts[row] += sign
            self.changes.note(row)
        return True

    def measure(self, stays: Iterable[tuple[Held, float]]) -> list[tuple[Held, float]]:
        """Counts pods that came or went within the window, by what they are expected to use beyond what it shows.

        `stays` are pods and when they left (Unix seconds), inf while they are there. Returns those that matter.
        """
        known, recent = self.expected_use, list[tuple[Held, float]]()
        presences = list[Presence]()
        for held, until in stays:
            presence = _presence(self.rows.get(held.node, -1), held, until)
            if known.recent(presence):
                recent.append((held, until))
                if presence.row >= 0:
                    presences.append(presence)
        known.measure(self.fleet.node_amounts(), presences)
        return recent

    def unshown(self, held: Held) -> bool:
        """Whether the window does not show a pod that is there as it is."""
        return self.expected_use.recent(_presence(self.rows.get(held.node, -1), held, math.inf))

    def stay(self, held: Held, until: float = math.inf, sign: int = 1) -> bool:
        """Counts one such pod; returns whether the window does not show it as it is. With sign -1 takes it back."""
        presence = _presence(self.rows.get(held.node, -1), held, until)
        recent = self.expected_use.recent(presence)
        if recent and presence.row >= 0:
            self.expected_use.count(presence, sign)
        return recent


def _presence(row: int, held: Held, until: float) -> Presence:
    return Presence(row, held.shape, held.owner, held.since, until)
