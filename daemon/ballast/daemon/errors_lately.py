"""How often the API server failed lately."""

from __future__ import annotations

from collections import deque

from ballast.clock import Clock
from ballast.metrics import Metrics

OVER = 300.0
UNSENT = ("refused", "dry-run", "dropped")


class ErrorsLately:
    """From what is counted anyhow: a request that was not answered, or by 5xx, failed.

    Evictions do not count: budgets refuse them by 429 and by 500.
    """

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock
        self._seen: deque[tuple[float, float, float]] = deque()

    def share(self) -> float:
        """Of the requests since the call OVER seconds ago; 0 without any."""
        now = self._clock.monotonic()
        requests, failed = self._counted()
        while len(self._seen) > 1 and self._seen[1][0] <= now - OVER:
            self._seen.popleft()
        self._seen.append((now, requests, failed))
        _, before, failed_before = self._seen[0]
        return (failed - failed_before) / (requests - before) if requests > before else 0.0

    def _counted(self) -> tuple[float, float]:
        requests = failed = 0.0
        for counter in (self._metrics.reads, self._metrics.writes):
            for sample in next(iter(counter.collect())).samples:
                result = sample.labels.get("result", "")
                if not sample.name.endswith("_total") or result in UNSENT or sample.labels.get("kind") == "eviction":
                    continue
                requests += sample.value
                failed += sample.value * (result in ("unreachable", "failed") or result.startswith("5"))
        return requests, failed
