"""How fast writes may go: our own rate, and what the API server asks for."""

from __future__ import annotations

import threading

from ballast.clock import Clock

LONGEST_HOLD = 300.0


class Pace:
    """A token bucket of `burst` writes refilled with `qps` a second, and a moment before which nobody writes at all."""

    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        self._clock = clock
        self._qps = qps
        self._burst = burst
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()
        self._not_before = self._filled_at

    def wait(self, stop: threading.Event) -> bool:
        """Waits for a token and for the end of a hold; False when `stop` was set meanwhile."""
        ready_at = self._reserve()
        while (delay := max(ready_at, self._not_before) - self._clock.monotonic()) > 0:
            if self._clock.wait(stop, delay):
                return False
        return not stop.is_set()

    def hold(self, seconds: float) -> None:
        """Nobody writes for so many seconds (at most 300), on the server's request."""
        with self._lock:
            until = self._clock.monotonic() + min(seconds, LONGEST_HOLD)
            self._not_before = max(self._not_before, until)

    def _reserve(self) -> float:
        with self._lock:
            now = self._clock.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps) - 1.0
            self._filled_at = now
            return now - min(self._tokens, 0.0) / self._qps
