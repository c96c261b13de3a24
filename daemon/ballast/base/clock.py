"""Time, passed in: nothing outside this file asks the operating system for it."""

import threading
import time
from typing import Protocol

AHEAD = 60.0
"""Seconds by which another machine's clock may be ahead of ours."""


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
        """Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since an arbitrary moment, suspends included."""
        return _monotonic()

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Waits until `event` is set, at most `timeout` seconds; returns whether it is set."""
        return event.wait(timeout)


def _monotonic() -> float:
    # Only Linux has CLOCK_BOOTTIME; on macOS CLOCK_MONOTONIC goes on during a suspend too.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
