"""The last samples of every node and resource, on one grid of slots, in numpy arrays.

A slot is `floor(time / step + ½)`. The ring holds slot `s` in row `s mod rows`, with the absolute number `s` once for
each resource: what is written of a later slot empties the row first, so gaps, silent nodes and clock jumps age out by
comparison alone. Columns belong to keys: a node by name and UID, so that a node created again under an old name begins
with nothing.
"""

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from ballast.model.sample import Floats, Ints

EMPTY = np.iinfo(np.int64).min // 2
"""The slot number of a row that was never written."""

_AHEAD = 2
"""How many slots a write may run ahead of the reader."""

TICK = 1e-3
"""Seconds by which the times of two raw samples differ at least: Prometheus counts milliseconds."""

_FARTHEST = 2**30
"""Ticks."""


class Ring:
    """Samples of `resources` on a grid of `step` seconds, for windows of up to `span` seconds. Not thread-safe.

    `values` are [row, resource, column], NaN without a sample; `slots` [row, resource] the absolute slot number of a
    row. Slots are kept per resource, because a query that fails costs that resource only. `behind` has the shape of
    `values`: by how many milliseconds the raw sample is older than its slot, so that a sample read twice can be told.
    `newest` is [resource, column]: the Unix time of the newest raw sample, NaN without any. Only the first `width`
    columns are in use.
    """

    def __init__(self, resources: Sequence[str], step: float, span: float) -> None:
        if not (step > 0 and span >= step):
            raise ValueError(f"a ring needs 0 < step <= span, got step {step} and span {span}")
        self.resources = tuple(resources)
        self.step = step
        self.span = span
        self.rows = math.ceil(span / step - 1e-9) + _AHEAD
        self.width = 0
        self.slots: Ints = np.full((self.rows, len(self.resources)), EMPTY)
        self.values, self.behind, self.newest = self._blank(0)
        self._present = EMPTY
        self._index = {resource: index for index, resource in enumerate(self.resources)}
        self._column: dict[Hashable, int] = {}
        self._vanished: dict[Hashable, int] = {}
        self._free: list[int] = []
        self._keys: tuple[Hashable, ...] = ()
        self._columns: Ints = np.empty(0, np.int64)

    def slot(self, time: float) -> int:
        """The number of the slot nearest to a Unix time."""
        return math.floor(time / self.step + 0.5)

    def columns(self, keys: Sequence[Hashable]) -> Ints:
        """The column of each key.

        New keys get one. Keys that are no longer given keep theirs until a whole span has passed: who comes back
        sooner finds its window, after that the column is wiped and reused.
        """
        names = tuple(keys)
        if names != self._keys:
            self._release(set(names))
            new = [key for key in dict.fromkeys(names) if key not in self._column]
            self._grow(self.width + len(new) - len(self._free))
            for key in new:
                if self._free:
                    self._column[key] = self._free.pop()
                else:
                    self._column[key] = self.width
                    self.width += 1
            self._keys = names
            self._columns = np.fromiter((self._column[key] for key in names), np.int64, len(names))
        return self._columns

    def write(self, resource: str, at: float, columns: Ints, values: Floats, times: Floats) -> None:
        """Stores what was read of one resource for the grid time `at`.

        `columns`, `values` and `times` (Unix times of the raw samples) go together. A late or repeated reading fills
        its own slot and never replaces a newer lap; within a slot the last write wins. Values that are not finite do
        not enter.
        """
        index = self._index[resource]
        slot = self.slot(at)
        self._present = max(self._present, slot)
        place = slot % self.rows, index
        accepted = np.isfinite(values)
        if self.slots[place] > slot or not accepted.any():
            return
        if self.slots[place] < slot:
            self.values[place], self.slots[place] = np.nan, slot
        chosen = columns[accepted]
        self.values[place][chosen] = values[accepted]
        late = np.nan_to_num((slot * self.step - times[accepted]) / TICK)
        self.behind[place][chosen] = np.clip(np.rint(late), -_FARTHEST, _FARTHEST)
        newest = self.newest[index]
        newest[chosen] = np.fmax(newest[chosen], times[accepted])

    def advance(self, now: float) -> None:
        """Makes `now` the present: what is stored as later was stamped by a clock since set back, and is dropped."""
        present = self.slot(now)
        limit = present + _AHEAD
        if self._present > limit:
            self.slots[self.slots > limit] = EMPTY
            self._vanished = {key: min(slot, present) for key, slot in self._vanished.items()}
            self._present = present
        self._present = max(self._present, present)
        future = self.newest > limit * self.step
        if future.any():
            last = np.where(np.isfinite(self.values), self.slots[:, :, None], EMPTY).max(axis=0)
            self.newest[future] = np.where(last == EMPTY, np.nan, last * self.step)[future]

    def _release(self, wanted: set[Hashable]) -> None:
        for key in self._column.keys() - wanted - self._vanished.keys():
            self._vanished[key] = self._present
        for key in wanted & self._vanished.keys():
            del self._vanished[key]
        passed = [key for key, slot in self._vanished.items() if self._present - slot >= self.rows]
        for key in passed:
            del self._vanished[key]
            column = self._column.pop(key)
            self.values[:, :, column] = np.nan
            self.newest[:, column] = np.nan
            self._free.append(column)

    def _grow(self, needed: int) -> None:
        """Room for `needed` columns: as many at first, then by doubling."""
        room = self.newest.shape[1]
        if needed > room:
            values, behind, newest = self._blank(max(needed, 2 * room) - room)
            self.values = np.concatenate((self.values, values), axis=2)
            self.behind = np.concatenate((self.behind, behind), axis=2)
            self.newest = np.concatenate((self.newest, newest), axis=1)

    def _blank(self, columns: int) -> tuple[Floats, NDArray[np.int32], Floats]:
        """Values, what they are behind, and the newest times of columns without a sample."""
        shape = (self.rows, len(self.resources), columns)
        return np.full(shape, np.nan), np.zeros(shape, np.int32), np.full(shape[1:], np.nan)
