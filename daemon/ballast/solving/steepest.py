"""Steepest descent: the single move that lowers the value most, as long as one does."""

from __future__ import annotations

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.assignment import Assignment
from ballast.solving.solution import TimeBudget

# Moves that are compared at first: those away from the nodes that are furthest from the mean. If none of them gains,
# more are compared, in the end all.
_CELLS = 40_000
_WIDER = 16
_TRIES = 64


def steepest(assignment: Assignment, budget: TimeBudget, moves_left: int) -> int:
    """Makes moves until none gains, the budget ends, or no more pods may leave their node; returns what is left of it.

    A gain counts for each pod that leaves, so that a unit of two pods has to gain twice as much.
    """
    units = assignment.units
    steps, cells = 0, _CELLS
    while assignment.units.size:
        pods = _looked_at(assignment, cells)
        if len(pods) * len(assignment.load) > budget.left():
            pods = pods[: budget.left() // max(1, len(assignment.load))]
        if not len(pods):
            return moves_left
        change, away = _changes(assignment, pods)
        change[away > moves_left] = np.inf
        made = _make(assignment, pods, change, change / np.maximum(away, 1))
        budget.spend(change.size, assignment.value())
        if made is None:
            if cells >= units.size * len(assignment.load):
                break
            cells *= _WIDER
            continue
        cells = _CELLS
        pod, node, home = made
        moves_left -= int(units.at_home[pod]) * (int(units.home[pod] == home) - int(units.home[pod] == node))
        steps += 1
        if steps % 256 == 0:
            assignment.reckon()
    assignment.reckon()
    return moves_left


def _looked_at(assignment: Assignment, cells: int) -> Ints:
    units, n = assignment.units, len(assignment.load)
    if units.size * n <= cells:
        return np.arange(units.size)
    apart = (np.square(np.where(units.there, assignment.load - assignment.mean(), 0.0)) * units.cost).sum(axis=1)
    counts = np.bincount(assignment.on, minlength=n)
    order = np.argsort(-apart, kind="stable")
    kept = int(np.searchsorted(np.cumsum(counts[order]) * n, cells, side="right"))
    chosen = np.zeros(n, bool)
    chosen[order[: max(1, kept)]] = True
    return np.flatnonzero(chosen[assignment.on])


def _changes(assignment: Assignment, pods: Ints) -> tuple[Floats, Ints]:
    """[pod, node]: the change of the value, infinite where rules about nodes or room forbid; and pods that leave."""
    units, home = assignment.units, assignment.on[pods]
    mean = assignment.mean()
    apart = np.where(units.there, assignment.load - mean, 0.0)
    use, s = units.use[pods], units.scale
    at_home = s[home]
    # D = use: the source loses it, the target gains it.
    own = (units.cost * use * (use * at_home**2 * (1 - 1 / units.count) - 2 * apart[home] * at_home)).sum(axis=1)
    change = (units.cost * use) @ (2 * apart * s).T + (units.cost * use * use) @ (s * s * (1 - 1 / units.count)).T
    change += 2 * (units.cost / units.count * use * use * at_home) @ s.T
    change += own[:, None]
    change[~_open(assignment, pods)] = np.inf
    change[np.arange(len(pods)), home] = np.inf
    nodes = np.arange(len(s))
    leaving = (units.home[pods] == home).astype(np.int64)[:, None] - (units.home[pods][:, None] == nodes)
    return change, units.at_home[pods][:, None] * leaving


def _open(assignment: Assignment, pods: Ints) -> Bools:
    units = assignment.units
    found = units.sites[units.site[pods]]
    for kind in range(assignment.free.shape[1]):
        asked = units.request[pods, kind][:, None]
        found = found & ((asked <= assignment.free[:, kind]) | (asked == 0))
    return np.asarray(found)


def _make(assignment: Assignment, pods: Ints, change: Floats, price: Floats) -> tuple[int, int, int] | None:
    """Makes the cheapest move that rules between pods allow."""
    relations = assignment.relations
    for _ in range(_TRIES):
        best = int(price.argmin())
        row, node = divmod(best, price.shape[1])
        if not change[row, node] < -1e-15 * max(1e-12, assignment.value()):
            return None
        pod, home = int(pods[row]), int(assignment.on[pods[row]])
        if relations.simple[pod]:
            assignment.take(pod)
            assignment.put(pod, node)
            return pod, node, home
        assignment.take(pod)
        if relations.permits(pod, node) and relations.releases(pod, home):
            assignment.put(pod, node)
            return pod, node, home
        assignment.put(pod, home)
        price[row, node] = np.inf
    return None
