"""The solvers of published tables, as `plan place --solver genetic…` reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ballast import solving
from ballast.base.errors import UsageError
from ballast.solving import Problem, Solution
from ballast.solving.solution import ROUNDING, TimeBudget
from ballast.solving.solve import Search
from ballast.solving.units import units
from ballast_lab.solvers.exact import solve_exactly, standing_out
from ballast_lab.solvers.genetic import genetic
from ballast_lab.solvers.paper import Broken, Quirks, evolve
from ballast_lab.solvers.relaxed import relaxed_bound

SOLVERS = ("auto", *solving.SOLVERS, "genetic-paper", "genetic", "exact")
# The share of the time for the proof of a bound.
_PROOF = 0.05
# Placements that `auto` enumerates.
_FEW = 5e6


def solve(
    problem: Problem,
    *,
    solver: str = "auto",
    quirks: Quirks | None = None,
    seed: int = 0,
    max_moves: int | None = None,
    **limits: Any,
) -> Solution:
    """As `ballast.solving.solve`, by any of SOLVERS; `quirks` are those of genetic-paper alone.

    `limits` are `seconds`, `evaluations`, `clock` and `progress`. Every solver but genetic-paper gives a bound, 0 where
    none is useful.
    """
    if solver == "genetic-paper":
        return evolve(problem, TimeBudget(**limits), np.random.default_rng(seed), quirks or Quirks())
    if solver == "auto":
        solver = _choose(problem, max_moves)
    searches: dict[str, Search] = {
        "genetic": genetic,
        "exact": partial(solve_exactly, max_moves=solving.ANY if max_moves is None else max_moves),
    }
    seconds: float | None = limits.get("seconds")
    clock: Callable[[], float] | None = limits.get("clock")
    until = np.inf
    if seconds and clock:
        until, limits["seconds"] = clock() + seconds, seconds * (1 - _PROOF)
    found = solving.solve(problem, solver=solver, search=searches.get(solver), seed=seed, max_moves=max_moves, **limits)
    least = 0.0 if found.bound is None else found.bound
    if found.gap != 0:
        contracted = units(problem)
        on = np.zeros(contracted.size, np.int64)
        on[contracted.of] = found.on
        moves = np.inf if max_moves is None else float(max_moves)
        least = max(
            least,
            standing_out(contracted) * (1 - ROUNDING),
            relaxed_bound(contracted, on, found.objective.value, moves, lambda: clock is not None and clock() >= until),
        )
    return replace(found, bound=min(least, found.objective.value))


def _choose(problem: Problem, max_moves: int | None) -> str:
    """Exact where all placements can be compared in about a second, else late acceptance: it was best at every size."""
    few = units(problem).size * np.log(max(2, len(problem.nodes))) <= np.log(_FEW)
    return "exact" if few and max_moves is None else "late-acceptance"


def read_quirks(pairs: Iterable[str]) -> Quirks:
    """Decodes `NAME=VALUE` pairs, as `--quirk` takes them; raises UsageError, saying what is allowed."""
    fields = {name.replace("_", "-"): name for name in Quirks.__dataclass_fields__}
    values: dict[str, Any] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        choices = tuple(Broken) if name == "broken" else ("true", "false")
        if name not in fields or value not in choices:
            allowed = ", ".join(
                f"{field}={'|'.join(Broken)}" if field == "broken" else f"{field}=true|false" for field in fields
            )
            raise UsageError(f"--quirk {pair}: give one of {allowed}.")
        values[fields[name]] = Broken(value) if name == "broken" else value == "true"
    return Quirks(**values)
