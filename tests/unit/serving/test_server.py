import asyncio
import contextlib
import logging
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
import trustme
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from ballast.base.errors import SettingsError
from ballast.base.metrics import Metrics
from ballast.serving import bounded_protocol, server
from ballast.serving.refusals import Refusals
from ballast.serving.server import Server
from ballast.serving.web_apps import MAX_BODY, create_app
from ballast.settings.plain_parts import HttpSettings
from ballast_lab.harness.waiting import HUNG
from tests.unit.serving.client import ask
from tests.worlds.board import LOOPBACK, board_of, fleet, serving, snapshot
from tests.worlds.clock import FakeClock

KNOWN = snapshot([[0.5], [0.25]])


def dial(port: int, receive_buffer: int | None = None) -> socket.socket:
    client = socket.socket()
    if receive_buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    client.settimeout(60)
    try:
        client.connect(("127.0.0.1", port))
    except OSError:
        client.close()
        raise
    return client


def drained(client: socket.socket) -> bytes:
    """Everything until the server ends the connection, one way or the other."""
    received = b""
    try:
        while chunk := client.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def answer(client: socket.socket) -> bytes:
    """One whole response; its length is in its header."""
    received = b""
    while (head := received.partition(b"\r\n\r\n"))[1] == b"":
        received += client.recv(1)
    length = re.search(rb"content-length: (\d+)", head[0], re.IGNORECASE)
    assert length is not None
    while len(received) < len(head[0]) + 4 + int(length[1]):
        received += client.recv(65536)
    return received


@pytest.mark.parametrize(
    "sent", [b"", b"GET /livez HT", b"\r\n", b"POST /watcher HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nabc"]
)
def test_a_client_that_does_not_finish_its_request_is_dropped(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "READ_TIMEOUT", 0.2)
    with serving(board_of(KNOWN)) as port, dial(port) as client:
        client.sendall(sent)
        drained(client)


def test_a_client_that_does_not_take_its_answer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "WRITE_TIMEOUT", 0.2)
    dropped = threading.Event()
    lost = bounded_protocol.BoundedProtocol.connection_lost

    def seen(self: bounded_protocol.BoundedProtocol, error: Exception | None) -> None:
        lost(self, error)
        dropped.set()

    monkeypatch.setattr(bounded_protocol.BoundedProtocol, "connection_lost", seen)
    board = board_of(fleet(20_000))
    with serving(board) as port, dial(port, receive_buffer=4096) as client:
        client.sendall(b"GET /watcher HTTP/1.1\r\nhost: x\r\n\r\n")
        assert dropped.wait(HUNG)
        assert board.rendered is not None
        assert len(drained(client)) < len(board.rendered.watcher["15m", False].plain())


def test_a_quiet_connection_is_closed_and_a_busy_one_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "KEEP_ALIVE", 0.2)
    with serving(board_of(KNOWN)) as port, dial(port) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\nGET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        assert drained(client).count(b"HTTP/1.1 200") == 2


def test_the_connection_heard_of_least_recently_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "MAX_CONNECTIONS", 2)
    with serving(board_of(KNOWN)) as port, dial(port) as first, dial(port) as second:
        for client in (first, second):
            client.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
            assert answer(client).startswith(b"HTTP/1.1 200")
        assert ask(port, "/livez").status == 200
        assert drained(first) == b""
        second.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        assert answer(second).startswith(b"HTTP/1.1 200")


def test_bodies_are_bounded() -> None:
    with serving(board_of(KNOWN)) as port:
        assert ask(port, "/watcher", "POST", b"x" * MAX_BODY).status == 200
        assert ask(port, "/watcher", "POST", b"x" * (MAX_BODY + 1)).status == 413


def test_rubbish_is_answered_400() -> None:
    with serving(board_of(KNOWN)) as port, dial(port) as client:
        client.sendall(b"\x16\x03\x01 this is no HTTP\r\n\r\n")
        assert drained(client).startswith(b"HTTP/1.1 400")


def test_stop_does_not_wait_for_idle_or_stuck_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_protocol, "GRACE", 0.2)
    entered = threading.Event()

    async def stuck(request: Request) -> Response:
        entered.set()
        with contextlib.suppress(ClientDisconnect):
            await request.body()
        return Response()

    server = Server(Starlette(routes=[Route("/", stuck, methods=["POST"])]), LOOPBACK)
    port = server.start()
    with dial(port), dial(port) as hanging:
        hanging.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n")
        assert entered.wait(HUNG)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        stopper.join(HUNG)
        assert not stopper.is_alive()
    server.stop()
    assert not server.alive
    with pytest.raises(ConnectionRefusedError):
        dial(port)


def test_a_port_in_use_is_named_with_its_setting() -> None:
    with serving(board_of(KNOWN)) as port, pytest.raises(SettingsError, match=f"BALLAST_HTTP__PORT={port}.*in use"):
        Server(Starlette(), HttpSettings(host="127.0.0.1", port=port)).start()


