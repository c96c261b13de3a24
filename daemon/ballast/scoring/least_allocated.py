"""least-allocated: prefers nodes with the largest share of their resources not requested.

Equals kube-scheduler's NodeResourcesFit with the strategy LeastAllocated (kubernetes v1.36
pkg/scheduler/framework/plugins/noderesources/least_allocated.go), integer divisions included. Load plays no part, so no
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

NAME = "least-allocated"


@dataclass(frozen=True)
class LeastAllocated(RequestsStrategy):
    """`weights` are those of the resources."""

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The weighted mean of `unused` over the resources."""
        return fit_scores(fleet, pod, self.weights, unused)


def unused(requested: Ints, allocatable: Ints) -> Ints:
    """Percent that is not requested; 0 where more is requested than there is."""
    return np.asarray(np.maximum(allocatable - requested, 0) * 100 // allocatable)


def parse(given: Mapping[str, object]) -> LeastAllocated:
    """The strategy with its keys. Raises UsageError."""
    return LeastAllocated(only_weights(NAME, given))
