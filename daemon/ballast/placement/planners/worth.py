"""When a move pays: its gain exceeds zero by its own uncertainty, and its price."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Floats, Ints

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
