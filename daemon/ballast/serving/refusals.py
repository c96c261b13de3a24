"""Counts what a port refuses, and says so in one line a minute: strangers cannot fill the log."""

from collections import Counter

import structlog

from ballast.base.clock import Clock
from ballast.base.metrics import Metrics

QUIET = 60.0
"""Seconds between two lines of one port."""

_log = structlog.get_logger("ballast")


class Refusals:
    """Of one port, in its event loop; `port` is what the metric calls it: page, health or extender."""

    def __init__(self, metrics: Metrics, clock: Clock, port: str) -> None:
        self._metric = metrics.http_refused
        self._clock = clock
        self._port = port
        self._since = Counter[int]()
        self._logged_at: float | None = None

    def count(self, code: int) -> None:
        """A request was refused with this status."""
        self._metric.labels(str(code), self._port).inc()
        self._since[code] += 1
        now = self._clock.monotonic()
        if self._logged_at is None or now - self._logged_at >= QUIET:
            self._logged_at = now
            counts = ", ".join(f"{code} ({times:,})" for code, times in sorted(self._since.items()))
            _log.warning(f"requests were refused on the port {self._port}: {counts}", port=self._port)
            self._since.clear()
