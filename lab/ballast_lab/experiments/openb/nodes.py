"""What is free on the nodes of a run, and the run."""

from __future__ import annotations

import numpy as np

from ballast.model.devices import MILLI
from ballast.model.sample import Floats, Ints
from ballast_lab.experiments.openb.trace import TraceWorkload


class OpenbNodes:
    """`free` [node, device] are thousandths, 0 where a node has no such device; nodes are in the order of the run."""

    def __init__(self, work: TraceWorkload, order: Ints) -> None:
        self.work, self.order = work, order
        self.cpu: Floats = work.cpu[order].copy()
        self.memory: Floats = work.memory[order].copy()
        self.devices: Ints = work.devices[order]
        self.models = tuple(work.models[row] for row in order)
        self.free: Floats = np.where(np.arange(int(work.devices.max())) < self.devices[:, None], float(MILLI), 0.0)
        self._allowed = work.allowed[:, order]

    def candidates(self, kind: int) -> Ints:
        """The rows where a pod fits."""
        asked = self.work.kinds[kind]
        found = self._allowed[kind] & (self.cpu >= asked.cpu) & (self.memory >= asked.memory)
        if asked.count:
            found &= (self.free >= asked.milli).sum(axis=1) >= asked.count
        return np.flatnonzero(found)

    def fullest(self, kind: int, row: int) -> int:
        """The device with least left that has room for a part."""
        free = self.free[row]
        return int(np.where(free >= self.work.kinds[kind].milli, free, np.inf).argmin())

    def place(self, kind: int, row: int, device: int) -> None:
        """Takes what a pod asks for; `device` is where one that asks for a part of one device goes."""
        asked = self.work.kinds[kind]
        self.cpu[row] -= asked.cpu
        self.memory[row] -= asked.memory
        if asked.count == 1 and asked.milli < MILLI:
            self.free[row, device] -= asked.milli
        elif asked.count:
            self.free[row, np.flatnonzero(self.free[row] >= asked.milli)[: asked.count]] -= asked.milli
