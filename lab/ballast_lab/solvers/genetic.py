"""A memetic algorithm: every individual is a local optimum of exchanges; children inherit whole nodes.

A child keeps what one parent has on a random half of the nodes, and of the rest what the other parent has on the other
half; pods that neither gives a node are placed again, the longest first. (Falkenauer, A hybrid grouping genetic
algorithm for bin packing, Journal of Heuristics 2, 1996; Moscato on memetic algorithms, 1989.)
"""

from __future__ import annotations

import numpy as np

from ballast.solving.assignment import Assignment, Saved
from ballast.solving.construct import longest_first
from ballast.solving.exchange import Exchange
from ballast.solving.late_acceptance import EVEN, descend
from ballast.solving.solution import TimeBudget

_POPULATION = 12
# Units in the whole population: large problems get a smaller one.
_UNITS = 60_000
_NOISE = 0.3
_MUTATED = 0.3
_ANY = 2**62


def genetic(assignment: Assignment, budget: TimeBudget, rng: np.random.Generator, moves_left: int) -> tuple[int, None]:
    """A `Search`: improves an assignment until the budget ends, and returns the number of generations."""
    if moves_left < _ANY or len(assignment.load) < 2 or not assignment.units.size:
        _descend(assignment, budget, rng, moves_left)
        return 0, None
    size = max(2, min(_POPULATION, _UNITS // assignment.units.size))
    _descend(assignment, budget.share(0.5), rng, _ANY, budget)
    population = [assignment.save()]
    while len(population) < size and budget.left():
        population.append(_newcomer(assignment, population[0], rng, budget))
    generations = 0
    while budget.left() and min(each.value for each in population) > EVEN:
        for _ in range(size):
            if not budget.left():
                break
            child = _child(assignment, population, rng, budget)
            worst = max(range(size), key=lambda row: population[row].value)
            if child.value < population[worst].value and not any((child.on == each.on).all() for each in population):
                population[worst] = child
        generations += 1
    assignment.restore(min(population, key=lambda each: each.value))
    return generations, None


def _descend(
    assignment: Assignment,
    budget: TimeBudget,
    rng: np.random.Generator,
    moves_left: int,
    outer: TimeBudget | None = None,
) -> None:
    descend(Exchange(assignment, rng, moves_left), budget)
    if outer is not None:
        outer.spend(budget.spent, assignment.value())


def _newcomer(assignment: Assignment, fallback: Saved, rng: np.random.Generator, budget: TimeBudget) -> Saved:
    noise = rng.lognormal(0.0, _NOISE, assignment.units.size)
    made, left = longest_first(assignment.units, noise=noise)
    return _grown(assignment, fallback if left else made.save(), rng, budget, kicks=3 if left else 0)


def _child(assignment: Assignment, population: list[Saved], rng: np.random.Generator, budget: TimeBudget) -> Saved:
    first, second = (_chosen(population, rng) for _ in range(2))
    mine = rng.random(len(assignment.load)) < 0.5
    kept = np.where(mine[first.on], first.on, np.where(~mine[second.on], second.on, -1))
    made, left = longest_first(assignment.units, kept)
    kicks = int(rng.integers(1, 4)) if left or rng.random() < _MUTATED else 0
    return _grown(assignment, first if left else made.save(), rng, budget, kicks=kicks)


def _grown(assignment: Assignment, seed: Saved, rng: np.random.Generator, budget: TimeBudget, *, kicks: int) -> Saved:
    assignment.restore(seed)
    exchange = Exchange(assignment, rng)
    exchange.kick(kicks)
    descend(exchange, budget)
    return assignment.save()


def _chosen(population: list[Saved], rng: np.random.Generator) -> Saved:
    """Of two random ones the better."""
    one, other = (int(rng.integers(len(population))) for _ in range(2))
    return population[one] if population[one].value <= population[other].value else population[other]
