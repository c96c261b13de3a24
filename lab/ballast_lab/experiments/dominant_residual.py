"""A sweep of the dominant-residual method: 7 values of lambda by 11 of C, compared with kube-scheduler.

Source: Knyazhev and Romanova, "A resource allocation method based on the dominant-residual method and redistribution on
Kubernetes" (DOI 10.58351/2949-2041.2026.35.6.034). The paper names lambda = 0.1 and C = 22 and 50 as best, with 744 of
1,000 pods where kube-scheduler places 542. It does not name the other points of its grid; those here are our choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from ballast.model.sample import Floats
from ballast_lab.experiments.redistribution import NONE, rule
from ballast_lab.experiments.rules import Choice, Residual, Stock
from ballast_lab.experiments.running import ExperimentRun, outcomes
from ballast_lab.experiments.scheduling import ScheduleOutcome, gain
from ballast_lab.experiments.worlds import PODS, RESOURCES, SIZES, LoadWorld, places

LAMBDAS = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
CS = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 22.0, 30.0, 40.0, 50.0)
TIES = 10
"""Random orders in which kube-scheduler breaks ties."""

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
class SweepCase:
    """All runs of one list of pods in one world."""

    world: str
    seed: int
    stock: Mapping[str, Sequence[ScheduleOutcome]]
    """By variant of kube-scheduler, one outcome for each order of ties."""

    grid: Sequence[Sequence[ScheduleOutcome]]
    """[lambda, C]: the published criterion."""

    ours: Mapping[str, ScheduleOutcome]
    """By variant of Ballast's criterion."""

    @property
    def counts(self) -> Floats:
        """[lambda, C]: placed pods."""
        return np.array([[cell.count for cell in row] for row in self.grid], float)

    @property
    def base(self) -> float:
        """The pods that kube-scheduler places, the mean over the orders of ties."""
        return float(np.mean([each.count for each in self.stock[STOCK]]))


@dataclass(frozen=True)
class Sweep:
    """The result of `sweep`: one case for each world and list of pods."""

    lambdas: tuple[float, ...]
    cs: tuple[float, ...]
    places: tuple[SweepCase, ...]

    @property
    def counts(self) -> Floats:
        """[lambda, C]: placed pods, the mean over all cases."""
        return np.asarray(np.mean([case.counts for case in self.places], axis=0))

    @property
    def base(self) -> float:
        """The pods that kube-scheduler places, the mean over all cases."""
        return float(np.mean([case.base for case in self.places]))

    def best(self) -> tuple[float, float, float]:
        """(lambda, C, pods) of the setting that places most pods on average; the first of equal ones."""
        row, column = divmod(int(self.counts.argmax()), len(self.cs))
        return self.lambdas[row], self.cs[column], float(self.counts[row, column])

    def worlds(self) -> dict[str, Sweep]:
        """The part of each world, by its name."""
        names = dict.fromkeys(case.world for case in self.places)
        return {name: replace(self, places=tuple(p for p in self.places if p.world == name)) for name in names}

    def rules(self) -> dict[str, TableRow]:
        """The table over all cases, by the name of the rule.

        BEST takes the best setting of the grid in each case; TUNED the setting that was best on the other seeds.
        """
        cells: dict[str, list[Sequence[ScheduleOutcome]]] = {}
        for case in self.places:
            for name, several in case.stock.items():
                cells.setdefault(name, []).append(several)
            named = {DOMINANT: (1.0, self.cs[0]), PUBLISHED: (0.1, 22.0), SATURATED: (0.1, 50.0)}
            for name, (lambda_, c) in named.items():
                if lambda_ in self.lambdas and c in self.cs:
                    cell = case.grid[self.lambdas.index(lambda_)][self.cs.index(c)]
                    cells.setdefault(name, []).append([cell])
            cells.setdefault(BEST, []).append([_at(case, case.counts)])
            others = [each for each in self.places if each.world == case.world and each.seed != case.seed]
            if others:
                counts = np.sum([each.counts for each in others], axis=0)
                cells.setdefault(TUNED, []).append([_at(case, counts)])
            for name, outcome in case.ours.items():
                cells.setdefault(name, []).append([outcome])
        bases = [case.base for case in self.places]
        return {name: _row(each, bases) for name, each in cells.items()}

    def document(self) -> dict[str, Any]:
        """The result as JSON; counts are placed pods, `places` lists the cases."""
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
                    "world": case.world,
                    "seed": case.seed,
                    "default": [each.count for each in case.stock[STOCK]],
                    "counts": [[cell.count for cell in row] for row in case.grid],
                }
                for case in self.places
            ],
        }


