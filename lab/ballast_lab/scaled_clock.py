"""A clock that runs faster than the machine's."""

import threading

from ballast.base.clock import SystemClock


class ScaledClock:
    """Time that starts at the machine's and runs `speed` times as fast."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._machine = SystemClock()
        self._wall = self._machine.wall()
        self._monotonic = self._machine.monotonic()

    def wall(self) -> float:
        """Unix time in seconds, scaled since the clock was made."""
        return self._wall + self._elapsed()

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment, scaled since the clock was made."""
        return self._monotonic + self._elapsed()

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Waits until `event` is set, at most `timeout` seconds of this clock; returns whether it is set."""
        return event.wait(None if timeout is None else timeout / self.speed)

    def _elapsed(self) -> float:
        return (self._machine.monotonic() - self._monotonic) * self.speed
