"""The nodes a request is about, as a fleet that strategies can score."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast, overload

from numpy.typing import NDArray

from ballast.model.node import Node
from ballast.model.sample import Floats, Ints
from ballast.model.snapshot import Snapshot
from ballast.scoring.fleet import Fleet, Load, Placed, fleet_of

T = TypeVar("T")


@dataclass(frozen=True)
class Candidates(Fleet):
    """All nodes of a snapshot, or those at `index` of a `whole`.

    `there` is what pods take. It and what is `kept` are changed in place while the fleet is in use.
    """

    there: Placed = field(default_factory=lambda: Placed(0))
    whole: Candidates | None = None
    index: Ints | None = None
    kept: dict[Hashable, Ints] = field(default_factory=dict)

    @property
    def placed(self) -> Placed:
        return self.there

    def allocatable(self, resource: str) -> Ints:
        if self.whole is None or self.index is None:
            return super().allocatable(resource)
        return self.whole.allocatable(resource).take(self.index)

    def per_node(self, key: Hashable, compute: Callable[[Fleet], Floats]) -> Floats:
        if self.whole is None or self.index is None:
            return super().per_node(key, compute)
        return self.whole.per_node(key, compute).take(self.index, axis=-1)

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        if self.whole is None or self.index is None or key not in self.whole.kept:
            return super().once(key, compute)
        amounts, index = self.whole.kept[key], self.index
        return super().once(key, lambda: cast(T, amounts.take(index)))

    def keep(self, key: Hashable, amounts: Ints) -> None:
        """`once(key, …)` gives these amounts per node, here and in every part."""
        self.kept[key] = amounts
        self.once(key, lambda: amounts)

    def at(self, index: Ints) -> Candidates:
        """The nodes at these rows alone, as they are now."""
        cpu = _Part(self.cpu, index)
        return Candidates(
            nodes=_Some(self.nodes, index),
            pods=(),
            time=self.time,
            window_end=self.window_end,
            cpu=cpu,
            memory=_Part(self.memory, index),
            packing_cpu=cpu if self.packing_cpu is self.cpu else _Part(self.packing_cpu, index),
            power_cpu=cpu if self.power_cpu is self.cpu else _Part(self.power_cpu, index),
            cpu_base=self.cpu_base.take(index),
            there=_Taken(self.there, index),
            whole=self,
            index=index,
        )


def candidates(snapshot: Snapshot, there: Placed) -> Candidates:
    """All nodes of a snapshot."""
    fleet = fleet_of(snapshot)
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
        there=there,
    )


class _Some(Sequence[Node]):
    """Some of the nodes, looked up when somebody asks for one."""

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


class _Taken(Placed):
    """The sums of some of the nodes."""

    def __init__(self, whole: Placed, index: Ints) -> None:
        super().__init__(len(index))
        self._whole = whole
        self._index = index

    def reserved(self, resource: str) -> Ints:
        return self._whole.reserved(resource).take(self._index)

    def scored(self, resource: str) -> Ints:
        return self._whole.scored(resource).take(self._index)

    def requested(self, resource: str) -> Ints:
        return self._whole.requested(resource).take(self._index)

    def limited(self, resource: str) -> Ints:
        return self._whole.limited(resource).take(self._index)


class _Part(Load):
    """The load of some of the nodes, looked up when somebody asks for it."""

    def __init__(self, whole: Load, index: Ints) -> None:
        vars(self).update(_whole=whole, _index=index)

    def __getattr__(self, name: str) -> NDArray[Any]:
        found: NDArray[Any] = getattr(vars(self)["_whole"], name).take(vars(self)["_index"])
        vars(self)[name] = found
        return found
