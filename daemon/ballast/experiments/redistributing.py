"""Redistribution as the product plans it, asked at every pod that finds no node; what it moves lands where planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np

from ballast.experiments.worlds import LoadWorld
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Ints
from ballast.placement.planners.layout import layout
from ballast.placement.planners.redistribute import redistribute
from ballast.placement.planners.simulated_placement import SimulatedPlacement

Change = list[tuple[int, int, int]]
"""What one step moves: (pod, from, to), in this order; a pod that starts comes from -1."""


@dataclass(frozen=True)
class Redistributing:
    """`kappa` is the gate's limit of what a started pod may cost; None is the published rule. Every pod is safe."""

    kappa: float | None = 0.5

    def start(self, world: LoadWorld, kinds: Ints) -> Rescue:
        shapes = world.shapes()
        pods = [Pod("a", f"p{number:06d}", shape=shapes[kind]) for number, kind in enumerate(kinds.tolist())]
        return Rescue(self.kappa, world.fleet(), pods, kinds)


class Rescue:
    """Follows one list of pods. `kinds` [pod] tell which of them are alike.

    Once no eviction helps anybody, whatever it costs, none will until somebody else leaves: pods that are placed later
    take room, and a later one lets at most those start whom its node had no room for before. So the planner is asked
    again only for a kind of pod that did not wait then.
    """

    def __init__(self, kappa: float | None, nodes: tuple[Node, ...], pods: list[Pod], kinds: Ints) -> None:
        self._kappa, self._nodes, self._pods, self._kinds = kappa, nodes, pods, kinds
        self._known: list[int | None] = [None] * len(pods)
        self._hopeless: set[int] = set()

    def moves(self, on: Ints, arrived: int) -> Iterator[Change]:
        """`on` [pod] is the row of its node, -1 while it waits; of the `arrived` pods, the last one begins to."""
        if int(self._kinds[arrived - 1]) in self._hopeless:
            return
        pods = self._current(on[:arrived].tolist())
        arranged = layout(self._nodes, pods, (), np.zeros((len(self._nodes), 0)))
        standing = SimulatedPlacement(arranged, targets=np.ones(len(self._nodes), bool), ceiling=1.0)
        movable = np.ones(len(pods), bool)
        dear: list[Ints] = []
        made = False
        steps = redistribute(standing, movable, lambda pod, target: None, kappa=self._kappa, costly=dear.append)
        for step in steps:
            made = True
            yield [(step.pod, step.source, step.target), *((each, -1, step.source) for each in step.starts)]
        waiting = self._kinds[:arrived][on[:arrived] < 0]
        self._hopeless = set() if made or dear else set(waiting.tolist())

    def _current(self, rows: list[int]) -> list[Pod]:
        """The pods as a watch would show them."""
        for number, row in enumerate(rows):
            if row != self._known[number]:
                self._known[number] = row
                node = self._nodes[row].name if row >= 0 else ""
                phase, since = ("Running", None) if node else ("Pending", float(number))
                self._pods[number] = msgspec.structs.replace(
                    self._pods[number], node=node, phase=phase, waiting_since=since
                )
        return self._pods[: len(rows)]
