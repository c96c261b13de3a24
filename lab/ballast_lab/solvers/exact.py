"""The best placement of small problems, and a proved lower bound of larger ones.

Up to MOST placements all are compared: the units are cut into two halves, so that loads are sums of two tables. Beyond
that the squares of the value are bounded below by tangents, which makes a mixed-integer linear program; tangents are
added where its answer is (Kelley, The cutting-plane method for solving convex programs, 1960).
"""

from __future__ import annotations

import math

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.solving import collisions
from ballast.solving.assignment import Assignment
from ballast.solving.exchange import Exchange
from ballast.solving.late_acceptance import descend, late_acceptance
from ballast.solving.relations import keeps
from ballast.solving.solution import TimeBudget
from ballast.solving.units import Units

MOST = 3e8
"""Placements that are enumerated."""
_TANGENTS = (0.5, 1.0, 2.0)
_ROUNDS = 50
# A linear program of the branch-and-bound counts as so many evaluations.
_PER_NODE = 1000
_LONGEST = 3600.0
_TOLERANCE = 1e-9
# Units times nodes up to which a program proves more than a relaxation; the share of the budget that goes to a search
# before it. Larger problems are searched as by late acceptance, with the same answer for the same evaluations.
_PROGRAM, _SEARCH = 1000, 0.5
_CAREFUL = 1e-12


def solve_exactly(
    assignment: Assignment, budget: TimeBudget, rng: np.random.Generator, moves_left: int, *, max_moves: int
) -> tuple[None, float | None]:
    """A `Search`: the best placement where all can be compared, else a better one and, of small ones, a bound."""
    if countable(assignment.units):
        descend(Exchange(assignment, rng, moves_left), budget)
        if enumerate_all(assignment, budget, max_moves):
            return None, assignment.value() * (1 - _CAREFUL)
    else:
        if assignment.units.size * len(assignment.units.scale) > _PROGRAM:
            late_acceptance(assignment, budget, rng, moves_left)
            return None, None
        search = budget.share(_SEARCH)
        late_acceptance(assignment, search, rng, moves_left)
        budget.spend(search.spent, assignment.value())
    return None, bound(assignment, budget, max_moves)


def countable(units: Units) -> bool:
    """Whether all placements can be compared."""
    return units.size * math.log(max(2, len(units.scale))) <= math.log(MOST)


def enumerate_all(assignment: Assignment, budget: TimeBudget, max_moves: int) -> bool:
    """Puts the best placement into the assignment; False if the budget ended before all were compared."""
    units = assignment.units
    best, best_on = assignment.value(), assignment.on.copy()
    cut = units.size // 2
    first, second = _half(units, range(cut)), _half(units, range(cut, units.size))
    done = True
    for row in range(len(first.on)):
        take = min(len(second.on), budget.left())
        if not take:
            done = False
            break
        load = units.start + first.load[row] + second.load[:take]
        mean = load.sum(axis=1) / units.count
        apart = np.where(units.there, load - mean[:, None, :], 0.0)
        value = (np.square(apart) * units.cost).sum(axis=(1, 2))
        good = np.flatnonzero(value < best * (1 - _TOLERANCE))
        budget.spend(take, best)
        if not len(good):
            done = done and take == len(second.on)
            continue
        requests = first.asked[row] + second.asked[good]
        good = good[(requests <= units.room).all(axis=(1, 2))]
        for other in good[np.argsort(value[good], kind="stable")].tolist():
            on = np.concatenate([first.on[row], second.on[other]])
            if units.moves(on) <= max_moves and keeps(units, on):
                best, best_on = float(value[other]), on
                break
    assignment.__init__(units, best_on)  # type: ignore[misc]
    return done


class _half:  # noqa: N801
    """All placements of some units that rules about nodes allow: nodes, loads and requests."""

    def __init__(self, units: Units, rows: range) -> None:
        n = len(units.scale)
        self.on: Ints = np.zeros((1, 0), np.int64)
        self.load: Floats = np.zeros((1, n, units.scale.shape[1]))
        self.asked: Floats = np.zeros((1, n, units.room.shape[1]))
        for unit in rows:
            nodes = np.flatnonzero(units.allowed(unit))
            count, choices = len(self.on), len(nodes)
            self.on = np.concatenate([np.repeat(self.on, choices, axis=0), np.tile(nodes, count)[:, None]], axis=1)
            self.load = np.repeat(self.load, choices, axis=0)
            self.asked = np.repeat(self.asked, choices, axis=0)
            place = np.arange(count * choices), self.on[:, -1]
            self.load[place] += units.use[unit] * units.scale[self.on[:, -1]]
            self.asked[place] += units.request[unit]
            fits = (self.asked <= units.room).all(axis=(1, 2))
            self.on, self.load, self.asked = self.on[fits], self.load[fits], self.asked[fits]


