"""The published sweep of the dominant-residual method: 7 values of lambda by 11 of C, beside kube-scheduler.

Source: Knyazhev and Romanova, "A resource allocation method based on the dominant-residual method and redistribution on
Kubernetes" (DOI 10.58351/2949-2041.2026.35.6.034). It names lambda = 0.1 and C = 22 and 50 as best, with 744 of 1,000
pods where kube-scheduler places 542; the other points of its grid are not in the text, those here include its three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ballast.experiments.redistributing import Redistributing
from ballast.experiments.rules import Choice, Residual, Stock
from ballast.experiments.running import ExperimentRun, outcomes
from ballast.experiments.scheduling import ScheduleOutcome, gain
from ballast.experiments.worlds import PODS, RESOURCES, SIZES, LoadWorld
from ballast.model.sample import Floats

LAMBDAS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
CS = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 22.0, 30.0, 40.0, 50.0)
TIES = 10

STOCK, OLDER, CONFIGURED = "default", "default up to v1.35", "default, disk scored"
DOMINANT, PUBLISHED, SATURATED = "lambda 1", "lambda 0.1, C 22", "lambda 0.1, C 50"
OURS, LEARNED = "sqrt, lambda 0.1, C 2", "likewise, learned"
BEST, TUNED = "best of the grid", "best on the other seeds"
PAPER = {STOCK: 542, BEST: 744, PUBLISHED: 744, SATURATED: 744}

_STOCKS: Mapping[str, Callable[[int], Choice]] = {
    STOCK: lambda ties: Stock(ties=ties),
    OLDER: lambda ties: Stock(ties=ties, until_1_35=True),
    CONFIGURED: lambda ties: Stock(RESOURCES, ties),
}
_OURS: Mapping[str, Choice] = {OURS: Residual(), LEARNED: Residual(learned=True)}


@dataclass(frozen=True)
class LabNode:
    """One list of pods in one world. `stock` has the outcomes of every order of ties, `grid` is [lambda, C]."""

    world: str
    seed: int
    stock: Mapping[str, Sequence[ScheduleOutcome]]
    grid: Sequence[Sequence[ScheduleOutcome]]
    ours: Mapping[str, ScheduleOutcome]

    @property
    def counts(self) -> Floats:
        """[lambda, C]"""
        return np.array([[cell.count for cell in row] for row in self.grid], float)

    @property
    def base(self) -> float:
        """What kube-scheduler places, on average over the orders of ties."""
        return float(np.mean([each.count for each in self.stock[STOCK]]))


@dataclass(frozen=True)
class Sweep:
    lambdas: tuple[float, ...]
    cs: tuple[float, ...]
    places: tuple[LabNode, ...]

    @property
    def counts(self) -> Floats:
        """[lambda, C], the mean over all places."""
        return np.asarray(np.mean([place.counts for place in self.places], axis=0))

    @property
    def base(self) -> float:
        return float(np.mean([place.base for place in self.places]))

    def best(self) -> tuple[float, float, float]:
        """(lambda, C, pods) where most are placed on average; the first of several."""
        row, column = divmod(int(self.counts.argmax()), len(self.cs))
        return self.lambdas[row], self.cs[column], float(self.counts[row, column])

    def worlds(self) -> dict[str, Sweep]:
        """The part of each world, by its name."""
        names = dict.fromkeys(place.world for place in self.places)
        return {name: replace(self, places=tuple(p for p in self.places if p.world == name)) for name in names}

    def rules(self) -> dict[str, TableRow]:
        """By the name of the rule, over all places."""
        cells: dict[str, list[Sequence[ScheduleOutcome]]] = {}
        for place in self.places:
            for name, several in place.stock.items():
                cells.setdefault(name, []).append(several)
            named = {DOMINANT: (1.0, self.cs[0]), PUBLISHED: (0.1, 22.0), SATURATED: (0.1, 50.0)}
            for name, (lambda_, c) in named.items():
                if lambda_ in self.lambdas and c in self.cs:
                    cell = place.grid[self.lambdas.index(lambda_)][self.cs.index(c)]
                    cells.setdefault(name, []).append([cell])
            cells.setdefault(BEST, []).append([_at(place, place.counts)])
            others = [each for each in self.places if each.world == place.world and each.seed != place.seed]
            if others:
                known = np.sum([each.counts for each in others], axis=0)
                cells.setdefault(TUNED, []).append([_at(place, known)])
            for name, only in place.ours.items():
                cells.setdefault(name, []).append([only])
        bases = [place.base for place in self.places]
        return {name: _row(each, bases) for name, each in cells.items()}

    def document(self) -> dict[str, Any]:
        lambda_, c, count = self.best()
        return {
            "experiment": "dominant-residual",
            "lambda": list(self.lambdas),
            "c": list(self.cs),
            "counts": self.counts.tolist(),
            "best": {"lambda": lambda_, "c": c, "count": count},
            "rules": {name: row.document() for name, row in self.rules().items()},
            "worlds": {
                world: {name: row.count for name, row in part.rules().items()} for world, part in self.worlds().items()
            },
            "paper": PAPER,
            "places": [
                {
                    "world": place.world,
                    "seed": place.seed,
                    "default": [each.count for each in place.stock[STOCK]],
                    "counts": [[cell.count for cell in row] for row in place.grid],
                }
                for place in self.places
            ],
        }


@dataclass(frozen=True)
class TableRow:
    """Means over places, `gain` (a fraction) over kube-scheduler on the same pods; least and most pods in any run."""

    count: float
    least: int
    most: int
    gain: float
    first: float
    volume: float
    accepted: tuple[float, ...]
    moves: float

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {**found, "accepted": dict(zip(SIZES, self.accepted, strict=True))}


def sweep(
    worlds: Sequence[LoadWorld],
    seeds: Sequence[int],
    redistributing: Redistributing | None = None,
    *,
    lambdas: tuple[float, ...] = LAMBDAS,
    cs: tuple[float, ...] = CS,
    ties: int = TIES,
    pods: int = PODS,
    jobs: int = 1,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> Sweep:
    """`ties` are the random orders tried of equal nodes.

    `begin` hears how many runs there are and answers what is to be called after each.
    """
    stocks = [choice(order) for choice in _STOCKS.values() for order in range(ties)]
    cells = [Residual(lambda_, c, root=False) for lambda_ in lambdas for c in cs]
    choices: list[Choice] = [*stocks, *cells, *_OURS.values()]
    where = [(world, seed) for world in worlds for seed in seeds]
    runs = [ExperimentRun(world, seed, choice, redistributing, pods) for world, seed in where for choice in choices]
    found = iter(outcomes(runs, jobs, begin(len(runs))))
    return Sweep(
        lambdas,
        cs,
        tuple(
            LabNode(
                world.name,
                seed,
                {name: [next(found) for _ in range(ties)] for name in _STOCKS},
                [[next(found) for _ in cs] for _ in lambdas],
                {name: next(found) for name in _OURS},
            )
            for world, seed in where
        ),
    )


def _at(place: LabNode, counts: Floats) -> ScheduleOutcome:
    row, column = divmod(int(counts.argmax()), len(place.grid[0]))
    return place.grid[row][column]


def _row(cells: Sequence[Sequence[ScheduleOutcome]], bases: Sequence[float]) -> TableRow:
    every = [outcome for several in cells for outcome in several]
    counts = [float(np.mean([each.count for each in several])) for several in cells]
    return TableRow(
        count=float(np.mean(counts)),
        least=min(each.count for each in every),
        most=max(each.count for each in every),
        gain=float(np.mean([gain(count, base) for count, base in zip(counts, bases, strict=True)])),
        first=float(np.mean([each.first for each in every])),
        volume=float(np.mean([each.volume for each in every])),
        accepted=tuple(float(np.mean([each.accepted[size] for each in every])) for size in range(len(SIZES))),
        moves=float(np.mean([each.moves for each in every])),
    )
