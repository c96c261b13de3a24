"""The published genetic algorithm beside its numbers: figures 2 to 9 and tables 1 to 3.

Source: Hu and Xue, Kubernetes resource scheduling based on a genetic algorithm, Computer Systems & Applications 30(9),
2021.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from ballast.model.sample import Ints
from ballast.solving import Problem, objective, solve
from ballast.solving.solution import loads
from ballast_lab.experiments.genetic_worlds import RESOURCES, ruled, skewed, stock, three
from ballast_lab.solvers.check_dictionary import CheckDictionary
from ballast_lab.solvers.paper import Broken, PaperPopulation, Quirks

SEEDS = 8
GENERATIONS = 250
STOPPED = 110
"""The generation at which the paper's algorithm has converged."""
_OURS = 200_000
_POPULATION = 60
# Converged is a deviation of at most this many times the one that both reach in the end.
_NEAR = 1.5
_TABLE_3: Mapping[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "cpu": ((62.79, 50.67, 38.16), (73.23, 37.86, 37.52)),
    "memory": ((70.08, 39.61, 39.78), (78.51, 35.32, 34.97)),
    "network": ((72.83, 47.83, 45.57), (73.92, 43.92, 38.61)),
    "disk": ((76.53, 52.43, 45.22), (81.68, 41.5, 40.91)),
}
"""Use of three nodes in percent: kube-scheduler, and the paper's algorithm."""
PRINTED = ("100", "010", "001", "010", "011", "100", "100")
"""The repaired example as the paper prints it."""


@dataclass(frozen=True)
class GeneticRow:
    """One number beside the published one."""

    table: str
    name: str
    published: float | None
    measured: float


@dataclass(frozen=True)
class GeneticResult:
    """`curves` has the best deviation of each generation in percentage points, `bars` the load of nodes in percent."""

    rows: tuple[GeneticRow, ...]
    curves: Mapping[str, Sequence[float]]
    bars: Mapping[str, Mapping[str, Sequence[float]]]

    def document(self) -> dict[str, Any]:
        """The content of `results.json`."""
        keys = ("table", "name", "published", "measured")
        return {"rows": [{key: getattr(row, key) for key in keys} for row in self.rows]}

    def table(self) -> str:
        """The rows in Markdown."""
        lines = ["| table | what | published | here |", "|---|---|---|---|"]
        for row in self.rows:
            published = "–" if row.published is None else f"{row.published:g}"
            lines.append(f"| {row.table} | {row.name} | {published} | {row.measured:.4g} |")
        return "\n".join(lines) + "\n"


def run(
    seeds: int = SEEDS, jobs: int = 1, begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None
) -> GeneticResult:
    """All figures and tables, as means over the seeds; the result does not depend on `jobs` (-1: every core)."""
    done = begin(3 * seeds)
    work = [delayed(task)(seed) for task in (_convergence, _balance, _weights) for seed in range(seeds)]
    results: list[dict[str, Any]] = []
    for result in Parallel(n_jobs=jobs, return_as="generator")(work):
        results.append(result)
        done()
    convergence, balance, weights = (results[part * seeds : (part + 1) * seeds] for part in range(3))
    rows = [*_dictionary_rows(), *_convergence_rows(convergence), *_balance_rows(balance), *_weight_rows(weights)]
    curves = {
        way.value: _mean_curve([each[way.value] for each in convergence]) for way in (Broken.REPAIR, Broken.PENALTY)
    }
    first = balance[0]
    bars = {
        "figure-3-load": {name: first[name]["mean"] for name in ("default", "paper", "ours")},
        "figure-4-network": {name: first[name]["network"] for name in ("default", "paper", "ours")},
        "figure-5-disk": {name: first[name]["disk"] for name in ("default", "paper", "ours")},
        **{
            f"figure-{number}-{resource}-weights": {
                way: _column(weights, resource, way) for way in ("default", "paper")
            }
            for number, resource in zip((6, 7, 8, 9), _TABLE_3, strict=True)
        },
    }
    return GeneticResult(tuple(rows), curves, bars)


def published_example() -> tuple[Ints, CheckDictionary]:
    """Tables 1 and 2: the nodes of seven pods, and the check dictionary."""
    allowed, tends = np.ones((7, 3), bool), np.zeros((7, 3), bool)
    for node, affine, forbid in ((0, (1, 2), (3, 4)), (1, (1, 2, 3, 4), (5,)), (2, (5, 6), (4, 7))):
        tends[[pod - 1 for pod in affine], node] = True
        allowed[[pod - 1 for pod in forbid], node] = False
    return np.array([0, 1, 2, 0, 1, 0, 0]), CheckDictionary(allowed, tends)


def _dictionary_rows() -> list[GeneticRow]:
    on, dictionary = published_example()
    bits = np.zeros((1, 7, 3), bool)
    bits[0, np.arange(7), on] = True
    printed = np.array([[[bit == "1" for bit in row] for row in PRINTED]])
    found = dictionary.repair(bits, np.random.default_rng(0))
    table = "tables 1, 2"
    return [
        GeneticRow(table, "rows of table 1 that the dictionary finds broken", 2, found),
        GeneticRow(
            table, "broken rows in the printed repair (Pod5 on two nodes)", None, int(dictionary.broken(printed).sum())
        ),
        GeneticRow(table, "broken rows after our repair", 0, int(dictionary.broken(bits).sum())),
    ]


