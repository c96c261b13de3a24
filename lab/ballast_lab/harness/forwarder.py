"""What a Service is to schedulers: one address, behind it whoever leads."""

from __future__ import annotations

import http.client
import threading
from contextlib import closing, suppress
from http.server import ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.worlds.http_handler import AnsweringHandler


class Forwarder:
    """A context manager. `to` is the URL that requests are sent on to; without an answer from there they get a 503."""

    def __init__(self, to: str) -> None:
        self.to = to
        forwarder = self

        class Handler(AnsweringHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                where = urlsplit(forwarder.to)
                onward = http.client.HTTPConnection(where.hostname or "", where.port or 0, timeout=5)
                status, answer = 503, b""
                with closing(onward), suppress(OSError, http.client.HTTPException):
                    onward.request("POST", self.path, body, {"Content-Type": self.headers["Content-Type"]})
                    found = onward.getresponse()
                    answer, status = found.read(), found.status
                self.answer(answer, status)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Forwarder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
