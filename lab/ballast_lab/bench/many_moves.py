"""The target of a search beside the steepest moves, each with at most so many moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ballast.placement.layout import Layout
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.rebalance import even_out
from ballast.planners.steepest_moves import steepest_moves
from ballast.planners.step import PlannedMove
from ballast_lab.bench.rows import Row, at_most

Plan = Callable[..., Iterator[PlannedMove]]


def measure(
    uneven: Callable[[int, int, int, int, tuple[int, ...]], Layout],
    standing: Callable[[Layout], SimulatedPlacement],
    sigma: Callable[[Any, Layout], float],
    seeds: Sequence[int],
) -> list[Row]:
    def reached(world: Layout, plan: Plan, limit: int | None) -> tuple[float, int, float]:
        """Share of sigma left, moves and CPU seconds."""
        there, started = standing(world), time.process_time()
        everybody, every_node = np.ones(len(world.pods), bool), np.ones(len(world.nodes), bool)
        moves = sum(1 for _ in plan(there, everybody, every_node, _always, limit=limit))
        return sigma(there.load, world) / sigma(world.load, world), moves, time.process_time() - started

    rows: list[Row] = []
    for sizes, kind in (((1,), "alike"), ((1, 2, 4), "1:2:4")):
        for limit, most in ((150, "150"), (None, "any number of")):
            worlds = [uneven(100, 30, 200, seed, sizes) for seed in seeds]
            found = np.array([[reached(world, plan, limit) for plan in (steepest_moves, _towards)] for world in worlds])
            (left, moves, cpu), (aimed, aimed_moves, aimed_cpu) = found.mean(axis=0)
            rows.append(
                {
                    "what": "rebalance of many pods, share of σ left",
                    "at": f"100 nodes {kind}, 3,000 pods, {most} moves, mean of {len(seeds)} worlds",
                    "reach": "less than by the steepest moves",
                    "measured": f"{aimed:.3f} by {aimed_moves:.0f} moves, {aimed_cpu:.1f} s CPU "
                    f"(steepest: {left:.3f} by {moves:.0f}, {cpu:.1f} s)",
                    "verdict": at_most(aimed, left),
                }
            )
    return rows


def _always(pod: int, target: int) -> None:
    return None


_towards: Plan = partial(even_out, rehearse=lambda: _always)
