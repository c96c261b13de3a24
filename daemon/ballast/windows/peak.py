"""The highest mean of the last hours or days, which is longer than a ring of samples goes back."""

import math
from collections.abc import Hashable, Sequence

import numpy as np

from ballast.model.sample import Floats

BUCKET = 300.0
"""Seconds."""


class PeakLoads:
    """Keeps the highest value of each 5 minutes, per row and name; names that are no longer told are forgotten.

    A name is that of one node alone, such as its name and UID.
    """

    def __init__(self, rows: int, seconds: float) -> None:
        self._count = max(1, math.ceil(seconds / BUCKET))
        self._values = np.full((rows, 0, self._count), np.nan, np.float32)
        self._names: tuple[Hashable, ...] = ()
        self._newest = -1

    def observe(self, time: float, names: Sequence[Hashable], values: Floats) -> None:
        """`values` [row, name] are those at `time` (Unix seconds), NaN where unknown. The past may come later."""
        if self._names != tuple(names):
            self._rename(tuple(names))
        bucket = math.floor(time / BUCKET)
        if bucket > self._newest:
            fresh = range(max(self._newest + 1, bucket - self._count + 1), bucket + 1)
            self._values[:, :, [slot % self._count for slot in fresh]] = np.nan
            self._newest = bucket
        if bucket > self._newest - self._count:
            slot = bucket % self._count
            self._values[:, :, slot] = np.fmax(self._values[:, :, slot], values)

    def over(self, seconds: float, coverage: float) -> Floats:
        """[row, name]: the highest of the last `seconds`; NaN where less than that share of them is known."""
        count = min(self._count, max(1, math.ceil(seconds / BUCKET)))
        slots = [(self._newest - back) % self._count for back in range(count)]
        values = self._values[:, :, slots]
        known = (~np.isnan(values)).sum(axis=2)
        return np.where(known >= max(1.0, coverage * count), np.fmax.reduce(values, axis=2), np.nan).astype(float)

    def _rename(self, names: tuple[Hashable, ...]) -> None:
        old = {name: index for index, name in enumerate(self._names)}
        values = np.full((len(self._values), len(names), self._count), np.nan, np.float32)
        for index, name in enumerate(names):
            if name in old:
                values[:, index] = self._values[:, old[name]]
        self._names, self._values = names, values
