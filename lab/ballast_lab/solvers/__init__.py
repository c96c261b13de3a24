"""The solvers of published tables, as `plan place --solver genetic…` reaches them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ballast import solving
from ballast.base.errors import UsageError
from ballast.solving import Problem, Solution
from ballast.solving.solution import TimeBudget
from ballast_lab.solvers.genetic import genetic
from ballast_lab.solvers.paper import Broken, Quirks, evolve

SOLVERS = (*solving.SOLVERS, "genetic-paper", "genetic")


def solve(problem: Problem, *, solver: str = "auto", quirks: Quirks | None = None, **options: Any) -> Solution:
    """As `ballast.solving.solve`, with two more solvers; `quirks` are those of genetic-paper alone."""
    if solver == "genetic":
        return solving.solve(problem, solver=solver, search=genetic, **options)
    if solver != "genetic-paper":
        return solving.solve(problem, solver=solver, **options)
    seed = options.pop("seed", 0)
    options.pop("max_moves", None)
    budget = TimeBudget(**options)
    return evolve(problem, budget, np.random.default_rng(seed), quirks or Quirks())


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
