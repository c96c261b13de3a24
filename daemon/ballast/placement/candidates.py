"""The nodes a request is about, as a fleet that strategies can score."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.model.snapshot import Snapshot
from ballast.scoring.fleet import Fleet, Load, Placed, fleet_of


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
        return self.whole.allocatable(resource)[self.index]

    def per_node(self, key: Hashable, compute: Callable[[Fleet], Floats]) -> Floats:
        if self.whole is None or self.index is None:
            return super().per_node(key, compute)
        return self.whole.per_node(key, compute)[self.index]

    def keep(self, key: Hashable, amounts: Ints) -> None:
        """`once(key, …)` gives these amounts per node, here and in every part."""
        self.kept[key] = amounts
        self.once(key, lambda: amounts)

    def at(self, index: Ints) -> Candidates:
        """The nodes at these rows alone, as they are now."""
        nodes = self.nodes
        part = Candidates(
            nodes=tuple([nodes[row] for row in index.tolist()]),
            pods=(),
            time=self.time,
            window_end=self.window_end,
            cpu=_taken(self.cpu, index),
            memory=_taken(self.memory, index),
            packing_cpu=_taken(self.packing_cpu, index),
            power_cpu=_taken(self.power_cpu, index),
            cpu_base=self.cpu_base[index],
            there=_Taken(self.there, index),
            whole=self,
            index=index,
        )
        for key, amounts in self.kept.items():
            part.keep(key, amounts[index])
        return part


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


class _Taken(Placed):
    """The sums of some of the nodes."""

    def __init__(self, whole: Placed, index: Ints) -> None:
        super().__init__(len(index))
        self._whole = whole
        self._index = index

    def reserved(self, resource: str) -> Ints:
        return self._whole.reserved(resource)[self._index]

    def scored(self, resource: str) -> Ints:
        return self._whole.scored(resource)[self._index]

    def requested(self, resource: str) -> Ints:
        return self._whole.requested(resource)[self._index]

    def limited(self, resource: str) -> Ints:
        return self._whole.limited(resource)[self._index]


def _taken(load: Load, index: Ints) -> Load:
    return Load(np.take(load.mean, index), np.take(load.std, index), np.take(load.known, index))
