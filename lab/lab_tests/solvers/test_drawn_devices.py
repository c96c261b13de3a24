"""A thousand drawn problems with devices: no answer that devices cannot hold, and the optimum."""

from itertools import product

import numpy as np
import pytest

from ballast.base.errors import Infeasible
from ballast_lab.solvers import solve
from ballast_lab.solvers.problem_file import problem_of
from lab_tests.solvers.problems import Json, broken, value

PROBLEMS = 1000
SOLVERS = ("auto", "exact", "late-acceptance")
EVALUATIONS = 500
COUNTERS = {"slices": 7, "memory": 40}
PARTITIONS = [{"slices": 1, "memory": 5}, {"slices": 2, "memory": 10}, {"slices": 1, "memory": 20}, COUNTERS]
"""What partitions of a device take from the counters that they share."""


def drawn(seed: int) -> Json:
    """Two or three nodes, up to three devices each, four pods, up to two shares: whole, in parts, partitions, mixed."""
    rng = np.random.default_rng(seed)
    kinds = ["gpu", ("gpu", "partitioned")[seed % 2], "fpga"][: int(rng.integers(2, 4))]

    def shares(most: int, sizes: list[int], name: str) -> list[Json]:
        drawn_kinds = [str(rng.choice(kinds)) for _ in range(int(rng.integers(0, most + 1)))]
        return [{"resource": kind, name: size(kind, sizes, name)} for kind in drawn_kinds]

    def size(kind: str, sizes: list[int], name: str) -> int | Json:
        if kind == "partitioned":
            return COUNTERS if name == "capacity" else PARTITIONS[int(rng.integers(len(PARTITIONS)))]
        return int(rng.choice(sizes))

    return {
        "resources": ["cpu"],
        "nodes": [
            {"name": f"n{row}", "capacity": {"cpu": 8}, "devices": shares(3, [500, 1000, 1000], "capacity")}
            for row in range(int(rng.integers(2, 4)))
        ],
        "pods": [
            {
                "name": f"p{row}",
                "request": {"cpu": float(rng.integers(0, 4))},
                "use": {"cpu": float(rng.lognormal())},
                "devices": shares(2, [250, 300, 400, 500, 600, 1000], "amount"),
            }
            for row in range(4)
        ],
    }


def best(document: Json) -> float | None:
    """By trying every placement with every choice of devices; None where none holds."""
    pods, nodes = ([each["name"] for each in document[kind]] for kind in ("pods", "nodes"))
    every = (dict(zip(pods, choice, strict=True)) for choice in product(nodes, repeat=len(pods)))
    return min((value(document, placement) for placement in every if not broken(document, placement)), default=None)


@pytest.mark.slow
def test_a_thousand_drawn_problems_have_the_optimum_and_hold() -> None:
    solvable = 0
    for seed in range(PROBLEMS):
        document = drawn(seed)
        least = best(document)
        solvable += least is not None
        for solver in SOLVERS:
            try:
                found = solve(problem_of(document, "drawn"), solver=solver, evaluations=EVALUATIONS, seed=seed)
            except Infeasible:
                assert least is None, (seed, solver)
                continue
            assert least is not None, (seed, solver)
            assert broken(document, dict(found.placement)) == [], (seed, solver)
            assert found.objective.value == pytest.approx(least, rel=1e-6, abs=1e-12), (seed, solver)
    assert PROBLEMS / 4 < solvable < PROBLEMS
