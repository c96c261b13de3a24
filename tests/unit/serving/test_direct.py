"""What schedulers ask is answered without ASGI: in order, whole, and within the bounds of the port."""

import contextlib
import json
import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from starlette.applications import Starlette

from ballast.base.body_budget import BodiesInFlight, BodyBudget
from ballast.base.metrics import Metrics
from ballast.serving import bounded_protocol, extender
from ballast.serving.server import Server
from ballast.serving.web_apps import create_app
from ballast_lab.harness.waiting import HUNG, until
from tests.unit.serving.test_extender import FORMS, POD, Fake
from tests.worlds.board import LOOPBACK, board_of

NAMES = json.dumps(FORMS[0]).encode()
LONG = json.dumps({"Pod": POD, "NodeNames": [f"node-{number:05d}.internal" for number in range(8000)]}).encode()


@contextlib.contextmanager
def serving(fake: Fake) -> Iterator[tuple["Client", BodyBudget]]:
    """A client, and what the bodies of its requests share."""
    app = create_app(board_of(None), Metrics(), fake)
    server = Server(app, LOOPBACK)
    try:
        with socket.create_connection(("127.0.0.1", server.start()), timeout=HUNG) as connection:
            yield Client(connection), app.state.take.__self__.bodies
    finally:
        server.stop()


def request(body: bytes, verb: str = "prioritize", *, chunked: bool = False, more: bytes = b"") -> bytes:
    head = b"POST /scheduler/%b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%b" % (verb.encode(), more)
    if chunked:
        chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"0\r\n\r\n"
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Client:
    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._unread = b""

    def answer(self) -> tuple[bytes, dict[bytes, bytes], bytes]:
        """(status line, headers but the date, body)"""
        while b"\r\n\r\n" not in self._unread:
            self._receive()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        status, *lines = head.split(b"\r\n")
        headers = dict(line.split(b": ", 1) for line in lines)
        while len(self._unread) < int(headers[b"content-length"]):
            self._receive()
        size = int(headers[b"content-length"])
        body, self._unread = self._unread[:size], self._unread[size:]
        headers.pop(b"date", None)
        return status, headers, body

    def ended(self) -> bool:
        with contextlib.suppress(ConnectionResetError):
            return self.socket.recv(1) == b""
        return True

    def _receive(self) -> None:
        got = self.socket.recv(65536)
        assert got, self._unread
        self._unread += got


