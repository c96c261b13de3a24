"""Everything one cycle knows. Immutable; swapped by reference; readers never lock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from ballast.model.node import Node
from ballast.model.node_state import NodeState, NodeStates
from ballast.model.sample import Bools, Floats, Ints

Array = TypeVar("Array", Floats, Ints, Bools)


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
    """Distinct raw samples in the window."""
    coverage: Floats
    """The fraction of the window that the samples account for, 0..1."""
    known: Bools
    """Whether there are enough samples (see WindowRules)."""

    def of(self, nodes: Bools) -> Window:
        """This window where `nodes` [node] holds; elsewhere nothing is known, count and coverage aside."""
        if nodes.all():
            return self
        mean, std, p95 = (np.where(nodes, values, np.nan) for values in (self.mean, self.std, self.p95))
        return replace(self, mean=mean, std=std, p95=p95, known=self.known & nodes)

    def with_rows(self, other: Window, rows: list[int]) -> Window:
        """This window with the resources at `rows` from another source."""
        names = ("mean", "std", "p95", "count", "coverage", "known")
        return replace(self, **{name: mixed(getattr(self, name), getattr(other, name), rows) for name in names})


@dataclass(frozen=True)
class Snapshot:
    """What one cycle knows about the selected nodes.

    Arrays are [resource, node]; `resource` and `rows` give the indices. Unknown is NaN, never 0, so ask `known` first:

        cpu, row = snapshot.resource("cpu"), snapshot.rows["worker-1"]
        if snapshot.known[row]:
            load = snapshot.primary.mean[cpu, row]  # 0.25: a quarter of the node's allocatable cpu

    Nothing changes a snapshot; the next cycle publishes another one. A reader takes one reference and answers from it.
    The windows of a node that is not known are not known either.
    """

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
    """[resource, node] factor from load to a ratio of capacity without reserved huge pages; see `of_capacity`."""
    states: NodeStates
    sources: Mapping[str, str] = field(default_factory=dict)
    """The source of each resource."""
    pools: tuple[str, ...] = ()
    """[node] the name of its pool; empty where all nodes are in one."""
    scrape_intervals: Mapping[str, float] = field(default_factory=dict)
    """By resource the seconds between scrapes, as far as measured."""
    matched_by: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    """As in `Reading`, kept while a node is listed. A node that only metrics-server knows is absent."""

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """Node name → row."""
        return {node.name: row for row, node in enumerate(self.nodes)}

    def of_capacity(self, load: Floats) -> Floats:
        """[resource, node]: these loads as ratios of capacity, as exporters tell them: reserved huge pages are used."""
        ratios: Floats = load * self.allocatable_share
        if (memory := self.resource("memory")) is not None:
            ratios[memory] += [node.reserve for node in self.nodes]
        return ratios

    def pool(self, row: int) -> str:
        """The pool of a node, empty where there are none."""
        return self.pools[row] if self.pools else ""

    def spread(self) -> Mapping[tuple[str, str], float]:
        """(pool, resource) → population standard deviation of load over the pool's known, schedulable nodes."""
        members: dict[str, list[int]] = {}
        for row, node in enumerate(self.nodes):
            if node.schedulable:
                members.setdefault(self.pool(row), []).append(row)
        weights = {}
        for pool, rows in members.items():
            for index, resource in enumerate(self.resources):
                means = self.primary.mean[index, rows]
                means = means[~np.isnan(means)]
                if means.size:
                    weights[pool, resource] = float(means.std())
        return weights

    @property
    def shortest(self) -> Window:
        """The window that shows a change first."""
        return min(self.windows.values(), key=lambda window: window.seconds)

    @property
    def primary(self) -> Window:
        """The window that loads and scores are computed from."""
        return next(iter(self.windows.values()))

    @cached_property
    def known(self) -> Bools:
        """[node]: whether every resource that it needs has a window."""
        return self.states.are(NodeState.KNOWN)

    @property
    def unknown(self) -> int:
        """How many selected nodes are not known, for whatever reason."""
        return len(self.nodes) - self.states.counts[NodeState.KNOWN]

    def knows(self, name: str) -> bool:
        """Whether a node of this name is known."""
        row = self.rows.get(name)
        return row is not None and bool(self.known[row])

    def lost(self, row: int) -> tuple[str, ...]:
        """The resources that a silent node has no window of any more."""
        return tuple(name for name, gone in zip(self.resources, self.states.lost[:, row], strict=True) if gone)

    def missing(self, row: int) -> tuple[str, ...]:
        """The resources that an unmeasured node needs and never had."""
        return tuple(name for name, never in zip(self.resources, self.states.missing[:, row], strict=True) if never)

    def starved(self, row: int) -> bool:
        """Whether a node is known, but waits for its hypervisor, its disks or its memory."""
        return self.states.starved is not None and bool(self.states.starved[row])

    @property
    def trusted(self) -> Snapshot:
        """What decisions go by: starved nodes are not known, so none is low, best or a target."""
        return self if self.states.starved is None else self._without_starved

    @cached_property
    def _without_starved(self) -> Snapshot:
        rested = ~np.asarray(self.states.starved, bool)
        windows = {name: window.of(rested) for name, window in self.windows.items()}
        return replace(self, windows=windows, states=self.states.trusted)

    def resource(self, name: str) -> int | None:
        """The first axis' index of a resource, or None if it is not watched."""
        return self.resources.index(name) if name in self.resources else None


def mixed(array: Array, other: Array, rows: list[int]) -> Array:
    """A copy of `array` with the `rows` of `other`."""
    result = array.copy()
    result[rows] = other[rows]
    return result
