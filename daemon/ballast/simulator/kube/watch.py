"""Watch requests: one stream of JSON lines per watcher, fed from the store's history."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from ballast.simulator.faults import Faults
from ballast.simulator.kube import selectors
from ballast.simulator.kube.api_errors import ErrorCause, expired, invalid
from ballast.simulator.kube.kinds import Kind
from ballast.simulator.kube.listing import wanted_version
from ballast.simulator.kube.store import Expired, Store, Stored, StoreEvent

Write = Callable[[bytes], Awaitable[None]]

CHUNK = 256
LONGEST = 1_800.0
SHORTEST_PAUSE = 0.05


class Watchers:
    """Wakes every stream of one event loop when the store changed, from whatever thread it was changed."""

    def __init__(self, store: Store) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._awake: set[asyncio.Event] = set()
        self._scheduled = False
        self.closing = False
        store.listeners.append(lambda kind, change: self.wake())

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def close(self) -> None:
        self.closing = True
        self.wake()

    def wake(self) -> None:
        if self._loop is not None and not self._scheduled:
            self._scheduled = True
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._set_all)

    def _set_all(self) -> None:
        self._scheduled = False
        for event in self._awake:
            event.set()

    @contextlib.contextmanager
    def awake(self) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._awake.add(event)
        try:
            yield event
        finally:
            self._awake.discard(event)


@dataclass
class WatchStream:
    """One watch as an ASGI application. Times in `query` are seconds of the cluster's clock, which runs `speed` times
    as fast as the machine's; a bookmark is due every `bookmark_seconds` of it."""

    store: Store
    watchers: Watchers
    faults: Faults
    kind: Kind
    namespace: str
    query: Mapping[str, str]
    speed: float
    bookmark_seconds: float

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
            self._position = wanted_version(query)
            self._backlog: list[Stored] = []
            if not self._position or self._initial_end:
                self._position = self.store.revision
                self._backlog = self.store.all(self.kind, self.namespace)
        self._gone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def write(body: bytes) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": True})

        with self.watchers.awake() as event:
            listener = asyncio.create_task(self._notice_departure(receive, event))
            try:
                await write(b"")
                await self._stream(write, event)
                if not self._gone:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            finally:
                listener.cancel()

    async def _notice_departure(self, receive: Receive, event: asyncio.Event) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        event.set()

    async def _stream(self, write: Write, event: asyncio.Event) -> None:
        now = asyncio.get_running_loop().time
        deadline = now() + float(self.query.get("timeoutSeconds") or LONGEST) / self.speed
        pause = max(SHORTEST_PAUSE, self.bookmark_seconds / self.speed)
        bookmark = now() + pause
        await self._write_all(write, self._initial())
        while not self._gone and not self.watchers.closing:
            event.clear()
            if self.faults.watch_silent():
                await self._wait(event, SHORTEST_PAUSE)
                continue
            try:
                if self.faults.watch_gone():
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
        """What is to be sent; without anything of this kind the position moves to the newest version of all."""
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
