"""Room on devices that are handed out in parts, as arrays: the last columns of amounts are the devices of a node.

Amounts are thousandths of a device. A request for `milli` on each of `count` devices has `milli` in its first `count`
device columns and 0 in the others. Every node has as many columns as the node with most devices: what a node lacks is
full, and the devices of a node that hands none out in parts are without end, as another column decides there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ballast.model.devices import MILLI, Claim
from ballast.model.sample import Bools, Floats, Ints

MORE = 1e18
"""More than any node has."""

_ROUNDING = 1e-9


def times(free: Floats, counts: Ints, milli: Floats) -> Floats:
    """[…, kind]: how often `milli` [kind] on each of `counts` [kind] devices fits into free devices […, 1, device].

    Pieces are rounded down on each device. The largest t with t · count ≤ sum over devices of min(t, pieces there).
    """
    pieces = free / milli[:, None]
    pieces += _ROUNDING
    np.floor(pieces, out=pieces)
    room = np.floor(pieces.sum(axis=-1) / counts)
    several = np.flatnonzero(counts > 1)
    while len(several):
        fewer = np.floor(np.minimum(pieces[..., several, :], room[..., several, None]).sum(axis=-1) / counts[several])
        if (fewer == room[..., several]).all():
            break
        room[..., several] = fewer
    return np.asarray(room)


def taken(free: Floats, count: Ints | int, milli: Floats | float) -> tuple[Floats, Bools]:
    """(what is left, whether it fits) of devices [row, device] when `milli` is taken from `count` of them, [row] each.

    The fullest devices that have room are taken, so that whole ones stay whole. What is left comes in ascending order.
    """
    ordered = np.sort(free, axis=-1)
    size = np.asarray(milli, float)[..., None]
    roomy = ordered >= size - _ROUNDING
    chosen = roomy & (np.cumsum(roomy, axis=-1) <= np.asarray(count)[..., None])
    return ordered - np.where(chosen, size, 0.0), np.asarray(roomy.sum(axis=-1) >= count)


def split(request: Floats) -> tuple[Ints, Floats]:
    """(count, milli) of the device columns [row, device] of requests."""
    return (request > 0).sum(axis=-1), request.max(axis=-1, initial=0.0)


def columns(claim: Claim | None, devices: int) -> Floats:
    """The device columns of a request; one for more devices than there are columns fits nowhere."""
    used = np.zeros(devices)
    if claim is not None:
        used[: claim.count] = claim.milli if claim.count <= devices else MORE
    return used


class PlacedDevices:
    """`free` [node, device] are thousandths, as devices/room.py describes them; it changes in place."""

    def __init__(self, names: Sequence[tuple[str, ...]], previous: PlacedDevices | None = None) -> None:
        """`names` are those of the devices of each node. Pods stay where they were in `previous`, of the same nodes."""
        self._names = tuple(names)
        self._claims: dict[int, list[tuple[Claim, bool]]] = previous._claims if previous else {}
        self.most = max(map(len, self._names), default=0)
        self.total: Ints = np.array([len(names) * MILLI for names in self._names], np.int64)
        self.free: Floats = np.full((len(self._names), self.most), np.inf)
        for row, on_node in enumerate(self._names):
            if on_node:
                self.free[row] = _left(on_node, self._claims.get(row, ()), self.most)

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
        placed = PlacedDevices(())
        placed.most, placed.total, placed.free = self.most, self.total[index], self.free[index]
        return placed


def _left(names: tuple[str, ...], claims: Iterable[tuple[Claim, bool]], devices: int) -> Floats:
    """[device]: what is free of the devices `names` with these claims, each with whether it is only expected.

    A claim whose devices are known is taken there. One that is expected is taken where it would fit best. One that is
    there without saying where is taken from every device, so that the room is never more than what there is.
    """
    used = np.zeros(devices)
    used[: len(names)] = MILLI
    place = {name: index for index, name in enumerate(names)}
    expected: list[Claim] = []
    for claim, assumed in claims:
        if claim.on is not None and all(name in place for name, _ in claim.on):
            for name, milli in claim.on:
                used[place[name]] -= milli
        elif assumed:
            expected.append(claim)
        else:
            used -= claim.milli
    used = np.maximum(used, 0.0)
    for claim in sorted(expected, key=lambda each: (-each.milli, -each.count)):
        after, fits = taken(used, claim.count, float(claim.milli))
        used = after if fits else np.maximum(used - claim.milli, 0.0)
    return used
