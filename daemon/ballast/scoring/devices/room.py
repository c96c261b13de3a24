"""Room on devices that are handed out in parts, as arrays: the last columns of amounts are the devices of a node.

Amounts are thousandths of a device. A request for `milli` on each of `count` devices has `milli` in its first `count`
device columns and 0 in the others. Every node has as many columns as the node with most devices: what a node lacks is
full, and the devices of a node that hands none out in parts are without end, as another column decides there.
"""

from __future__ import annotations

import numpy as np

from ballast.model.devices import Claim
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
    found = np.floor(pieces.sum(axis=-1) / counts)
    several = np.flatnonzero(counts > 1)
    while len(several):
        fewer = np.floor(np.minimum(pieces[..., several, :], found[..., several, None]).sum(axis=-1) / counts[several])
        if (fewer == found[..., several]).all():
            break
        found[..., several] = fewer
    return np.asarray(found)


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
    found = np.zeros(devices)
    if claim is not None:
        found[: claim.count] = claim.milli if claim.count <= devices else MORE
    return found
