"""The published genetic algorithm: binary rows, roulette, one-point crossover, equations 7 to 12.

Source: Hu and Xue, Kubernetes resource scheduling based on a genetic algorithm, Computer Systems & Applications 30(9),
2021. Population, rates and Const_max are not published. `Quirks` has a switch for each place where the text errs or
leaves a choice; the defaults are the text where it can work.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from ballast.base.errors import PlacementError
from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.problem import Problem
from ballast.solving.relations import violations
from ballast.solving.solution import Solution, TimeBudget, before, known, objective
from ballast_lab.solvers.check_dictionary import check_dictionary

POPULATION = 20
CROSSOVER = 0.8
MUTATION = 0.02
_CELLS = 400_000_000
_HARSH = 10.0


class Broken(StrEnum):
    """What becomes of individuals that break the check dictionary."""

    REPAIR = "repair"
    """They are repaired, as published."""
    PENALTY = "penalty"
    """Their deviation is raised by the share of broken rows."""
    DEATH = "death"
    """Their fitness is 0."""


@dataclass(frozen=True)
class Quirks:
    """Switches of the published algorithm.

    per_pod: equation 7 as printed, divided by the number of pods on the node; the text before it divides by what the
    node has. count_weights: equation 9 divides by the number of weights that are not 0, not by their sum. mean_first:
    equations 8 to 11 take the deviation of the mean over resources; off, the root of the mean variance. whole_rows:
    crossover and mutation keep one bit in each row; off, they cut and flip bits anywhere. elite: the best individual
    survives, which the paper does not mention. flat: equation 12 with a fixed Const_max, the largest deviation of the
    first population, so that selection fades as deviations fall; off, that of the current population. both_bits: the
    misprinted repair. broken: what happens in place of the repair.
    """

    per_pod: bool = False
    count_weights: bool = True
    mean_first: bool = True
    whole_rows: bool = False
    elite: bool = False
    flat: bool = True
    both_bits: bool = False
    broken: Broken = Broken.REPAIR


class PaperPopulation:
    """`step` makes a generation; `sigma` and `on` are of the best individual so far that breaks no row."""

    def __init__(self, problem: Problem, rng: np.random.Generator, quirks: Quirks, size: int = POPULATION) -> None:
        m, n = len(problem.pods), len(problem.nodes)
        if size * m * n > _CELLS:
            raise PlacementError(
                f"genetic-paper keeps {size} matrices of {m} pods by {n} nodes, which is more than {_CELLS:,} bits. "
                "Choose late-acceptance or genetic."
            )
        self._problem, self._rng, self._quirks = problem, rng, quirks
        self.dictionary = check_dictionary(problem)
        self.bits: Bools = np.zeros((size, m, n), bool)
        choice = rng.integers(n, size=(size, m))
        self.bits[np.arange(size)[:, None], np.arange(m), choice] = True
        self._repair()
        self.sigmas = self._deviations()
        self._most = float(self.sigmas.max(initial=0.0))
        self.sigma, self.on = np.inf, np.zeros(m, np.int64)
        self._remember()

    def step(self) -> None:
        """Selection, crossover, mutation, each followed by the repair; then the new deviations."""
        elite = self.bits[int(self.sigmas.argmin())].copy()
        self.bits = self.bits[self._roulette()]
        self._repair()
        self._cross()
        self._repair()
        self._mutate()
        self._repair()
        if self._quirks.elite:
            self.bits[0] = elite
        self.sigmas = self._deviations()
        self._remember()

    def _remember(self) -> None:
        clean = ~self.dictionary.broken(self.bits).any(axis=1)
        order = np.where(clean, self.sigmas, np.inf)
        best = int(order.argmin())
        # Without any clean individual the answer is the best of the others, repaired.
        if order[best] < self.sigma:
            self.sigma, self.on = float(order[best]), self.bits[best].argmax(axis=1)
        elif not np.isfinite(self.sigma):
            repaired = self.bits[[int(self.sigmas.argmin())]].copy()
            self.dictionary.repair(repaired, np.random.default_rng(0))
            self.on = repaired[0].argmax(axis=1)

    def _repair(self) -> None:
        if self._quirks.broken is Broken.REPAIR:
            self.dictionary.repair(self.bits, self._rng, both_bits=self._quirks.both_bits)

    def _deviations(self) -> Floats:
        """[individual]: equations 7 to 11."""
        problem, quirks = self._problem, self._quirks
        load = self._used() + problem.base
        there = known(problem)
        if quirks.per_pod:
            load = load / np.maximum(self.bits.sum(axis=1), 1)[:, :, None]
        else:
            load = np.where(there, load, 0.0) / np.where(there, problem.capacity, 1.0)
        load = np.where(there, load * problem.factor, 0.0)
        weight = np.where(there, problem.weights, 0.0)
        if quirks.mean_first:
            whole = (weight > 0).sum(axis=1) if quirks.count_weights else weight.sum(axis=1)
            # The paper's weights are around 1, ours sum to 1.
            scale = np.count_nonzero(problem.weights) if quirks.count_weights else 1.0
            mean = (load * weight).sum(axis=2) * scale / np.maximum(whole, 1e-300)
            found = mean.std(axis=1)
        else:
            found = np.sqrt((load.var(axis=1) * problem.weights).sum(axis=1))
        if quirks.broken is Broken.PENALTY:
            found = found + _HARSH * self.dictionary.broken(self.bits).mean(axis=1) * max(float(found.max()), 1e-12)
        return np.asarray(found)

    def _used(self) -> Floats:
        """[individual, node, resource]: the use of the pods that have a bit there."""
        size, _, n = self.bits.shape
        one, pod, node = np.nonzero(self.bits)
        place = one * n + node
        columns = [
            np.bincount(place, weights=self._problem.use[pod, column], minlength=size * n)
            for column in range(self._problem.use.shape[1])
        ]
        return np.stack(columns, axis=1).reshape(size, n, len(columns)).astype(float)

    def _roulette(self) -> Ints:
        """[individual]: rows drawn by equation 12."""
        most = self._most if self._quirks.flat else float(self.sigmas.max(initial=0.0))
        fitness = np.maximum(most - self.sigmas, 0.0)
        if self._quirks.broken is Broken.DEATH:
            fitness = np.where(self.dictionary.broken(self.bits).any(axis=1), 0.0, fitness)
        total = float(fitness.sum())
        size = len(fitness)
        if not total > 0:
            return self._rng.integers(size, size=size)
        return self._rng.choice(size, size=size, p=fitness / total)

    def _cross(self) -> None:
        size, m, n = self.bits.shape
        length = m if self._quirks.whole_rows else m * n
        flat = self.bits.reshape(size, length, -1)
        for one in range(0, size - 1, 2):
            if self._rng.random() < CROSSOVER and length > 1:
                cut = int(self._rng.integers(1, length))
                flat[[one, one + 1], cut:] = flat[[one + 1, one], cut:]

    def _mutate(self) -> None:
        size, m, n = self.bits.shape
        if self._quirks.whole_rows:
            one, pod = np.nonzero(self._rng.random((size, m)) < MUTATION)
            self.bits[one, pod] = False
            self.bits[one, pod, self._rng.integers(n, size=len(one))] = True
        else:
            # As many rows are hit as above; a flipped bit beside the old one leaves the choice to the repair.
            count = int(self._rng.binomial(size * m, MUTATION))
            one, pod, node = (self._rng.integers(high, size=count) for high in (size, m, n))
            self.bits[one, pod, node] ^= True


def evolve(problem: Problem, budget: TimeBudget, rng: np.random.Generator, quirks: Quirks) -> Solution:
    """Generations until the budget ends; the first population alone where one pass is all.

    Raises Infeasible for a pod without a node, PlacementError for a problem that is too large.
    """
    found = PaperPopulation(problem, rng, quirks, POPULATION if budget.once else max(1, min(POPULATION, budget.left())))
    size = len(found.bits)
    budget.spend(size, found.sigma**2)
    generations = 0
    while not budget.once and budget.left() >= size and len(problem.pods) and len(problem.nodes) > 1:
        found.step()
        generations += 1
        budget.spend(size, found.sigma**2)
    return Solution(
        "genetic-paper",
        problem,
        found.on,
        objective(problem, found.on),
        before(problem),
        violations(problem, found.on),
        budget.spent,
        generations,
        timed_out=budget.timed_out,
    )
