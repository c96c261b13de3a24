"""What a solver answers, and how long it may search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.problem import Problem

ROUNDING = 1e-9
"""Relative differences of values that mean nothing."""


@dataclass(frozen=True)
class Objective:
    """`sigma` [resource] is the population deviation over nodes of use / capacity times the node's factor.

    It is NaN where no node's capacity is known. `sigma_of_mean` is the deviation of the weighted mean over resources;
    `value` is the sum of w_k Var_k.
    """

    sigma: Floats
    sigma_of_mean: float
    value: float


def loads(problem: Problem, on: Ints) -> Floats:
    """[node, resource]: use / capacity times the node's factor, NaN where the capacity is unknown."""
    used = problem.base.copy()
    for column in range(len(problem.resources)):
        used[:, column] += np.bincount(on, weights=problem.use[:, column], minlength=len(problem.nodes))
    with np.errstate(divide="ignore", invalid="ignore"):
        load: Floats = used / problem.capacity * problem.factor
    return np.where(known(problem), load, np.nan)


def known(problem: Problem) -> Bools:
    """[node, resource]: whether the load of a node can be expressed."""
    return np.asarray(np.isfinite(problem.capacity) & (problem.capacity > 0) & np.isfinite(problem.base))


def counting(problem: Problem) -> Floats:
    """[resource]: the weights of resources that some node has; they sum to 1, or are all 0."""
    weights = np.where(known(problem).any(axis=0), problem.weights, 0.0)
    return np.asarray(weights / (weights.sum() or 1.0))


def objective(problem: Problem, on: Ints) -> Objective:
    """Of a placement of every pod: `on` [pod] is a row of nodes."""
    load, there = loads(problem, on), known(problem)
    weight = counting(problem)
    count = there.sum(axis=0)
    filled = np.where(there, load, 0.0)
    mean = filled.sum(axis=0) / np.maximum(count, 1)
    apart = np.where(there, load - mean, 0.0)
    variance = np.square(apart).sum(axis=0) / np.maximum(count, 1)
    shares = np.where(there, weight, 0.0)
    whole = shares.sum(axis=1)
    some = whole > 0
    means = (filled * shares).sum(axis=1)[some] / whole[some]
    return Objective(
        sigma=np.where(count > 0, np.sqrt(variance), np.nan),
        sigma_of_mean=float(means.std()) if len(means) else 0.0,
        value=float((weight * variance).sum()),
    )


Progress = Callable[[int, float], None]
"""Called with the evaluations so far and the best value."""


@dataclass(eq=False)
class TimeBudget:
    """How long to search: evaluations (candidate placements or changes of one), and seconds by `clock`.

    The clock is read between evaluations; without one only evaluations count.
    """

    evaluations: int | None = None
    seconds: float | None = None
    clock: Callable[[], float] | None = None
    progress: Progress | None = None
    spent: int = 0
    over: bool = False
    """Whether what is left is too little for another step."""
    _until: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.seconds and self.clock is None:
            raise ValueError("seconds need a clock")
        if self.seconds is not None and self.clock is not None:
            self._until = self.clock() + self.seconds

    @property
    def once(self) -> bool:
        """Whether one constructive pass is all."""
        return (not self.seconds and self.evaluations is None) or self.seconds == 0 or self.evaluations == 0

    def left(self) -> int:
        """Evaluations that may still be spent; 0 when the time is over."""
        if self.over or (self._until is not None and self.clock is not None and self.clock() >= self._until):
            return 0
        return 2**62 if self.evaluations is None else max(0, self.evaluations - self.spent)

    @property
    def timed_out(self) -> bool:
        """Whether the seconds are over."""
        return self._until is not None and self.clock is not None and self.clock() >= self._until

    def remaining(self) -> float:
        """Seconds that are left; without a clock, for ever."""
        return float("inf") if self._until is None or self.clock is None else max(0.0, self._until - self.clock())

    def share(self, part: float) -> TimeBudget:
        """A budget that ends after this part of what is left; what it spends has to be added by `spend`."""
        left = None if self.evaluations is None else int(part * max(0, self.evaluations - self.spent))
        inner = TimeBudget(left, None, self.clock, None)
        if self._until is not None and self.clock is not None:
            now = self.clock()
            inner._until = now + part * max(0.0, self._until - now)
        return inner

    def spend(self, evaluations: int, value: float | None = None) -> None:
        """Counts evaluations and reports the progress."""
        self.spent += evaluations
        if self.progress is not None and value is not None:
            self.progress(self.spent, value)


@dataclass(frozen=True, eq=False)
class Solution:
    """A placement of every pod: `on` [pod] is a row of the problem's nodes.

    `before` is None if a pod came without a node. `violations` has one sentence for each hard rule that is broken; it
    is empty for every solver but the published one. `bound` is a proved lower bound of the value, `generations` is
    None for solvers that have none. `timed_out` says that the time ended the search.
    """

    solver: str
    problem: Problem
    on: Ints
    objective: Objective
    before: Objective | None
    violations: tuple[str, ...] = ()
    evaluations: int = 0
    generations: int | None = None
    bound: float | None = None
    timed_out: bool = False

    @property
    def placement(self) -> Mapping[str, str]:
        """The node of each pod, by names in sorted order."""
        return {pod: self.problem.nodes[row] for pod, row in zip(self.problem.pods, self.on.tolist(), strict=True)}

    @property
    def gap(self) -> float | None:
        """(value - bound) / value, 0 where only rounding is between them; None without a bound."""
        if self.bound is None:
            return None
        value = self.objective.value
        return (value - self.bound) / value if value - self.bound > ROUNDING * value else 0.0

    def devices(self) -> Mapping[str, tuple[int, ...]]:
        """By pod that needs devices: the positions of those that it gets among the devices of its node."""
        devices, places = self.problem.devices, {}
        if devices is not None:
            for node in range(len(self.problem.nodes)):
                places.update(devices.places(node, np.flatnonzero(self.on == node).tolist()))
        return {self.problem.pods[pod]: places[pod] for pod in sorted(places)}

    @property
    def moves(self) -> int:
        """Pods that leave the node they came with."""
        return int(np.count_nonzero((self.problem.home >= 0) & (self.problem.home != self.on)))


def before(problem: Problem) -> Objective | None:
    """The objective of the placement that pods came with, if each came with a node."""
    return objective(problem, problem.home) if (problem.home >= 0).all() and len(problem.pods) else None
