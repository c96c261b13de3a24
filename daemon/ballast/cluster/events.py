"""Kubernetes Events about what acting parts did, few enough to be read."""

import queue
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias
from uuid import uuid4

import structlog

from ballast.base.clock import Clock
from ballast.base.errors import ClusterError
from ballast.base.metrics import Metrics
from ballast.base.text import printable
from ballast.cluster.client import KubeApi
from ballast.cluster.threads import going
from ballast.cluster.write import FIELD_MANAGER, Result, Write, WriteOutcome, WriteTarget, record
from ballast.cluster.writer import Pace

QUIET = 300.0
LONGEST = 1024
"""Characters of a message, as the API server allows."""

_RATE = 0.2
_BURST = 25
_WAITING = 100
_PATIENCE = 1.0
_log = structlog.get_logger("cluster")
_Topic: TypeAlias = tuple[str, WriteTarget | None]


@dataclass
class _Seen:
    sent_at: float
    more: int = 0


class Events:
    """One Event per topic in five minutes; what happened in between is counted in the next one.

    Sends from a thread of its own, so that no write waits for it, and drops what it cannot send.
    """

    def __init__(self, api: KubeApi, clock: Clock, metrics: Metrics, *, instance: str) -> None:
        self._api = api
        self._clock = clock
        self._metrics = metrics
        self._instance = instance
        self._pace = Pace(clock, _RATE, _BURST)
        self._lock = threading.Lock()
        self._seen: dict[_Topic, _Seen] = {}
        self._waiting: queue.Queue[Write | None] = queue.Queue(_WAITING)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Starts the sending thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the sending thread; what is still queued is dropped."""
        self._stop.set()
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            return
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    @property
    def alive(self) -> bool:
        """Whether the sending thread still runs."""
        return going(self._thread, self._stop)

    def report(self, outcome: WriteOutcome) -> None:
        """Queues an Event about a write's outcome; its reason is `write.event` plus the result in CamelCase."""
        write = outcome.write
        reason = write.event + "".join(word.capitalize() for word in outcome.result.split("-"))
        if outcome.done and write.done_event:
            reason = write.done_event
        message = write.reason if outcome.done else f"{write.reason}: {outcome.reason}"
        topic = (reason, None if write.aggregated else write.target)
        self._emit(topic, write.target, reason, message, write.part, warning=not outcome.done)

    def emit(self, target: WriteTarget, reason: str, message: str, *, part: str, warning: bool = False) -> None:
        """What happened to `target` without a write of ours; `reason` is CamelCase."""
        self._emit((reason, target), target, reason, message, part, warning=warning)

    def _emit(
        self, topic: _Topic, target: WriteTarget, reason: str, message: str, part: str | None, *, warning: bool
    ) -> None:
        now = self._clock.monotonic()
        with self._lock:
            last = self._seen.get(topic)
            if last is not None and now - last.sent_at < QUIET:
                last.more += 1
                return
            more = last.more if last else 0
            if len(self._seen) > 1000:
                self._seen = {old: when for old, when in self._seen.items() if now - when.sent_at < QUIET}
            self._seen[topic] = _Seen(now)
        try:
            self._waiting.put_nowait(self._event(target, reason, message, part, more, warning=warning))
        except queue.Full:
            self._metrics.writes.labels("event", "dropped").inc()

    def _event(
        self, target: WriteTarget, reason: str, message: str, part: str | None, more: int, *, warning: bool
    ) -> Write:
        namespace = target.namespace or "default"
        now = datetime.fromtimestamp(self._clock.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        since = f" (and {more} more like it since the last Event)" if more else ""
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{target.name[:200]}.{uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": target.api_version,
                "kind": target.kind,
                "name": target.name,
                **({"namespace": target.namespace} if target.namespace else {}),
                **({"uid": target.uid} if target.uid else {}),
            },
            "reason": reason,
            "message": f"{printable(message, LONGEST - len(since))}{since}",
            "type": "Warning" if warning else "Normal",
            "source": {"component": FIELD_MANAGER},
            "reportingComponent": FIELD_MANAGER,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": more + 1,
        }
        return Write(
            kind="event",
            part=part,
            method="POST",
            path=f"/api/v1/namespaces/{namespace}/events",
            target=target,
            reason=message,
            body=body,
        )

    def _run(self) -> None:
        while (write := self._waiting.get()) is not None and self._pace.wait(self._stop):
            try:
                outcome = self._send(write)
            except Exception as error:
                _log.exception("an Event could not be sent, unexpectedly")
                outcome = WriteOutcome(write, Result.FAILED, f"{type(error).__name__}: {error}")
            record(self._metrics, outcome, routine=True)

    def _send(self, write: Write) -> WriteOutcome:
        try:
            self._api.request(write.method, write.path, query={"fieldManager": FIELD_MANAGER}, body=write.body)
        except ClusterError as error:
            return WriteOutcome(write, Result.FAILED, str(error))
        return WriteOutcome(write, Result.DONE)
