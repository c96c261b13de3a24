"""Lists and watches one collection in a thread of its own, like client-go's Reflector."""

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import structlog

from ballast.base.clock import Clock
from ballast.base.errors import NOT_JSON, AnswerTooLarge, ClusterError, Gone, NotFound, TooManyRequests
from ballast.base.metrics import Metrics
from ballast.cluster.api_refusals import refusal
from ballast.cluster.client import KubeApi, Lines
from ballast.cluster.listing import list_all
from ballast.cluster.objects import wire
from ballast.cluster.objects.decoding import Reader
from ballast.cluster.threads import going
from ballast.cluster.versions import Versions, newer

T = TypeVar("T")

LONGEST_WAIT = 30.0
"""Seconds between two attempts at most, also where the server asks for more."""

WATCH_SILENT = 120.0
"""Seconds of silence after which a watch is broken: a healthy one is renewed after 90 s of silence at the latest."""

_log = structlog.get_logger("cluster")
# The server knows only versions before ours, for example after it was restored from a backup.
_TOO_LARGE = "ResourceVersionTooLarge"
_FIRST_WAIT = 0.5
_event = msgspec.json.Decoder(wire.WatchEvent)
_status = msgspec.json.Decoder(wire.ApiStatus)
_identity = msgspec.json.Decoder(wire.HasIdentity)


class Sink(Protocol[T]):
    """Where a watch puts what it sees."""

    def replace(self, items: list[T]) -> None:
        """The whole collection, after a list."""

    def put(self, item: T) -> None:
        """An object that was added or changed."""

    def remove(self, item: T) -> None:
        """An object that was deleted, in its last state."""


@dataclass(frozen=True)
class Collection:
    """What is watched."""

    path: str | Callable[[], str]
    """May be a function that asks the server for it, called before each list."""
    query: Mapping[str, str | int] = field(default_factory=dict)
    optional: bool = False
    """A collection that the server does not serve is then an empty one."""


@dataclass(frozen=True)
class Bounds:
    """Seconds that a watch may take."""

    lifetime: tuple[int, int] = (240, 300)
    """A watch ends after a random time between these."""
    idle: float = 90.0
    """Of silence within a watch."""
    longest_wait: float = LONGEST_WAIT
    """Between two attempts, whatever the server asks for."""


class Reflector(Generic[T]):
    """Keeps `sink` equal to a collection."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        metrics: Metrics,
        sink: Sink[T],
        reader: Reader[T],
        collection: Collection,
        bounds: Bounds = Bounds(),
    ) -> None:
        self.kind = reader.kind
        self._api = api
        self._clock = clock
        self._metrics = metrics
        self._sink = sink
        self._reader = reader
        self._collection = collection
        self._path = "" if callable(collection.path) else collection.path
        self._bounds = bounds
        self._random = random.Random()  # noqa: S311
        self._stop = threading.Event()
        self._synced = threading.Event()
        self._lines: Lines | None = None
        self._thread: threading.Thread | None = None
        self._version = self._newest = ""
        self._again = False
        self.versions = Versions()
        """Shared with the other watches of this API server."""
        self._alive_at: float | None = None
        self._problem: str | None = None
        self.beat: float | None = None
        """When it last began to list or watch (monotonic)."""

    def start(self) -> None:
        """Lists and watches in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name=f"watch-{self.kind}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the watch at once, also in the middle of a silence."""
        stop_all((self,))

    def end(self) -> None:
        """Tells the watch to end, and waits for nothing."""
        self._stop.set()
        if lines := self._lines:
            lines.close()

    def list_again(self) -> None:
        """Ends the watch under way, if any; the whole collection is read again."""
        self._again, self._newest = True, ""
        if lines := self._lines:
            lines.close()

    def join(self, patience: float) -> None:
        """Waits up to `patience` seconds for the thread, which ends after the request under way."""
        if self._thread:
            self._thread.join(patience)

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return going(self._thread, self._stop)

    @property
    def synced(self) -> bool:
        """Whether the sink has held the whole collection at least once."""
        return self._synced.is_set()

    def wait_synced(self, timeout: float | None) -> bool:
        """Waits up to `timeout` seconds for the first list; returns `synced`."""
        return self._clock.wait(self._synced, timeout)

    @property
    def age(self) -> float:
        """Seconds since the server last sent anything; infinite before the first list."""
        return float("inf") if self._alive_at is None else self._clock.monotonic() - self._alive_at

    @property
    def opaque(self) -> Mapping[str, int]:
        """How many objects of each namespace are too large to be kept whole."""
        return self._reader.budget.opaque()

    @property
    def problem(self) -> str | None:
        """Why the collection cannot be listed or watched now; retries go on."""
        return self._problem

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            self.beat = began = self._clock.monotonic()
            reason, wait, problem = self._follow()
            if self._stop.is_set():
                return
            if reason != "absent":
                self._metrics.watch_restarts.labels(self.kind, reason).inc()
            healthy = reason in ("ended", "absent") or self._clock.monotonic() - began > LONGEST_WAIT
            quick = self._clock.monotonic() - began < 1.0
            failures = 0 if healthy and not quick else failures + 1
            if reason not in ("ended", "absent", "gone"):
                if self._problem != problem:
                    _log.warning("cannot list or watch a collection; trying again", kind=self.kind, problem=problem)
                self._problem = problem
            if failures:
                longest = min(self._bounds.longest_wait, _FIRST_WAIT * 2.0 ** min(failures - 1, 64))
                self._clock.wait(self._stop, max(wait, longest * self._random.uniform(0.5, 1.0)))

    def _follow(self) -> tuple[str, float, str]:
        """Lists if need be and watches: why that ended, seconds that the server asks for, and the problem."""
        try:
            if not self._version or self._again:
                self._list()
            if self._version and not self._stop.is_set():
                self._watch()
            return "ended" if self._version else "absent", 0.0, ""
        except Gone as error:
            self._version = ""
            return "gone", 0.0, str(error)
        except ClusterError as error:
            if self._again:
                return "gone", 0.0, ""
            if _TOO_LARGE in error.causes or isinstance(error, NotFound | AnswerTooLarge):
                self._version = ""
            wait = error.retry_after or 0.0 if isinstance(error, TooManyRequests) else 0.0
            return type(error).__name__.lower(), min(wait, self._bounds.longest_wait), str(error)
        except Exception as error:
            _log.exception("a watch failed unexpectedly", kind=self.kind)
            self._version = ""
            return "defect", 0.0, f"{type(error).__name__}: {error}"

    def _list(self) -> None:
        try:
            self._version, self._again = "", False
            if callable(self._collection.path):
                self._path = self._collection.path()
            listed = list_all(self._api, self._path, self._reader, self._collection.query, self._stop)
        except NotFound:
            if not self._collection.optional:
                raise
            listed, self._problem = ([], ""), None
        if listed is None:
            return
        items, self._version = listed
        if self.versions.went_back(self._version, self._newest, self.kind):
            self._again = False
        self._newest = self._version
        self._sink.replace(items)
        self._beat()
        self._synced.set()

    def _watch(self) -> None:
        query = {
            **self._collection.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": self._random.randint(*self._bounds.lifetime),
        }
        with self._api.stream(self._path, query, idle=self._bounds.idle) as lines:
            self._lines = lines
            try:
                if self._stop.is_set():
                    return
                if self._again:
                    return
                self._beat()
                began, self._problem, silent = self._clock.monotonic(), None, True
                for line in lines:
                    self._take(line)
                    silent = False
                if not self._stop.is_set():
                    self._beat()
                # A healthy server sends a bookmark a minute, one that knows only versions before ours nothing.
                self._again |= silent and self._clock.monotonic() - began > LONGEST_WAIT
            finally:
                self._lines = None

    def _take(self, line: bytes) -> None:
        """Applies one event. Raises Gone or another ClusterError for an ERROR event."""
        if not line.strip():
            return
        self._beat()
        try:
            event = _event.decode(line)
            if event.type == "ERROR":
                status = _status.decode(event.object).code
                raise refusal("GET", self._path, {"watch": "true"}, status, {}, self._api.hidden(bytes(event.object)))
            metadata = _identity.decode(event.object).metadata
        except NOT_JSON as error:
            said = self._api.hidden(line)[:80]
            raise ClusterError(f"watch of {self._path}: not a watch event ({error}): {said!r}") from error
        if self.versions.went_back(metadata.resource_version, self._version, self.kind):
            raise Gone(f"watch of {self._path}: versions went back")
        if not newer(metadata.resource_version, self._version):
            return
        if event.type != "BOOKMARK" and (item := self._reader.read(event.object)) is not None:
            if event.type == "DELETED":
                self._sink.remove(item)
                self._reader.budget.forget(f"{metadata.namespace}/{metadata.name}")
            else:
                self._sink.put(item)
        self._version = self._newest = metadata.resource_version

    def _beat(self) -> None:
        self._alive_at = self._clock.monotonic()


