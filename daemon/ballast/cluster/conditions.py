"""What is wrong or special right now, for people and alerts."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import msgspec

from ballast.clock import Clock
from ballast.cluster.state import State
from ballast.cluster.write import Outcome
from ballast.metrics import Metrics


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """`status` is "True" or "False"; `last_transition_time` (RFC 3339) is when that last changed."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: str


class Conditions:
    """Thread-safe. A type that was never set is not listed."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._lock = threading.Lock()
        self._by_type: dict[str, Condition] = {}

    def set(self, condition: str, reason: str, message: str) -> None:
        """It holds now; `reason` is CamelCase, `message` a sentence."""
        self._put(condition, "True", reason, message)

    def clear(self, condition: str, reason: str = "Resolved", message: str = "") -> None:
        """It no longer holds. Nothing happens where it never did."""
        if condition in self._by_type:
            self._put(condition, "False", reason, message)

    def list(self) -> tuple[Condition, ...]:
        """All of them by type."""
        with self._lock:
            return tuple(self._by_type[name] for name in sorted(self._by_type))

    def _put(self, condition: str, status: str, reason: str, message: str) -> None:
        with self._lock:
            old = self._by_type.get(condition)
            moved = datetime.fromtimestamp(self._clock.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            since = old.last_transition_time if old and old.status == status else moved
            self._by_type[condition] = Condition(condition, status, reason, message, since)
            self._metrics.condition.labels(condition).set(status == "True")


class SavedConditions:
    """Keeps key `conditions` of `ballast-state` as the leader sees them."""

    def __init__(self, conditions: Conditions, state: State) -> None:
        self._conditions = conditions
        self._state = state
        self._saved = ""

    def save(self) -> Outcome | None:
        """Writes them if they changed since the last save; None if not. Raises ClusterError when it cannot be read."""
        text = msgspec.json.encode(self._conditions.list()).decode()
        if text == self._saved or (text == "[]" and not self._saved):
            return None
        outcome = self._state.update(lambda keys: {**keys, "conditions": text}, reason="conditions changed")
        if outcome.done:
            self._saved = text
        return outcome

    def forget(self) -> None:
        """After a change of leader: what was saved may have been overwritten."""
        self._saved = ""
