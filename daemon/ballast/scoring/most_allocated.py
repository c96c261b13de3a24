"""most-allocated: packs, preferring nodes with the largest share of their resources requested.

Equals kube-scheduler's NodeResourcesFit with the strategy MostAllocated (kubernetes v1.36
pkg/scheduler/framework/plugins/noderesources/most_allocated.go), integer divisions included. Load plays no part, so no
node is unknown; one without any of the resources scores 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Ints
from ballast.scoring.fleet import Fleet
from ballast.scoring.requests_strategy import RequestsStrategy, fit_scores, only_weights
from ballast.scoring.scores import Scores

NAME = "most-allocated"


@dataclass(frozen=True)
class MostAllocated(RequestsStrategy):
    """`weights` are those of the resources."""

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The weighted mean of `used` over the resources."""
        return fit_scores(fleet, pod, self.weights, used)


def used(requested: Ints, allocatable: Ints) -> Ints:
    """Percent that is requested, 100 where more is requested than there is."""
    return np.asarray(np.minimum(requested, allocatable) * 100 // allocatable)


def parse(given: Mapping[str, object]) -> MostAllocated:
    """The strategy with its keys. Raises UsageError."""
    return MostAllocated(only_weights(NAME, given))
