"""How far apart the scrapes are: the median distance between successive newest raw times."""

from __future__ import annotations

from collections import deque

import numpy as np

from ballast.model.sample import Floats

_SERIES = 200
"""So many are looked at for each freshness expression."""

_DISTANCES = 2_000
_FEWEST = 3


class ScrapeIntervals:
    """Per freshness expression. Scrapes that are closer than the readings are seen as far apart as these."""

    def __init__(self) -> None:
        self._newest: dict[str, dict[str, float]] = {}
        self._distances: dict[str, deque[float]] = {}
        self._known: dict[str, float] = {}

    def seen(self, freshness: str, labels: dict[str, int], times: Floats) -> None:
        """`times` are [row, evaluation time], ascending; `labels` give the row of each series."""
        newest = self._newest.setdefault(freshness, {})
        distances = self._distances.setdefault(freshness, deque(maxlen=_DISTANCES))
        before = len(distances)
        for label, row in list(labels.items())[:_SERIES]:
            found = np.unique(times[row][np.isfinite(times[row])])
            if not found.size:
                continue
            last = newest.get(label, -np.inf)
            newest[label] = max(float(found[-1]), last)
            if found[-1] > last > -np.inf:
                found = np.r_[last, found[found > last]]
            distances.extend(np.diff(found).tolist())
        if len(newest) > 4 * _SERIES:
            newest.clear()
        if len(distances) != before or len(distances) == _DISTANCES:
            self._known.pop(freshness, None)

    def of(self, freshness: str) -> float | None:
        """Seconds; None before a few are known.

        Where readings are rarer than scrapes, the distances they see vary around their own: the mean is not exceeded.
        """
        if freshness not in self._known:
            distances = self._distances.get(freshness, ())
            if len(distances) < _FEWEST:
                return None
            self._known[freshness] = float(min(np.median(distances), np.mean(distances)))
        return self._known[freshness]

    def slowest(self) -> float:
        """Of all expressions, 0 before any is known."""
        return max((self.of(freshness) or 0.0 for freshness in self._distances), default=0.0)
