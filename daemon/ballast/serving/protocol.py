"""uvicorn's HTTP protocol with time limits: a slow client cannot hold a connection."""

from __future__ import annotations

import asyncio
import itertools
from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

READ_TIMEOUT = 10.0
"""Seconds for a whole request, from connecting or from its first byte."""

WRITE_TIMEOUT = 30.0
"""Seconds for the client to take an answer, once it has fallen behind."""

KEEP_ALIVE = 75
"""Seconds a connection may be idle between requests."""

MAX_CONNECTIONS = 1000
"""At this many connections, a new one replaces the one that sent data least recently."""

GRACE = 1.0
"""Seconds that running answers have at shutdown."""

_ticks = itertools.count()


class BoundedProtocol(HttpToolsProtocol):
    """Drops connections that exceed `READ_TIMEOUT` or `WRITE_TIMEOUT`, and the oldest above `MAX_CONNECTIONS`.

    The methods override asyncio's and uvicorn's callbacks.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading: TimerHandle | None = None
        self._writing: TimerHandle | None = None
        self._heard = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Makes room if there are too many connections, and starts the time of the first request."""
        if len(self.connections) >= MAX_CONNECTIONS:
            oldest = min(self.connections, key=lambda connection: getattr(connection, "_heard", 0))
            oldest.transport.abort()
            self.connections.discard(oldest)
        super().connection_made(transport)
        self._heard = next(_ticks)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels all timers."""
        self._request_complete()
        self._written()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Starts the time of the next request with its first byte."""
        self._heard = next(_ticks)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_request()
        super().data_received(data)

    def on_message_complete(self) -> None:
        """The request is complete: its timer ends."""
        self._request_complete()
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client has fallen behind: its time to catch up starts."""
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(WRITE_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._written()
        super().resume_writing()

    def shutdown(self) -> None:
        """Closes the connection after the running answer, or after `GRACE`."""
        super().shutdown()
        self.loop.call_later(GRACE, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        """Closes an idle connection, also when the client never took the last answer."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        super().timeout_keep_alive_handler()

    def _expect_request(self) -> None:
        if self._reading is None:
            self._reading = self.loop.call_later(READ_TIMEOUT, self.transport.abort)

    def _request_complete(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _written(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
