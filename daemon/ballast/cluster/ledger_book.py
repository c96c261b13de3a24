"""What the leader counts for the ledger beside evictions, kept in `ballast-state`."""

import math
import threading
from collections import deque
from collections.abc import Mapping

from ballast.base.clock import Clock
from ballast.cluster.state import StateStore
from ballast.cluster.write import WriteOutcome
from ballast.model.ledger import Ledger, together

KEY = "ledger"
"""Of `ballast-state`."""

SAVE_EVERY = 60.0
"""Seconds between two writes of amounts that a new leader could not find out."""

UNCHANGED = 600.0
"""Seconds after which it is written though no amount has changed."""

OBSERVATIONS = 240
"""Snapshots whose hot nodes each replica remembers, in case it leads next."""

HOT, LABELS = "hot", "labels"
"""Keys of `until`: up to which snapshot hot nodes and label patches are counted."""


def saved_ledger(state: StateStore, keys: Mapping[str, str], key: str) -> Ledger:
    """The ledger under one of the `keys` of `ballast-state`. One that cannot be read begins anew: nothing is decided
    by it."""
    try:
        return Ledger.decode(keys[key], state.stamps(key)) if key in keys else Ledger()
    except (ValueError, RecursionError) as error:
        state.begin_anew(key, keys[key], error)
        return Ledger()


class LedgerBook:
    """Any thread may call it. Amounts count where this replica leads; what it has seen while another led fills the
    time that the other did not save.

    `gap` is the longest time between two snapshots, in seconds, in which nodes stay as hot as they were seen.
    """

    def __init__(self, state: StateStore, clock: Clock, gap: float) -> None:
        self._state, self._clock, self._gap = state, clock, gap
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._ledger: Ledger | None = None
        self._early = Ledger()
        self._seen: deque[tuple[float, int, int | None, int | None]] = deque(maxlen=OBSERVATIONS)
        self._saved, self._saved_at, self._urgent = "", -math.inf, False

    def forget(self) -> None:
        """Leadership has changed: what was saved may have been overwritten."""
        with self._lock:
            self._ledger, self._early = None, Ledger()
            self._saved, self._saved_at, self._urgent = "", -math.inf, False

    def observe(self, time: float, hot: int, would: int | None = None, without: int | None = None) -> None:
        """How many nodes were hot at a snapshot, would have been with evictions on, and without the moves; on every
        replica."""
        with self._lock:
            self._seen.append((time, hot, would, without))

    def add(self, time: float, amounts: Mapping[str, float], *, urgent: bool = False) -> None:
        """Adds amounts, named as in a row of the ledger; `urgent` ones are saved as soon as possible."""
        with self._lock:
            (self._ledger or self._early).add(time, **amounts)
            self._urgent |= urgent

    def add_labels(self, time: float, patches: int) -> None:
        """Label patches that were made from the snapshot of `time`."""
        self.add(time, {"label_writes": patches}, urgent=True)
        with self._lock:
            (self._ledger or self._early).until[LABELS] = time

    def labels_until(self) -> float | None:
        """The snapshot up to which label patches are counted, None before the first. Raises ClusterError."""
        self._load()
        with self._lock:
            return None if self._ledger is None else self._ledger.until.get(LABELS)

    def current(self) -> Ledger:
        """A copy of all that is counted. Raises ClusterError where `ballast-state` cannot be read."""
        self._load()
        with self._lock:
            self._count_hot()
            return together([self._ledger or self._early])

    def uncounted(self) -> Ledger:
        """What was counted without reading `ballast-state`: all there is where nothing is ever written."""
        with self._lock:
            return together([self._early])

    def save(self) -> WriteOutcome | None:
        """Writes it if that is due, else returns None. Raises ClusterError."""
        self._load()
        now = self._clock.monotonic()
        with self._lock:
            if self._ledger is None:
                return None
            self._count_hot()
            text, amounts = self._ledger.encode(), self._ledger.encode(until=False)
            passed = now - self._saved_at
            due = (self._urgent or passed >= SAVE_EVERY) if amounts != self._saved else passed >= UNCHANGED
            if not due:
                return None
        outcome = self._state.update(lambda keys: {**keys, KEY: text}, reason="the ledger")
        if outcome.done:
            with self._lock:
                self._saved, self._saved_at, self._urgent = amounts, now, False
        return outcome

    def _load(self) -> None:
        with self._loading:
            if self._ledger is not None:
                return
            ledger = saved_ledger(self._state, self._state.read(), KEY)
            with self._lock:
                ledger.absorb(self._early)
                ledger.until.update(self._early.until)
                self._ledger, self._early = ledger, Ledger()

    def _count_hot(self) -> None:
        """With the lock held: what was observed after what is counted already."""
        if self._ledger is None or not self._seen:
            return
        ledger = self._ledger
        until = ledger.until.get(HOT, -math.inf)
        for time, hot, would, without in sorted(self._seen, key=lambda seen: seen[0]):
            if time <= until:
                continue
            minutes = (time - until) / 60 if time - until <= self._gap else 0.0
            ledger.add_hot(time, hot * minutes, None if without is None else without * minutes)
            if would is not None:
                ledger.add(time, would_spare_hot_node_minutes=(hot - would) * minutes)
            until = time
        ledger.until[HOT] = until