def bound(assignment: Assignment, budget: TimeBudget, max_moves: int) -> float:
    """A lower bound of the value; a better placement that turns up is put into the assignment."""
    units = assignment.units
    relaxed = collisions.program(units, units.rules)
    n, k = units.scale.shape
    z, d, y = len(relaxed.unit), n * k, n * k
    rows = [*relaxed.rows, *_differences(units, relaxed, z)]
    if max_moves < 2**40:
        away = units.leaving(relaxed.unit, relaxed.node)
        rows.append((dict(enumerate(away.astype(float).tolist())), -np.inf, float(max_moves)))
    price = np.zeros(z + d + y)
    # Differences are counted in units of the deviation now, so that tangents have coefficients near 1.
    unit = max(math.sqrt(assignment.value()), 1e-6)
    weight = np.where(units.there, units.cost, 0.0).reshape(-1) * unit * unit
    price[z + d :] = weight
    rows += [({z + d + i: 1.0}, 0.0, np.inf) for i in range(d)]
    for point in _TANGENTS:
        rows += [_tangent(z, d, i, side * point, unit) for i in range(d) for side in (1, -1)]
    least = standing_out(units)
    for _ in range(_ROUNDS):
        left = budget.left()
        seconds = min(_LONGEST, budget.remaining())
        if not left or assignment.value() <= least * (1 + 1e-6):
            break
        nodes = None if budget.evaluations is None else max(1, left // _PER_NODE)
        answer = collisions.run(rows, price, z, seconds=seconds, nodes=nodes)
        budget.spend(min(left, _PER_NODE * max(1, int(answer.mip_node_count or 1))), assignment.value())
        if answer.mip_dual_bound is not None and math.isfinite(answer.mip_dual_bound):
            least = max(least, float(answer.mip_dual_bound))
        if answer.x is None:
            break
        x = np.asarray(answer.x)
        on = relaxed.placement(x, units.size)
        if (on >= 0).all() and keeps(units, on):
            other = Assignment(units, on)
            if other.value() < assignment.value():
                assignment.__init__(units, on)  # type: ignore[misc]
        at = x[z : z + d] / unit
        rows += [_tangent(z, d, i, float(at[i]), unit) for i in range(d) if weight[i] > 0 and abs(at[i]) > 1e-9]
    return min(least * (1 - 1e-7), assignment.value())


def standing_out(units: Units) -> float:
    """A bound for nodes that are alike: units larger than what the others leave a node stand out wherever they are.

    The loads of any placement majorize these units, each alone on a node, with the rest spread over the other nodes
    (Marshall, Olkin and Arnold, Inequalities: Theory of Majorization, 2011, 1.A). 0 where nodes differ.
    """
    alike = (units.scale == units.scale[0]).all() and (units.start == units.start[0]).all()
    if not alike or not units.there.all() or not units.size:
        return 0.0
    nodes, bound_value = len(units.scale), 0.0
    for resource, cost in enumerate(units.cost.tolist()):
        use = np.sort(units.use[: units.size, resource])[::-1] * units.scale[0, resource]
        total, large = use.sum(), use[: nodes - 1]
        spread = (total - np.cumsum(large)) / np.arange(nodes - 1, nodes - 1 - len(large), -1)
        count = int(np.logical_and.accumulate(large > spread).sum())
        if count:
            apart = np.append(large[:count], np.full(nodes - count, spread[count - 1])) - total / nodes
            bound_value += cost * float(np.square(apart).sum())
    return bound_value


def _differences(units: Units, found: collisions.Program, z: int) -> list[collisions.Row]:
    """Rows that set each d to the load of a node less the mean."""
    n, k = units.scale.shape
    rows: list[collisions.Row] = []
    for resource in range(k):
        share = units.use[found.unit, resource] * units.scale[found.node, resource]
        start = units.start[:, resource]
        for node in range(n):
            factor = (found.node == node) * share - share / units.count[resource]
            some = np.flatnonzero(factor)
            row = dict(zip(some.tolist(), (-factor[some]).tolist(), strict=True))
            row[z + node * k + resource] = 1.0
            at = float(start[node] - start.sum() / units.count[resource])
            rows.append((row, at, at))
    return rows


def _tangent(z: int, d: int, number: int, point: float, unit: float) -> collisions.Row:
    """y >= 2 t (d / unit) - t^2: below the square everywhere, equal at t."""
    return {z + d + number: 1.0, z + number: -2 * point / unit}, -point * point, np.inf
