"""A placement of units as it grows and changes: loads, room and rules between pods."""

from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.relations import Relations
from ballast.solving.units import Units


@dataclass(frozen=True, eq=False)
class Saved:
    """An assignment at some moment."""

    on: Ints
    load: Floats
    free: Floats
    value: float


class Assignment:
    """`on` [unit] is a row of nodes, -1 for nowhere; `load` [node, resource] has 0 where it cannot be expressed."""

    def __init__(self, units: Units, on: Ints | None = None) -> None:
        self.units = units
        self.on: Ints = np.full(units.size, -1)
        self.load: Floats = units.start.copy()
        self.free: Floats = units.room.copy()
        self.relations = Relations(units)
        if on is not None:
            self.fill(on)

    def fill(self, on: Ints) -> None:
        """Places every unit, whatever the rules say; only on an assignment without units."""
        self.on = on.astype(np.int64)
        self.reckon()
        for unit in np.flatnonzero(~self.relations.simple[:-1]).tolist():
            self.relations.shift(unit, int(on[unit]), 1)

    def reckon(self) -> None:
        """Sums loads and room again: many small changes leave rounding errors."""
        units = self.units
        placed = self.on >= 0
        rows = self.on[placed]
        for column in range(units.scale.shape[1]):
            used = np.bincount(rows, weights=units.use[:-1, column][placed], minlength=len(units.scale))
            self.load[:, column] = units.start[:, column] + used * units.scale[:, column]
        for column in range(units.room.shape[1]):
            requests = np.bincount(rows, weights=units.request[:-1, column][placed], minlength=len(units.room))
            self.free[:, column] = units.room[:, column] - requests

    def mean(self) -> Floats:
        """[resource]: over nodes where it can be expressed."""
        return np.asarray(self.load.sum(axis=0) / self.units.count)

    def value(self) -> float:
        """The sum of w_k Var_k."""
        apart = np.where(self.units.there, self.load - self.mean(), 0.0)
        return float((np.square(apart) * self.units.cost).sum())

    def open(self, unit: int) -> Bools:
        """[node]: nodes that rules about nodes and the room leave; rules between pods are not asked."""
        mask: Bools = self.units.sites[self.units.site[unit]] & (self.units.request[unit] <= self.free).all(axis=1)
        return mask

    def fits(self, unit: int, node: int) -> bool:
        """`open` for one node."""
        units = self.units
        return bool(units.sites[units.site[unit], node] and (units.request[unit] <= self.free[node]).all())

    def put(self, unit: int, node: int) -> None:
        """Places a unit that is nowhere."""
        self.on[unit] = node
        self.load[node] += self.units.use[unit] * self.units.scale[node]
        self.free[node] -= self.units.request[unit]
        if not self.relations.simple[unit]:
            self.relations.shift(unit, node, 1)

    def take(self, unit: int) -> int:
        """Takes a unit away and returns where it was."""
        node = int(self.on[unit])
        self.on[unit] = -1
        self.load[node] -= self.units.use[unit] * self.units.scale[node]
        self.free[node] += self.units.request[unit]
        if not self.relations.simple[unit]:
            self.relations.shift(unit, node, -1)
        return node

    def save(self) -> Saved:
        """What `restore` needs."""
        return Saved(self.on.copy(), self.load.copy(), self.free.copy(), self.value())

    def restore(self, saved: Saved) -> None:
        """Goes back to a saved moment."""
        changed = np.flatnonzero((self.on != saved.on) & ~self.relations.simple[:-1])
        for unit in changed.tolist():
            self.relations.shift(unit, int(self.on[unit]), -1)
            self.relations.shift(unit, int(saved.on[unit]), 1)
        self.on, self.load, self.free = saved.on.copy(), saved.load.copy(), saved.free.copy()
