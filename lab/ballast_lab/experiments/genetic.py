"""The published genetic algorithm beside its numbers: figures 2 to 9 and tables 1 to 3.

Source: Hu and Xue, Kubernetes resource scheduling based on a genetic algorithm, Computer Systems & Applications 30(9),
2021.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from ballast.model.sample import Ints
from ballast.solving import Problem, objective, solve
from ballast.solving.solution import loads
from ballast_lab.experiments import intervals
from ballast_lab.experiments.figures import BLUE, RED, Sheet
from ballast_lab.experiments.genetic_worlds import RESOURCES, ruled, skewed, stock, three
from ballast_lab.experiments.results import ResultRow, Results, markdown
from ballast_lab.experiments.running import run
from ballast_lab.solvers.check_dictionary import CheckDictionary
from ballast_lab.solvers.paper import POPULATION, Broken, PaperPopulation, Quirks

GENERATIONS = 250
STOPPED = 110
"""The generation at which the paper's algorithm has converged."""
_OURS = 200_000
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
class Variant:
    """Switches and population of the comparison with and without the dictionary."""

    table: str
    quirks: Quirks
    population: int


VARIANTS = (
    Variant("figure 2, as the text says", Quirks(), POPULATION),
    Variant("figure 2, with elite, whole_rows, flat=false", Quirks(whole_rows=True, elite=True, flat=False), 60),
)
"""The literal switches, and those with which the figure looks most like the published one."""


def results(
    seeds: Sequence[int], jobs: int = 1, begin: Callable[[int], Callable[[], None]] = lambda total: lambda: None
) -> Results:
    """All figures and tables, as means over the seeds; the result does not depend on `jobs` (-1: every core)."""
    tasks: list[tuple[Any, ...]] = [(_convergence, variant) for variant in VARIANTS]
    tasks += [(_balance,), (_weights,)]
    calls = [(*task, seed) for task in tasks for seed in seeds]
    answers = run(_call, calls, jobs, begin(len(calls)))
    parts = [answers[part * len(seeds) : (part + 1) * len(seeds)] for part in range(len(tasks))]
    *convergence, balance, weights = parts
    rows = _dictionary_rows()
    for variant, of_seeds in zip(VARIANTS, convergence, strict=True):
        rows += _convergence_rows(variant, of_seeds)
    rows += [*_balance_rows(balance), *_weight_rows(weights)]
    curves = {
        way.value: _mean_curve([curve[way.value] for curve in convergence[-1]])
        for way in (Broken.REPAIR, Broken.PENALTY)
    }
    return Results(
        "genetic", tuple(rows), _table(rows), _figures(curves, _bars(balance[0], weights)), {"seeds": list(seeds)}
    )


def _call(task: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    return task(*arguments)


def _bars(first: Mapping[str, Any], weights: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Sequence[float]]]:
    """The load of nodes in percent by figure; figures 3 to 5 are those of the first seed."""
    ways = ("default", "paper", "ours")
    return {
        "figure-3-load": {name: first[name]["mean"] for name in ways},
        "figure-4-network": {name: first[name]["network"] for name in ways},
        "figure-5-disk": {name: first[name]["disk"] for name in ways},
        **{
            f"figure-{number}-{resource}-weights": {
                way: [fmean(column) for column in _columns(weights, resource, way)] for way in ("default", "paper")
            }
            for number, resource in zip((6, 7, 8, 9), _TABLE_3, strict=True)
        },
    }


def _table(rows: Sequence[ResultRow]) -> str:
    lines = (
        (
            row.table,
            row.name,
            "–" if row.published is None else f"{row.published:.4g}",
            f"{row.measured:.3g}",
            intervals.shown(row.interval),
        )
        for row in rows
    )
    return markdown(("table", "what", "published", "here", "95 %"), lines)


def _mean_row(table: str, name: str, published: float | None, values: Sequence[float]) -> ResultRow:
    return ResultRow(table, name, published, fmean(values), intervals.of_mean(values))


def _ratio_row(
    table: str, name: str, published: float | None, above: Sequence[float], below: Sequence[float]
) -> ResultRow:
    return ResultRow(table, name, published, fmean(above) / fmean(below), intervals.of_ratio(above, below))


