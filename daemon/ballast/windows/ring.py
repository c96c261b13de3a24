"""The last samples of every node and resource, on one grid of slots, in numpy arrays.

A slot is `floor(time / step + ½)`. The ring holds slot `s` in row `s mod rows`, together with the absolute number
`s`, so gaps, silent nodes and clock jumps age out by comparison alone and nothing has to be swept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ballast.model.sample import Floats, Ints

EMPTY = np.iinfo(np.int64).min // 2
"""The slot number of a cell that was never written."""

_AHEAD = 2
"""How many slots a write may run ahead of the reader."""


class Ring:
    """Samples of `resources` on a grid of `step` seconds, for windows of up to `span` seconds. Not thread-safe.

    `values` and `slots` are [row, resource, column]: the value and the absolute slot number of the sample in a row.
    Slots are kept per resource, because a query that fails costs that resource only. `newest` is [resource, column]:
    the Unix time of the newest raw sample, NaN without any. Only the first `width` columns are in use.
    """

    def __init__(self, resources: Sequence[str], step: float, span: float) -> None:
        if not (step > 0 and span >= step):
            raise ValueError(f"a ring needs 0 < step <= span, got step {step} and span {span}")
        self.resources = tuple(resources)
        self.step = step
        self.span = span
        self.rows = math.ceil(span / step - 1e-9) + _AHEAD
        self.width = 0
        self.values: Floats = np.empty((self.rows, len(self.resources), 0))
        self.slots: Ints = np.empty((self.rows, len(self.resources), 0), np.int64)
        self.newest: Floats = np.empty((len(self.resources), 0))
        self._present = EMPTY
        self._index = {resource: index for index, resource in enumerate(self.resources)}
        self._column: dict[str, int] = {}
        self._vanished: dict[str, int] = {}
        self._free: list[int] = []
        self._names: tuple[str, ...] = ()
        self._columns: Ints = np.empty(0, np.int64)

    def slot(self, time: float) -> int:
        """The number of the slot nearest to a Unix time."""
        return math.floor(time / self.step + 0.5)

    def columns(self, names: Sequence[str]) -> Ints:
        """The column of each name.

        New names get one. Names that are no longer given keep theirs until a whole span has passed: who comes back
        sooner finds its window, after that the column is wiped and reused.
        """
        wanted = tuple(names)
        if wanted != self._names:
            self._release(set(wanted))
            new = [name for name in dict.fromkeys(wanted) if name not in self._column]
            self._grow(self.width + len(new) - len(self._free))
            for name in new:
                if self._free:
                    self._column[name] = self._free.pop()
                else:
                    self._column[name] = self.width
                    self.width += 1
            self._names = wanted
            self._columns = np.fromiter((self._column[name] for name in wanted), np.int64, len(wanted))
        return self._columns

    def write(self, resource: str, at: float, columns: Ints, values: Floats, times: Floats) -> None:
        """Stores what was read of one resource for the grid time `at`.

        `columns`, `values` and `times` (Unix times of the raw samples) go together. A late or repeated reading fills
        its own slot and never replaces a newer lap; within a slot the last write wins. Values that are not finite do
        not enter.
        """
        index = self._index[resource]
        slot = self.slot(at)
        row = self.values[slot % self.rows, index]
        slots = self.slots[slot % self.rows, index]
        accepted = np.isfinite(values) & (slots[columns] <= slot)
        chosen = columns[accepted]
        row[chosen] = values[accepted]
        slots[chosen] = slot
        newest = self.newest[index]
        newest[chosen] = np.fmax(newest[chosen], times[accepted])
        self._present = max(self._present, slot)

    def advance(self, now: float) -> None:
        """Makes `now` the present: what is stored as later was stamped by a clock since set back, and is dropped."""
        present = self.slot(now)
        limit = present + _AHEAD
        if self._present > limit:
            self.slots[self.slots > limit] = EMPTY
            self._vanished = {name: min(slot, present) for name, slot in self._vanished.items()}
            self._present = present
        self._present = max(self._present, present)
        future = self.newest > limit * self.step
        if future.any():
            last = self.slots.max(axis=0)
            self.newest[future] = np.where(last == EMPTY, np.nan, last * self.step)[future]

    def _release(self, wanted: set[str]) -> None:
        for name in self._column.keys() - wanted - self._vanished.keys():
            self._vanished[name] = self._present
        for name in wanted & self._vanished.keys():
            del self._vanished[name]
        passed = [name for name, slot in self._vanished.items() if self._present - slot >= self.rows]
        for name in passed:
            del self._vanished[name]
            column = self._column.pop(name)
            self.slots[:, :, column] = EMPTY
            self.newest[:, column] = np.nan
            self._free.append(column)

    def _grow(self, needed: int) -> None:
        """Room for `needed` columns: as many at first, then by doubling."""
        room = self.newest.shape[1]
        if needed > room:
            more = max(needed, 2 * room) - room
            shape = (self.rows, len(self.resources), more)
            self.values = np.concatenate((self.values, np.full(shape, np.nan)), axis=2)
            self.slots = np.concatenate((self.slots, np.full(shape, EMPTY, np.int64)), axis=2)
            self.newest = np.concatenate((self.newest, np.full(shape[1:], np.nan)), axis=1)
