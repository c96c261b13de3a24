"""uvicorn's HTTP protocol with limits of time and size: no client can hold a connection or fill the memory.

What schedulers ask leaves out ASGI: its tasks, queues and copies took as long as the answer.
"""

import asyncio
import itertools
from asyncio import TimerHandle
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from urllib.parse import unquote

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ballast.serving.direct_answers import DirectAnswer, RequestHead

READ_TIMEOUT = 10.0
"""Seconds for a whole request, from connecting or from its first byte."""

WRITE_TIMEOUT = 30.0
"""Seconds a client has to read an answer, once it has fallen behind."""

KEEP_ALIVE = 75
"""Seconds a connection may be idle between requests."""

MAX_CONNECTIONS = 1000
"""At this many connections, a new one replaces the one that sent data least recently."""

MAX_HEADER_BYTES = 64 * 1024
"""Bytes of a request's target and headers together."""

MAX_HEADERS = 100
"""Headers of a request, trailers included."""

MAX_PIPELINED = 8
"""Requests of one connection that may wait for the answer to an earlier one."""

MAX_PIPELINED_BYTES = 64 * 1024
"""Bytes of these requests together."""

MAX_UNSENT = 32 * 1024 * 1024
"""Bytes of answers that all clients together may not have read yet; above it, the slowest clients are dropped."""

PIECE = 64 * 1024
"""Bytes of a body that are parsed at once."""

MAX_FRAMING = 16 * 1024
"""Bytes of sizes and extensions of chunks that a body may have beyond its own bytes."""

MAX_SMALL_CHUNKS = 1000
"""Chunks of a body that may be smaller than `SMALL` on average."""

SMALL = 1024
"""Bytes of a chunk."""

HEADERS_PIECE = 4 * 1024
"""Bytes of headers that are parsed at once; more than `MAX_HEADERS` are noticed after one piece."""

GRACE = 1.0
"""Seconds that running answers have at shutdown."""

log = structlog.get_logger("ballast")
_ticks = itertools.count()


class DirectRequest(Protocol):
    """A request that is answered without ASGI."""

    def add(self, piece: bytes) -> DirectAnswer | None:
        """A piece of its body; an answer that does not wait for the rest."""

    def answer(self) -> DirectAnswer | Awaitable[DirectAnswer]:
        """Once the body is complete."""

    def close(self) -> None:
        """The body is needed no more; called also where the client has gone."""

    def sent(self) -> None:
        """Called last, once the answer is on its way to the client."""


Take = Callable[[RequestHead], DirectRequest | DirectAnswer | None]
"""Of a request whose head has come; None leaves it to ASGI."""


class DirectCycle:
    """A direct request and its answer, in the place that uvicorn has for its own cycle."""

    def __init__(self, taken: DirectRequest | DirectAnswer, *, keep_alive: bool, expects: bool, bodiless: bool) -> None:
        """`expects`: the client sends its body once it is told to; `bodiless`: it wants no body."""
        self.request = None if isinstance(taken, DirectAnswer) else taken
        self.ready = taken if isinstance(taken, DirectAnswer) else None
        self.keep_alive, self.expects, self.bodiless = keep_alive, expects, bodiless
        self.in_turn = self.whole = self.answering = self.response_complete = self.disconnected = False
        self.message_event = asyncio.Event()

    def close(self) -> None:
        """Its body is needed no more."""
        if self.request is not None:
            self.request.close()


