"""The nodes a request is about, as a fleet that strategies can score."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import overload

from ballast.model.node import Node
from ballast.model.sample import Bools, Floats, Ints
from ballast.model.snapshot import Snapshot
from ballast.scoring.devices.room import PlacedDevices
from ballast.scoring.expected_use import ExpectedUse, PartOfUse, RecentPods
from ballast.scoring.fleet import Fleet, InFlight, NodeLoads, Placed, fleet_of


@dataclass(frozen=True)
class Candidates(Fleet):
    """All nodes of a snapshot, or those at the rows `index` of a `whole`.

    `there` is what placed pods take. It, `in_flight` and `bindings` change in place while the fleet is in use.
    """

    there: Placed = field(default_factory=lambda: Placed(0))
    parts: PlacedDevices = field(default_factory=lambda: PlacedDevices(()))
    expected: ExpectedUse = field(default_factory=lambda: RecentPods(0, 0.0, 0.0))
    whole: Candidates | None = None
    index: Ints | None = None

    @property
    def placed(self) -> Placed:
        """What placed pods take, kept up to date pod by pod."""
        return self.there

    @property
    def expected_use(self) -> ExpectedUse:
        """What the window does not show yet, kept up to date pod by pod."""
        return self.expected if self.index is None else PartOfUse(self.expected, self.index)

    @property
    def devices(self) -> PlacedDevices:
        """The devices of the nodes, kept up to date pod by pod."""
        return self.parts if self.index is None else self.parts.at(self.index)

    def allocatable(self, resource: str) -> Ints:
        """As `Fleet.allocatable`, taken from the whole."""
        if self.whole is None or self.index is None:
            return super().allocatable(resource)
        return self.whole.allocatable(resource).take(self.index)

    def per_node(self, key: Hashable, compute: Callable[[Fleet], Floats]) -> Floats:
        """As `Fleet.per_node`, computed once for the whole."""
        if self.whole is None or self.index is None:
            return super().per_node(key, compute)
        return self.whole.per_node(key, compute).take(self.index, axis=-1)

    def at(self, index: Ints) -> Candidates:
        """The nodes at these rows alone, as they are now."""
        cpu = _PartOfLoad(self.cpu, index)
        return Candidates(
            nodes=_PartOfNodes(self.nodes, index),
            pods=(),
            time=self.time,
            window_end=self.window_end,
            cpu=cpu,
            memory=_PartOfLoad(self.memory, index),
            packing_cpu=cpu if self.packing_cpu is self.cpu else _PartOfLoad(self.packing_cpu, index),
            power_cpu=cpu if self.power_cpu is self.cpu else _PartOfLoad(self.power_cpu, index),
            cpu_base=self.cpu_base.take(index),
            in_flight=None if self.in_flight is None else _PartInFlight(self.in_flight, index),
            bindings=_PartOfBindings(self.bindings, index),
            further={name: _PartOfLoad(load, index) for name, load in self.further.items()},
            lapsed=None if self.lapsed is None else self.lapsed.take(index),
            there=_PartOfPlaced(self.there, index),
            parts=self.parts,
            expected=self.expected,
            window_seconds=self.window_seconds,
            whole=self,
            index=index,
        )


def candidates(
    snapshot: Snapshot,
    there: Placed,
    in_flight: InFlight,
    bindings: Mapping[float, Ints],
    parts: PlacedDevices,
    expected: ExpectedUse,
    before: Fleet | None = None,
) -> Candidates:
    """All nodes of a snapshot; `before` is the fleet of the snapshot before it."""
    fleet = fleet_of(snapshot, before=before)
    return Candidates(
        nodes=fleet.nodes,
        pods=(),
        time=fleet.time,
        window_end=fleet.window_end,
        cpu=fleet.cpu,
        memory=fleet.memory,
        packing_cpu=fleet.packing_cpu,
        power_cpu=fleet.power_cpu,
        cpu_base=fleet.cpu_base,
        in_flight=in_flight,
        bindings=bindings,
        further=fleet.further,
        lapsed=fleet.lapsed,
        of_nodes=fleet.of_nodes,
        there=there,
        parts=parts,
        expected=expected,
        window_seconds=fleet.window_seconds,
    )


class _PartOfNodes(Sequence[Node]):
    """Some of the nodes, looked up when one is read."""

    def __init__(self, nodes: Sequence[Node], index: Ints) -> None:
        self._nodes = nodes
        self._index = index

    def __len__(self) -> int:
        return len(self._index)

    @overload
    def __getitem__(self, at: int) -> Node: ...
    @overload
    def __getitem__(self, at: slice) -> list[Node]: ...
    def __getitem__(self, at: int | slice) -> Node | list[Node]:
        if isinstance(at, slice):
            return [self._nodes[row] for row in self._index[at].tolist()]
        return self._nodes[int(self._index[at])]


class _PartInFlight:
    """The pods in flight on some of the nodes."""

    def __init__(self, whole: InFlight, index: Ints) -> None:
        self._whole = whole
        self._index = index

    def use(self, resource: str, default: int, multiplier: float) -> Ints:
        return self._whole.use(resource, default, multiplier).take(self._index)


class _PartOfBindings(Mapping[float, Ints]):
    """The counts of bindings on some of the nodes, taken when they are read: one strategy alone reads them."""

    def __init__(self, whole: Mapping[float, Ints], index: Ints) -> None:
        self._whole = whole
        self._index = index

    def __getitem__(self, seconds: float) -> Ints:
        return self._whole[seconds].take(self._index)

    def __iter__(self) -> Iterator[float]:
        return iter(self._whole)

    def __len__(self) -> int:
        return len(self._whole)


class _PartOfPlaced(Placed):
    """The sums of some of the nodes."""

    def __init__(self, whole: Placed, index: Ints) -> None:
        super().__init__(len(index))
        self._whole = whole
        self._index = index

    def reserved(self, resource: str) -> Ints:
        return self._whole.reserved(resource).take(self._index)

    def scored(self, resource: str) -> Ints:
        return self._whole.scored(resource).take(self._index)

    def squares(self) -> Floats:
        return self._whole.squares().take(self._index)

    def requested(self, resource: str) -> Ints:
        return self._whole.requested(resource).take(self._index)

    def limited(self, resource: str) -> Ints:
        return self._whole.limited(resource).take(self._index)


class _PartOfLoad(NodeLoads):
    """The load of some of the nodes; each array is taken when it is first read, as few strategies read all."""

    def __init__(self, whole: NodeLoads, index: Ints) -> None:
        self._whole = whole
        self._index = index

    @cached_property
    def mean(self) -> Floats:
        return self._whole.mean.take(self._index)

    @cached_property
    def std(self) -> Floats:
        return self._whole.std.take(self._index)

    @cached_property
    def known(self) -> Bools:
        return self._whole.known.take(self._index)
