"""The embedded scheduler: pods arrive one after another and are placed or wait; evictions may make room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast_lab.experiments.redistributor import RedistributionRule
from ballast_lab.experiments.rules import Choice
from ballast_lab.experiments.worlds import SIZES, LoadWorld


@dataclass(frozen=True)
class ScheduleOutcome:
    """The result of one list of pods."""

    count: int
    """Placed pods."""

    first: int
    """Pods that arrived before the first one that had to wait."""

    volume: float
    """Requests of the placed pods as a share of all nodes, the mean over the resources."""

    accepted: tuple[float, ...]
    """[size]: share of the pods of each size that were placed."""

    moves: int
    """Evictions."""


def schedule(
    world: LoadWorld, kinds: Ints, choice: Choice, redistribution: RedistributionRule | None = None
) -> ScheduleOutcome:
    """Places a list of pods; `kinds` [pod] are rows of the world's requests, in the order of arrival."""
    rule = choice.start(world, len(kinds))
    redistributor = redistribution.start(world, kinds) if redistribution else None
    on: Ints = np.full(len(kinds), -1)
    first, moves = len(kinds), 0
    for pod, kind in enumerate(kinds.tolist()):
        row = rule.choose(pod, kind)
        if row is not None:
            on[pod] = row
            rule.place(kind, row)
            continue
        if redistributor is not None:
            for change in redistributor.moves(on, pod + 1):
                moves += 1
                for moved, source, target in change:
                    if source >= 0:
                        rule.release(int(kinds[moved]), source)
                    rule.place(int(kinds[moved]), target)
                    on[moved] = target
        if on[pod] < 0:
            first = min(first, pod)
    return outcome(world, kinds, on, first, moves)


def gain(count: float, base: float) -> float:
    """(count - base) / base; a base below one pod counts as one."""
    return (count - base) / max(1.0, base)


def outcome(world: LoadWorld, kinds: Ints, on: Ints, first: int, moves: int) -> ScheduleOutcome:
    """`on` [pod] is the row of its node, -1 where it waits; `first` pods arrived before one had to wait."""
    placed = on >= 0
    amounts: Floats = world.requests[kinds[placed]].sum(axis=0).astype(float)
    whole = world.nodes.sum(axis=0)
    size = kinds % len(SIZES)
    shares = [float(placed[size == each].mean()) if (size == each).any() else 1.0 for each in range(len(SIZES))]
    volume = float((amounts / np.maximum(whole, 1))[whole > 0].mean())
    return ScheduleOutcome(int(placed.sum()), first, volume, tuple(shares), moves)
