"""A memetic algorithm: every individual is a local optimum of exchanges; children inherit whole nodes.

A child keeps what one parent has on a random half of the nodes, and of the rest what the other parent has on the other
half; pods that neither gives a node are placed anew, the longest first. (Falkenauer, A hybrid grouping genetic
algorithm for bin packing, Journal of Heuristics 2, 1996; Moscato on memetic algorithms, 1989.)
"""

from __future__ import annotations

import numpy as np

from ballast.placement.solvers.construct import longest_first
from ballast.placement.solvers.exchange import Exchange
from ballast.placement.solvers.late_acceptance import EVEN, descend
from ballast.placement.solvers.solution import Budget
from ballast.placement.solvers.standing import Saved, Standing

_POPULATION = 12
# Units in the whole population: large problems get a smaller one.
_UNITS = 60_000
_NOISE = 0.3
_MUTATED = 0.3
_ANY = 2**62


def genetic(standing: Standing, budget: Budget, rng: np.random.Generator, moves_left: int) -> int:
    """Improves a standing until the budget ends, and returns the number of generations."""
    if moves_left < _ANY or len(standing.load) < 2 or not standing.units.size:
        _descend(standing, budget, rng, moves_left)
        return 0
    size = max(2, min(_POPULATION, _UNITS // standing.units.size))
    _descend(standing, budget.share(0.5), rng, _ANY, budget)
    population = [standing.save()]
    while len(population) < size and budget.left():
        population.append(_newcomer(standing, population[0], rng, budget))
    generations = 0
    while budget.left() and min(each.value for each in population) > EVEN:
        for _ in range(size):
            if not budget.left():
                break
            child = _child(standing, population, rng, budget)
            worst = max(range(size), key=lambda row: population[row].value)
            if child.value < population[worst].value and not any((child.on == each.on).all() for each in population):
                population[worst] = child
        generations += 1
    standing.restore(min(population, key=lambda each: each.value))
    return generations


def _descend(
    standing: Standing, budget: Budget, rng: np.random.Generator, moves_left: int, outer: Budget | None = None
) -> None:
    descend(Exchange(standing, rng, moves_left), budget)
    if outer is not None:
        outer.spend(budget.spent, standing.value())


def _newcomer(standing: Standing, fallback: Saved, rng: np.random.Generator, budget: Budget) -> Saved:
    noise = rng.lognormal(0.0, _NOISE, standing.units.size)
    made, left = longest_first(standing.units, noise=noise)
    return _grown(standing, fallback if left else made.save(), rng, budget, kicks=3 if left else 0)


def _child(standing: Standing, population: list[Saved], rng: np.random.Generator, budget: Budget) -> Saved:
    first, second = (_chosen(population, rng) for _ in range(2))
    mine = rng.random(len(standing.load)) < 0.5
    kept = np.where(mine[first.on], first.on, np.where(~mine[second.on], second.on, -1))
    made, left = longest_first(standing.units, kept)
    kicks = int(rng.integers(1, 4)) if left or rng.random() < _MUTATED else 0
    return _grown(standing, first if left else made.save(), rng, budget, kicks=kicks)


def _grown(standing: Standing, seed: Saved, rng: np.random.Generator, budget: Budget, *, kicks: int) -> Saved:
    standing.restore(seed)
    exchange = Exchange(standing, rng)
    exchange.kick(kicks)
    descend(exchange, budget)
    return standing.save()


def _chosen(population: list[Saved], rng: np.random.Generator) -> Saved:
    """Of two random ones the better."""
    one, other = (int(rng.integers(len(population))) for _ in range(2))
    return population[one] if population[one].value <= population[other].value else population[other]
