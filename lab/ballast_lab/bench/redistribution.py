"""How many pods find a node with redistribution, behind the gate and as published, on the worlds that come along."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ballast_lab.bench.rows import Row
from ballast_lab.experiments.redistribution import GATED, PUBLISHED, SCHEDULERS, RedistributionCase, compare, summary
from ballast_lab.experiments.worlds import worlds

SEEDS = tuple(range(8))
LOSS = 0.005
SCORES = {"ballast": "Ballast's scores", "kube-scheduler": "kube-scheduler's scores"}
QUICK = {"seeds": (0, 1), "names": ("R3", "R4", "near12_2", "base/homog")}


def measure(seeds: Sequence[int] = SEEDS, names: Sequence[str] = ()) -> list[Row]:
    chosen = [world for name, world in worlds().items() if not names or name in names]
    found = compare(chosen, seeds, SCHEDULERS, jobs=-1)
    at = f"{len(chosen)} worlds of 17 nodes, {len(seeds)} lists of 1,000 pods, embedded scheduler"
    return [
        row
        for name, scores in SCORES.items()
        for row in _rows(found.of(name), f"{at}, {scores}", [w.name for w in chosen])
    ]


def _rows(cases: Sequence[RedistributionCase], at: str, names: Sequence[str]) -> list[Row]:
    reach = f"never below by more than {100 * LOSS:g} %"
    below = [case for case in cases if case.change(GATED) < -LOSS]
    by_world = {name: float(np.mean([case.change(GATED) for case in cases if case.world == name])) for name in names}
    lowest = min(by_world, key=by_world.__getitem__)
    return [
        {
            "what": "placed pods, gated redistribution against none",
            "at": at,
            "reach": reach,
            "measured": _told(cases, GATED),
            "verdict": f"{len(below)} of {len(cases)} lists below: {', '.join(map(_case, below))}" if below else "met",
        },
        {
            "what": "likewise, mean of the lists of each world",
            "at": at,
            "reach": reach,
            "measured": f"lowest {100 * by_world[lowest]:+.2f} % ({lowest})",
            "verdict": "met" if by_world[lowest] >= -LOSS else "below",
        },
        {
            "what": "placed pods, published rule against none",
            "at": at,
            "reach": "reported",
            "measured": _told(cases, PUBLISHED),
        },
    ]


def _told(cases: Sequence[RedistributionCase], way: str) -> str:
    numbers = summary(cases, way)
    return (
        f"{100 * numbers['change']:+.2f} % (lists {100 * numbers['worst']:+.2f} to {100 * numbers['best']:+.2f} %), "
        f"{numbers['moves']:.1f} evictions"
    )


def _case(case: RedistributionCase) -> str:
    return f"{case.world} seed {case.seed} {100 * case.change(GATED):+.2f} %"
