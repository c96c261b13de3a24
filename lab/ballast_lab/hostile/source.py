"""A Prometheus that answers as another one does, until it is told to mean harm."""

from __future__ import annotations

import gzip
import time
import urllib.request
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

MIB = 2**20


def _bomb(size: int) -> bytes:
    """Spaces in gzip: a thousandth of `size`."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = b" " * MIB
    return b"".join(packer.compress(piece) for _ in range(size // MIB)) + packer.flush()


class Source(ThreadingHTTPServer):
    """`mode` is one of MODES, or empty: then `genuine` is asked."""

    daemon_threads = True
    block_on_close = False
    mode = ""
    genuine = ""
    sent = 0
    """Answers, of every mode, that were begun."""

    def handle_error(self, *_: object) -> None:
        """Who asks may hang up."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Source

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with suppress(OSError):
            MODES.get(self.server.mode, _Handler.forwarded)(self, body)

    def forwarded(self, body: bytes) -> None:
        kind = {"Content-Type": self.headers.get("Content-Type", "")} if body else {}
        request = urllib.request.Request(self.server.genuine + self.path, body or None, kind)
        with urllib.request.urlopen(request, timeout=30) as answer:
            self.whole(answer.read())

    def whole(self, body: bytes, **headers: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.server.sent += 1
        self.wfile.write(body)

    def dripped(self, body: bytes) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        for number in range(100):
            self.wfile.write(b"x-%d: y\r\n" % number)
            self.wfile.flush()
            time.sleep(0.3)

    do_GET = do_POST = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


BOMB = _bomb(1024 * MIB)
MODES = {
    "a gzip bomb": lambda one, _: one.whole(BOMB, Content_Encoding="gzip"),
    "a bomb in a bomb": lambda one, _: one.whole(gzip.compress(BOMB), Content_Encoding="gzip, gzip"),
    "answers as large as one may be": lambda one, _: one.whole(b" " * (60 * MIB)),
    "nested answers": lambda one, _: one.whole(b'{"data":' + b"[" * 2_000_000),
    "headers drop by drop": _Handler.dripped,
}


@contextmanager
def source(genuine: str) -> Iterator[tuple[Source, str]]:
    """The server and its address."""
    server = Source(("127.0.0.1", 0), _Handler)
    server.genuine = genuine.rstrip("/")
    Thread(target=lambda: server.serve_forever(0.05), daemon=True).start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
