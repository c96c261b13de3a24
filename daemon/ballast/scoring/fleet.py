"""The input of strategies: nodes, their load over the window and their pods, as arrays over nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from ballast.model.devices import claim_of, devices_of
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.model.shape import Shape
from ballast.model.snapshot import Snapshot
from ballast.scoring.demand import Demand, demand, units
from ballast.scoring.devices.room import PlacedDevices
from ballast.scoring.expected_use import RESOURCES, ExpectedUse, NodeAmounts, Presence, RecentPods

T = TypeVar("T")

Request = tuple[float, ...]
"""What a pod adds, by resource."""

REMEMBERED = 10_000
"""Shapes whose amounts are kept at hand."""


@dataclass(frozen=True)
class NodeLoads:
    """Use over the window, per node, in percent as Trimaran reads it, so that roundings agree; 0 where not `known`."""

    mean: Floats
    std: Floats
    known: Bools


class InFlight(Protocol):
    """Pods that were bound after the window ended, so that the measured load does not show them yet."""

    def use(self, resource: str, default: int, multiplier: float) -> Ints:
        """[node]: their expected use of a resource, in milli-cores or bytes.

        `default` and `multiplier` are those of `ballast.scoring.demand.predicted`.
        """
        ...


@dataclass(frozen=True)
class Fleet:
    """The nodes a strategy scores, at one moment. Amounts are milli-cores for cpu, otherwise bytes or counts.

    All arrays have one entry for each node, so a strategy scores every node at once:

        free = fleet.allocatable("cpu") - fleet.placed.reserved("cpu")  # milli-cores that no pod requests
        idle = np.where(fleet.cpu.known, 100 - fleet.cpu.mean, 0.0)  # percent; the mean is 0 where it is not known

    Wrap in `once` or `per_node` what does not depend on the arriving pod: fleets are scored thousands of times.
    """

    nodes: Sequence[Node]
    """Nodes, in the order of all arrays."""

    pods: tuple[Pod, ...]
    """All known pods, also waiting and finished ones. Empty in the daemon, which keeps sums instead."""

    time: float
    """Now, in Unix seconds."""

    window_end: float
    """The end of the window, in Unix seconds."""

    cpu: NodeLoads
    """Percent of allocatable cpu."""

    memory: NodeLoads
    """Percent of allocatable memory."""

    packing_cpu: NodeLoads
    """Percent of `cpu_base`, as target-load reads it."""

    power_cpu: NodeLoads
    """Percent of `cpu_base`, as peaks reads it."""

    cpu_base: Ints
    """[node]: the milli-cores that target-load and peaks take for the whole node."""

    siblings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The mean measured use (cores, bytes) of the pods of one owner, by the owner's UID."""

    in_flight: InFlight | None = None
    """Pods in flight as the daemon counts them; None where they are counted from `pods`."""

    bindings: Mapping[float, Ints] = field(default_factory=dict)
    """[node] by seconds: pods bound within the last so many seconds. Empty where they are not counted."""

    further: Mapping[str, NodeLoads] = field(default_factory=dict)
    """Percent of what else is measured, by resource; a node of which it is not known does not have it."""

    lapsed: Bools | None = None
    """[node]: its load was known and is not any more; None where nothing is known of the past."""

    window_seconds: float = 0.0
    """The length of the window."""

    of_nodes: Memo = field(default_factory=lambda: Memo(), repr=False, compare=False)
    """What follows from the nodes' allocatable amounts alone; fleets of the same amounts share it."""

    _memo: Memo = field(default_factory=lambda: Memo(), repr=False, compare=False)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Caches what depends neither on the arriving pod nor on placed ones."""
        return self._memo.once(key, compute)

    def per_node(self, key: Hashable, compute: Callable[[Fleet], Floats]) -> Floats:
        """[…, node]: caches what depends on the node alone; parts of a fleet read it from the whole."""
        return self.once(key, lambda: compute(self))

    def per_request(self, key: Hashable, request: Request, compute: Callable[[Fleet, Floats], Floats]) -> Floats:
        """[node]: of requests [request, 1, resource] `compute` makes scores [request, node], each of its own alone. A
        fleet that changes pod by pod keeps them.
        """
        scores: Floats = compute(self, np.array(request).reshape(1, 1, -1))[0]
        return scores

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """{node name: row}."""
        return {node.name: row for row, node in enumerate(self.nodes)}

    @cached_property
    def resources(self) -> frozenset[str]:
        """What any node has some of. Nothing is cached for another name: pods ask for whatever they like."""
        return self.of_nodes.once(
            "resources",
            lambda: frozenset(name for node in self.nodes for name, amount in node.allocatable.items() if amount),
        )

    def allocatable(self, resource: str) -> Ints:
        """[node], 0 where a node does not have the resource."""
        if resource not in self.resources:
            return np.zeros(len(self.nodes), np.int64)
        return self.of_nodes.once(_key(resource), lambda: amounts(resource, _allocatable(self.nodes)))

    @cached_property
    def known(self) -> Bools:
        """Nodes whose cpu or memory is known."""
        return self.cpu.known | self.memory.known

    @cached_property
    def expected_use(self) -> ExpectedUse:
        """What pods that came within the window use beyond what it shows."""
        use = RecentPods(len(self.nodes), self.window_end, self.window_seconds, self.siblings)
        there = [
            Presence(row, pod.shape, pod.owner.uid if pod.owner else "", pod.scheduled_at)
            for pod in self.pods
            if not pod.finished and pod.scheduled_at is not None and (row := self.rows.get(pod.node)) is not None
        ]
        use.measure(self.node_amounts(), filter(use.recent, there))
        return use

    def node_amounts(self) -> dict[str, NodeAmounts]:
        """What is used and requested of cpu and memory."""
        amounts = {}
        for name in RESOURCES:
            load: NodeLoads = getattr(self, name)
            allocatable = self.allocatable(name)
            amounts[name] = NodeAmounts(load.mean * allocatable / 100, self.placed.scored(name), allocatable)
        return amounts

    @cached_property
    def placed(self) -> Placed:
        """What the unfinished pods on each node request and are limited to."""
        placed = Placed(len(self.nodes))
        for pod in self.pods:
            row = self.rows.get(pod.node)
            if row is not None and not pod.finished:
                placed.add(row, pod.shape)
        return placed

    @cached_property
    def devices(self) -> PlacedDevices:
        """The devices that are handed out in parts, and what the unfinished pods on each node take of them."""
        devices = PlacedDevices([devices_of(node) for node in self.nodes])
        for pod in self.pods:
            row = self.rows.get(pod.node)
            if row is not None and not pod.finished and (claim := claim_of(pod)) is not None:
                devices.add(row, claim)
        return devices


class Memo:
    """A cache of computed values, by key."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, object] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """The cached value, computed if it is missing."""
        if key not in self._kept:
            self._kept[key] = compute()
        return self._kept[key]  # type: ignore[return-value]

    def forget(self) -> None:
        """Drops all values."""
        self._kept.clear()


_SQUARED = ("placed", "cpu")


class Placed:
    """Sums over the unfinished pods of each node, by the kinds of `Demand`. `add` and `remove` keep them up to date."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._sums: dict[tuple[str, str], Ints] = {}
        self._squares: Floats = np.zeros(nodes)
        self._demands: dict[int, tuple[Shape, tuple[tuple[tuple[str, str], int], ...]]] = {}
        self._memo = Memo()

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Caches what depends on the placed pods, until they change or `forget` is called."""
        return self._memo.once(key, compute)

    def forget(self) -> None:
        """Drops what `once` cached: for a new snapshot, whose load the cached values do not have."""
        self._memo.forget()

    def add(self, row: int | slice, shape: Shape, count: int | Ints = 1) -> None:
        """`count` pods at a row, or as many as it says at each row of a slice."""
        self.forget()
        for key, amount in self._amounts(shape):
            if key not in self._sums:
                self._sums[key] = np.zeros(self._nodes, np.int64)
            self._sums[key][row] += amount * count
            if key == _SQUARED:
                # Rounding may leave less than nothing of large pods that are gone.
                self._squares[row] = np.maximum(self._squares[row] + float(amount) ** 2 * count, 0.0)

    def remove(self, row: int, shape: Shape) -> None:
        """Takes one pod of this shape away from a row."""
        self.add(row, shape, -1)

    def reserved(self, resource: str) -> Ints:
        """[node]: what the scheduler sets aside."""
        return self._sum("reserved", resource)

    def scored(self, resource: str) -> Ints:
        """[node]: what NodeResourcesFit counts, with defaults for cpu and memory."""
        return self._sum("placed", resource)

    def squares(self) -> Floats:
        """[node]: the sum of the squares of `scored` cpu, milli-cores squared."""
        return self._squares

    def requested(self, resource: str) -> Ints:
        """[node]: requests as Trimaran adds them up."""
        return self._sum("requested", resource)

    def limited(self, resource: str) -> Ints:
        """[node]: limits as Trimaran adds them up."""
        return self._sum("limited", resource)

    def _sum(self, kind: str, resource: str) -> Ints:
        sums = self._sums.get((kind, resource))
        return np.zeros(self._nodes, np.int64) if sums is None else sums

    def _amounts(self, shape: Shape) -> tuple[tuple[tuple[str, str], int], ...]:
        known = self._demands.get(id(shape))
        if known is None:
            if len(self._demands) >= REMEMBERED:
                self._demands.clear()
            known = self._demands[id(shape)] = (shape, _flat(demand(shape)))
        return known[1]


def _flat(asked: Demand) -> tuple[tuple[tuple[str, str], int], ...]:
    kinds = {"reserved": asked.reserved, "placed": asked.placed, "requested": asked.requested, "limited": asked.limited}
    return tuple(
        ((kind, name), amount) for kind, amounts in kinds.items() for name, amount in amounts.items() if amount
    )


def amounts(resource: str, of: Iterable[Mapping[str, float]]) -> Ints:
    """One resource of each entry as whole numbers, 0 where an entry does not have it."""
    return np.array([units(resource, amounts.get(resource, 0.0)) for amounts in of], np.int64)


def _key(resource: str) -> Hashable:
    return "allocatable", resource


def _allocatable(nodes: Sequence[Node]) -> list[Mapping[str, float]]:
    return [node.allocatable for node in nodes]


def fleet_of(snapshot: Snapshot, pods: Sequence[Pod] = (), before: Fleet | None = None) -> Fleet:
    """The daemon's view: load is a fraction of allocatable for every strategy.

    What follows from the nodes alone is taken from the fleet `before` where they have the same.
    """
    cpu, memory = (_load(snapshot, resource) for resource in ("cpu", "memory"))
    have = _allocatable(snapshot.nodes)
    of_nodes = before.of_nodes if before is not None and _allocatable(before.nodes) == have else Memo()
    return Fleet(
        nodes=snapshot.nodes,
        pods=tuple(pods),
        time=snapshot.time,
        window_end=snapshot.time,
        cpu=cpu,
        memory=memory,
        packing_cpu=cpu,
        power_cpu=cpu,
        cpu_base=of_nodes.once(_key("cpu"), lambda: amounts("cpu", have)),
        of_nodes=of_nodes,
        further={name: _load(snapshot, name) for name in snapshot.resources if name not in ("cpu", "memory")},
        lapsed=snapshot.states.lapsed,
        window_seconds=snapshot.primary.seconds,
    )


def _load(snapshot: Snapshot, resource: str) -> NodeLoads:
    index, window = snapshot.resource(resource), snapshot.primary
    if index is None:
        nothing = np.zeros(len(snapshot.nodes))
        return NodeLoads(nothing, nothing, np.zeros(len(snapshot.nodes), bool))
    known = window.known[index]
    mean, std = (np.where(known, values[index] * 100, 0.0) for values in (window.mean, window.std))
    return NodeLoads(mean, std, known)