@pytest.fixture
def pair(tmp_path: Path) -> tuple[trustme.CA, Path, Path]:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(key))
    return authority, cert, key


def over_tls(port: int, context: ssl.SSLContext) -> bytes:
    with dial(port) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as client:
        client.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        return drained(client)


def test_tls_with_and_without_client_certificates(pair: tuple[trustme.CA, Path, Path], tmp_path: Path) -> None:
    authority, cert, key = pair
    context = ssl.create_default_context()
    authority.configure_trust(context)
    settings = {"host": "127.0.0.1", "port": 0, "tls_cert_file": cert, "tls_key_file": key}
    with serving(board_of(KNOWN), HttpSettings(**settings)) as port:
        assert over_tls(port, context).startswith(b"HTTP/1.1 200")
    clients = trustme.CA()
    bundle = tmp_path / "clients.pem"
    clients.cert_pem.write_to_path(str(bundle))
    with serving(board_of(KNOWN), HttpSettings(**settings, client_ca_file=bundle)) as port:
        with contextlib.suppress(ssl.SSLError):
            assert over_tls(port, context) == b""
        clients.issue_cert("client.example").configure_cert(context)
        assert over_tls(port, context).startswith(b"HTTP/1.1 200")


def test_a_renewed_certificate_is_taken_up(pair: tuple[trustme.CA, Path, Path]) -> None:
    _, cert, key = pair
    server = Server(
        create_app(board_of(KNOWN), Metrics()),
        HttpSettings(host="127.0.0.1", port=0, tls_cert_file=cert, tls_key_file=key),
    )
    port = server.start()
    try:
        renewed = trustme.CA()
        trusting = ssl.create_default_context()
        renewed.configure_trust(trusting)
        with pytest.raises(ssl.SSLCertVerificationError):
            over_tls(port, trusting)
        cert.write_text("half written")
        asyncio.run(server.renew_certificate())
        issued = renewed.issue_cert("127.0.0.1")
        cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        key.write_bytes(issued.private_key_pem.bytes())
        asyncio.run(server.renew_certificate())
        assert over_tls(port, trusting).startswith(b"HTTP/1.1 200")
    finally:
        server.stop()


