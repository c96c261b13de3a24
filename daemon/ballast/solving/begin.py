"""A first placement that keeps all rules."""

from __future__ import annotations

import numpy as np

from ballast.base.errors import Infeasible
from ballast.solving import linear
from ballast.solving.assignment import Assignment
from ballast.solving.collisions import explain
from ballast.solving.construct import longest_first
from ballast.solving.exact import keeps
from ballast.solving.units import Units

_TRIES = 8
_SECONDS = 20.0
_LISTED = 5


def begin(units: Units, max_moves: int | None, *, from_home: bool = False) -> Assignment:
    """The first placement of: one pass, passes in other orders, a linear program for small problems.

    With `max_moves` or `from_home` pods begin where they were. Raises Infeasible, naming the rules that collide.
    """
    kept = units.home if max_moves is not None or from_home else None
    most = np.inf if max_moves is None else max_moves
    assignment, left = longest_first(units, kept)
    if not left and units.moves(assignment.on) <= most:
        return assignment
    rng = np.random.default_rng(0)
    for turn in range(_TRIES):
        noise = rng.lognormal(0.0, 0.2 * turn, units.size)
        again, still = longest_first(units, kept, noise, tight=True)
        if not still and units.moves(again.on) <= most:
            return again
    if max_moves is None and from_home:
        return begin(units, None)
    if units.size * len(units.scale) <= linear.LARGEST:
        on, _ = linear.feasible(units, units.rules, seconds=_SECONDS, fewest_moves=max_moves is not None)
        if on is not None and keeps(units, on) and units.moves(on) <= most:
            return Assignment(units, on)
        if on is not None and max_moves is not None:
            raise _needs_moves(units, units.moves(on), max_moves, "at least ")
    elif max_moves is not None and not left:
        raise _needs_moves(units, units.moves(assignment.on), max_moves, "")
    raise explain(units, left or range(units.size))


def _needs_moves(units: Units, moves: int, allowed: int, how: str) -> Infeasible:
    return Infeasible(
        f"The rules make {how}{moves} pods leave their node, and at most {allowed} may. "
        "Allow more moves, or change the rules that the pods break where they are.",
        ("max-moves",),
    )