def stop_all(watches: Iterable[Reflector[Any]], patience: float = 1.0) -> None:
    """Ends watches together: all of them have `patience` seconds, not each."""
    ending = tuple(watches)
    for watch in ending:
        watch.end()
    until = time.monotonic() + patience
    for watch in ending:
        watch.join(max(0.0, until - time.monotonic()))


class WatchGroup:
    """The watches of several kinds. Readers may be any thread."""

    def __init__(self, clock: Clock, watches: Mapping[str, Reflector[Any]]) -> None:
        self._clock, self._watches = clock, watches
        self.share(Versions())

    def share(self, versions: Versions) -> None:
        """Before `start`: these watches hear of versions that went back elsewhere, and are heard."""
        self.versions = versions
        for watch in self._watches.values():
            watch.versions = versions
            versions.follow(watch.list_again)

    def start(self) -> None:
        """Starts the watches, each in its own thread."""
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        """Ends the watches."""
        stop_all(self._watches.values())

    @property
    def alive(self) -> bool:
        """Whether all watch threads still run."""
        return all(watch.alive for watch in self._watches.values())

    @property
    def beats(self) -> dict[str, float | None]:
        """When each watch last began to list or watch (monotonic), by kind."""
        return {kind: watch.beat for kind, watch in self._watches.items()}

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed once."""
        return all(watch.synced for watch in self._watches.values())

    def listed(self, kind: str) -> bool:
        """Whether a kind has been listed once."""
        return self._watches[kind].synced

    def wait_synced(self, timeout: float, *kinds: str) -> bool:
        """Waits up to `timeout` seconds for these kinds, or for all; returns whether they have been listed."""
        deadline = self._clock.monotonic() + timeout
        return all(
            self._watches[kind].wait_synced(max(0.0, deadline - self._clock.monotonic()))
            for kind in kinds or self._watches
        )

    def age(self, kind: str) -> float:
        """Seconds since the server last sent anything about a kind; a quiet healthy watch stays below 90."""
        return self._watches[kind].age

    def opaque(self) -> Mapping[str, Mapping[str, int]]:
        """How many objects of each kind and namespace are too large to be kept whole."""
        return {kind: watch.opaque for kind, watch in self._watches.items()}

    def problem(self, kind: str) -> str | None:
        """Why a kind cannot be listed or watched now, e.g. a missing RBAC rule; retries go on."""
        return self._watches[kind].problem
