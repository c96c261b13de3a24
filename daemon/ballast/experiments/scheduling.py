"""Pods that arrive one after another, each put on a node or left waiting; what waits may be helped by evictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.experiments.redistributing import Redistributing
from ballast.experiments.rules import Choice
from ballast.experiments.worlds import SIZES, LoadWorld
from ballast.model.sample import Floats, Ints


@dataclass(frozen=True)
class ScheduleOutcome:
    """`first` is how many pods arrived before the first one that had to wait; `moves` are evictions.

    `volume` is the mean over resources of the share of all nodes that placed pods ask for; `accepted` [size] is the
    share of the pods of each size that found a node.
    """

    count: int
    first: int
    volume: float
    accepted: tuple[float, ...]
    moves: int


def schedule(
    world: LoadWorld, kinds: Ints, choice: Choice, redistributing: Redistributing | None = None
) -> ScheduleOutcome:
    """`kinds` [pod] are rows of the world's requests, in the order of arrival."""
    rule = choice.start(world, len(kinds))
    rescue = redistributing.start(world, kinds) if redistributing else None
    on: Ints = np.full(len(kinds), -1)
    first, moves = len(kinds), 0
    for pod, kind in enumerate(kinds.tolist()):
        row = rule.choose(pod, kind)
        if row is not None:
            on[pod] = row
            rule.place(kind, row)
            continue
        if rescue is not None:
            for change in rescue.moves(on, pod + 1):
                moves += 1
                for moved, home, target in change:
                    if home >= 0:
                        rule.release(int(kinds[moved]), home)
                    rule.place(int(kinds[moved]), target)
                    on[moved] = target
        if on[pod] < 0:
            first = min(first, pod)
    return _outcome(world, kinds, on, first, moves)


def gain(count: float, base: float) -> float:
    """Pods more than `base`, as a fraction of it; of one pod where it is less."""
    return (count - base) / max(1.0, base)


def _outcome(world: LoadWorld, kinds: Ints, on: Ints, first: int, moves: int) -> ScheduleOutcome:
    placed = on >= 0
    amounts: Floats = world.requests[kinds[placed]].sum(axis=0).astype(float)
    whole = world.nodes.sum(axis=0)
    size = kinds % len(SIZES)
    shares = [float(placed[size == each].mean()) if (size == each).any() else 1.0 for each in range(len(SIZES))]
    volume = float((amounts / np.maximum(whole, 1))[whole > 0].mean())
    return ScheduleOutcome(int(placed.sum()), first, volume, tuple(shares), moves)
