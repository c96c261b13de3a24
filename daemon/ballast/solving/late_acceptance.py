"""Descents by exchanges, restarted by kicks that count if they are as good as the one some time before.

Source: Burke and Bykov, The late acceptance hill-climbing heuristic, European Journal of Operational Research 258
(2017), here over local optima in place of single moves.
"""

from __future__ import annotations

import numpy as np

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
        made = exchange.round(budget)
        if made is None:
            return False
        still = 0 if made else still + 1
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
        found = assignment.value()
        if found < best.value:
            best, best_left = assignment.save(), exchange.moves_left
        if found <= current.value or found <= history[turn % _HISTORY]:
            current, left = assignment.save(), exchange.moves_left
        else:
            exchange.restore(current, left)
        history[turn % _HISTORY] = current.value
        turn += 1
    exchange.restore(best, best_left)
