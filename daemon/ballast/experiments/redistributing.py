"""Redistribution as the product plans it, asked at every pod that finds no node; what it moves lands where planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ballast.experiments.worlds import World
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Ints
from ballast.placement.layout import layout
from ballast.placement.redistribution import redistribute
from ballast.placement.standing import Standing

Change = list[tuple[int, int, int]]
"""What one step moves: (pod, from, to), in this order; a pod that starts comes from -1."""


@dataclass(frozen=True)
class Redistributing:
    """`kappa` is the gate's limit of what a started pod may cost; None is the published rule. Every pod is safe."""

    kappa: float | None = 0.5

    def start(self, world: World, kinds: Ints) -> Rescue:
        shapes = world.shapes()
        pods = [Pod("a", f"p{number:06d}", shape=shapes[kind]) for number, kind in enumerate(kinds.tolist())]
        return Rescue(self.kappa, world.fleet(), pods)


@dataclass
class Rescue:
    kappa: float | None
    nodes: tuple[Node, ...]
    pods: list[Pod]
    _known: list[int | None] = field(default_factory=list)

    def moves(self, on: Ints, arrived: int) -> Iterator[Change]:
        """`on` [pod] is the row of its node, -1 while it waits; `arrived` pods are there."""
        pods = self._current(on[:arrived].tolist())
        arranged = layout(self.nodes, pods, (), np.zeros((len(self.nodes), 0)))
        standing = Standing(arranged, targets=np.ones(len(self.nodes), bool), ceiling=1.0)
        movable = np.ones(len(pods), bool)
        for step in redistribute(standing, movable, lambda pod, target: None, kappa=self.kappa):
            yield [(step.pod, step.source, step.target), *((each, -1, step.source) for each in step.starts)]

    def _current(self, rows: list[int]) -> list[Pod]:
        """The pods as a watch would show them."""
        self._known += [None] * (len(rows) - len(self._known))
        for number, row in enumerate(rows):
            if row != self._known[number]:
                self._known[number] = row
                node = self.nodes[row].name if row >= 0 else ""
                phase, since = ("Running", None) if node else ("Pending", float(number))
                self.pods[number] = msgspec.structs.replace(
                    self.pods[number], node=node, phase=phase, waiting_since=since
                )
        return self.pods[: len(rows)]
