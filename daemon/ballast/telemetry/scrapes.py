"""How far apart the scrapes are: the median distance between successive newest raw times."""

import math
from collections import deque
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ballast.model.sample import Floats
from ballast.telemetry.queries import Query

LOOKED_AT = 200
"""So many series are enough for each freshness expression."""

_DISTANCES = 60
"""So many of a series are remembered."""
_FEWEST = 3


class ScrapeIntervals:
    """Per freshness expression the median of its series, so that no exporter decides for the others.

    Scrapes that are closer than the readings are seen as far apart as these.
    """

    def __init__(self) -> None:
        self._newest: dict[str, dict[str, float]] = {}
        self._distances: dict[str, dict[str, deque[float]]] = {}
        self._known: dict[str, float] = {}

    def add(self, freshness: str, labels: Sequence[str], times: Floats) -> None:
        """`times` are [series, evaluation time], ascending; `labels` tell the series from reading to reading."""
        newest = self._newest.setdefault(freshness, {})
        distances = self._distances.setdefault(freshness, {})
        for label, row in zip(labels, times.tolist(), strict=True):
            distinct = sorted({time for time in row if not math.isnan(time)})
            if not distinct:
                continue
            last = newest.get(label, -math.inf)
            newest[label] = max(distinct[-1], last)
            if distinct[-1] >= last > -math.inf:
                distinct = [last, *(time for time in distinct if time > last)]
            own = distances.setdefault(label, deque(maxlen=_DISTANCES))
            own.extend(later - earlier for earlier, later in pairwise(distinct))
        if len(newest) > 4 * LOOKED_AT:
            newest.clear()
            distances.clear()
        self._known.pop(freshness, None)

    def of(self, freshness: str) -> float | None:
        """Seconds; None before a few are known.

        Where readings are rarer than scrapes, the distances they see vary around their own: the mean is not exceeded.
        """
        if freshness not in self._known:
            distances = [own for own in self._distances.get(freshness, {}).values() if own]
            if sum(map(len, distances)) < _FEWEST:
                return None
            self._known[freshness] = float(np.median([min(np.median(own), np.mean(own)) for own in distances]))
        return self._known[freshness]

    def slowest(self) -> float:
        """Of all expressions, 0 before any is known."""
        return max((self.of(freshness) or 0.0 for freshness in self._distances), default=0.0)

    def by_resource(self, asked: Sequence[Query]) -> dict[str, float]:
        """Seconds by resource, as far as they are known: of the first of its questions that has any."""
        return {
            question.resource: seconds
            for question in reversed(asked)
            if (seconds := self.of(question.freshness)) is not None
        }
