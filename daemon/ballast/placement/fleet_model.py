"""The fleet as it is from one snapshot to the next: what pods take is kept current, pod by pod, in constant time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from ballast.model.sample import Ints
from ballast.model.shape import Shape
from ballast.model.snapshot import Snapshot
from ballast.placement.candidates import Candidates, candidates
from ballast.scoring.demand import DEFAULT_REQUESTS, predicted, units
from ballast.scoring.fleet import Placed
from ballast.scoring.in_flight import DEFAULT_CPU, MULTIPLIER

MANY = 64
"""From so many pods of one shape on, sums are made by whole arrays."""
MEASURED = ("cpu", "memory")


class Held(NamedTuple):
    """What one pod takes: its shape, on a node, bound (or about to be) at `since` in Unix seconds; its owner's UID."""

    node: str
    shape: Shape
    since: float
    owner: str = ""


class FleetModel:
    """Arrays over the nodes of one snapshot. Not for several threads at once.

    `changes` lists the rows that changed, in their order; `fleet` is what strategies score.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        previous: FleetModel | None = None,
        *,
        bindings: Mapping[float, Ints] | None = None,
        siblings: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        """The sums of `previous` are shared with it where the nodes are the same ones; else they begin empty.

        `bindings` count what was bound up to the snapshot, per node, by seconds before it; it is changed in place.
        `siblings` are means of measured use (cores, bytes) of the pods of one owner, by its UID.
        """
        names = [node.name for node in snapshot.nodes]
        self._uses: dict[int, tuple[Shape, tuple[int, ...]]] = {}
        self.window_end = snapshot.time
        self.in_flight: Mapping[str, Ints] = {resource: np.zeros(len(names), np.int64) for resource in MEASURED}
        self.changes: list[int] = []
        self.follows = previous is not None and previous.names == names
        self.names: list[str] = names
        self.rows: Mapping[str, int] = {name: row for row, name in enumerate(names)}
        self.placed: Placed = previous.placed if previous is not None and self.follows else Placed(len(names))
        self.fleet: Candidates = candidates(snapshot, self.placed)
        self._siblings = siblings or {}
        self._bindings = bindings or {}
        for resource, amounts in self.in_flight.items():
            self.fleet.keep(("in flight", resource), amounts)
        for seconds, counts in self._bindings.items():
            self.fleet.keep(("bindings", seconds), counts)

    def fill(self, held: Iterable[Held]) -> None:
        """Counts many pods at once."""
        shapes: dict[int, tuple[Shape, list[int]]] = {}
        for each in held:
            row = self.rows.get(each.node)
            if row is not None:
                shapes.setdefault(id(each.shape), (each.shape, []))[1].append(row)
        for shape, rows in shapes.values():
            if len(rows) < MANY:
                for row in rows:
                    self.placed.add(row, shape)
            else:
                counts = np.bincount(rows, minlength=len(self.names)).astype(np.int64)
                self.placed.add(slice(None), shape, counts)

    def place(self, held: Held, sign: int = 1) -> None:
        """A pod is there now; with sign -1 it is not any more."""
        row = self.rows.get(held.node)
        if row is not None:
            self.placed.add(row, held.shape, sign)
            self.changes.append(row)

    def fly(self, held: Held, sign: int = 1) -> bool:
        """Counts a pod that was bound after the window ended; returns whether it was."""
        if math.floor(held.since) <= self.window_end:
            return False
        row = self.rows.get(held.node)
        if row is not None:
            for resource, use in zip(MEASURED, self._use(held), strict=True):
                self.in_flight[resource][row] += sign * use
            for counts in self._bindings.values():
                counts[row] += sign
            self.changes.append(row)
        return True

    def _use(self, held: Held) -> tuple[int, ...]:
        """What it is expected to use: as measured of its siblings, else as predicted from what it asks for."""
        shape = held.shape
        found = self._uses.get(id(shape))
        if found is None:
            uses = tuple(predicted(shape, resource, _DEFAULTS[resource], MULTIPLIER) for resource in MEASURED)
            found = self._uses[id(shape)] = (shape, uses)
        measured = self._siblings.get(held.owner)
        if not measured:
            return found[1]
        pairs = zip(MEASURED, found[1], strict=True)
        return tuple(units(name, measured[name]) if name in measured else use for name, use in pairs)


_DEFAULTS = {"cpu": DEFAULT_CPU, "memory": units("memory", DEFAULT_REQUESTS["memory"])}
