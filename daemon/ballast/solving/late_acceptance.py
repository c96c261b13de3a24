"""Descents by exchanges, restarted by kicks that count if they are as good as the one some time before.

Source: Burke and Bykov, The late acceptance hill-climbing heuristic, European Journal of Operational Research 258
(2017), here over local optima in place of single moves.
"""

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.assignment import Assignment
from ballast.solving.exchange import Exchange
from ballast.solving.solution import TimeBudget

_HISTORY = 20
_KICKS = (1, 2, 3)
# A value this small, against that of the beginning, is even for every purpose.
EVEN = 1e-18


def descend(exchange: Exchange, budget: TimeBudget) -> bool:
    """Rounds until no pair of nodes gains by any swap; False if the budget ended before."""
    n = len(exchange.assignment.load)
    if n < 2 or not exchange.assignment.units.size:
        return False
    still, rounds = 0, 0
    while still < n - 1 + n % 2:
        exchanged = exchange.round(budget)
        if exchanged is None:
            return False
        still = 0 if exchanged else still + 1
        rounds += 1
        if rounds % 64 == 0:
            exchange.assignment.reckon()
    exchange.assignment.reckon()
    return True


def late_acceptance(assignment: Assignment, budget: TimeBudget, rng: np.random.Generator, moves_left: int) -> None:
    """Improves an assignment until the budget ends; what it leaves is the best that it met."""
    exchange = Exchange(assignment, rng, moves_left)
    going = descend(exchange, budget)
    best = current = assignment.save()
    left = best_left = exchange.moves_left
    history = [best.value] * _HISTORY
    turn = 0
    while going and best.value > EVEN:
        exchange.kick(int(rng.choice(_KICKS)))
        going = descend(exchange, budget)
        value = assignment.value()
        if value < best.value:
            best, best_left = assignment.save(), exchange.moves_left
        if value <= current.value or value <= history[turn % _HISTORY]:
            current, left = assignment.save(), exchange.moves_left
        else:
            exchange.restore(current, left)
        history[turn % _HISTORY] = current.value
        turn += 1
    exchange.restore(best, best_left)


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
        moved = _make(assignment, pods, change, change / np.maximum(away, 1))
        budget.spend(change.size, assignment.value())
        if moved is None:
            if cells >= units.size * len(assignment.load):
                break
            cells *= _WIDER
            continue
        cells = _CELLS
        pod, node, home = moved
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
    open_nodes = units.sites[units.site[pods]]
    for kind in range(assignment.free.shape[1]):
        requests = units.request[pods, kind][:, None]
        open_nodes = open_nodes & ((requests <= assignment.free[:, kind]) | (requests == 0))
    return np.asarray(open_nodes)


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