@dataclass(frozen=True)
class TableRow:
    """The results of one rule, means over all cases; see ScheduleOutcome for the fields without a note."""

    count: float
    least: int
    """The fewest placed pods of any run."""

    most: int
    """The most placed pods of any run."""

    gain: float
    """Additional pods as a fraction of those that kube-scheduler places of the same list."""

    first: float
    volume: float
    accepted: tuple[float, ...]
    moves: float
    of_lists: Mapping[str, Sequence[float]]
    """`count`, `gain`, `first` and `volume` of each case."""

    def document(self) -> dict[str, Any]:
        """The row as JSON; `accepted` by the names of the sizes."""
        found: dict[str, Any] = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "of_lists"}
        return {**found, "accepted": dict(zip(SIZES, self.accepted, strict=True))}


def sweep(
    worlds: Sequence[LoadWorld],
    seeds: Sequence[int],
    redistribution: str = NONE,
    *,
    lambdas: tuple[float, ...] = LAMBDAS,
    cs: tuple[float, ...] = CS,
    ties: int = TIES,
    pods: int = PODS,
    turns: bool = False,
    jobs: int = 1,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> Sweep:
    """Runs kube-scheduler, the grid and Ballast's criterion on every list of pods in every world, or in `turns`.

    kube-scheduler runs with `ties` random orders of equal nodes. `redistribution` is one of WAYS. `begin` is called
    with the number of runs and returns a function that is called after each run.
    """
    stocks = [choice(order) for choice in _STOCKS.values() for order in range(ties)]
    cells = [Residual(lambda_, c, root=False) for lambda_ in lambdas for c in cs]
    choices: list[Choice] = [*stocks, *cells, *_OURS.values()]
    where = places(worlds, seeds, turns=turns)
    runs = [
        ExperimentRun(world, seed, choice, rule(redistribution, choice), pods)
        for world, seed in where
        for choice in choices
    ]
    results = iter(outcomes(runs, jobs, begin(len(runs))))
    return Sweep(
        lambdas,
        cs,
        tuple(
            SweepCase(
                world.name,
                seed,
                {name: [next(results) for _ in range(ties)] for name in _STOCKS},
                [[next(results) for _ in cs] for _ in lambdas],
                {name: next(results) for name in _OURS},
            )
            for world, seed in where
        ),
    )


def _at(case: SweepCase, counts: Floats) -> ScheduleOutcome:
    """The outcome of the case where `counts` [lambda, C] is largest."""
    row, column = divmod(int(counts.argmax()), len(case.grid[0]))
    return case.grid[row][column]


def _row(cells: Sequence[Sequence[ScheduleOutcome]], bases: Sequence[float]) -> TableRow:
    every = [outcome for several in cells for outcome in several]
    means = {
        key: [float(np.mean([getattr(each, key) for each in several])) for several in cells]
        for key in ("count", "first", "volume")
    }
    gains = [float(gain(count, base)) for count, base in zip(means["count"], bases, strict=True)]
    return TableRow(
        count=fmean(means["count"]),
        least=min(each.count for each in every),
        most=max(each.count for each in every),
        gain=fmean(gains),
        first=fmean(means["first"]),
        volume=fmean(means["volume"]),
        accepted=tuple(float(np.mean([each.accepted[size] for each in every])) for size in range(len(SIZES))),
        moves=float(np.mean([each.moves for each in every])),
        of_lists={**means, "gain": gains},
    )