def _convergence(seed: int) -> dict[str, Any]:
    """Best deviation by generation, with the dictionary and with each of its rivals."""
    problem = ruled(seed)
    found: dict[str, Any] = {}
    for way in Broken:
        rng = np.random.default_rng(seed)
        population = PaperPopulation(
            problem, rng, Quirks(whole_rows=True, elite=True, flat=False, broken=way), _POPULATION
        )
        curve = []
        for _ in range(GENERATIONS):
            population.step()
            curve.append(100 * population.sigma)
        found[way.value] = curve
    return found


def _convergence_rows(results: Sequence[Mapping[str, Any]]) -> list[GeneticRow]:
    pairs = [_generations(each, Broken.PENALTY) for each in results]
    without, with_ = fmean(each[0] for each in pairs), fmean(each[1] for each in pairs)
    dead = fmean(float(np.isfinite(each[Broken.DEATH.value][-1])) for each in results)
    ends = {way: fmean(each[way.value][-1] for each in results) for way in (Broken.PENALTY, Broken.REPAIR)}
    return [
        GeneticRow("figure 2", "generations without the dictionary (penalty)", 190, without),
        GeneticRow("figure 2", "generations with the dictionary", 110, with_),
        GeneticRow("figure 2", "generations without / with", 190 / 110, without / with_),
        GeneticRow("figure 2", "deviation in the end, penalty, points", None, ends[Broken.PENALTY]),
        GeneticRow("figure 2", "deviation in the end, dictionary, points", None, ends[Broken.REPAIR]),
        GeneticRow("figure 2", "runs with death penalty that find any valid placement, share", None, dead),
    ]


def _generations(result: Mapping[str, Any], way: Broken) -> tuple[int, int]:
    """Until within _NEAR times the larger of both ends."""
    curves = [np.array(result[each.value]) for each in (way, Broken.REPAIR)]
    target = _NEAR * max(float(curve[-1]) for curve in curves)
    first, second = (int(np.argmax(curve <= target)) + 1 for curve in curves)
    return first, second


def _balance(seed: int) -> dict[str, Any]:
    problem = skewed(seed)
    population = PaperPopulation(problem, np.random.default_rng(seed), Quirks())
    for _ in range(STOPPED):
        population.step()
    ours = solve(problem, solver="late-acceptance", evaluations=_OURS, seed=seed)
    placements = {"default": stock(problem, seed), "paper": population.on, "ours": ours.on}
    return {name: _measured(problem, on) for name, on in placements.items()}


def _measured(problem: Problem, on: Ints) -> dict[str, Any]:
    load, found = 100 * loads(problem, on), objective(problem, on)
    return {
        "sigma_of_mean": 100 * found.sigma_of_mean,
        "mean": load.mean(axis=1).tolist(),
        **{name: load[:, column].tolist() for column, name in enumerate(RESOURCES)},
        **{f"sigma {name}": float(found.sigma[column]) for column, name in enumerate(RESOURCES)},
    }


def _balance_rows(results: Sequence[Mapping[str, Any]]) -> list[GeneticRow]:
    def mean(way: str, key: str) -> float:
        return fmean(each[way][key] for each in results)

    def better(way: str, key: str) -> float:
        return mean("default", key) / mean(way, key)

    rows = [
        GeneticRow("figure 3", f"deviation of the mean load, {name}, points", published, mean(way, "sigma_of_mean"))
        for way, name, published in (("default", "default", 3.42193), ("paper", "genetic-paper", 1.10272))
    ]
    rows.append(GeneticRow("figure 3", "deviation of the mean load, ours, points", None, mean("ours", "sigma_of_mean")))
    for table, key, before, after in (
        ("figure 4", "network", 0.30489, 0.1387),
        ("figure 5", "disk", 0.26325, 0.17434),
    ):
        name = f"sigma {key}"
        rows += [
            GeneticRow(table, f"{key}, default", before, mean("default", name)),
            GeneticRow(table, f"{key}, genetic-paper", after, mean("paper", name)),
            GeneticRow(table, f"{key}, ours", None, mean("ours", name)),
            GeneticRow(table, f"{key}, default / genetic-paper", before / after, better("paper", name)),
            GeneticRow(table, f"{key}, default / ours", None, better("ours", name)),
        ]
    return rows


def _weights(seed: int) -> dict[str, Any]:
    """Use of three nodes in percent; Node1 has the weight .5."""
    found: dict[str, Any] = {}
    for number, (resource, (default, _)) in enumerate(_TABLE_3.items()):
        problem = three(seed * len(_TABLE_3) + number, sum(default) / 300)
        population = PaperPopulation(problem, np.random.default_rng(seed), Quirks())
        for _ in range(STOPPED):
            population.step()
        for way, on in (("default", stock(problem, seed)), ("paper", population.on)):
            found[f"{resource} {way}"] = (100 * loads(problem, on)[:, 0] / problem.factor[:, 0]).tolist()
    return found


def _weight_rows(results: Sequence[Mapping[str, Any]]) -> list[GeneticRow]:
    return [
        GeneticRow(
            "table 3", f"{resource}, Node{node + 1}, {name}", numbers[node], _column(results, resource, way)[node]
        )
        for resource, (default, paper) in _TABLE_3.items()
        for way, name, numbers in (("default", "default", default), ("paper", "genetic-paper", paper))
        for node in range(3)
    ]


def _column(results: Sequence[Mapping[str, Any]], resource: str, way: str) -> list[float]:
    return [fmean(values) for values in zip(*(result[f"{resource} {way}"] for result in results), strict=True)]


def _mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """[generation]: the mean of those that have a valid individual, NaN without any."""
    table = np.array(curves, float)
    some = np.isfinite(table)
    sums = np.where(some, table, 0.0).sum(axis=0)
    return [float(each) for each in np.where(some.any(axis=0), sums / np.maximum(some.sum(axis=0), 1), np.nan)]
