"""How fast writes may go: our own rate, and what the API server asks for."""

from __future__ import annotations

import math
import threading

from ballast.base.clock import Clock

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

    @property
    def held_until(self) -> float:
        """The monotonic time before which the server wants no writes."""
        return self._not_before

    def wait(self, stop: threading.Event, deadline: float = math.inf) -> bool:
        """Waits for a token and for the end of a hold; False when `stop` was set meanwhile, or at once when the wait
        would pass `deadline` (monotonic seconds)."""
        ready_at = self._reserve()
        while (ready_at := max(ready_at, self._not_before)) > (now := self._clock.monotonic()):
            if ready_at > deadline or self._clock.wait(stop, ready_at - now):
                self._give_back()
                return False
        return not stop.is_set() and now <= deadline

    def hold(self, seconds: float) -> None:
        """Nobody writes for so many seconds (at most 300), on the server's request."""
        with self._lock:
            until = self._clock.monotonic() + min(seconds, LONGEST_HOLD)
            self._not_before = max(self._not_before, until)

    def _give_back(self) -> None:
        with self._lock:
            self._tokens += 1.0

    def _reserve(self) -> float:
        with self._lock:
            now = self._clock.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps) - 1.0
            self._filled_at = now
            return now - min(self._tokens, 0.0) / self._qps
