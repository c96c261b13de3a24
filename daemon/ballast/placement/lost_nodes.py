"""The pods of many lost nodes spread over the others, each node lost alone, all at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Bools, Floats, Ints

TOGETHER = 256
"""Nodes that are looked at in one array."""


@dataclass(frozen=True)
class LostNodePlacement:
    """Room on nodes as in `RoomLeft`, and the `near` nodes, those with most room first, one more than one may use.

    `asked` [pod, kind], `used` and `at_peak` [pod, resource] are what pods take, `allowed` [pod, near] where each of
    `pods` may run. Pods of one node follow one another, the largest first; `home` [pod] ascends.
    """

    free: Ints
    load: Floats
    peak: Floats
    whole: Floats
    ceiling: Floats
    near: Ints
    asked: Ints
    used: Floats
    at_peak: Floats
    allowed: Bools
    home: Ints

    def holds(self) -> Ints:
        """The nodes whose pods all find room, each put where the load is lowest then."""
        homes, starts, counts = np.unique(self.home, return_index=True, return_counts=True)
        found = [self._of(homes[cut], starts[cut], counts[cut]) for cut in _cuts(len(homes))]
        return np.asarray(homes[np.concatenate([np.zeros(0, bool), *found])])

    def _of(self, homes: Ints, starts: Ints, counts: Ints) -> Bools:
        """[home]"""
        near, fits = self.near, np.ones(len(homes), bool)
        size = (len(homes), 1, 1)
        free, load, peak = (np.tile(each[near], size) for each in (self.free, self.load, self.peak))
        others: Bools = np.asarray(near != homes[:, None])
        # Without the node itself among them, the last of the near ones is one too many.
        others[others.all(axis=1), -1] = False
        for number in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(fits & (counts > number))
            if not len(rows):
                break
            pods = starts[rows] + number
            asked = self.asked[pods][:, None]
            now, then = (each[pods][:, None] / self.whole[near] for each in (self.used, self.at_peak))
            mask = others[rows] & self.allowed[pods] & ((free[rows] >= asked) | (asked == 0)).all(axis=2)
            mask &= (load[rows] + now <= self.ceiling).all(axis=2) & (peak[rows] + then <= self.ceiling).all(axis=2)
            fits[rows] = mask.any(axis=1)
            fullness = np.maximum(load[rows], peak[rows]).max(axis=2)
            chosen = np.argmin(np.where(mask, fullness, np.inf), axis=1)
            places = np.arange(len(rows))
            free[rows, chosen] -= asked[:, 0]
            load[rows, chosen] += np.nan_to_num(now[places, chosen])
            peak[rows, chosen] += np.nan_to_num(then[places, chosen])
        return fits


def _cuts(count: int) -> Iterator[slice]:
    return (slice(start, start + TOGETHER) for start in range(0, count, TOGETHER))
