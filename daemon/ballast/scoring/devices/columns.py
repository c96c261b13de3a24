"""The columns of amounts that the residual criterion looks at: resources, then devices that are handed out in parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ballast.model.devices import CLAIMED, claim_in
from ballast.model.sample import Floats, Ints
from ballast.scoring.demand import Units
from ballast.scoring.devices import room as devices
from ballast.scoring.fleet import Fleet


@dataclass(frozen=True)
class Columns:
    """`names` are the resources; those in `whole` count devices. `most` are the devices in parts of one node at most.

    Where nodes have such devices, a column with their sum follows the resources. With `apart`, a column for each device
    comes after it, and amounts are rounded down on each; without, the sum alone counts.
    """

    names: tuple[str, ...]
    whole: tuple[str, ...] = ()
    most: int = 0
    apart: bool = True

    @property
    def plain(self) -> int:
        """The number of columns before those of single devices."""
        return len(self.names) + bool(self.most)

    @property
    def slots(self) -> int:
        """The number of columns of single devices."""
        return self.most if self.apart else 0

    @cached_property
    def pieces(self) -> frozenset[int]:
        """The columns that count whole devices."""
        if not self.apart:
            return frozenset()
        return frozenset(i for i, name in enumerate(self.names) if name in self.whole or name.startswith(CLAIMED))

    @cached_property
    def of_devices(self) -> Ints:
        """All columns of devices."""
        return np.array([*sorted(self.pieces), *range(len(self.names), self.plain + self.slots)], np.int64)

    def vector(self, asked: Units) -> Floats:
        """[column]: what requests ask for, `parts_of` a pod among them."""
        vector = np.zeros(self.plain + self.slots)
        vector[: len(self.names)] = [asked.get(name, 0) for name in self.names]
        if self.most and (claim := claim_in(asked)) is not None:
            if claim.shared:
                vector[len(self.names)] = claim.count * claim.milli
            vector[self.plain :] = devices.columns(claim, self.slots)
        elif claim_shared(asked):
            vector[: len(self.names)] = devices.MORE
        return vector

    def matrices(self, fleet: Fleet) -> tuple[Floats, Floats]:
        """(what the nodes have, what is free), both [node, column]."""
        whole = fleet.once(("columns", self), lambda: self._whole(fleet))
        free = whole.copy()
        for index, name in enumerate(self.names):
            free[:, index] -= fleet.placed.reserved(name)
        return whole, self._with_devices(free, fleet.devices.free)

    def free(self, fleet: Fleet, rows: Ints) -> Floats:
        """[row, column]: what is free at some nodes."""
        table = np.zeros((len(rows), self.plain + self.slots))
        for index, name in enumerate(self.names):
            table[:, index] = fleet.allocatable(name)[rows] - fleet.placed.reserved(name)[rows]
        return self._with_devices(table, fleet.devices.free[rows])

    def _with_devices(self, free: Floats, devices: Floats) -> Floats:
        if self.most:
            free[:, len(self.names)] = np.where(np.isfinite(devices), devices, 0.0).sum(axis=1)
            free[:, self.plain :] = devices[:, : self.slots]
        return free

    def _whole(self, fleet: Fleet) -> Floats:
        table = np.zeros((len(fleet.nodes), self.plain + self.slots))
        for index, name in enumerate(self.names):
            table[:, index] = fleet.allocatable(name)
        if self.most:
            table[:, len(self.names)] = fleet.devices.total
        return table


def claim_shared(asked: Units) -> bool:
    """Whether requests ask for parts of devices, which no node of a fleet without such devices can give."""
    claim = claim_in(asked)
    return claim is not None and claim.shared


def vectors(columns: Columns, requests: Sequence[Units]) -> Floats:
    """[request, column]."""
    return np.array([columns.vector(request) for request in requests]).reshape(len(requests), -1)
