"""The nodes a request is about, as a fleet that strategies can score."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

from ballast.model.node import Node
from ballast.model.sample import Bools, Floats, Ints
from ballast.model.snapshot import Snapshot
from ballast.placement.changed_rows import ChangedRows
from ballast.placement.kept_scores import KeptScores
from ballast.scoring.devices.room import PlacedDevices
from ballast.scoring.expected_use import ExpectedUse, PartOfUse, RecentPods
from ballast.scoring.fleet import Fleet, InFlight, Memo, NodeLoads, Placed, Request, fleet_of


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
    changes: ChangedRows = field(default_factory=ChangedRows)

    kept: dict[Hashable, KeptScores] = field(default_factory=dict, repr=False, compare=False)

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

    def per_request(self, key: Hashable, request: Request, compute: Callable[[Fleet, Floats], Floats]) -> Floats:
        """As `Fleet.per_request`, kept for the whole and renewed where something changed."""
        if self.whole is not None and self.index is not None:
            return self.whole.per_request(key, request, compute).take(self.index)
        kept = self.kept.get(key)
        if kept is None:
            kept = self.kept[key] = KeptScores(self, self.changes, compute, len(request))
        return kept.of(request)

    def settle(self) -> None:
        """Renews now what changed, so that the next request need not."""
        for kept in self.kept.values():
            kept.follow()

    def at(self, index: Ints) -> Candidates:
        """The nodes at these rows alone, as they are now."""
        return _Part(self, index)


def candidates(
    snapshot: Snapshot,
    there: Placed,
    in_flight: InFlight,
    bindings: Mapping[float, Ints],
    parts: PlacedDevices,
    expected: ExpectedUse,
    changes: ChangedRows,
    before: Fleet | None = None,
) -> Candidates:
    """All nodes of a snapshot; `before` is the fleet of the snapshot before it, `changes` are rows that change."""
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
        changes=changes,
    )


class _Part(Candidates):
    """Some of the nodes. What few strategies read is taken when it is first read: one is made for each answer."""

    pods = ()

    def __init__(self, whole: Candidates, index: Ints) -> None:
        self.__dict__.update(
            whole=whole,
            index=index,
            in_flight=None if whole.in_flight is None else _PartInFlight(whole.in_flight, index),
            lapsed=None if whole.lapsed is None else whole.lapsed.take(index),
            window_seconds=whole.window_seconds,
            of_nodes=Memo(),
            _memo=Memo(),
        )

    def __getattr__(self, name: str) -> Any:
        """Called for what the constructor of a dataclass would have set."""
        whole, index = self.__dict__["whole"], self.__dict__["index"]
        part = _PARTS.get(name)
        found = getattr(whole, name) if part is None else part(getattr(whole, name), index)
        self.__dict__[name] = found
        return found


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


_PARTS: Mapping[str, Callable[[Any, Ints], Any]] = {
    "nodes": _PartOfNodes,
    "cpu": _PartOfLoad,
    "memory": _PartOfLoad,
    "packing_cpu": _PartOfLoad,
    "power_cpu": _PartOfLoad,
    "cpu_base": lambda amounts, index: amounts.take(index),
    "bindings": _PartOfBindings,
    "further": lambda loads, index: {name: _PartOfLoad(load, index) for name, load in loads.items()},
    "there": _PartOfPlaced,
}
