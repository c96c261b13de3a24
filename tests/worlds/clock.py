"""Stand-ins shared by the tests."""

import threading


class FakeClock:
    """A clock that moves only when told to, or when something waits on it."""

    speed = 1.0

    def __init__(self, wall: float = 1_700_000_000.0) -> None:
        self._wall = wall
        self._monotonic = 1_000.0

    def wall(self) -> float:
        return self._wall

    def monotonic(self) -> float:
        return self._monotonic

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        if not event.is_set() and timeout is not None:
            self.advance(timeout)
        return event.is_set()

    def advance(self, seconds: float) -> None:
        self._wall += seconds
        self._monotonic += seconds

    def step_wall(self, seconds: float) -> None:
        """A clock step: the wall jumps, the monotonic clock does not."""
        self._wall += seconds