@pytest.fixture
def passed_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the requests that ASGI answered."""
    paths: list[str] = []
    handle = Starlette.__call__

    async def noted(self: Starlette, scope: Any, receive: Any, send: Any) -> None:
        paths.append(scope["path"])
        await handle(self, scope, receive, send)

    monkeypatch.setattr(Starlette, "__call__", noted)
    return paths


@pytest.mark.parametrize(
    "sent",
    [
        request(NAMES),
        request(NAMES, chunked=True),
        request(json.dumps(FORMS[1]).encode(), "filter"),
        request(NAMES, "%70rioritize"),
        request(NAMES).replace(b"/scheduler/", b"http://x/scheduler/"),
        request(NAMES, more=b"User-Agent: Mozilla/5.0\r\n"),
        request(NAMES, more=b"Connection: Upgrade\r\nUpgrade: websocket\r\n", chunked=True),
        request(NAMES).replace(b"POST", b"GET"),
        request(NAMES).replace(b"application/json", b"text/plain"),
        request(b"{" + b" " * 2**20 + NAMES[1:]),
        request(b"x" * 2**20 + b"x"),
    ],
)
def test_no_request_to_the_extender_reaches_asgi(sent: bytes, passed_on: list[str]) -> None:
    with serving(Fake()) as (client, bodies):
        client.socket.sendall(sent)
        client.answer()
        assert passed_on == []
        until(lambda: bodies.held == 0)


@pytest.mark.parametrize("path", ["schedulers/", "scheduler//", "scheduler/token/", "//scheduler/"])
def test_other_paths_are_unknown(path: str, passed_on: list[str]) -> None:
    with serving(Fake()) as (client, _):
        client.socket.sendall(request(NAMES).replace(b"scheduler/", path.encode()))
        status, _, _ = client.answer()
    assert (status, len(passed_on)) == (b"HTTP/1.1 404 Not Found", 1)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("awaited", [0, 3])
def test_a_pod_that_the_watch_shows_soon_is_decided_like_others(awaited: int, chunked: bool) -> None:
    fake = Fake()
    fake.awaited = awaited
    with serving(fake) as (client, _):
        client.socket.sendall(request(NAMES, chunked=chunked))
        status, _, body = client.answer()
    assert (status, json.loads(body)[0]) == (b"HTTP/1.1 200 OK", {"Host": "a", "Score": 10})


def test_a_body_is_sent_once_the_client_is_told_to() -> None:
    with serving(Fake()) as (client, _):
        head, _, body = request(NAMES, more=b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")
        client.socket.sendall(head + b"\r\n\r\n")
        assert client.socket.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.socket.sendall(body)
        assert client.answer()[0] == b"HTTP/1.1 200 OK"


def test_a_body_in_chunks_that_grows_too_large_is_413_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extender, "MAX_BODY", 1000)
    with serving(Fake()) as (client, bodies):
        client.socket.sendall(request(b"x" * 1001, chunked=True)[: -len(b"0\r\n\r\n")])
        assert client.answer()[::2] == (b"HTTP/1.1 413 Request Entity Too Large", b"Content Too Large")
        assert bodies.held == 0


@pytest.mark.parametrize("seed", range(8))
def test_the_bytes_may_arrive_in_any_pieces(seed: int) -> None:
    dice = random.Random(seed)
    sent = request(NAMES) + request(LONG, "filter") + request(NAMES, chunked=True) + request(NAMES)
    with serving(Fake()) as (client, _):
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        cuts = sorted(dice.sample(range(len(sent)), 30))
        for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
            client.socket.sendall(sent[start:end])
        answers = [client.answer() for _ in range(4)]
    assert [status for status, _, _ in answers] == [b"HTTP/1.1 200 OK"] * 4
    assert answers[0] == answers[2] == answers[3]
    assert len(json.loads(answers[1][2])["NodeNames"]) == 7999


def test_a_pod_that_is_waited_for_holds_up_the_requests_behind_it() -> None:
    fake = Fake()
    fake.awaited = 4
    with serving(fake) as (client, _):
        client.socket.sendall(request(NAMES) + request(NAMES, "filter") + b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        answers = [client.answer()[2] for _ in range(3)]
    assert answers[0].startswith(b"[")
    assert answers[1].startswith(b'{"NodeNames"')
    assert b"FailedNodes" not in answers[2]


def test_a_caller_that_wants_the_connection_closed_gets_that() -> None:
    with serving(Fake()) as (client, _):
        client.socket.sendall(request(NAMES, more=b"Connection: close\r\n"))
        status, headers, _ = client.answer()
        assert (status, headers[b"connection"]) == (b"HTTP/1.1 200 OK", b"close")
        assert client.ended()


@pytest.mark.parametrize("looks", [0, 1])
def test_a_defect_is_told_and_keeps_no_body(looks: int) -> None:
    class Broken(Fake):
        def awaits(self, pod: Any) -> bool:
            self.awaited += 1
            if self.awaited > looks:
                raise ZeroDivisionError
            return True

    with serving(Broken()) as (client, bodies), structlog.testing.capture_logs() as told:
        client.socket.sendall(request(LONG))
        status, headers, _ = client.answer()
        assert (status, headers[b"connection"]) == (b"HTTP/1.1 500 Internal Server Error", b"close")
        assert client.ended()
        until(lambda: not bodies.busy())
    assert [line["event"] for line in told] == ["a request could not be answered"]


@pytest.mark.parametrize("step", [(extender.ExtenderRoutes, "take"), (extender.ArrivingRequest, "add")])
def test_a_defect_before_the_answer_is_told_too(step: tuple[type, str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, given: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(*step, broken)
    with serving(Fake()) as (client, _), structlog.testing.capture_logs() as told:
        client.socket.sendall(request(NAMES))
        assert client.answer()[0] == b"HTTP/1.1 500 Internal Server Error"
        assert client.ended()
    assert [line["event"] for line in told] == ["a request could not be answered"]


@pytest.mark.parametrize("waits", [False, True])
def test_a_caller_that_goes_leaves_nothing_behind(waits: bool) -> None:
    asked = threading.Event()

    class Waiting(Fake):
        def awaits(self, pod: Any) -> bool:
            asked.set()
            return waits

    with serving(Waiting()) as (client, bodies):
        client.socket.sendall(request(LONG) if waits else request(LONG)[:-1])
        until(asked.is_set if waits else lambda: bodies.held > 0)
        client.socket.close()
        until(lambda: not bodies.held)


def test_a_body_for_which_there_is_no_room_is_503() -> None:
    with serving(Fake()) as (client, bodies):
        with contextlib.suppress(BodiesInFlight):
            while True:
                other = bodies.open()
                bodies.add(other, b"x" * 2**20)
                bodies.complete(other)
        client.socket.sendall(request(LONG))
        status, headers, body = client.answer()
        assert status == b"HTTP/1.1 503 Service Unavailable"
        assert (headers[b"retry-after"], headers[b"connection"]) == (b"1", b"close")
        assert b"Too many request bodies" in body
        assert client.ended()


def test_a_client_that_reads_no_answer_gets_no_further_ones() -> None:
    fake = Fake()
    with serving(fake) as (client, _):
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.socket.settimeout(0.5)
        with contextlib.suppress(OSError):
            for _ in range(400):
                client.socket.sendall(request(LONG))
        assert len(fake.asked) < 200


def test_refusals_that_nobody_reads_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    served, made = list[bounded_protocol.BoundedProtocol](), bounded_protocol.BoundedProtocol.connection_made

    def noted(self: bounded_protocol.BoundedProtocol, transport: Any) -> None:
        made(self, transport)
        served.append(self)

    monkeypatch.setattr(bounded_protocol.BoundedProtocol, "connection_made", noted)
    with serving(Fake()) as (client, _):
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.socket.settimeout(1.0)
        with contextlib.suppress(OSError):
            client.socket.sendall(60_000 * b"GET /scheduler/filter HTTP/1.1\r\nHost: x\r\n\r\n")
        until(lambda: bool(served) and served[0].flow.read_paused)
        assert served[0].transport.get_write_buffer_size() < 2**20


def test_what_an_answer_changed_is_computed_after_it_was_sent() -> None:
    settled = threading.Event()

    class Settling(Fake):
        def settle(self) -> None:
            assert answered.wait(HUNG)
            settled.set()

    answered = threading.Event()
    with serving(Settling()) as (client, _):
        client.socket.sendall(request(NAMES))
        assert client.answer()[0] == b"HTTP/1.1 200 OK"
        answered.set()
        assert settled.wait(HUNG)


def test_a_body_that_is_still_read_for_a_caller_who_went_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, go_on = threading.Event(), threading.Event()

    class Slow(Fake):
        def prioritize(self, *given: Any, **named: Any) -> Any:
            asked.set()
            assert go_on.wait(HUNG)
            return super().prioritize(*given, **named)

    lost, losing = threading.Event(), bounded_protocol.BoundedProtocol.connection_lost

    def seen(self: bounded_protocol.BoundedProtocol, error: Exception | None) -> None:
        losing(self, error)
        lost.set()

    monkeypatch.setattr(bounded_protocol.BoundedProtocol, "connection_lost", seen)
    with serving(Slow()) as (client, bodies):
        client.socket.sendall(request(b"{" + b" " * 2**21 + NAMES[1:]))
        assert asked.wait(HUNG)
        client.socket.close()
        assert lost.wait(HUNG)
        held = bodies.held
        go_on.set()
        until(lambda: bodies.held == 0)
    assert held > 2**21


@pytest.mark.parametrize("awaited", [0, 4])
def test_a_request_behind_another_must_end_in_time_too(awaited: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "READ_TIMEOUT", 0.3)
    fake = Fake()
    fake.awaited = awaited
    with serving(fake) as (client, bodies):
        client.socket.sendall(request(NAMES) + request(LONG)[:400])
        client.answer()
        with contextlib.suppress(OSError):
            client.socket.sendall(b" ")
        assert client.ended()
        until(lambda: bodies.held == 0)


def test_a_caller_that_was_refused_early_may_not_stay_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "KEEP_ALIVE", 0.2)
    sent = request(LONG).replace(b"application/json", b"text/plain")
    with serving(Fake()) as (client, _):
        client.socket.sendall(sent[:400])
        assert client.answer()[0] == b"HTTP/1.1 415 Unsupported Media Type"
        client.socket.sendall(sent[400:])
        assert client.ended()


@pytest.mark.parametrize("rubbish", [b"rubbish", b"GET / HTTP/1.1", b"GET x HTTP/1.1\r\nHost: x"])
def test_rubbish_is_not_answered_in_the_place_of_an_earlier_request(rubbish: bytes) -> None:
    fake = Fake()
    fake.awaited = 4
    with serving(fake) as (client, _):
        client.socket.sendall(request(NAMES) + rubbish + b"\r\n\r\n")
        assert client.ended()


def test_a_body_that_is_no_http_is_answered_400() -> None:
    with serving(Fake()) as (client, bodies):
        client.socket.sendall(request(NAMES, chunked=True).replace(b"\r\n0\r\n", b"rubbish"))
        assert client.answer()[0] == b"HTTP/1.1 400 Bad Request"
        assert client.ended()
        until(lambda: bodies.held == 0)
