"""Scores of every node for the requests that arrive, renewed at the nodes that changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ballast.model.sample import Floats
from ballast.placement.changed_rows import ChangedRows
from ballast.scoring.fleet import Fleet, Request

LIMIT = 32
"""Different requests that are remembered: 8 MB at most for 15,000 nodes and two strategies."""

Compute = Callable[[Fleet, Floats], Floats]
"""Of a fleet and requests [request, 1, resource]: scores [request, node], each of its node and request alone."""


class KeptScores:
    """By request, for a whole `fleet`, of which `changes` tells the rows that changed since it was made."""

    def __init__(self, fleet: Any, changes: ChangedRows, compute: Compute, resources: int) -> None:
        self._fleet, self._changes, self._compute = fleet, changes, compute
        self._upto = changes.count
        self._table = np.empty((LIMIT, len(fleet.nodes)))
        self._requests = np.zeros((LIMIT, 1, resources))
        self._slots: dict[Request, int] = {}

    def of(self, request: Request) -> Floats:
        """[node]. Read it only until the next change."""
        self.follow()
        slot = self._slots.get(request)
        if slot is None:
            computed = self._compute(self._fleet, np.array(request).reshape(1, 1, -1))[0]
            slot = len(self._slots)
            if slot == LIMIT:  # The one that came first gives its place.
                slot = self._slots.pop(next(iter(self._slots)))
            self._requests[slot], self._table[slot], self._slots[request] = request, computed, slot
        scores: Floats = self._table[slot]
        return scores

    def follow(self) -> None:
        """Computes again what changed, for all requests at once. A node that changed several times is computed once."""
        if self._upto < self._changes.count:
            upto, rows = self._changes.count, self._changes.since(self._upto)
            if count := len(self._slots):
                self._table[:count, rows] = self._compute(self._fleet.at(rows), self._requests[:count])
            self._upto = upto
