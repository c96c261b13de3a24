"""Devices that are handed out in parts, node by node: what is free on each, as pods come and go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ballast.model.devices import MILLI, Claim
from ballast.model.sample import Floats, Ints
from ballast.scoring.devices.room import taken


class PlacedDevices:
    """`free` [node, device] are thousandths, as devices/room.py describes them; it changes in place."""

    def __init__(self, names: Sequence[tuple[str, ...]], previous: PlacedDevices | None = None) -> None:
        """`names` are those of the devices of each node. Pods stay where they were in `previous`, of the same nodes."""
        self._names = tuple(names)
        self._claims: dict[int, list[tuple[Claim, bool]]] = previous._claims if previous else {}
        self.most = max(map(len, self._names), default=0)
        self.total: Ints = np.array([len(each) * MILLI for each in self._names], np.int64)
        self.free: Floats = np.full((len(self._names), self.most), np.inf)
        for row, each in enumerate(self._names):
            if each:
                self.free[row] = _left(each, self._claims.get(row, ()), self.most)

    def add(self, row: int, claim: Claim, sign: int = 1, *, expected: bool = False) -> None:
        """A pod takes devices; with sign -1 it gives them back. One that is `expected` has not been given any yet."""
        claims = self._claims.setdefault(row, [])
        if sign > 0:
            claims.append((claim, expected))
        else:
            claims.remove((claim, expected))
        if self._names[row]:
            self.free[row] = _left(self._names[row], claims, self.most)

    def at(self, index: Ints) -> PlacedDevices:
        """The devices of some of the nodes, as they are now, to be read alone."""
        found = PlacedDevices(())
        found.most, found.total, found.free = self.most, self.total[index], self.free[index]
        return found


def _left(names: tuple[str, ...], claims: Iterable[tuple[Claim, bool]], devices: int) -> Floats:
    """[device]: what is free of the devices `names` with these claims, each with whether it is only expected.

    A claim whose devices are known is taken there. One that is expected is taken where it would fit best. One that is
    there without saying where is taken from every device, so that the room is never more than what there is.
    """
    found = np.zeros(devices)
    found[: len(names)] = MILLI
    place = {name: index for index, name in enumerate(names)}
    expected: list[Claim] = []
    for claim, assumed in claims:
        if claim.on is not None and all(name in place for name, _ in claim.on):
            for name, milli in claim.on:
                found[place[name]] -= milli
        elif assumed:
            expected.append(claim)
        else:
            found -= claim.milli
    found = np.maximum(found, 0.0)
    for claim in sorted(expected, key=lambda each: (-each.milli, -each.count)):
        after, fits = taken(found, claim.count, float(claim.milli))
        found = after if fits else np.maximum(found - claim.milli, 0.0)
    return found
