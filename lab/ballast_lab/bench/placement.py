"""How even placements are, how fast, and what the published genetic algorithm reaches."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ballast.solving import Problem, arrange, solve
from ballast_lab.bench.rows import Row, at_most
from ballast_lab.experiments.genetic import results
from ballast_lab.solvers import solve as solve_any

SIZES = ((100, 3_000, 5.0, 0.15, 0.35), (1_000, 30_000, 20.0, 0.30, 0.30), (5_000, 150_000, 60.0, 0.40, 0.40))
QUICK = {"sizes": SIZES[:1], "seeds": 4}


def measure(sizes: Sequence[tuple[int, int, float, float, float]] = SIZES, seeds: int = 12) -> list[Row]:
    return [*_evenness(sizes), *_gaps(), *_optima(seeds), *_published(min(seeds, 8))]


def _evenness(sizes: Sequence[tuple[int, int, float, float, float]]) -> list[Row]:
    rows: list[Row] = []
    for nodes, pods, seconds, alike, mixed in sizes:
        for kind, ratio, reach in (("alike", (1.0,), alike), ("1:2:4", (1.0, 2.0, 4.0), mixed)):
            problem = world(nodes, pods, ratio)
            started = time.monotonic()
            found = solve(problem, seconds=seconds, clock=time.monotonic)
            took = time.monotonic() - started
            worst = 100 * float(found.objective.sigma.max())
            rows.append(
                {
                    "what": "placement, σ of the worst of four resources",
                    "at": f"{nodes:,} nodes {kind}, {pods:,} pods, {seconds:g} s, {found.solver}",
                    "reach": f"≤ {reach:.2f} points",
                    "measured": f"{worst:.3f} points ({took:.1f} s)",
                    "verdict": at_most(worst, reach),
                }
            )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rows.append(
        {
            "what": "placement, memory of the whole process",
            "at": f"{sizes[-1][0]:,} nodes, {sizes[-1][1]:,} pods",
            "reach": "≤ 2 GB",
            "measured": f"{memory:.2f} GB",
            "verdict": at_most(memory, 2.0),
        }
    )
    return rows


def _gaps() -> list[Row]:
    """Counted in evaluations, so that other load on the machine changes nothing."""
    rows: list[Row] = []
    for nodes, pods, evaluations, reach in ((20, 200, 200_000, 10.0), (200, 3_000, 1_000_000, 30.0)):
        for own, what in ((0.8, "load of no pod on up to 80 % of each node"), (0.0, "empty nodes")):
            gaps = []
            for seed in range(2):
                problem = world(nodes, pods, (1.0, 2.0, 4.0), seed)
                base = problem.capacity * np.random.default_rng(seed + 1000).uniform(0, own, problem.capacity.shape)
                problem = replace(problem, base=base, use=problem.use / 2, request=problem.request / 2)
                found = solve_any(problem, solver="late-acceptance", evaluations=evaluations, seed=seed)
                gaps.append(100 * (1 - float(np.sqrt((found.bound or 0.0) / found.objective.value))))
            rows.append(
                {
                    "what": "placement, gap between answer and bound, of σ",
                    "at": f"{nodes} nodes 1:2:4, {pods:,} pods, a quarter asked for, {what}, "
                    f"{evaluations:,} evaluations",
                    "reach": f"≤ {reach:g} %",
                    "measured": " and ".join(f"{gap:.1f} %" for gap in gaps),
                    "verdict": at_most(max(gaps), reach),
                }
            )
    return rows


def _optima(seeds: int) -> list[Row]:
    rows: list[Row] = []
    worlds = [world(3, 14, (1.0, 2.0) if seed % 2 else (1.0,), seed, loose=True) for seed in range(seeds)]
    best = [solve_any(each, solver="exact", evaluations=10_000_000).objective.value for each in worlds]
    for solver in ("late-acceptance", "genetic"):
        found = [solve_any(each, solver=solver, seconds=5.0, clock=time.monotonic).objective.value for each in worlds]
        ratios = [float(np.sqrt(value / least)) for value, least in zip(found, best, strict=True)]
        rows.append(
            {
                "what": f"{solver} beside the enumerated optimum",
                "at": f"3 nodes, 14 pods, {seeds} problems, 5 s",
                "reach": f"≤ 1.02 × on {seeds} of {seeds}",
                "measured": f"{max(ratios):.4f} × at most",
                "verdict": at_most(max(ratios), 1.02),
            }
        )
    return rows


def _published(seeds: int) -> list[Row]:
    found = {row.name: row for row in results(range(seeds), jobs=-1).rows}
    reaches = {
        "deviation of the mean load, default, points": "≈ 3.4",
        "deviation of the mean load, genetic-paper, points": "≈ 1.1",
        "generations without / with": "≥ 1.5",
        "network, default / ours": "≥ 8",
        "disk, default / ours": "≥ 8",
    }
    return [
        {
            "what": f"genetic experiment: {name}",
            "at": f"mean of {seeds} problems",
            "reach": reach,
            "measured": f"{found[name].measured:.2f}",
        }
        for name, reach in reaches.items()
    ]


def world(nodes: int, pods: int, sizes: Sequence[float], seed: int = 0, *, loose: bool = False) -> Problem:
    """Nodes half in use by four resources; requests of cpu and memory are use times lognormal(.35)."""
    rng = np.random.default_rng(seed)
    capacity = np.outer([sizes[row % len(sizes)] for row in range(nodes)], [8.0, 32.0, 100.0, 100.0])
    use = rng.lognormal(0, 0.6, (pods, 4))
    use *= 0.5 * capacity.sum(axis=0) / use.sum(axis=0)
    request = use[:, :2] * rng.lognormal(0, 0.35, (pods, 2)) * (0.5 if loose else 1.0)
    return arrange(
        [f"n{row:05d}" for row in range(nodes)],
        [f"p{row:06d}" for row in range(pods)],
        ["cpu", "memory", "disk", "network"],
        capacity=capacity,
        use=use,
        kinds=["cpu", "memory"],
        room=capacity[:, :2],
        request=request,
    )
