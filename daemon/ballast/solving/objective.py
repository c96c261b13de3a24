"""How even a placement is: the deviation of each resource, that of their mean, and the value that solvers lower."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.problem import Problem


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
        found: Floats = used / problem.capacity * problem.factor[:, None]
    return np.where(known(problem), found, np.nan)


def known(problem: Problem) -> Bools:
    """[node, resource]: whether the load of a node can be expressed."""
    return np.asarray(np.isfinite(problem.capacity) & (problem.capacity > 0) & np.isfinite(problem.base))


def counting(problem: Problem) -> Floats:
    """[resource]: the weights of resources that some node has; they sum to 1, or are all 0."""
    found = np.where(known(problem).any(axis=0), problem.weights, 0.0)
    return np.asarray(found / (found.sum() or 1.0))


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
