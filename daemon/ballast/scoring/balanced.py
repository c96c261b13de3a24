"""balanced: prefers nodes whose resources a pod brings into the same proportion.

Equals kube-scheduler's NodeResourcesBalancedAllocation (kubernetes v1.36
pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go): with d the standard deviation of the requested
shares and s = 100(1 - d) without its fraction, the score is 50 + (50 + s with the pod - s without it)/2. Load plays no
part, so no node is unknown. A pod that requests nothing changes no balance, which is 75 on every node; the scheduler
leaves the plugin out for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.scoring.demand import NOTHING, demand
from ballast.scoring.fleet import Fleet
from ballast.scoring.requests_strategy import RequestsStrategy, allocations, only_weights
from ballast.scoring.scores import Scores

NAME = "balanced"
NO_CHANGE = 75


@dataclass(frozen=True)
class Balanced(RequestsStrategy):
    """`weights` names the resources; every weight is 1."""

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """See the module; 75 everywhere for a pod that requests nothing."""
        requests = (demand(pod.shape) if pod else NOTHING).reserved
        shares = list(allocations(fleet, self.weights, requests, defaults=False))
        nodes = len(fleet.nodes)
        key = (NAME, *(share.name for share in shares))
        before = fleet.placed.once(key, lambda: balance([(share.before, share.allocatable) for share in shares], nodes))
        after = balance([(share.after, share.allocatable) for share in shares], nodes)
        scores = 50 + (50 + after - before) // 2
        if not any(requests.get(name) for name in self.weights):
            scores = np.full(nodes, NO_CHANGE)
        exact = scores.astype(float)
        return Scores(
            exact=exact,
            raw=exact,
            unknown=np.zeros(nodes, bool),
            terms={"before": before.astype(float), "after": after.astype(float)},
        )


def balance(resources: Sequence[tuple[Ints, Ints]], nodes: int) -> Ints:
    """[node]: 100 where the shares (requested, allocatable) of all resources are equal, less where they deviate.

    The order of operations is upstream's, so that the cut of the fraction meets the same numbers.
    """
    exists = [allocatable > 0 for _, allocatable in resources]
    if len(resources) == 2 and all(has.all() for has in exists):
        first, second = (np.minimum(requested / allocatable, 1.0) for requested, allocatable in resources)
        return _points(np.abs((first - second) / 2))
    shares = [
        np.where(has, np.minimum(requested / np.where(has, allocatable, 1), 1.0), 0.0)
        for has, (requested, allocatable) in zip(exists, resources, strict=True)
    ]
    count = sum(exists, np.zeros(nodes, np.int64))
    mean = sum(shares, np.zeros(nodes)) / np.maximum(count, 1)
    squares = sum(
        (np.where(has, (share - mean) * (share - mean), 0.0) for has, share in zip(exists, shares, strict=True)),
        np.zeros(nodes),
    )
    deviation = np.where(count > 1, np.sqrt(squares / np.maximum(count, 1)), 0.0)
    if (count == 2).any():
        first, second = _pair(shares, exists)
        deviation = np.where(count == 2, np.abs((first - second) / 2), deviation)
    return _points(deviation)


def _points(deviation: Floats) -> Ints:
    return np.asarray(((1 - deviation) * 100).astype(np.int64))


def _pair(shares: Sequence[Floats], exists: Sequence[Bools]) -> tuple[Floats, Floats]:
    """[node]: the first and the last share of a resource that the node has."""
    first, last = np.zeros_like(shares[0]), np.zeros_like(shares[0])
    for has, share in zip(exists, shares, strict=True):
        last = np.where(has, share, last)
    for has, share in zip(reversed(exists), reversed(shares), strict=True):
        first = np.where(has, share, first)
    return first, last


def parse(given: Mapping[str, object]) -> Balanced:
    """The strategy with its keys. Raises UsageError."""
    return Balanced(only_weights(NAME, given, only_one=True))
