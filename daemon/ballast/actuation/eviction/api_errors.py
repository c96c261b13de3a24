"""How often the Kubernetes API fails."""

from __future__ import annotations

from collections import deque

from ballast.base.clock import Clock
from ballast.base.metrics import Metrics

OVER = 300.0
ENOUGH = 20
"""Requests from which on a share means something."""

_NO_REQUEST = frozenset({"refused", "dry-run", "dropped"})
_ANSWERS = frozenset({"ok", "done", "conflict", "gone", "403", "404", "409", "410", "429"})


class ApiErrors:
    """Counted from what reads and writes have counted. Refusals are answers; evictions answer for themselves."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._seen: deque[tuple[float, float, float]] = deque()

    def share(self) -> float:
        """Of the requests since 5 minutes ago or the oldest look at them; 0 while they are few."""
        now, (requests, errors) = self._clock.monotonic(), self._totals()
        self._seen.append((now, requests, errors))
        while len(self._seen) > 1 and self._seen[1][0] <= now - OVER:
            self._seen.popleft()
        _, before, failed = self._seen[0]
        return (errors - failed) / (requests - before) if requests - before >= ENOUGH else 0.0

    def _totals(self) -> tuple[float, float]:
        requests = errors = 0.0
        for family in (*self._metrics.reads.collect(), *self._metrics.writes.collect()):
            for sample in family.samples:
                result = sample.labels.get("result", "")
                own = sample.labels.get("kind") == "eviction"
                if not sample.name.endswith("_total") or result in _NO_REQUEST or own:
                    continue
                requests += sample.value
                errors += sample.value if result not in _ANSWERS else 0.0
        return requests, errors