class BoundedProtocol(HttpToolsProtocol):
    """Drops connections that exceed `READ_TIMEOUT` or `WRITE_TIMEOUT`, and the oldest above `MAX_CONNECTIONS`.

    Answers 431 above `MAX_HEADER_BYTES` or `MAX_HEADERS`, and closes the connection. Drops a client that sends more
    requests than `MAX_PIPELINED` before it takes an answer, and the slowest ones above `MAX_UNSENT`. The methods
    override asyncio's, httptools' and uvicorn's callbacks. The parser keeps an unfinished header itself and calls back
    when it is complete: so the bytes that arrive are counted too.
    """

    def __init__(
        self,
        *args: Any,
        refused: Callable[[int], object] = lambda code: None,
        take: Take = lambda head: None,
        **kwargs: Any,
    ) -> None:
        """`refused` is called with the status of each request that is no HTTP or whose headers are too large, and for
        each client that sends too many; `take` with the head of each request."""
        super().__init__(*args, **kwargs)
        self._on_refused = refused
        self._take = take
        self._in_headers = True
        self._began = False
        self._pending = 0
        self._header_bytes = 0
        self._oversized = False
        self._reading: TimerHandle | None = None
        self._writing: TimerHandle | None = None
        self._heard = 0
        self._behind_since = 0
        self._certified = False
        self._pipelined = 0
        self._hosts = 0
        self._chunks = self._body_bytes = self._framed_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Makes room if there are too many connections, and starts the time of the first request."""
        if len(self.connections) >= MAX_CONNECTIONS:
            oldest = min(self.connections, key=lambda connection: getattr(connection, "_heard", 0))
            oldest.transport.abort()
            self.connections.discard(oldest)
        super().connection_made(transport)
        self._certified = bool(transport.get_extra_info("peercert"))
        self._heard = next(_ticks)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels all timers."""
        for cycle in (self.cycle, *(waiting for waiting, _ in self.pipeline)):
            if isinstance(cycle, DirectCycle) and not cycle.answering:  # A thread may still read the body.
                cycle.close()
        self._request_complete()
        self._end_writing()
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Starts the time of the next request with its first byte."""
        self._heard = next(_ticks)
        if self.cycle is None or self.cycle.response_complete:
            self._expect_request()
        start = 0
        while start < len(data):
            piece = data[start : start + (HEADERS_PIECE if self._in_headers else PIECE)]
            start += len(piece)
            self._began = False
            super().data_received(piece)
            if self._in_headers and not self._began:
                self._pending += len(piece)
            elif self._chunks and not self._began:
                self._framed_bytes += len(piece)
            if self.transport.is_closing():
                return
            if self._oversized or self._pending > MAX_HEADER_BYTES:
                self._refuse()
            elif self._framed_bytes > 2 * self._body_bytes + MAX_FRAMING:
                self.send_400_response("The chunks have more framing than data.")
            elif len(self.pipeline) > MAX_PIPELINED or self._pipelined > MAX_PIPELINED_BYTES:
                self._on_refused(431)
                self.transport.abort()
            if self.transport.is_closing():
                return

    def on_response_complete(self) -> None:
        """The next request is handled; no more are read while others wait."""
        super().on_response_complete()
        if self.pipeline and not self.transport.is_closing():
            self.flow.pause_reading()
        else:
            self._pipelined = 0

    def on_message_begin(self) -> None:
        """The first byte of a request is parsed."""
        self._expect_request()  # Also where an earlier one is not answered yet.
        self._in_headers = self._began = True
        self._pending = self._header_bytes = self._hosts = 0
        self._chunks = self._body_bytes = self._framed_bytes = 0
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_url(self, url: bytes) -> None:
        """A part of the request's target is parsed."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header is complete."""
        self._count(len(name) + len(value))
        if not self._oversized:
            super().on_header(name, value)
            self._hosts += self.headers[-1][0] == b"host"
            self._oversized = len(self.headers) > MAX_HEADERS

    def on_headers_complete(self) -> None:
        """The request is handled, unless it is too large."""
        self._pending = 0
        if self._hosts > 1:
            raise ValueError("a request with two hosts")
        if not self._oversized:
            if not self._hosts and self.parser.get_http_version() == "1.1":
                raise ValueError("a request without a host")  # RFC 9112, section 3.2
            self._begin()
            if self.pipeline:
                self._pipelined += self._header_bytes
        self._in_headers = False

    def _begin(self) -> None:
        """Of whoever takes it, or of ASGI. Its turn may come later."""
        if self.transport.is_closing():
            return
        target = httptools.parse_url(self.url)
        path = target.path.decode("ascii")
        head = RequestHead(
            self.parser.get_method(),
            unquote(path) if "%" in path else path,
            target.query or b"",
            self.headers,
            self._certified,
        )
        try:
            taken = self._take(head)
        except Exception:
            taken = _fail()
        if taken is None:
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expects
            self.headers += headers
            super().on_headers_complete()
            return
        before = self.cycle
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        own = DirectCycle(
            taken, keep_alive=keep_alive, expects=self.expect_100_continue, bodiless=head.method == b"HEAD"
        )
        self.cycle = own  # type: ignore[assignment]
        if before is None or before.response_complete:
            self._start(own)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((own, None))  # type: ignore[arg-type]

    def on_body(self, body: bytes) -> None:
        """A part of the body is parsed."""
        self._body_bytes += len(body)
        cycle = self.cycle
        if isinstance(cycle, DirectCycle):
            if cycle.request is not None and cycle.ready is None and not cycle.response_complete:
                try:
                    cycle.ready = cycle.request.add(body)
                except Exception:
                    cycle.ready = _fail()
                if cycle.ready is not None:
                    cycle.close()
                    if cycle.in_turn:
                        self._give(cycle.ready, cycle)
        elif not self._oversized:
            super().on_body(body)
        if self.pipeline:
            self._pipelined += len(body)

    def on_chunk_header(self) -> None:
        """A chunk begins. An error in a callback makes the parser refuse the request."""
        self._chunks += 1
        if self._chunks > MAX_SMALL_CHUNKS and self._body_bytes < SMALL * self._chunks:
            raise ValueError("too many small chunks")

    def send_400_response(self, msg: str) -> None:
        """What was sent is no HTTP, or none that is taken."""
        self._on_refused(400)
        if self.pipeline or (self._in_headers and self.cycle is not None and not self.cycle.response_complete):
            self.transport.abort()  # It would be taken for the answer to an earlier request.
        else:
            super().send_400_response(msg)

    def on_message_complete(self) -> None:
        """The request is complete: its timer ends."""
        self._request_complete()
        self._in_headers = True
        cycle = self.cycle
        if isinstance(cycle, DirectCycle):
            cycle.whole = True
            if cycle.in_turn and cycle.ready is None and not cycle.response_complete:
                self._answer(cycle)
        elif not self._oversized:
            super().on_message_complete()
        answered = cycle is not None and cycle.response_complete and not self.transport.is_closing()
        if answered and self.timeout_keep_alive_task is None:  # The answer came before the end of the body.
            idle = self.timeout_keep_alive_handler
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, idle)

    def pause_writing(self) -> None:
        """The client has fallen behind: its time to catch up starts. The answers of all may hold `MAX_UNSENT`."""
        super().pause_writing()
        if self._writing is None:
            self._writing = self.loop.call_later(WRITE_TIMEOUT, self.transport.abort)
            self._behind_since = next(_ticks)
        self._drop_slowest()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._end_writing()
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

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        """uvicorn's own step to the answer of a request whose turn has come."""
        if isinstance(cycle, DirectCycle):
            self._start(cycle)
        else:
            super()._start_asgi_task(cycle, app)

    def _start(self, own: DirectCycle) -> None:
        own.in_turn = True
        if own.ready is not None:
            self._give(own.ready, own)
        elif own.whole:
            self._answer(own)
        elif own.expects:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _answer(self, own: DirectCycle) -> None:
        assert own.request is not None
        try:
            answer = own.request.answer()
        except Exception:
            answer = _fail()
        self._give(answer, own)

    def _give(self, answer: DirectAnswer | Awaitable[DirectAnswer], own: DirectCycle) -> None:
        if isinstance(answer, DirectAnswer) and not self.flow.write_paused:
            own.close()
            self._send(answer, own)
            return
        own.answering = True
        task = self.loop.create_task(self._answer_later(answer, own))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)

    async def _answer_later(self, answer: DirectAnswer | Awaitable[DirectAnswer], own: DirectCycle) -> None:
        try:
            made = answer if isinstance(answer, DirectAnswer) else await answer
        except Exception:
            made = _fail()
        finally:
            own.close()
        await self.flow.drain()  # What the client has not read yet is bounded: it gets no more before.
        self._send(made, own)

    def _send(self, answer: DirectAnswer, own: DirectCycle) -> None:
        """Head and body in one call to the kernel, where it takes them."""
        own.response_complete = True
        if self.transport.is_closing():
            return
        lines = [b"%b: %b\r\n" % each for each in self.server_state.default_headers]
        closes = answer.closes or not own.keep_alive
        if closes and not answer.closes:
            lines.append(b"connection: close\r\n")
        head = b"%b%b%b\r\n" % (STATUS_LINE[answer.status], answer.head, b"".join(lines))
        self.transport.writelines((head, b"" if own.bodiless else answer.body))
        if closes:
            self.transport.close()
        self.on_response_complete()
        if own.request is not None:
            self.loop.call_soon(own.request.sent)  # The loop writes before it calls.

    def _count(self, size: int) -> None:
        self._header_bytes += size
        self._oversized = self._oversized or self._header_bytes > MAX_HEADER_BYTES

    def _refuse(self) -> None:
        self._on_refused(431)
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_TOO_LARGE)
            self.transport.close()
        else:  # the answer to an earlier request is on its way, and nothing may be written into it
            self.transport.abort()

    def _drop_slowest(self) -> None:
        """Spares this connection, whose answer has just begun: a scheduler reads a large one in milliseconds."""
        behind = [
            connection
            for connection in self.connections
            if isinstance(connection, BoundedProtocol) and connection._writing is not None
        ]
        behind.sort(key=lambda each: each._behind_since)
        unsent = sum(connection.transport.get_write_buffer_size() for connection in behind)
        for connection in behind:
            if unsent <= MAX_UNSENT:
                return
            if connection is not self:
                unsent -= connection.transport.get_write_buffer_size()
                connection.transport.abort()

    def _expect_request(self) -> None:
        if self._reading is None:
            self._reading = self.loop.call_later(READ_TIMEOUT, self.transport.abort)

    def _request_complete(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _end_writing(self) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None


def _fail() -> DirectAnswer:
    """After an unexpected exception, which is being handled: as ASGI answers."""
    log.exception("a request could not be answered")
    return DirectAnswer(500, b"Internal Server Error", b"text/plain; charset=utf-8", {"connection": "close"})


_MESSAGE = f"The headers are above {MAX_HEADER_BYTES:,} bytes or {MAX_HEADERS} in number.".encode()
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_MESSAGE), _MESSAGE)
)
