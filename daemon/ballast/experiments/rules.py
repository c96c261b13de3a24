"""How an embedded scheduler chooses a node: by kube-scheduler's own scores, or by the dominant-residual criterion.

Both use what the product itself scores with, so an experiment says something about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ballast.experiments.worlds import RESOURCES, SHARES, LoadWorld
from ballast.model.pod import Pod
from ballast.model.sample import Floats, Ints
from ballast.scoring.allocation import Weights
from ballast.scoring.balanced import Balanced, balance
from ballast.scoring.fleet import Fleet, Load
from ballast.scoring.least_allocated import LeastAllocated
from ballast.scoring.profiles import Arrivals
from ballast.scoring.residual import NOWHERE, Criterion, Residuals, fits

# As the extender has it.
OFTEN = 100


class Rule(Protocol):
    """Knows what is free. `pod` counts the arrivals, `kind` is the row of the pod's request in the world."""

    def choose(self, pod: int, kind: int) -> int | None:
        """The row of a node, None where the pod fits nowhere."""

    def place(self, kind: int, row: int) -> None: ...

    def release(self, kind: int, row: int) -> None: ...


@dataclass(frozen=True)
class Stock:
    """kube-scheduler's default profile: LeastAllocated and BalancedAllocation, ties at random.

    `scored` are the resources in their configuration; all others only have to fit. `ties` chooses the random order;
    which pods came before has no part in it. `until_1_35` takes BalancedAllocation as it was up to v1.35.
    """

    scored: tuple[str, ...] = RESOURCES[:2]
    ties: int = 0
    until_1_35: bool = False

    def start(self, world: LoadWorld, pods: int) -> Rule:
        return _StockRule(self, world, pods)


@dataclass(frozen=True)
class Residual:
    """The dominant-residual criterion, ties by the order of the nodes.

    Profiles are weighted by their true shares, or by what was `learned` from the arrivals as the extender does.
    """

    lambda_: float = 0.1
    c: float = 2.0
    root: bool = True
    learned: bool = False

    def start(self, world: LoadWorld, pods: int) -> Rule:
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
        room = fits(self._free, self._requests[kind])
        if not room.any():
            return None
        scores = self._least.score(self._fleet, self._pods[kind]).scores + self._balance(kind)
        return int(np.argmax(np.where(room, scores + self._ties[pod], -1.0)))

    def _balance(self, kind: int) -> Ints:
        if not self._spec.until_1_35:
            return self._balanced.score(self._fleet, self._pods[kind]).scores
        whole = [self._fleet.allocatable(name) for name in self._spec.scored]
        columns = [RESOURCES.index(name) for name in self._spec.scored]
        left = (self._free - self._requests[kind]).astype(np.int64)
        return balance([(each - left[:, k], each) for each, k in zip(whole, columns, strict=True)], len(left))

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
        self._residuals = self._with(self._requests, SHARES)

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
        """Renews the profiles whenever the arrivals have doubled, later after every OFTEN."""
        self._arrivals.learn(self._units[kind])
        count = self._arrivals.count
        if count >= self._renew_at:
            self._renew_at = count + min(count, OFTEN)
            profiles = self._arrivals.profiles()
            requests = [[each.requests.get(name, 0) for name in RESOURCES] for each in profiles]
            self._residuals = self._with(np.array(requests, float), np.array([each.weight for each in profiles]))

    def _with(self, profiles: Floats, weights: Floats) -> Residuals:
        criterion = Criterion(profiles, weights / weights.sum(), self._spec.lambda_, self._spec.c, self._spec.root)
        return Residuals(criterion, self._nodes, self._free)


def _fleet(world: LoadWorld) -> Fleet:
    count = len(world.nodes)
    nothing = Load(np.zeros(count), np.zeros(count), np.zeros(count, bool))
    return Fleet(
        nodes=world.fleet(),
        pods=(),
        time=0.0,
        window_end=0.0,
        cpu=nothing,
        memory=nothing,
        packing_cpu=nothing,
        power_cpu=nothing,
        cpu_base=world.nodes[:, 0],
    )
