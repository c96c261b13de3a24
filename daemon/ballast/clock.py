"""Time, passed in: nothing outside this file asks the operating system for it."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """`wall` stamps, `monotonic` measures durations and counts suspends, `wait` sleeps until an event or a timeout."""

    @property
    def speed(self) -> float:
        """Seconds of this clock in one second of the machine's."""

    def wall(self) -> float:
        """Unix time in seconds."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never goes back; goes on while the machine is suspended."""

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Waits until `event` is set or `timeout` seconds of this clock passed; returns whether it is set."""


class SystemClock:
    """The operating system's time."""

    speed = 1.0

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        return event.wait(timeout)


class ScaledClock:
    """Time that runs `speed` times faster than the machine's, from now on."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._wall = time.time()
        self._monotonic = time.clock_gettime(time.CLOCK_BOOTTIME)

    def wall(self) -> float:
        return self._wall + self._elapsed()

    def monotonic(self) -> float:
        return self._monotonic + self._elapsed()

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        return event.wait(None if timeout is None else timeout / self.speed)

    def _elapsed(self) -> float:
        return (time.clock_gettime(time.CLOCK_BOOTTIME) - self._monotonic) * self.speed
