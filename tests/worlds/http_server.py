"""A scripted HTTP server: what the API server answers is a function of the request."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ballast.base.metrics import Metrics
from ballast.cluster.client import KubeApi


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """`body` as JSON if it is a dict, as it is if bytes, else chunk by chunk."""

    body: dict[str, Any] | bytes | Iterable[bytes] = b"{}"
    status: int = 200
    headers: Mapping[str, str] | None = None


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.requests: list[Request] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        pass


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        length = int(self.headers.get("Content-Length", 0))
        request = Request(
            self.command, parts.path, dict(parse_qsl(parts.query)), dict(self.headers), self.rfile.read(length)
        )
        self.server.requests.append(request)
        answer = self.server.answer(request)
        body = json.dumps(answer.body).encode() if isinstance(answer.body, dict) else answer.body
        self.send_response(answer.status)
        for name, value in (answer.headers or {}).items():
            self.send_header(name, value)
        if isinstance(body, bytes):
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for chunk in body:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[Server]:
    server = Server(answer)
    thread = threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def configuration(url: str, **fields: object) -> Any:
    from kubernetes.client import Configuration

    made = Configuration(host=url)
    made.proxy = None
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def api_for(server: Server, metrics: Metrics | None = None, **fields: object) -> KubeApi:
    return KubeApi(lambda: configuration(server.url, **fields), metrics or Metrics())


def status(code: int, reason: str = "", message: str = "no", **details: object) -> Answer:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}
    return Answer(body, code)
