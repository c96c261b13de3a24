"""uvicorn's HTTP protocol with bounds: nobody holds a connection by being slow."""

from __future__ import annotations

import asyncio
import itertools
from asyncio import TimerHandle
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

READ_TIMEOUT = 10.0
WRITE_TIMEOUT = 30.0
KEEP_ALIVE = 75
MAX_CONNECTIONS = 1000
GRACE = 1.0

_turns = itertools.count()


class BoundedProtocol(HttpToolsProtocol):
    """A request must be complete `READ_TIMEOUT` seconds after connecting or after its first byte, an answer must have
    been taken `WRITE_TIMEOUT` after the client fell behind; else the connection is dropped. Where there are
    `MAX_CONNECTIONS`, the one that was heard of least recently makes room. Shutting down waits `GRACE` for answers.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading: TimerHandle | None = None
        self._writing: TimerHandle | None = None
        self._heard = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= MAX_CONNECTIONS:
            oldest = min(self.connections, key=lambda connection: getattr(connection, "_heard", 0))
            oldest.transport.abort()
            self.connections.discard(oldest)
        super().connection_made(transport)
        self._heard = next(_turns)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._request_complete()
        self._taken()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._heard = next(_turns)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_request()
        super().data_received(data)

    def on_message_complete(self) -> None:
        self._request_complete()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(WRITE_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        self._taken()
        super().resume_writing()

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(GRACE, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
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

    def _taken(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
