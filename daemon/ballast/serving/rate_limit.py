"""How often one caller may ask for what is expensive to compute."""

from __future__ import annotations

from collections import OrderedDict

from ballast.base.clock import Clock

RATE = 5.0
BURST = 20.0
"""Requests a second that a caller may go on with, and how many at once after a pause."""

MOST_CALLERS = 1000
"""Callers that are remembered; then the one that asked longest ago is forgotten."""


class RateLimit:
    """A token bucket for each address. For one event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._callers: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Seconds until this caller may ask; 0 if it may now, which is then counted."""
        now = self._clock.monotonic()
        left, then = self._callers.pop(caller, (BURST, now))
        left = min(BURST, left + RATE * (now - then))
        allowed = left >= 1.0
        self._callers[caller] = (left - 1.0 if allowed else left, now)
        if len(self._callers) > MOST_CALLERS:
            self._callers.popitem(last=False)
        return 0.0 if allowed else (1.0 - left) / RATE
