"""Everything one cycle knows. Immutable; swapped by reference; readers never lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ballast.model.node import Node
from ballast.model.sample import Bools, Floats, Ints


@dataclass(frozen=True)
class Window:
    """Statistics of one window length. Arrays are [resource, node]; loads are fractions of allocatable."""

    name: str
    """Its length as the user spelled it."""
    seconds: float
    """Its length."""
    mean: Floats
    """NaN where not known, like `std` and `p95`."""
    std: Floats
    """Population standard deviation."""
    p95: Floats
    """With linear interpolation."""
    count: Ints
    """Samples in the window."""
    coverage: Floats
    """The fraction of the window that the samples account for, 0..1."""
    known: Bools
    """Whether there are enough samples (see WindowRules)."""


@dataclass(frozen=True)
class Snapshot:
    """What one cycle knows about the selected nodes. A node is silent if it is neither known nor young."""

    time: float
    """The evaluation time, the end of every window (Unix seconds)."""
    nodes: tuple[Node, ...]
    """The selected nodes by name."""
    resources: tuple[str, ...]
    windows: Mapping[str, Window]
    """By their length as the user spelled it, in the order of the setting; the first one is `primary`."""
    newest: Floats
    """[resource, node] Unix time of the newest raw sample, NaN without any."""
    allocatable_share: Floats
    """[resource, node] factor from load to a ratio of capacity."""
    known: Bools
    """[node] whether cpu or memory is known."""
    young: Bools
    """[node] not known yet, but not silent either."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The source of each resource."""
    pools: tuple[str, ...] = ()
    """[node] the name of its pool; empty where all nodes are in one."""

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """Node name → row."""
        return {node.name: row for row, node in enumerate(self.nodes)}

    def pool(self, row: int) -> str:
        """The pool of a node, empty where there are none."""
        return self.pools[row] if self.pools else ""

    def spread(self) -> Mapping[tuple[str, str], float]:
        """(pool, resource) → population standard deviation of load over the pool's known, schedulable nodes."""
        members: dict[str, list[int]] = {}
        for row, node in enumerate(self.nodes):
            if node.schedulable:
                members.setdefault(self.pool(row), []).append(row)
        found = {}
        for pool, rows in members.items():
            for index, resource in enumerate(self.resources):
                means = self.primary.mean[index, rows]
                means = means[~np.isnan(means)]
                if means.size:
                    found[pool, resource] = float(means.std())
        return found

    @property
    def primary(self) -> Window:
        """The window that loads and scores are computed from."""
        return next(iter(self.windows.values()))

    @cached_property
    def unknown(self) -> int:
        """How many selected nodes are unknown, young ones included."""
        return int(len(self.nodes) - np.count_nonzero(self.known))

    def resource(self, name: str) -> int | None:
        """The first axis' index of a resource, or None if it is not watched."""
        return self.resources.index(name) if name in self.resources else None
