"""Places many pods at once: a first placement, then a search."""

from collections.abc import Callable

import numpy as np

from ballast.base.errors import Infeasible
from ballast.model.sample import Ints
from ballast.solving import collisions
from ballast.solving.assignment import Assignment
from ballast.solving.collisions import explain
from ballast.solving.construct import longest_first
from ballast.solving.late_acceptance import late_acceptance, steepest
from ballast.solving.problem import Problem
from ballast.solving.relations import keeps, violations
from ballast.solving.solution import Progress, Solution, TimeBudget, before, objective
from ballast.solving.units import Units, units

SOLVERS = ("late-acceptance", "longest-first", "steepest")
ANY = 2**62
"""Moves that are left where their number is not limited."""

Search = Callable[[Assignment, TimeBudget, np.random.Generator, int], tuple[int | None, float | None]]
"""Improves an assignment until the budget ends, moving so many pods at most; returns generations and a lower bound."""


def solve(  # noqa: PLR0913
    problem: Problem,
    *,
    solver: str = "late-acceptance",
    seconds: float | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    max_moves: int | None = None,
    clock: Callable[[], float] | None = None,
    progress: Progress | None = None,
    search: Search | None = None,
) -> Solution:
    """Places every pod. Search ends after `evaluations` or `seconds` by `clock`; with both None it makes one pass.

    The result depends on the problem, the seed and the evaluations alone, unless the seconds end first. `max_moves`
    bounds the pods that leave the node they came with. `search` is a method of another package, named by `solver`.
    Raises Infeasible, naming the rules that collide, ValueError for a solver that is not in SOLVERS or for seconds
    without a clock.
    """
    if solver not in SOLVERS and search is None:
        raise ValueError(f"there is no solver {solver}; choose one of {', '.join(SOLVERS)}")
    budget = TimeBudget(evaluations, seconds, clock, progress)
    rng = np.random.default_rng(seed)
    contracted = units(problem)
    assignment = begin(
        contracted,
        max_moves,
        from_home=solver == "steepest",
        remaining=budget.remaining if seconds else collisions.endless,
    )
    budget.spend(1, assignment.value())
    moves_left = ANY if max_moves is None else max_moves - contracted.moves(assignment.on)
    generations, bound = (0 if solver == "genetic" else None), None
    if not budget.once:
        if max_moves is not None and solver not in ("steepest", "longest-first"):
            moves_left = steepest(assignment, budget, moves_left)
        if solver == "steepest":
            steepest(assignment, budget, moves_left)
        elif solver == "late-acceptance":
            late_acceptance(assignment, budget, rng, moves_left)
        elif search is not None:
            generations, bound = search(assignment, budget, rng, moves_left)
    on = contracted.pods(assignment.on)
    reached = objective(problem, on)
    if bound is not None:
        bound = min(bound, reached.value)
    return Solution(
        solver=solver,
        problem=problem,
        on=on,
        objective=reached,
        before=before(problem),
        violations=violations(problem, on),
        evaluations=budget.spent,
        generations=generations,
        bound=bound,
        timed_out=budget.timed_out,
    )


def improve(problem: Problem, on: Ints, *, evaluations: int, max_moves: int, seed: int = 0) -> Ints:
    """[pod]: a placement by late acceptance that begins at `on` and is at least as even.

    At most `max_moves` pods are then away from the node they came with, `on` included.
    """
    contracted = units(problem)
    assignment = Assignment(contracted, on)
    left = max_moves - contracted.moves(assignment.on)
    late_acceptance(assignment, TimeBudget(evaluations), np.random.default_rng(seed), left)
    return contracted.pods(assignment.on)


_TRIES = 8
_SECONDS = 20.0
_LISTED = 5


def begin(
    units: Units, max_moves: int | None, *, from_home: bool = False, remaining: Callable[[], float] = collisions.endless
) -> Assignment:
    """The first placement of: one pass, passes in other orders, a linear program for small problems.

    With `max_moves` or `from_home` pods begin where they were. Raises Infeasible, naming the rules that collide.
    After the first pass the search ends when no seconds are `remaining`.
    """
    kept = units.home if max_moves is not None or from_home else None
    most = np.inf if max_moves is None else max_moves
    assignment, left = longest_first(units, kept)
    if not left and units.moves(assignment.on) <= most:
        return assignment
    rng, proved = np.random.default_rng(0), True
    for turn in range(_TRIES):
        if remaining() <= 0:
            break
        noise = rng.lognormal(0.0, 0.2 * turn, units.size)
        again, still = longest_first(units, kept, noise, tight=True)
        if not still and units.moves(again.on) <= most:
            return again
    if max_moves is None and from_home:
        return begin(units, None, remaining=remaining)
    if units.size * len(units.scale) <= collisions.LARGEST:
        on, proved = collisions.feasible(
            units, units.rules, seconds=_SECONDS, remaining=remaining, fewest_moves=max_moves is not None
        )
        if on is not None and keeps(units, on) and units.moves(on) <= most:
            return Assignment(units, on)
        if on is not None and max_moves is not None:
            raise _needs_moves(units, units.moves(on), max_moves, "at least ")
    elif max_moves is not None and not left:
        raise _needs_moves(units, units.moves(assignment.on), max_moves, "")
    raise explain(units, left or range(units.size), proved=proved, remaining=remaining)


def _needs_moves(units: Units, moves: int, allowed: int, how: str) -> Infeasible:
    return Infeasible(
        f"The rules make {how}{moves} pods leave their node, and at most {allowed} may. "
        "Allow more moves, or change the rules that the pods break where they are.",
        ("max-moves",),
    )
