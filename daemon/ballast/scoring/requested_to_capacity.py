"""requested-to-capacity: scores the share requested by a curve of the user's, by default to pack.

Equals kube-scheduler's NodeResourcesFit with the strategy RequestedToCapacityRatio (kubernetes v1.36
pkg/scheduler/framework/plugins/noderesources/requested_to_capacity_ratio.go and plugins/helper/shape_score.go). The
curve has utilisation 0..100 and scores 0..10; the scheduler multiplies the scores by 10 first. The worked example of
the Kubernetes documentation of bin packing does not (5 and 7, where the scheduler gives 60 and 69): that is `scale` 10,
and scores are then 0..10. Load plays no part, so no node is unknown; a node without any of the resources scores 0.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Ints
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import StrategyKeys, to_number
from ballast.scoring.requests_strategy import RequestsStrategy, fit_scores, parse_weights
from ballast.scoring.scores import Scores

NAME = "requested-to-capacity"
PACKING = ((0, 0), (100, 10))
SCALES = {"10": 1, "100": 10}


@dataclass(frozen=True)
class RequestedToCapacity(RequestsStrategy):
    """`table` has the score at every whole percent requested, 0..100."""

    table: tuple[int, ...]

    def score(self, fleet: Fleet, pod: Pod | None = None) -> Scores:
        """The weighted mean of the curve over the resources."""
        table = self._table

        def percent(requested: Ints, allocatable: Ints) -> Ints:
            return np.asarray(table.take(np.minimum(requested, allocatable) * 100 // allocatable))

        return fit_scores(fleet, pod, self.weights, percent, ratio=True)

    @cached_property
    def _table(self) -> Ints:
        return np.array(self.table, np.int64)


def curve(shape: Sequence[tuple[int, int]], factor: int) -> tuple[int, ...]:
    """The scores at 0..100 percent on straight lines between the points, in whole numbers cut as Go cuts them."""
    return tuple(_at(percent, shape, factor) for percent in range(101))


def _at(percent: int, shape: Sequence[tuple[int, int]], factor: int) -> int:
    for index, (utilisation, score) in enumerate(shape):
        if percent <= utilisation:
            if index == 0:
                return score * factor
            left, start = shape[index - 1]
            rise = (score - start) * factor * (percent - left)
            steps = abs(rise) // (utilisation - left)
            return start * factor + (steps if rise >= 0 else -steps)
    return shape[-1][1] * factor


def parse(given: Mapping[str, object]) -> RequestedToCapacity:
    """The strategy with its keys. Raises UsageError."""
    keys = StrategyKeys(NAME, given)
    weights = parse_weights(keys)
    shape = parse_shape(keys)
    scale = keys.take("scale")
    if scale is not None and str(scale) not in SCALES:
        raise keys.error("scale", scale, "choose 100, as kube-scheduler scores, or 10, as its documentation calculates")
    keys.finish()
    return RequestedToCapacity(weights, curve(shape, SCALES[str(scale or 100)]))


def parse_shape(keys: StrategyKeys) -> Sequence[tuple[int, int]]:
    """`shape`: points of utilization and score, PACKING without any. Raises UsageError."""
    value = keys.take("shape")
    if value is None:
        return PACKING
    allowed = "give points [[utilization, score], …] with whole utilization 0..100, increasing, and whole score 0..10"
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise keys.error("shape", value, allowed)
    points: list[tuple[int, int]] = []
    for point in value:
        pair = [point.get("utilization"), point.get("score")] if isinstance(point, Mapping) else point
        if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
            raise keys.error("shape", value, allowed)
        utilisation, score = map(to_number, pair)
        if utilisation is None or score is None or utilisation != int(utilisation) or score != int(score):
            raise keys.error("shape", value, allowed)
        if not (0 <= utilisation <= 100 and 0 <= score <= 10) or (points and utilisation <= points[-1][0]):
            raise keys.error("shape", value, allowed)
        points.append((int(utilisation), int(score)))
    return points
