"""A Lagrangean lower bound of Σ w Var under capacity: pods may be cut into parts, rules between pods are left out.

With L the load of nodes, y any loads whose mean over the nodes is 0, c_k = w_k / n_k, and prices p >= 0 of room and
q >= 0 of a move, every placement x with at most M moves has

    f(x) >= sum c (2 y L(x) - y^2) + p (used(x) - room) + q (moves(x) - M),

since (L - mean)^2 >= 2 y (L - mean) - y^2. The right side is a sum over pods, so its least value puts each pod on the
node where it costs least. Good y, p and q come from the conditional gradient method (Frank and Wolfe, 1956; Jaggi,
Revisiting Frank-Wolfe, 2013) on f with a quadratic penalty of what exceeds the room. The bound holds for any of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.solving.units import Units

LARGEST = 5_000_000
"""Pods times nodes up to which it is computed: a table of so many numbers."""
_ROUNDS, _ENTRIES = 200, 3e7
"""Rounds of small problems; of large ones as many as look at so many entries of the table, at least 20."""
_PENALTIES = (1e0, 1e2)
"""Of exceeding the room, as multiples of the value."""
_USEFUL = 0.05
"""A bound below this part of the value tells nothing: then it is not sought any longer."""
_ROUNDING = 1e-9
_STEPS = np.linspace(0.0, 1.0, 33)[1:]


def relaxed_bound(
    units: Units, on: Ints, value: float, max_moves: float = np.inf, over: Callable[[], bool] = lambda: False
) -> float:
    """At most the value of any placement; `on` [unit] and its value are one. 0 for very large problems.

    `over` ends it early with the best bound so far.
    """
    if units.size * len(units.scale) > LARGEST or not units.size or value <= 0:
        return 0.0
    relaxation = _Relaxation(units, on, max_moves)
    best = 0.0
    rounds = int(np.clip(_ENTRIES / (units.size * len(units.scale)), 20, _ROUNDS)) // len(_PENALTIES)
    for penalty in (factor * value for factor in _PENALTIES):
        for _ in range(rounds):
            bound, choice = relaxation.bound(penalty)
            best = max(best, bound)
            if over() or relaxation.step(choice, penalty) < _USEFUL * value:
                break
    return best * (1 - _ROUNDING)


class _Relaxation:
    """The averaged placement: loads [node, resource], what is asked of the room [node, kind], and moves."""

    def __init__(self, units: Units, on: Ints, max_moves: float) -> None:
        self._units, self._moves_allowed = units, max_moves
        self._open = units.sites[units.site] & (units.request[:-1, None, :] <= units.room[None]).all(axis=2)
        self._room = np.maximum(units.room, 1e-12)
        self._load, self._used, self._moves = self._of(on)

    def _of(self, on: Ints) -> tuple[Floats, Floats, float]:
        units = self._units
        use, used = self._summed(units.use, on), self._summed(units.request, on)
        return units.start + use * units.scale, used, float(units.moves(on))

    def _summed(self, amounts: Floats, on: Ints) -> Floats:
        nodes = len(self._units.scale)
        columns = [np.bincount(on, column[:-1], nodes) for column in amounts.T]
        return np.array(columns, float).reshape(-1, nodes).T

    def _prices(self, penalty: float) -> tuple[Floats, Floats, float]:
        """Loads with mean 0, the price of room, and that of a move."""
        units = self._units
        apart = np.where(units.there, self._load - self._load.sum(axis=0) / units.count, 0.0)
        room = penalty * np.maximum(self._used / self._room - 1, 0.0) / self._room
        moves = max(self._moves - self._moves_allowed, 0.0) * penalty / max(1.0, self._moves_allowed) ** 2
        return apart, room, moves

    def bound(self, penalty: float) -> tuple[float, Ints]:
        """The least value at the present prices, and where it puts each unit."""
        units = self._units
        y, price, per_move = self._prices(penalty)
        cost = units.use[:-1] @ (2 * units.cost * y * units.scale).T + units.request[:-1] @ price.T
        if per_move:
            cost += per_move * units.stay[:, None]
            pods = np.flatnonzero(units.problem.home >= 0)
            np.subtract.at(cost, (units.of[pods], units.problem.home[pods]), per_move)
        cost[~self._open] = np.inf
        choice: Ints = cost.argmin(axis=1)
        least = float(np.take_along_axis(cost, choice[:, None], axis=1).sum())
        fixed = float((units.cost * (2 * y * units.start - np.square(y))).sum()) - float((price * units.room).sum())
        return least + fixed - (per_move * self._moves_allowed if per_move else 0.0), choice

    def step(self, choice: Ints, penalty: float) -> float:
        """Towards `choice`, as far as is best of some lengths; returns what the averaged placement is worth now."""
        load, used, moves = self._of(choice)

        def worth(step: float) -> float:
            mixed, asked = self._load + step * (load - self._load), self._used + step * (used - self._used)
            apart = np.where(self._units.there, mixed - mixed.sum(axis=0) / self._units.count, 0.0)
            beyond = np.maximum(asked / self._room - 1, 0.0)
            away = max(self._moves + step * (moves - self._moves) - self._moves_allowed, 0.0)
            away /= max(1.0, self._moves_allowed)
            return float((np.square(apart) * self._units.cost).sum()) + penalty / 2 * (
                float(np.square(beyond).sum()) + away * away
            )

        # The lengths are finer near 0, where most good ones are.
        step = min(np.square(_STEPS).tolist(), key=worth)
        reached = worth(step)
        self._load += step * (load - self._load)
        self._used += step * (used - self._used)
        self._moves += step * (moves - self._moves)
        return reached