def published_example() -> tuple[Ints, CheckDictionary]:
    """Tables 1 and 2: the nodes of seven pods, and the check dictionary."""
    allowed, tends = np.ones((7, 3), bool), np.zeros((7, 3), bool)
    for node, affine, forbid in ((0, (1, 2), (3, 4)), (1, (1, 2, 3, 4), (5,)), (2, (5, 6), (4, 7))):
        tends[[pod - 1 for pod in affine], node] = True
        allowed[[pod - 1 for pod in forbid], node] = False
    return np.array([0, 1, 2, 0, 1, 0, 0]), CheckDictionary(allowed, tends)


def _dictionary_rows() -> list[ResultRow]:
    on, dictionary = published_example()
    bits = np.zeros((1, 7, 3), bool)
    bits[0, np.arange(7), on] = True
    printed = np.array([[[bit == "1" for bit in row] for row in PRINTED]])
    found = dictionary.repair(bits, np.random.default_rng(0))
    table = "tables 1, 2"
    return [
        ResultRow(table, "rows of table 1 that the dictionary finds broken", 2, found),
        ResultRow(
            table, "broken rows in the printed repair (Pod5 on two nodes)", None, int(dictionary.broken(printed).sum())
        ),
        ResultRow(table, "broken rows after our repair", 0, int(dictionary.broken(bits).sum())),
    ]


def _convergence(variant: Variant, seed: int) -> dict[str, Sequence[float]]:
    """Best deviation by generation, with the dictionary and with each of its rivals; infinite before any is valid."""
    problem = ruled(seed)
    curves: dict[str, Sequence[float]] = {}
    for way in Broken:
        quirks = replace(variant.quirks, broken=way)
        population = PaperPopulation(problem, np.random.default_rng(seed), quirks, variant.population)
        curve = []
        for _ in range(GENERATIONS):
            population.step()
            curve.append(100 * population.sigma)
        curves[way.value] = curve
    return curves


def _convergence_rows(variant: Variant, curves: Sequence[Mapping[str, Sequence[float]]]) -> list[ResultRow]:
    """A run that never arrives counts with all GENERATIONS, so that the ratio is the least that it can be."""
    table = variant.table
    pairs = [generations_to_arrive(of_seed) for of_seed in curves]
    without = [float(first or GENERATIONS) for first, _ in pairs]
    with_ = [float(second or GENERATIONS) for _, second in pairs]
    arrived = [[float(generation is not None) for generation in column] for column in zip(*pairs, strict=True)]
    dead = [float(np.isfinite(of_seed[Broken.DEATH.value][-1])) for of_seed in curves]
    rows = [
        _mean_row(table, f"generations without the dictionary (penalty), at most {GENERATIONS}", 190, without),
        _mean_row(table, f"generations with the dictionary, at most {GENERATIONS}", 110, with_),
        _ratio_row(table, "generations without / with", 190 / 110, without, with_),
        _mean_row(table, "runs without the dictionary that arrive, share", None, arrived[0]),
        _mean_row(table, "runs with the dictionary that arrive, share", None, arrived[1]),
        _mean_row(table, "runs with death penalty that find any valid placement, share", None, dead),
    ]
    for way, name in ((Broken.PENALTY, "penalty"), (Broken.REPAIR, "dictionary")):
        ends = [of_seed[way.value][-1] for of_seed in curves if np.isfinite(of_seed[way.value][-1])]
        if ends:
            rows.append(_mean_row(table, f"deviation in the end of valid runs, {name}, points", None, ends))
    return rows


def generations_to_arrive(curves: Mapping[str, Sequence[float]]) -> tuple[int | None, int | None]:
    """With the penalty and with the dictionary: until within _NEAR times the larger of both ends; None for never."""
    both = [np.array(curves[way.value]) for way in (Broken.PENALTY, Broken.REPAIR)]
    ends = [float(curve[-1]) for curve in both if np.isfinite(curve[-1])]
    first, second = (
        int(np.argmax(reached)) + 1 if (reached := curve <= _NEAR * max(ends, default=0.0)).any() else None
        for curve in both
    )
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


