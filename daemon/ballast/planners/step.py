"""What planners hand back, and whom they ask before each step."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ballast.model.sample import Floats, Ints

Admit: TypeAlias = Callable[[int, int], Ints | None]
"""Asked for (pod, target) once a planner wants that move: None admits it, else these pods are out of the question."""


@dataclass(frozen=True)
class PlannedMove:
    """Pod and nodes by their rows in the layout; `starts` are waiting pods that can start on the nodes `starts_on`.

    `gain` is in the planner's own measure, `error` its standard error and `cost` the price of the eviction, both in the
    same measure; `numbers` are the figures behind it.
    """

    pod: int
    source: int
    target: int
    gain: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    starts: tuple[int, ...] = ()
    starts_on: tuple[int, ...] = ()
    error: float = 0.0
    cost: float = 0.0


EVEN = 1e-3
"""Price 1 of `rebalance`: a fall of sum_k w_k sum_i (x_i - mu)^2 over the nodes, or variance times nodes."""

LOAD = 1e-3
"""Price 1 of `relieve`: load of a node."""


def nobody(pods: Ints) -> None:
    """Takes no notice of the pods whose move does not pay."""


@dataclass(frozen=True)
class Worth:
    """`price` [pod] is 1 for an ordinary eviction, `error` [node, resource] the standard error of each load.

    A move is made only if gain - `confidence` * its error exceeds its price. `unpaid` is told of pods whose move does
    not pay.
    """

    price: Floats
    error: Floats
    confidence: float = 0.0
    unpaid: Callable[[Ints], None] = nobody

    @property
    def margin(self) -> Floats:
        """[node, resource]: by how much a load counts as nearer to the mean while moves are compared.

        Of two loads of equal error the difference shrinks by exactly `confidence` errors of it.
        """
        return self.error * (self.confidence / math.sqrt(2))


def free(pods: int, nodes: int, resources: int) -> Worth:
    """Every gain pays."""
    return Worth(np.zeros(pods), np.zeros((nodes, resources)))
