"""Status conditions: what is wrong or special now, for users and alerts."""

import math
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import msgspec

from ballast.answers.api import StatusCondition
from ballast.base.clock import Clock
from ballast.base.condition_types import CONDITION_TYPES, GOOD
from ballast.base.metrics import Metrics
from ballast.base.text import printable
from ballast.cluster.state import StateStore
from ballast.cluster.write import WriteOutcome

LONGEST = 1000
"""Characters of a message."""

REWORDED = 60.0


class Conditions:
    """Thread-safe. A type that was never set is not listed; its metric says that nothing is wrong."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._lock = threading.Lock()
        self._by_type: dict[str, StatusCondition] = {}
        self._held: dict[str, dict[str, tuple[str, str]]] = {}
        for condition in CONDITION_TYPES:
            metrics.condition.labels(condition).set(condition in GOOD)

    def set(self, condition: str, reason: str, message: str | Sequence[str], *, source: str = "") -> None:
        """Sets the condition True; `reason` is CamelCase, `message` a sentence, or lines.

        It holds while any `source` holds it.
        """
        self._put(condition, "True", reason, message, source)

    def clear(self, condition: str, reason: str = "Resolved", message: str = "", *, source: str = "") -> None:
        """Sets the condition False, if it was ever set."""
        if condition in self._by_type:
            self._put(condition, "False", reason, message, source)

    def set_status(self, condition: str, holds: bool, reason: str, message: str) -> None:
        """Sets the condition True or False, creating it if needed."""
        self._put(condition, "True" if holds else "False", reason, message, "")

    def report(self, condition: str, reason: str, message: str | Sequence[str] | None, *, source: str = "") -> None:
        """Holds while `message` is not empty, and is cleared otherwise. Several are lines: settings to be copied."""
        if message:
            self.set(condition, reason, message, source=source)
        else:
            self.clear(condition, source=source)

    def forget(self, conditions: Iterable[str]) -> None:
        """As if these had never been set."""
        with self._lock:
            for condition in conditions:
                self._by_type.pop(condition, None)
                self._held.pop(condition, None)
                self._metrics.condition.labels(condition).set(condition in GOOD)

    def list(self) -> tuple[StatusCondition, ...]:
        """All of them by type."""
        with self._lock:
            return tuple(self._by_type[name] for name in sorted(self._by_type))

    def _put(self, condition: str, status: str, reason: str, message: str | Sequence[str], source: str) -> None:
        message = _text([message] if isinstance(message, str) else message)
        with self._lock:
            held = self._held.setdefault(condition, {})
            if status == "True":
                held[source] = (reason, message)
            else:
                held.pop(source, None)
            if held:
                status, reason = "True", next(iter(held.values()))[0]
                message = _shortened("; ".join(text for _, text in held.values()))
            old = self._by_type.get(condition)
            moved = datetime.fromtimestamp(self._clock.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            since = old.last_transition_time if old and old.status == status else moved
            self._by_type[condition] = StatusCondition(condition, status, reason, message, since)
            self._metrics.condition.labels(condition).set(status == "True")


class SavedConditions:
    """Keeps key `conditions` of `ballast-state` as the leader sees them.

    A change of type, status or reason is saved at once, other words at most every REWORDED seconds.
    """

    def __init__(self, conditions: Conditions, state: StateStore, clock: Clock) -> None:
        self._conditions = conditions
        self._state = state
        self._clock = clock
        self._saved: tuple[StatusCondition, ...] = ()
        self._saved_at = -math.inf

    def save(self) -> WriteOutcome | None:
        """Writes the conditions if that is due, else returns None. Raises ClusterError if the state is unreadable."""
        conditions = self._conditions.list()
        now = self._clock.monotonic()
        reworded = _essence(conditions) == _essence(self._saved)
        if conditions == self._saved or (reworded and now - self._saved_at < REWORDED):
            return None
        text = msgspec.json.encode(conditions).decode()
        outcome = self._state.update(lambda keys: {**keys, "conditions": text}, reason="conditions changed")
        if outcome.done:
            self._saved, self._saved_at = conditions, now
        return outcome

    def forget(self) -> None:
        """After a change of leader: what was saved may have been overwritten."""
        self._saved, self._saved_at = (), -math.inf


def _text(lines: Sequence[str]) -> str:
    """Each line is printable: what others said in it makes no line of its own."""
    return _shortened("\n".join(printable(line, LONGEST) for line in lines))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _essence(conditions: tuple[StatusCondition, ...]) -> list[tuple[str, str, str]]:
    return [(item.type, item.status, item.reason) for item in conditions]