def _balance_rows(of_seeds: Sequence[Mapping[str, Any]]) -> list[ResultRow]:
    def values(way: str, key: str) -> list[float]:
        return [of_seed[way][key] for of_seed in of_seeds]

    rows = [
        _mean_row("figure 3", f"deviation of the mean load, {name}, points", published, values(way, "sigma_of_mean"))
        for way, name, published in (
            ("default", "default", 3.42193),
            ("paper", "genetic-paper", 1.10272),
            ("ours", "ours", None),
        )
    ]
    for table, key, before, after in (("figure 4", "network", 0.30489, 0.1387), ("figure 5", "disk", 0.26325, 0.17434)):
        default, paper, ours = (values(way, f"sigma {key}") for way in ("default", "paper", "ours"))
        rows += [
            _mean_row(table, f"{key}, default", before, default),
            _mean_row(table, f"{key}, genetic-paper", after, paper),
            _mean_row(table, f"{key}, ours", None, ours),
            _ratio_row(table, f"{key}, default / genetic-paper", before / after, default, paper),
            _ratio_row(table, f"{key}, default / ours", None, default, ours),
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


def _weight_rows(of_seeds: Sequence[Mapping[str, Any]]) -> list[ResultRow]:
    return [
        _mean_row("table 3", f"{resource}, Node{node + 1}, {name}", numbers[node], column)
        for resource, (default, paper) in _TABLE_3.items()
        for way, name, numbers in (("default", "default", default), ("paper", "genetic-paper", paper))
        for node, column in enumerate(_columns(of_seeds, resource, way))
    ]


def _columns(of_seeds: Sequence[Mapping[str, Any]], resource: str, way: str) -> list[Sequence[float]]:
    """By node its use in percent, of each seed."""
    return list(zip(*(of_seed[f"{resource} {way}"] for of_seed in of_seeds), strict=True))


def _mean_curve(curves: Sequence[Sequence[float]]) -> list[float]:
    """[generation]: the mean of those that have a valid individual, NaN without any."""
    table = np.array(curves, float)
    some = np.isfinite(table)
    sums = np.where(some, table, 0.0).sum(axis=0)
    return [float(each) for each in np.where(some.any(axis=0), sums / np.maximum(some.sum(axis=0), 1), np.nan)]


_DRAWN = {
    "default": ("default", RED),
    "paper": ("genetic-paper", BLUE),
    "ours": ("ours", "tab:green"),
    "repair": ("check dictionary", BLUE),
    "penalty": ("penalty", RED),
}
"""What the curves and bars of the genetic experiment are called, and their colours."""


def _figures(
    curves: Mapping[str, Sequence[float]], bars: Mapping[str, Mapping[str, Sequence[float]]]
) -> Mapping[str, str]:
    """SVG texts by file name; `curves` by generation in percentage points, `bars` by node in percent."""
    drawn = {"figure-2-generations.svg": _generations(curves)}
    for name, groups in bars.items():
        drawn[f"{name}.svg"] = _by_node(f"{name.replace('-', ' ').capitalize()}, percent by node", groups)
    return drawn


def _generations(curves: Mapping[str, Sequence[float]]) -> str:
    sheet = Sheet("Best deviation by generation, points")
    values = sorted(each for curve in curves.values() for each in curve if math.isfinite(each))
    for key, curve in curves.items():
        name, colour = _DRAWN[key]
        sheet.axes.plot(range(1, len(curve) + 1), curve, color=colour, label=name)
    # The first generations are far off; the figure begins where most of the curve is.
    sheet.axes.set_ylim(0, values[int(0.97 * (len(values) - 1))] if values else 1.0)
    sheet.axes.set_xlabel("generation")
    sheet.name_series(3)
    return sheet.svg()


def _by_node(title: str, groups: Mapping[str, Sequence[float]]) -> str:
    sheet = Sheet(title)
    wide = 0.8 / max(1, len(groups))
    for place, (key, values) in enumerate(groups.items()):
        name, colour = _DRAWN[key]
        left = [node + (place - (len(groups) - 1) / 2) * wide for node in range(len(values))]
        sheet.axes.bar(left, values, wide, color=colour, label=name)
    nodes = max(map(len, groups.values()), default=0)
    sheet.axes.set_xticks(range(nodes), [f"Node{node + 1}" for node in range(nodes)])
    sheet.name_series(3)
    return sheet.svg()
