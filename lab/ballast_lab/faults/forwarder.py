"""Stands between one daemon and the API server, sees each of its requests, and does a fault at the n-th of a kind."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from ballast_lab.faults.events import AGENT, kind_of

_DRIP = 0.05
"""Seconds between two bytes."""
RETRY_AFTER = 20
"""Seconds that a refusal asks for."""
_HOP = frozenset({"connection", "transfer-encoding", "content-length", "host", "user-agent", "keep-alive"})


class When(StrEnum):
    """BEFORE the write has arrived, or AFTER it was done and before its answer came."""

    BEFORE = "before"
    AFTER = "after"


class Then(StrEnum):
    """What becomes of the request or answer once the fault was done."""

    GO_ON = "go on"
    CUT = "cut"
    DRIP = "drip"
    REFUSE = "refuse"


@dataclass
class Failpoint:
    """`act` runs while the request, or its answer, is held; it says how to go on. Hit at most once."""

    kind: str
    when: When
    act: Callable[[], Then]
    nth: int = 1
    seen: int = 0
    hit: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    """Set once `act` has returned."""
    status: int = 0
    """Of the answer that was held."""


class Forwarder:
    """Plain HTTP on this side, TLS to the API server, which is told the daemon's `name` as the user agent."""

    def __init__(self, to: str, ca: Path, name: str) -> None:
        self.name = name
        self._to = urlsplit(to)
        self._tls = ssl.create_default_context(cafile=str(ca))
        self._lock = threading.Lock()
        self._failpoint: Failpoint | None = None
        self._cut = False
        self._answering = threading.Event()
        self._answering.set()
        self._open: set[socket.socket] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()

    def arm(self, failpoint: Failpoint | None) -> None:
        with self._lock:
            self._failpoint = failpoint

    def cut(self) -> None:
        """From now on nothing passes, and what is under way is broken off."""
        with self._lock:
            self._cut, closing = True, list(self._open)
        for each in closing:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mute(self) -> None:
        """From now on requests pass, and no answer does."""
        self._answering.clear()

    def heal(self) -> None:
        """Answers that were held until now are lost."""
        with self._lock:
            self._cut = False
        self._answering.set()

    def loses(self) -> bool:
        """Whether the answer that has come is lost; held while no answer passes."""
        muted = not self._answering.is_set()
        if muted:
            self._answering.wait(60)
        return muted

    def stop(self) -> None:
        self.cut()
        self._server.shutdown()
        self._server.server_close()

    def passes(self) -> bool:
        return not self._cut

    def met(self, kind: str, when: When) -> Failpoint | None:
        """The failpoint, if this request is the one it waits for."""
        with self._lock:
            point = self._failpoint
            if point is None or point.hit.is_set() or point.kind != kind or point.when is not when:
                return None
            point.seen += 1
            if point.seen < point.nth:
                return None
            point.hit.set()
            return point

    def track(self, each: socket.socket | None, is_open: bool) -> None:
        with self._lock:
            if each is not None:
                (self._open.add if is_open else self._open.discard)(each)

    def connect(self) -> http.client.HTTPSConnection:
        host, port = self._to.hostname or "", self._to.port or 0
        made = http.client.HTTPSConnection(host, port, timeout=600, context=self._tls)
        made.connect()
        self.track(made.sock, True)
        return made


class _Cut(Exception):
    """The connection ends here."""


def _handler(forwarder: Forwarder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        _upstream: http.client.HTTPSConnection | None = None

        def setup(self) -> None:
            super().setup()
            forwarder.track(self.connection, True)

        def finish(self) -> None:
            forwarder.track(self.connection, False)
            self._hang_up()
            with suppress(OSError):
                super().finish()

        def _forward(self) -> None:
            try:
                self._exchange()
            except (_Cut, OSError, http.client.HTTPException):
                self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward  # noqa: N815

        def _exchange(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if not forwarder.passes():
                raise _Cut
            kind = ""
            if self.command != "GET":
                kind = kind_of(self.command, self.path, json.loads(body) if body else None)
            if self._held(kind, When.BEFORE) is Then.REFUSE:
                self._refuse()
                return
            answer = self._asked(body)
            if forwarder.loses():
                raise _Cut
            if answer.chunked and self.command == "GET":
                self._stream(answer)
                return
            content = answer.read()
            then = self._held(kind, When.AFTER, answer.status)
            if then is Then.REFUSE:
                self._refuse()
                return
            self._head(answer, len(content))
            self._send(content, then is Then.DRIP)

        def _held(self, kind: str, when: When, status: int = 0) -> Then:
            point = forwarder.met(kind, when) if kind else None
            if point is None:
                return Then.GO_ON
            point.status = status
            try:
                then = point.act()
            finally:
                point.done.set()
            if then is Then.CUT or (when is When.BEFORE and self._given_up()):
                raise _Cut
            return then

        def _given_up(self) -> bool:
            """Whether the sender has hung up meanwhile: what it sent does not arrive then."""
            try:
                return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                return False

        def _asked(self, body: bytes) -> http.client.HTTPResponse:
            if self._upstream is None:
                self._upstream = forwarder.connect()
            headers = {key: value for key, value in self.headers.items() if key.lower() not in _HOP}
            headers["User-Agent"] = f"{AGENT}/{forwarder.name}"
            try:
                self._upstream.request(self.command, self.path, body or None, headers)
                return self._upstream.getresponse()
            except (OSError, http.client.HTTPException):
                self._hang_up()
                raise

        def _head(self, answer: http.client.HTTPResponse, length: int | None) -> None:
            self.send_response_only(answer.status, answer.reason)
            for key, value in answer.getheaders():
                if key.lower() not in _HOP:
                    self.send_header(key, value)
            self.send_header(*(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))))
            self.end_headers()

        def _refuse(self) -> None:
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": 429,
                "reason": "TooManyRequests",
            }
            content = json.dumps(status).encode()
            self.send_response_only(429)
            self.send_header("Retry-After", str(RETRY_AFTER))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _stream(self, answer: http.client.HTTPResponse) -> None:
            self._head(answer, None)
            while data := answer.read1(65536):
                if forwarder.loses():
                    raise _Cut
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")

        def _send(self, content: bytes, drips: bool) -> None:
            if not drips:
                self.wfile.write(content)
                return
            for at in range(len(content)):
                self.wfile.write(content[at : at + 1])
                self.wfile.flush()
                time.sleep(_DRIP)

        def _hang_up(self) -> None:
            if self._upstream is not None:
                forwarder.track(self._upstream.sock, False)
                self._upstream.close()
                self._upstream = None

        def log_message(self, *_: object) -> None:
            pass

    return Handler
