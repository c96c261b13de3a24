"""The node choice of the embedded scheduler: kube-scheduler's own scores, or the dominant-residual criterion.

Both use the product's scoring code, so the results hold for the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Floats, Ints
from ballast.scoring.balanced import Balanced, balance
from ballast.scoring.fleet import Fleet, NodeLoads
from ballast.scoring.least_allocated import LeastAllocated
from ballast.scoring.profiles import Arrivals
from ballast.scoring.requests_strategy import Weights
from ballast.scoring.residual import NOWHERE, Criterion, Residuals, fits
from ballast_lab.experiments.worlds import RESOURCES, SHARES, LoadWorld

RENEWAL = 100
"""Arrivals after which the profiles are learned again, as in the extender; sooner at the start."""


class PlacementRule(Protocol):
    """Chooses nodes and tracks their free room.

    `pod` is the number of the arrival, `kind` the row of its request in the world, `row` the row of a node.
    """

    def choose(self, pod: int, kind: int) -> int | None:
        """The row of the best node, None if the pod fits on none."""

    def place(self, kind: int, row: int) -> None:
        """Takes the room of a pod from a node."""

    def release(self, kind: int, row: int) -> None:
        """Returns the room of a pod to a node."""


@dataclass(frozen=True)
class Stock:
    """kube-scheduler's default profile: LeastAllocated and BalancedAllocation, ties broken at random.

    `scored` are the resources in their configuration; all others only have to fit. `ties` is the seed of the random
    order, which does not depend on earlier pods. `until_1_35` uses BalancedAllocation as it was up to v1.35.
    """

    scored: tuple[str, ...] = RESOURCES[:2]
    ties: int = 0
    until_1_35: bool = False

    def start(self, world: LoadWorld, pods: int) -> PlacementRule:
        """The rule on the empty nodes of a world, for this number of arrivals."""
        return _StockRule(self, world, pods)


@dataclass(frozen=True)
class Residual:
    """The dominant-residual criterion with g(x) = √x (`root`) or x; ties are broken by the order of the nodes.

    Profiles are weighted by their true shares, or `learned` from the arrivals as in the extender.
    """

    lambda_: float = 0.1
    c: float = 2.0
    root: bool = True
    learned: bool = False

    def start(self, world: LoadWorld, pods: int) -> PlacementRule:
        """The rule on the empty nodes of a world."""
        return _ResidualRule(self, world)


Choice = Stock | Residual


class _StockRule:
    def __init__(self, spec: Stock, world: LoadWorld, pods: int) -> None:
        weights: Weights = dict.fromkeys(spec.scored, 1)
        self._least, self._balanced = LeastAllocated(weights), Balanced(weights)
        self._spec = spec
        self._requests: Floats = world.requests.astype(float)
        self._free: Floats = world.nodes.astype(float)
        self._shapes = world.shapes()
        self._pods = [Pod("", "", shape=shape) for shape in self._shapes]
        self._fleet = _fleet(world)
        self._ties = np.random.default_rng([spec.ties, len(world.nodes)]).random((pods, len(world.nodes)))

    def choose(self, pod: int, kind: int) -> int | None:
        feasible = fits(self._free, self._requests[kind])
        if not feasible.any():
            return None
        scores = self._least.score(self._fleet, self._pods[kind]).scores + self._balance(kind)
        return int(np.argmax(np.where(feasible, scores + self._ties[pod], -1.0)))

    def _balance(self, kind: int) -> Ints:
        if not self._spec.until_1_35:
            return self._balanced.score(self._fleet, self._pods[kind]).scores
        allocatable = [self._fleet.allocatable(name) for name in self._spec.scored]
        columns = [RESOURCES.index(name) for name in self._spec.scored]
        free = (self._free - self._requests[kind]).astype(np.int64)
        return balance([(each - free[:, k], each) for each, k in zip(allocatable, columns, strict=True)], len(free))

    def place(self, kind: int, row: int) -> None:
        self._free[row] -= self._requests[kind]
        self._fleet.placed.add(row, self._shapes[kind])

    def release(self, kind: int, row: int) -> None:
        self._free[row] += self._requests[kind]
        self._fleet.placed.remove(row, self._shapes[kind])


class _ResidualRule:
    def __init__(self, spec: Residual, world: LoadWorld) -> None:
        self._spec = spec
        self._requests: Floats = world.requests.astype(float)
        self._units = [dict(zip(RESOURCES, each, strict=True)) for each in world.requests.tolist()]
        self._nodes: Floats = world.nodes.astype(float)
        self._free: Floats = self._nodes.copy()
        self._arrivals = Arrivals()
        self._renew_at = 1
        self._residuals = self._criterion(self._requests, SHARES)

    def choose(self, pod: int, kind: int) -> int | None:
        if self._spec.learned:
            self._learn(kind)
        losses = self._residuals.steps(self._requests[kind])
        row = int(losses.argmin())
        return None if losses[row] == NOWHERE else row

    def place(self, kind: int, row: int) -> None:
        self._free[row] -= self._requests[kind]
        self._residuals.place(row, self._requests[kind])

    def release(self, kind: int, row: int) -> None:
        self._free[row] += self._requests[kind]
        self._residuals.release(row, self._requests[kind])

    def _learn(self, kind: int) -> None:
        """Learns the profiles again whenever the arrivals have doubled, later after every RENEWAL arrivals."""
        self._arrivals.learn(self._units[kind])
        count = self._arrivals.count
        if count >= self._renew_at:
            self._renew_at = count + min(count, RENEWAL)
            profiles = self._arrivals.profiles()
            requests = [[each.requests.get(name, 0) for name in RESOURCES] for each in profiles]
            self._residuals = self._criterion(np.array(requests, float), np.array([each.weight for each in profiles]))

    def _criterion(self, profiles: Floats, weights: Floats) -> Residuals:
        criterion = Criterion(profiles, weights / weights.sum(), self._spec.lambda_, self._spec.c, self._spec.root)
        return Residuals(criterion, self._nodes, self._free)


def _fleet(world: LoadWorld) -> Fleet:
    count = len(world.nodes)
    unknown = NodeLoads(np.zeros(count), np.zeros(count), np.zeros(count, bool))
    return Fleet(
        nodes=world.fleet(),
        pods=(),
        time=0.0,
        window_end=0.0,
        cpu=unknown,
        memory=unknown,
        packing_cpu=unknown,
        power_cpu=unknown,
        cpu_base=world.nodes[:, 0],
    )