def test_a_client_ca_without_tls_and_half_a_pair_are_refused(pair: tuple[trustme.CA, Path, Path]) -> None:
    _, cert, key = pair
    with pytest.raises(SettingsError, match=r"CLIENT_CA_FILE=.*needs TLS"):
        Server(Starlette(), HttpSettings(client_ca_file=cert))
    with pytest.raises(SettingsError, match="TLS_KEY_FILE must be set together"):
        Server(Starlette(), HttpSettings(tls_cert_file=cert))
    with pytest.raises(SettingsError, match="cannot be loaded"):
        Server(Starlette(), HttpSettings(tls_cert_file=key, tls_key_file=cert))


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /livez HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 101 + b"\r\n",
        b"GET /livez HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 1_000_000,
        b"GET /livez HTTP/1.1\r\nhost: x\r\na: " + b"b" * 200_000,
        b"GET /livez HTTP/1.1\r\nhost: x\r\na: " + b"b" * 65_536 + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: x\r\n" + b"b" * 65_536 + b": a\r\n\r\n",
        b"GET /livez?" + b"x" * 65_536 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"POST /watcher HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * 200 + b"\r\n",
    ],
    ids=["101", "endless", "endless value", "value", "name", "target", "trailers"],
)
def test_headers_are_bounded(sent: bytes) -> None:
    metrics = Metrics()
    refused = metrics.http_refused.labels("431", "page")
    server = Server(create_app(board_of(KNOWN), metrics), LOOPBACK, lambda code: refused.inc())
    port = server.start()
    try:
        with dial(port) as client:
            with contextlib.suppress(ConnectionError):
                client.sendall(sent)
            # A server that closes while bytes arrive may reset the connection before the answer is read.
            assert drained(client)[:12] in (b"HTTP/1.1 431", b"")
        assert ask(port, "/livez").status == 200
        assert refused._value.get() == 1
    finally:
        server.stop()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nhost: evil.com\r\nhost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET http://localhost/livez HTTP/1.1\r\nx-host: localhost\r\n\r\n",
        b"POST /scheduler/filter HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}",
        b"POST /watcher HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 5_000,
        b"POST /watcher HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n1;" + b"a" * 200_000,
    ],
    ids=[
        "no HTTP",
        "two hosts",
        "no host",
        "the host in the target",
        "no host and a body",
        "small chunks",
        "endless extension",
    ],
)
def test_what_is_no_request_to_be_taken_is_counted_and_not_logged(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    codes: list[int] = []
    with running(Server(create_app(board_of(KNOWN), Metrics()), LOOPBACK, codes.append)) as port, dial(port) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(sent)
        assert drained(client)[:12] in (b"HTTP/1.1 400", b"")
    assert codes == [400]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_body_in_large_chunks_and_an_upgrade_nobody_offers_are_taken() -> None:
    chunks = b"800\r\n%b\r\n" % (b"x" * 2048) * 20
    with serving(board_of(KNOWN)) as port, dial(port) as client:
        client.sendall(
            b"POST /watcher HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        )
        client.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close, upgrade\r\nupgrade: h2c\r\n\r\n")
        assert drained(client).count(b"HTTP/1.1 200") == 2


def test_refusals_are_told_once_a_minute() -> None:
    clock, metrics = FakeClock(), Metrics()
    refusals = Refusals(metrics, clock, "health")
    with structlog.testing.capture_logs() as records:
        for seconds in range(121):
            for _ in range(100):
                refusals.count(400)
            clock.advance(float(seconds < 120))
    told = [record["event"] for record in records]
    assert len(told) == 3
    assert "400 (6,000)" in told[1]
    labels = {"code": "400", "port": "health"}
    assert metrics.registry.get_sample_value("ballast_http_refused_total", labels) == 12_100


def test_a_hundred_headers_and_a_long_target_are_served() -> None:
    with serving(board_of(KNOWN)) as port, dial(port) as client:
        many = b"GET /livez?%b HTTP/1.1\r\nhost: x\r\n%b\r\n" % (b"x" * 60_000, b"a: b\r\n" * 99)
        client.sendall(many * 2 + b"GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert drained(client).count(b"HTTP/1.1 200") == 3


def test_requests_that_wait_for_an_answer_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that streams requests could else fill the memory; it takes its answers all the while."""
    most, count = 0, 0
    received = bounded_protocol.BoundedProtocol.data_received

    def counted(self: bounded_protocol.BoundedProtocol, data: bytes) -> None:
        nonlocal most
        received(self, data)
        most = max(most, len(self.pipeline))

    def refused(code: int) -> None:
        nonlocal count
        count += 1

    monkeypatch.setattr(bounded_protocol.BoundedProtocol, "data_received", counted)
    with running(Server(Starlette(), LOOPBACK, refused)) as port, dial(port) as client:
        with contextlib.suppress(OSError):
            client.sendall(b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n" * 20_000)
        drained(client)
    assert most < 300
    assert count == 1


def test_bytes_of_requests_that_wait_for_an_answer_are_few() -> None:
    refused = threading.Event()
    large = b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n" + b"x" * 60_000
    with running(Server(Starlette(), LOOPBACK, lambda code: refused.set())) as port, dial(port) as client:
        with contextlib.suppress(OSError):
            client.sendall(b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n" + large * 6)
        drained(client)
    assert refused.is_set()


def test_a_few_requests_in_a_row_are_answered_in_order() -> None:
    async def echo(request: Request) -> Response:
        return Response(request.path_params["what"])

    app = Starlette(routes=[Route("/{what}", echo)])
    with running(Server(app, LOOPBACK)) as port, dial(port) as client:
        for first in (0, 8):
            names = [f"answer-{number}" for number in range(first, first + 8)]
            client.sendall(b"".join(f"GET /{name} HTTP/1.1\r\nhost: x\r\n\r\n".encode() for name in names))
            received = b""
            while received.count(b"answer-") < len(names):
                received += client.recv(65536)
            assert [row.decode() for row in re.findall(rb"answer-\d+", received)] == names


def test_answers_that_nobody_takes_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The slowest are dropped; who has just asked gets the answer."""
    monkeypatch.setattr(bounded_protocol, "MAX_UNSENT", 24 * 2**20)

    async def large(request: Request) -> Response:
        return Response(bytes(10 * 2**20))

    app = Starlette(routes=[Route("/", large)])
    with running(Server(app, LOOPBACK)) as port, contextlib.ExitStack() as stack:
        slow = [stack.enter_context(dial(port, receive_buffer=4096)) for _ in range(4)]
        for client in slow:
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            assert client.recv(1) == b"H"
        assert len(drained(slow[0])) < 10 * 2**20
        taken = 0
        while taken < 10 * 2**20:
            taken += len(slow[3].recv(2**20))


def test_a_handshake_that_does_not_end_is_dropped(
    pair: tuple[trustme.CA, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HANDSHAKE", 0.2)
    _, cert, key = pair
    settings = HttpSettings(host="127.0.0.1", port=0, tls_cert_file=cert, tls_key_file=key)
    with running(Server(Starlette(), settings)) as port, dial(port) as client:
        client.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
        assert drained(client) == b""


@contextlib.contextmanager
def running(made: Server) -> Iterator[int]:
    """Its port."""
    port = made.start()
    try:
        yield port
    finally:
        made.stop()
