"""A server that sends drop by drop costs its deadline and no more; what it cut off is an error."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from ballast.base.clock import SystemClock
from ballast.base.errors import AnswerTooLarge, SourceUnavailable, Unreachable
from ballast.base.metrics import Metrics
from ballast.cluster.client import KubeApi
from ballast.telemetry.http import HttpSession
from ballast_lab.harness.waiting import HUNG
from tests.worlds.http_server import configuration

DEADLINE = 0.3
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
DROPS = {
    "status line": (b"", b"H"),
    "headers": (HEAD, b"x-a: b\r\n"),
    "one header": (HEAD + b"x-a: ", b"y"),
    "chunk size": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"0"),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n{\r\n"),
    "body": (HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
    "body without length": (HEAD + b"Connection: close\r\n\r\n", b" "),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


class Dripping:
    """Answers every connection with `first`, then with one `drop` after another until it is closed or left."""

    def __init__(self, first: bytes, drop: bytes = b"") -> None:
        self._first, self._drop = first, drop
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._stop.set()
        self._listener.close()

    def _accept(self) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65536)
                connection.sendall(self._first)
                while self._drop and not self._stop.wait(0.05):
                    connection.sendall(self._drop)
            except OSError:
                return


@pytest.fixture
def dripping() -> Iterator[Callable[..., Dripping]]:
    made: list[Dripping] = []

    def start(*parts: bytes) -> Dripping:
        made.append(Dripping(*parts))
        return made[-1]

    yield start
    for each in made:
        each.close()


def kubernetes(server: Dripping, timeout: float = DEADLINE) -> Any:
    api = KubeApi(lambda: configuration(server.url), Metrics())
    return api.get("/api/v1/nodes", timeout=timeout)


def telemetry(server: Dripping, timeout: float = DEADLINE) -> Any:
    session = HttpSession(server.url, part="BALLAST_PROMETHEUS__", timeout=timeout)
    try:
        return session.get(server.url + "/api/v1/query")
    finally:
        session.close()


def watching(server: Dripping) -> Any:
    """Raises Unreachable also where the machine is too busy for the headers to come within the deadline."""
    api = KubeApi(lambda: configuration(server.url), Metrics(), DEADLINE)
    return api.stream("/api/v1/nodes", {"watch": "true"}, idle=60.0)


@pytest.mark.parametrize(
    "drops",
    [
        *(DROPS[name] for name in ("status line", "headers", "one header", "continue")),
        (b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n", b" "),
        (b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 100000\r\n\r\n", b" "),
    ],
    ids=["status line", "headers", "one header", "continue", "refusal", "refused credentials"],
)
def test_a_dripping_server_costs_a_watch_the_deadline_of_its_headers(
    drops: tuple[bytes, bytes], dripping: Callable[..., Dripping]
) -> None:
    with pytest.raises(Unreachable):
        watching(dripping(*drops))


def test_the_lines_of_a_watch_have_no_deadline(dripping: Callable[..., Dripping]) -> None:
    server, clock = dripping(HEAD + b"Connection: close\r\n\r\n", b"{}\n"), SystemClock()
    while True:
        with suppress(Unreachable), watching(server) as lines:
            opened = clock.monotonic()
            for line in lines:
                assert line == b"{}"
                if clock.monotonic() - opened > 3 * DEADLINE:
                    return
            break
    raise AssertionError("the watch ended early")


@pytest.mark.parametrize("ask", [kubernetes, telemetry])
@pytest.mark.parametrize("drops", DROPS.values(), ids=DROPS)
def test_a_dripping_server_costs_its_deadline(
    ask: Callable[[Dripping], Any], drops: tuple[bytes, bytes], dripping: Callable[..., Dripping]
) -> None:
    server = dripping(*drops)
    with pytest.raises((Unreachable, SourceUnavailable)):
        ask(server)
    assert server.connections == 1


@pytest.mark.parametrize("ask", [kubernetes, telemetry])
@pytest.mark.parametrize(
    "cut",
    [
        HEAD,
        HEAD + b"x-a: b",
        HEAD + b"Content-Length: 10\r\n\r\n{}",
        HEAD + b"Content-Length: 10\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2",
    ],
)
def test_what_was_cut_off_is_an_error(ask: Callable[..., Any], cut: bytes, dripping: Callable[..., Dripping]) -> None:
    with pytest.raises((Unreachable, SourceUnavailable)):
        ask(dripping(cut), HUNG)


def test_an_answer_of_more_bytes_than_allowed_is_not_read(dripping: Callable[..., Dripping]) -> None:
    server = dripping(HEAD + b"Content-Length: 5000\r\n\r\n" + b" " * 5000)
    api = KubeApi(lambda: configuration(server.url), Metrics())
    with pytest.raises(AnswerTooLarge, match="GET /api/v1/nodes"):
        api.get("/api/v1/nodes", most=4000)
