"""Single devices that are handed out in parts, as they change while a plan grows."""

from __future__ import annotations

import msgspec
import numpy as np

from ballast.model.devices import Claim, claim_of, devices_of
from ballast.model.sample import Bools, Ints
from ballast.placement.planners.layout import Layout
from ballast.scoring.devices.placed import PlacedDevices
from ballast.scoring.devices.room import taken

_EVERYWHERE = np.array(True)


class DevicesOfPods:
    """Which devices the pods of a layout take. A pod that is moved takes those that fit best where it goes."""

    def __init__(self, layout: Layout) -> None:
        self._on = layout.on
        self._devices = PlacedDevices([devices_of(node) for node in layout.nodes])
        self._claims: dict[int, Claim] = {}
        if self._devices.most:
            found = ((row, claim_of(pod)) for row, pod in enumerate(layout.pods))
            self._claims = {row: claim for row, claim in found if claim is not None}
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
