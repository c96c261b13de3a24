"""How many bytes of telemetry answers are held at a time."""

from __future__ import annotations

import threading
from weakref import finalize

from ballast.base.errors import TelemetryError
from ballast.base.freed_memory import MIB, PAUSE, trim

IN_FLIGHT = 96 * MIB
"""Bytes of all answers that arrive, wait to be read or are decoded: one of the largest kind, and some beside it."""
WORTH = 4 * MIB
"""Bytes of one answer after which freed memory goes back to the kernel."""
WORTH_DECODED = 16 * MIB
"""As WORTH, for what was decoded: the next cycle of 15,000 nodes takes the same memory again."""


class AnswersInFlight(TelemetryError):
    """The answers that arrive or wait to be read leave no room for this one."""


class AnswerBudget:
    """Safe to use from several threads. Nobody waits for room: who holds it may be the one that would wait."""

    def __init__(self, limit: int = IN_FLIGHT) -> None:
        self.limit = limit
        self._held, self._trimming = 0, False
        self._lock = threading.Lock()

    @property
    def held(self) -> int:
        """Bytes held now."""
        return self._held

    def share(self) -> AnswerShare:
        """For one answer, before its first byte."""
        return AnswerShare(self)

    def take(self, size: int) -> bool:
        """Whether there is room for that many bytes more; they are held then."""
        with self._lock:
            if self._held + size > self.limit:
                return False
            self._held += size
            return True

    def give_back(self, size: int, worth: int = WORTH) -> None:
        """Releases bytes; `worth` and more go back to the kernel."""
        with self._lock:
            self._held -= size
            due = size >= worth and not self._trimming
            self._trimming |= due
        if due:
            timer = threading.Timer(PAUSE, self._trim)
            timer.daemon = True
            timer.start()

    def _trim(self) -> None:
        with self._lock:
            self._trimming = False
        trim()


class AnswerShare:
    """What one answer holds, until `release` or until `owner` is gone."""

    def __init__(self, budget: AnswerBudget) -> None:
        self._budget = budget
        self._size = 0

    def grow(self, size: int) -> None:
        """Raises AnswersInFlight."""
        if not self._budget.take(size):
            raise AnswersInFlight(
                f"telemetry answers in flight would hold more than {self._budget.limit / MIB:g} MiB in all; ask for "
                "less: aggregate by node in BALLAST_TELEMETRY__RESOURCES, or narrow BALLAST_PROMETHEUS__MATCHERS"
            )
        self._size += size

    def release(self) -> None:
        """Gives all back; once more does nothing."""
        size, self._size = self._size, 0
        self._budget.give_back(size)

    def until_gone(self, owner: object) -> None:
        """Gives all back when nothing refers to `owner` any more."""
        finalize(owner, self.release)


ANSWERS = AnswerBudget()
"""The budget of this process."""
