"""The one writer: every change in the cluster passes its checks and leaves a record."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from ballast.base.clock import Clock
from ballast.base.errors import ClusterError, Conflict, Gone, NotFound, TooManyRequests
from ballast.base.metrics import Metrics
from ballast.cluster.client import KubeApi
from ballast.cluster.write import FIELD_MANAGER, Result, Write, WriteOutcome, record

_ATTEMPTS = 3
PATIENCE = 1.0
"""Seconds for which a write waits where the API server asks for it: as long as API fairness does."""
FINISH_PATIENCE = 2.0
STOPPING = "Ballast is stopping"


class Reporter(Protocol):
    """Reports outcomes to users, as Events do."""

    def report(self, outcome: WriteOutcome) -> None:
        """Sends an Event about an outcome."""


class Writer:
    """Sends one write at a time, each only if at that moment its part may act.

    `modes` maps parts to off, dry-run or on (a part that is not there is off); `paused` answers why a part is paused or
    None; `leading` whether this replica is the one that writes.
    """

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        metrics: Metrics,
        *,
        pace: Pace,
        modes: Mapping[str, str],
        paused: Callable[[str], str | None],
        leading: Callable[[], bool],
        events: Reporter | None = None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._metrics = metrics
        self._pace = pace
        self._modes = modes
        self._paused = paused
        self._leading = leading
        self._events = events
        self._at_once = 1
        self._sent: Callable[[float], None] = lambda seconds: None
        self._turn = threading.Semaphore()
        self._others: list[Writer] = []
        self._finished = threading.Event()
        self._stop = threading.Event()

    def within(self, seconds: float) -> float:
        """The deadline `seconds` from now, as `submit` takes it."""
        return self._clock.monotonic() + seconds

    def submit(self, write: Write, *, deadline: float | None = None) -> WriteOutcome:
        """Waits for its turn, its token and the API server's leave, sends, and records the outcome.

        Never raises for what the server answers. After a 429 of API fairness it waits PATIENCE and is tried again; no
        other write waits for it. Where the server asks for more, or names a cause (a disruption budget, say), it fails.
        What cannot be sent before `deadline` (see `within`) is given up at once: its plan would be too old then.
        """
        return self.record(self._attempt(write, math.inf if deadline is None else deadline))

    def record(self, outcome: WriteOutcome) -> WriteOutcome:
        """Records an outcome and reports it as an Event while its part is on; also before `submit`."""
        write = outcome.write
        record(self._metrics, outcome)
        if self._events and write.event and self._modes.get(write.part or "") == "on" and self._leading():
            self._events.report(outcome)
        return outcome

    def beside(self, *, qps: float, burst: int, at_once: int, sent: Callable[[float], None]) -> Writer:
        """Another writer with the same checks and records, but its own rate and `at_once` writes at a time.

        `sent` hears the seconds that each took.
        It finishes and stops with this one.
        """
        other = Writer(
            self._api,
            self._clock,
            self._metrics,
            pace=Pace(self._clock, qps, burst),
            modes=self._modes,
            paused=self._paused,
            leading=self._leading,
            events=self._events,
        )
        other._at_once, other._sent, other._turn = at_once, sent, threading.Semaphore(at_once)
        other._finished, other._stop = self._finished, self._stop
        self._others.append(other)
        return other

    def finish(self, patience: float = FINISH_PATIENCE) -> None:
        """Refuses the writes of parts from now on, waiting ones too; returns when the writes under way have ended.

        Ballast's own writes still pass. Waits `patience` seconds at most.
        """
        self._finished.set()
        deadline = self.within(patience)
        for writer in (self, *self._others):
            taken = 0
            while taken < writer._at_once and writer._turn.acquire(timeout=max(0.0, deadline - self.within(0.0))):
                taken += 1
            if taken:
                writer._turn.release(taken)

    def stop(self) -> None:
        """Refuses all writes that wait or come later."""
        self._finished.set()
        self._stop.set()

    def _attempt(self, write: Write, deadline: float) -> WriteOutcome:
        stop = self._stop if write.part is None else self._finished
        failed: WriteOutcome | None = None
        for _ in range(_ATTEMPTS):
            if (held_back := self._held_back(write)) is not None:
                return held_back
            if not self._pace.wait(stop, deadline):
                return failed or (WriteOutcome(write, Result.REFUSED, STOPPING) if stop.is_set() else _too_late(write))
            try:
                with self._turn:
                    if self._clock.monotonic() > deadline:
                        return failed or _too_late(write)
                    return self._held_back(write) or WriteOutcome(write, Result.DONE, body=self._send(write))
            except TooManyRequests as error:
                failed = self._report_failure(write, error)
                wait = PATIENCE if error.retry_after is None else error.retry_after
                hopeless = error.causes or error.admission or wait > PATIENCE or self.within(wait) > deadline
                if hopeless or self._clock.wait(stop, wait):
                    break
            except Conflict as error:
                return WriteOutcome(write, Result.CONFLICT, str(error), error.status)
            except (NotFound, Gone) as error:
                return WriteOutcome(write, Result.GONE, str(error), error.status)
            except ClusterError as error:
                return self._report_failure(write, error)
        assert failed is not None
        return failed

    @staticmethod
    def _report_failure(write: Write, error: ClusterError) -> WriteOutcome:
        causes = error.causes if isinstance(error, TooManyRequests) else ()
        return WriteOutcome(write, Result.FAILED, str(error), error.status, causes=causes, admission=error.admission)

    def _held_back(self, write: Write) -> WriteOutcome | None:
        mode = "on" if write.part is None else self._modes.get(write.part, "off")
        if mode == "off":
            return WriteOutcome(write, Result.REFUSED, f"{write.part} is off (BALLAST_{str(write.part).upper()}__MODE)")
        if write.leader_only and not self._leading():
            return WriteOutcome(write, Result.REFUSED, "this replica does not hold the Lease")
        if write.part is not None and (pause := self._paused(write.part)) is not None:
            return WriteOutcome(write, Result.REFUSED, pause)
        if write.part is not None and self._finished.is_set():
            return WriteOutcome(write, Result.REFUSED, STOPPING)
        if mode == "dry-run":
            return WriteOutcome(write, Result.DRY_RUN, f"{write.part} is in dry-run")
        return None

    def _send(self, write: Write) -> bytes:
        began, query = self._clock.monotonic(), write.query
        try:
            return self._api.request(
                write.method,
                write.path,
                query=query if write.method == "DELETE" else {"fieldManager": FIELD_MANAGER, **(query or {})},
                body=write.body,
                content_type=write.content_type,
                timeout=write.timeout,
            )
        finally:
            self._sent(self._clock.monotonic() - began)


def _too_late(write: Write) -> WriteOutcome:
    reason = "the write rate did not allow it in time (BALLAST_CLUSTER__QPS)"
    return WriteOutcome(write, Result.REFUSED, reason, too_late=True)


class Pace:
    """A token bucket of `burst` writes refilled with `qps` a second."""

    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        self._clock = clock
        self._qps = qps
        self._burst = burst
        self._lock = threading.Lock()
        self._tokens = float(burst)
        self._filled_at = clock.monotonic()

    def wait(self, stop: threading.Event, deadline: float = math.inf) -> bool:
        """Waits for a token; False when `stop` was set meanwhile, or at once when the wait would pass `deadline`
        (monotonic seconds)."""
        ready_at = self._reserve()
        while ready_at > (now := self._clock.monotonic()):
            if ready_at > deadline or self._clock.wait(stop, ready_at - now):
                self._give_back()
                return False
        return not stop.is_set() and now <= deadline

    def _give_back(self) -> None:
        with self._lock:
            self._tokens += 1.0

    def _reserve(self) -> float:
        with self._lock:
            now = self._clock.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps) - 1.0
            self._filled_at = now
            return now - min(self._tokens, 0.0) / self._qps


T = TypeVar("T")

AT_ONCE = 8
"""Writes at a time, before the latency is known."""
MOST_AT_ONCE = 32
QPS = 100.0
BURST = 100


class EmergencyWriter:
    """Has a bucket of its own and the checks, records and end of the one writer."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer.beside(qps=QPS, burst=BURST, at_once=MOST_AT_ONCE, sent=self._widen)
        self._at_once = AT_ONCE
        self._free = threading.Semaphore(AT_ONCE)
        self._widening = threading.Lock()

    def each(self, tasks: Sequence[Callable[[Writer], T]]) -> list[T]:
        """Runs the tasks many at a time, begun in their order, and answers in it; returns when all have ended.

        No two of them may be about the same object.
        """

        def run(task: Callable[[Writer], T]) -> T:
            try:
                return task(self._writer)
            finally:
                self._free.release()

        answers = []
        with ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix="emergency") as pool:
            for task in tasks:
                self._free.acquire()
                answers.append(pool.submit(run, task))
        return [answer.result() for answer in answers]

    def _widen(self, seconds: float) -> None:
        """A rate of writes that take `seconds` each needs rate · seconds of them at a time (Little's law)."""
        with self._widening:
            more = min(MOST_AT_ONCE, math.ceil(QPS * seconds)) - self._at_once
            if more > 0:
                self._at_once += more
                self._free.release(more)
