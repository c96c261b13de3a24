"""Watch requests: one stream of JSON lines per watcher, fed from the store's history."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from ballast_lab.simulator.faults import Faults
from ballast_lab.simulator.kube import selectors
from ballast_lab.simulator.kube.api_errors import ErrorCause, expired, invalid
from ballast_lab.simulator.kube.kinds import Kind
from ballast_lab.simulator.kube.listing import requested_version
from ballast_lab.simulator.kube.store import Expired, Store, Stored, StoreEvent

Write = Callable[[bytes], Awaitable[None]]

CHUNK = 256
"""Events sent in one body message."""

LONGEST = 1_800.0
"""Seconds after which a watch without `timeoutSeconds` ends."""

SHORTEST_PAUSE = 0.05
"""Seconds; the lower bound of the time between bookmarks."""


class Watchers:
    """Wakes all watch streams of one event loop when the store changes; any thread may change it."""

    def __init__(self, store: Store) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._events: set[asyncio.Event] = set()
        self._scheduled = False
        self.closing = False
        store.listeners.append(lambda kind, change: self.wake())

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Sets the loop that runs the streams."""
        self._loop = loop

    def close(self) -> None:
        """Ends all streams."""
        self.closing = True
        self.wake()

    def wake(self) -> None:
        """Wakes all streams; several calls before the loop runs count once."""
        if self._loop is not None and not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._set_all)

    def _set_all(self) -> None:
        self._scheduled = False
        for event in self._events:
            event.set()

    @contextlib.contextmanager
    def subscribed(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever the store changes, for the time of the context."""
        event = asyncio.Event()
        self._events.add(event)
        try:
            yield event
        finally:
            self._events.discard(event)


@dataclass
class WatchStream:
    """One watch as an ASGI application. Raises ApiError for an invalid query."""

    store: Store
    watchers: Watchers
    faults: Faults
    kind: Kind
    namespace: str
    """Empty for all namespaces."""

    query: Mapping[str, str]
    """The parameters of the request; its times are seconds of the cluster's clock."""

    speed: float
    """How many times as fast as real time the cluster's clock runs."""

    bookmark_seconds: float
    """Time between bookmarks, in seconds of the cluster's clock."""

    def __post_init__(self) -> None:
        query = self.query
        self._selector = selectors.parse(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        self._bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        self._initial_end = query.get("sendInitialEvents") == "true"
        if self._initial_end and query.get("resourceVersionMatch") != "NotOlderThan":
            text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            cause = ErrorCause("FieldValueForbidden", text, "resourceVersionMatch")
            raise invalid("meta.k8s.io", "ListOptions", "", [cause])
        with self.store.lock:
            self._position = requested_version(query)
            self._backlog: list[Stored] = []
            if not self._position or self._initial_end:
                self._position = self.store.revision
                self._backlog = self.store.all(self.kind, self.namespace)
        self._disconnected = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(body: bytes) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": True})

        with self.watchers.subscribed() as event:
            listener = asyncio.create_task(self._watch_disconnect(receive, event))
            try:
                await write(b"")
                await self._stream(write, event)
                if not self._disconnected:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                listener.cancel()

    async def _watch_disconnect(self, receive: Receive, event: asyncio.Event) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._disconnected = True
        event.set()

    async def _stream(self, write: Write, event: asyncio.Event) -> None:
        now = asyncio.get_running_loop().time
        deadline = now() + float(self.query.get("timeoutSeconds") or LONGEST) / self.speed
        pause = max(SHORTEST_PAUSE, self.bookmark_seconds / self.speed)
        bookmark = now() + pause
        await self._write_all(write, self._initial())
        while not self._disconnected and not self.watchers.closing:
            event.clear()
            if self.faults.on("kube_watch_silence"):
                await self._wait(event, SHORTEST_PAUSE)
                continue
            try:
                if self.faults.on("kube_watch_gone"):
                    raise Expired(self.store.revision)
                changes = self._next()
            except Expired as error:
                await self._write_all(write, iter([self._error(error.oldest)]))
                return
            if changes:
                await self._write_all(write, self._lines(changes))
                continue
            last = now() >= deadline
            if self._bookmarks and (last or now() >= bookmark):
                await self._write_all(write, iter([self._bookmark()]))
                bookmark = now() + pause
            if last:
                return
            await self._wait(event, min(deadline, bookmark if self._bookmarks else deadline) - now())

    def _next(self) -> list[StoreEvent]:
        """The changes to send; if there are none of this kind, the position moves to the store's newest version."""
        with self.store.lock:
            changes = self.store.since(self.kind, self._position)
            self._position = changes[-1].revision if changes else max(self._position, self.store.revision)
            return changes

    async def _wait(self, event: asyncio.Event, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), max(seconds, 0.0))

    async def _write_all(self, write: Write, lines: Iterator[bytes]) -> None:
        chunk: list[bytes] = []
        for line in lines:
            chunk.append(line)
            if len(chunk) == CHUNK:
                await write(b"".join(chunk))
                chunk.clear()
        if chunk:
            await write(b"".join(chunk))

    def _initial(self) -> Iterator[bytes]:
        for stored in self._backlog:
            if self._selected(stored):
                yield _line("ADDED", stored.raw)
        self._backlog = []
        if self._initial_end:
            yield self._bookmark({"k8s.io/initial-events-end": "true"})

    def _lines(self, changes: list[StoreEvent]) -> Iterator[bytes]:
        # As seen through the selector: an object that starts to match is added, one that stops to match is deleted.
        for change in changes:
            was = change.old is not None and self._selected(change.old)
            now = change.type != "DELETED" and self._selected(change.new)
            if was and now:
                yield _line("MODIFIED", change.new.raw)
            elif now:
                yield _line("ADDED", change.new.raw)
            elif was:
                yield _line("DELETED", change.new.raw)

    def _selected(self, stored: Stored) -> bool:
        if self.namespace and stored.namespace != self.namespace:
            return False
        return self._selector is None or self._selector(stored)

    def _bookmark(self, annotations: Mapping[str, str] | None = None) -> bytes:
        metadata: dict[str, object] = {"resourceVersion": str(self._position)}
        if annotations:
            metadata["annotations"] = annotations
        return _line("BOOKMARK", json.dumps({**self.kind.type_fields, "metadata": metadata}).encode())

    def _error(self, oldest: int) -> bytes:
        error = expired(f"too old resource version: {self._position} ({oldest})")
        return _line("ERROR", json.dumps(error.document()).encode())


def _line(event: str, raw: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (event.encode(), raw)
