"""Redistribution by the product's planner, run for every pod that finds no node; moved pods land where planned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Ints
from ballast.placement.layout import layout
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.node_choice import OBSERVED
from ballast.planners.planned_pods import arrivals
from ballast.planners.redistribute import redistribute
from ballast.scoring.dominant_residual import DominantResidual
from ballast.scoring.profiles import Profile
from ballast_lab.experiments.worlds import RESOURCES, SHARES, LoadWorld

Change = list[tuple[int, int, int]]
"""The moves of one step in order, as (pod, from, to); a pod that starts has from = -1."""


@dataclass(frozen=True)
class RedistributionRule:
    """`priced` counts the room that later pods lose; else it is the published rule. Every pod may be moved.

    Pods land by `criterion`; with `shares` its profiles are the world's requests with their true shares, not observed.
    """

    priced: bool = True
    criterion: DominantResidual = OBSERVED
    shares: bool = False

    def start(self, world: LoadWorld, kinds: Ints) -> Redistributor:
        """The planner for one list of pods; `kinds` [pod] are rows of the world's requests."""
        shapes = world.shapes()
        pods = [
            Pod("a", f"p{number:06d}", shape=shapes[kind], created=float(number + 1))
            for number, kind in enumerate(kinds.tolist())
        ]
        criterion = replace(self.criterion, profiles=_profiles(world)) if self.shares else self.criterion
        return Redistributor(self.priced, criterion, world.fleet(), pods, kinds)


def _profiles(world: LoadWorld) -> tuple[Profile, ...]:
    rows = zip(world.requests.tolist(), SHARES.tolist(), strict=True)
    return tuple(Profile(dict(zip(RESOURCES, amounts, strict=True)), share) for amounts, share in rows)


class Redistributor:
    """Plans redistribution for one list of pods, of which one comes each second.

    Pods with the same entry in `kinds` [pod] have the same requests.

    The planner is not run again for kinds of pods that it could not help, at any cost, until another pod leaves: pods
    placed later only take room, and moving one of them frees only room that its node lacked before.
    """

    def __init__(
        self, priced: bool, criterion: DominantResidual, nodes: tuple[Node, ...], pods: list[Pod], kinds: Ints
    ) -> None:
        self._priced, self._criterion = priced, criterion
        self._nodes, self._pods, self._kinds = nodes, pods, kinds
        self._known: list[int | None] = [None] * len(pods)
        self._hopeless: set[int] = set()

    def moves(self, on: Ints, arrived: int) -> Iterator[Change]:
        """Steps that let waiting pods start, after the last of the `arrived` pods found no node.

        `on` [pod] is the row of its node, -1 while it waits; the caller updates it with every step.
        """
        if int(self._kinds[arrived - 1]) in self._hopeless:
            return
        pods = self._current(on[:arrived].tolist())
        arranged = layout(self._nodes, pods, (), np.zeros((len(self._nodes), 0)))
        placement = SimulatedPlacement(arranged, targets=np.ones(len(self._nodes), bool), ceiling=1.0)
        movable = np.ones(len(pods), bool)
        too_costly: list[Ints] = []
        found = False
        steps = redistribute(
            placement,
            movable,
            lambda pod, target: None,
            arrivals=arrivals(pods, float(arrived)) if self._priced else None,
            costly=too_costly.append,
            criterion=self._criterion,
        )
        for step in steps:
            found = True
            started = zip(step.starts, step.starts_on, strict=True)
            yield [(step.pod, step.source, step.target), *((each, -1, target) for each, target in started)]
        waiting = self._kinds[:arrived][on[:arrived] < 0]
        self._hopeless = set() if found or too_costly else set(waiting.tolist())

    def _current(self, rows: list[int]) -> list[Pod]:
        """The pods on their current nodes; only changed ones are rebuilt."""
        for number, row in enumerate(rows):
            if row != self._known[number]:
                self._known[number] = row
                node = self._nodes[row].name if row >= 0 else ""
                phase, since = ("Running", None) if node else ("Pending", float(number))
                self._pods[number] = msgspec.structs.replace(
                    self._pods[number], node=node, phase=phase, waiting_since=since
                )
        return self._pods[: len(rows)]
