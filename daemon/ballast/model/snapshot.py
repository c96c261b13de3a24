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
    """Statistics of one window length; arrays are [resource, node], means are *load* (fraction of allocatable).

    `mean`, `std` (population) and `p95` (linear interpolation) are NaN where the window is not `known`.
    """

    name: str
    seconds: float
    mean: Floats
    std: Floats
    p95: Floats
    count: Ints
    coverage: Floats
    known: Bools


@dataclass(frozen=True)
class Snapshot:
    """`time` is the evaluation time, the end of every window. `nodes` are the selected ones, by name.

    `windows` are keyed by their length as the user spelled it, in the order of the setting; the first one is `primary`.
    `newest` [resource, node] is the Unix time of the newest raw sample (NaN without any); `allocatable_share`
    [resource, node] turns load into a ratio of capacity. A node is *known* when cpu or memory is; *young* when it is
    not known yet but not silent either; else it is silent. `pools` names each node's pool; empty: all are in one.
    """

    time: float
    nodes: tuple[Node, ...]
    resources: tuple[str, ...]
    windows: Mapping[str, Window]
    newest: Floats
    allocatable_share: Floats
    known: Bools
    young: Bools
    sources: Mapping[str, str] = field(default_factory=dict)
    pools: tuple[str, ...] = ()

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
