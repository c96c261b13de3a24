"""Compares the number of placed pods without redistribution, with it behind the gate, and as published."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.planners.node_choice import OBSERVED
from ballast.scoring.dominant_residual import DominantResidual
from ballast_lab.experiments import intervals
from ballast_lab.experiments.redistributor import RedistributionRule
from ballast_lab.experiments.results import ResultRow, Results, markdown
from ballast_lab.experiments.rules import Choice, Residual, Stock
from ballast_lab.experiments.running import ExperimentRun, outcomes
from ballast_lab.experiments.scheduling import ScheduleOutcome, gain
from ballast_lab.experiments.worlds import PODS, LoadWorld, places

NONE, GATED, PUBLISHED = "none", "gated", "published"
WAYS = (NONE, GATED, PUBLISHED)
SCHEDULERS: Mapping[str, Choice] = {"ballast": Residual(), "kube-scheduler": Stock()}
PAPER: Mapping[str, Choice] = {f"paper, C {c:g}": Residual(0.1, c, root=False) for c in (22.0, 50.0)}
"""The criterion of the paper at its two best settings."""


def rule(way: str, choice: Choice) -> RedistributionRule | None:
    """Redistribution beside a scheduler: pods land by the paper's criterion where it places them, with its settings.

    Where it does not, the gated rule uses Ballast's criterion, and the published one lambda 0.1 and C 22.
    """
    if way == NONE:
        return None
    priced = way != PUBLISHED
    if isinstance(choice, Residual) and not choice.root:
        return RedistributionRule(priced, DominantResidual(choice.lambda_, choice.c, root=False), shares=True)
    return RedistributionRule(priced, OBSERVED if way == GATED else DominantResidual(0.1, 22.0, root=False))


@dataclass(frozen=True)
class RedistributionCase:
    """One list of pods in one world, placed by one scheduler; `ways` has the outcomes by the names of WAYS."""

    scheduler: str
    world: str
    seed: int
    ways: Mapping[str, ScheduleOutcome]

    def change(self, way: str) -> float:
        """The change of the number of placed pods against no redistribution, as a fraction."""
        return gain(self.ways[way].count, self.ways[NONE].count)


@dataclass(frozen=True)
class Comparison:
    """The result of `compare`: one case for each scheduler, world and list of pods."""

    cases: tuple[RedistributionCase, ...]

    def of(self, scheduler: str) -> Sequence[RedistributionCase]:
        """The cases of one scheduler."""
        return [case for case in self.cases if case.scheduler == scheduler]


def summary(cases: Sequence[RedistributionCase], way: str) -> dict[str, float]:
    """Means over the cases, the interval of the change of the number of placed pods, and its worst and best."""
    changes = [case.change(way) for case in cases]
    interval = intervals.of_mean(changes)
    return {
        **({} if interval is None else dict(zip(("low", "high"), interval, strict=True))),
        "count": float(np.mean([case.ways[way].count for case in cases])),
        "change": float(np.mean(changes)),
        "worst": min(changes),
        "best": max(changes),
        "first": float(np.mean([case.ways[way].first for case in cases])),
        "volume": float(np.mean([case.ways[way].volume for case in cases])),
        "moves": float(np.mean([case.ways[way].moves for case in cases])),
    }


def results(found: Comparison) -> Results:
    """A summary for each scheduler and way; the paper has no number of its redistribution alone."""
    schedulers = {
        name: {way: summary(found.of(name), way) for way in WAYS}
        for name in dict.fromkeys(case.scheduler for case in found.cases)
    }
    rows = tuple(
        ResultRow(scheduler, f"{way}: {_FIGURES[figure]}", None, factor * numbers[figure])
        for scheduler, ways in schedulers.items()
        for way, numbers in ways.items()
        for figure, factor in _FACTORS.items()
    )
    cases = [
        {
            "scheduler": case.scheduler,
            "world": case.world,
            "seed": case.seed,
            **{
                way: {"count": each.count, "first": each.first, "volume": each.volume, "moves": each.moves}
                for way, each in case.ways.items()
            },
        }
        for case in found.cases
    ]
    return Results("redistribution", rows, _table(schedulers), details={"schedulers": schedulers, "cases": cases})


_FIGURES = {
    "count": "pods",
    "change": "change in percent",
    "worst": "worst list in percent",
    "best": "best list in percent",
    "first": "first waits after",
    "volume": "volume in percent",
    "moves": "evictions",
}
_FACTORS = {"count": 1, "change": 100, "worst": 100, "best": 100, "first": 1, "volume": 100, "moves": 1}


def _table(schedulers: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    heads = ("scores of", "redistribution", "pods", "change", "95 %", "worst list", "best list", "first waits after")
    lines = (
        (
            scheduler,
            way,
            f"{numbers['count']:.0f}",
            *(("–",) * 4 if way == NONE else _changes(numbers)),
            f"{numbers['first']:.0f}",
            f"{100 * numbers['volume']:.1f} %",
            f"{numbers['moves']:.1f}",
        )
        for scheduler, ways in schedulers.items()
        for way, numbers in ways.items()
    )
    return markdown((*heads, "volume", "evictions"), lines)


def _changes(numbers: Mapping[str, float]) -> tuple[str, ...]:
    change, worst, best = (f"{100 * numbers[key]:+.2f} %" for key in ("change", "worst", "best"))
    interval = None if "low" not in numbers else (100 * numbers["low"], 100 * numbers["high"])
    return change, intervals.shown(interval, "+.2f"), worst, best


def compare(
    worlds: Sequence[LoadWorld],
    seeds: Sequence[int],
    schedulers: Mapping[str, Choice] = SCHEDULERS,
    *,
    pods: int = PODS,
    turns: bool = False,
    jobs: int = 1,
    begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None,
) -> Comparison:
    """Runs every scheduler with each of WAYS on every list of pods in every world, or in `turns`.

    `begin` is called with the number of runs and returns a function that is called after each run.
    """
    where = [(name, world, seed) for name in schedulers for world, seed in places(worlds, seeds, turns=turns)]
    runs = [
        ExperimentRun(world, seed, schedulers[name], rule(way, schedulers[name]), pods)
        for name, world, seed in where
        for way in WAYS
    ]
    results = iter(outcomes(runs, jobs, begin(len(runs))))
    return Comparison(
        tuple(
            RedistributionCase(name, world.name, seed, {way: next(results) for way in WAYS})
            for name, world, seed in where
        )
    )
