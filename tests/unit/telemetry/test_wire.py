"""Real sockets: what a person reads when something between us and Prometheus is wrong."""

import gzip
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from prometheus_api_client import PrometheusConnect
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from ballast.base.clock import SystemClock
from ballast.base.errors import SourceUnavailable, TelemetryError
from ballast.base.metrics import Metrics
from ballast.model.sample import Reading
from ballast.settings import PrometheusSettings, Settings
from ballast.telemetry import http as wire_module
from ballast.telemetry.failed_answers import TooLarge
from ballast.telemetry.http import HttpSession
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_client import Grid, PrometheusClient
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast_lab.harness.waiting import HUNG

NOW = Grid(1_700_000_000.0, 1.0, 1)
OK = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


def ask(url: str, **prometheus: Any) -> bytes:
    client = PrometheusClient(Settings(prometheus=PrometheusSettings(url=url, **prometheus)))
    try:
        return client.ask("up", NOW)
    finally:
        client.close()


@pytest.fixture(scope="module")
def plain_server() -> Iterator[HTTPServer]:
    with HTTPServer(host="127.0.0.1", port=0) as server:
        yield server


@pytest.fixture
def plain(plain_server: HTTPServer) -> HTTPServer:
    plain_server.clear()
    return plain_server


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture(scope="module")
def secure(authority: trustme.CA) -> Iterator[HTTPServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with HTTPServer(host="127.0.0.1", port=0, ssl_context=context) as server:
        server.expect_request("/api/v1/query").respond_with_data(OK)
        yield server


@pytest.fixture(scope="module")
def mutual(authority: trustme.CA) -> Iterator[HTTPServer]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    with HTTPServer(host="127.0.0.1", port=0, ssl_context=context) as server:
        server.expect_request("/api/v1/query").respond_with_data(OK)
        yield server


def test_long_queries_travel_in_the_body(plain: HTTPServer) -> None:
    query = "up or " * 5_000 + "up"

    def answer(request: Request) -> Response:
        assert not request.query_string
        assert request.form["query"] == query
        return Response(OK)

    plain.expect_request("/api/v1/query", method="POST").respond_with_handler(answer)
    client = PrometheusClient(Settings(prometheus=PrometheusSettings(url=plain.url_for(""))))
    assert client.ask(query, NOW) == OK
    client.close()


def test_a_proxy_that_allows_no_post_is_asked_with_get(plain: HTTPServer) -> None:
    plain.expect_request("/api/v1/query", method="POST").respond_with_data("", status=405)
    plain.expect_request(
        "/api/v1/query", method="GET", query_string={"query": "up", "time": "1700000000", "timeout": "10s"}
    ).respond_with_data(OK)
    assert ask(plain.url_for("")) == OK


def test_compressed_answers_are_read(plain: HTTPServer) -> None:
    plain.expect_request("/api/v1/query").respond_with_data(gzip.compress(OK), headers={"Content-Encoding": "gzip"})
    assert ask(plain.url_for("")) == OK


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_passing_failure_is_asked_again(plain: HTTPServer, status: int) -> None:
    plain.expect_ordered_request("/api/v1/query").respond_with_data("busy", status=status)
    plain.expect_ordered_request("/api/v1/query").respond_with_data("busy", status=status)
    plain.expect_ordered_request("/api/v1/query").respond_with_data(OK)
    assert ask(plain.url_for("")) == OK


def test_a_lasting_failure_is_given_up_after_three_times(plain: HTTPServer) -> None:
    plain.expect_request("/api/v1/query").respond_with_data("busy", status=503)
    with pytest.raises(SourceUnavailable, match="answers 503"):
        ask(plain.url_for(""))
    assert len(plain.log) == 3


def test_what_no_retry_can_mend_is_asked_once(plain: HTTPServer) -> None:
    said = {"status": "error", "errorType": "bad_data", "error": "parse error"}
    plain.expect_request("/api/v1/query").respond_with_json(said, status=400)
    with pytest.raises(TelemetryError, match=r"400, parse error.*BALLAST_TELEMETRY__RESOURCES"):
        ask(plain.url_for(""))
    assert len(plain.log) == 1


@pytest.mark.parametrize("status", [401, 403])
def test_who_is_not_let_in_reads_where_credentials_go(plain: HTTPServer, status: int) -> None:
    plain.expect_request("/api/v1/query").respond_with_data("no", status=status)
    with pytest.raises(SourceUnavailable, match=rf"{status}.*BALLAST_PROMETHEUS__TOKEN_FILE"):
        ask(plain.url_for(""))


def test_a_wrong_path_points_to_the_prefix(plain: HTTPServer) -> None:
    with pytest.raises(SourceUnavailable, match=r"/wrong/api/v1/query|BALLAST_PROMETHEUS__URL"):
        ask(plain.url_for("/wrong"))


def test_a_redirect_is_told_not_followed(plain: HTTPServer) -> None:
    plain.expect_request("/api/v1/query").respond_with_data("", status=302, headers={"Location": "https://login/?x=y"})
    with pytest.raises(SourceUnavailable, match=r"redirects to https://login/ \(302\)"):
        ask(plain.url_for(""))
    assert len(plain.log) == 1


def test_too_many_points_ask_for_smaller_pieces(plain: HTTPServer) -> None:
    words = (
        "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)"
    )
    plain.expect_request("/api/v1/query").respond_with_json({"status": "error", "error": words}, status=400)
    with pytest.raises(TooLarge, match="11,000 points"):
        ask(plain.url_for(""))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def test_nobody_listening_names_the_address_but_no_password() -> None:
    port = free_port()
    with pytest.raises(SourceUnavailable) as raised:
        ask(f"http://user:hunter2@127.0.0.1:{port}")
    assert str(raised.value).startswith(f"http://127.0.0.1:{port} cannot be reached (Connection refused)")
    assert "BALLAST_PROMETHEUS__URL" in str(raised.value)
    assert "hunter2" not in str(raised.value)


class Socket:
    """Sends whatever it is given, after one request was read."""

    def __init__(self, *pieces: bytes, hold: bool = False) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pieces = pieces
        self._hold = hold
        self.asked = threading.Event()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        self._listener.close()
        with connection:
            connection.recv(65536)
            self.asked.set()
            try:
                for piece in self._pieces:
                    connection.sendall(piece)
                if self._hold:
                    self._done.wait(HUNG)
            except OSError:
                pass

    def close(self) -> None:
        self._done.set()
        self._thread.join()


def test_a_silent_server_is_left_after_the_timeout() -> None:
    server = Socket(hold=True)
    with pytest.raises(SourceUnavailable, match=r"within 0.2 s.*BALLAST_PROMETHEUS__TIMEOUT"):
        ask(server.url, timeout="0.2s")
    server.close()


def test_closing_gives_up_what_is_under_way() -> None:
    server = Socket(hold=True)
    client = PrometheusClient(Settings(prometheus=PrometheusSettings(url=server.url)))
    answers = [client.start("up", NOW) for _ in range(20)]
    server.asked.wait()
    client.close()
    assert {str(answer.exception()) for answer in answers} == {"stopped"}
    assert str(client.start("up", NOW).exception()) == "stopped"
    server.close()


def test_a_reading_ends_when_its_source_is_closed() -> None:
    server = Socket(hold=True)
    watcher = PrometheusSource(Settings(prometheus=PrometheusSettings(url=server.url)), Metrics())
    readings: list[Reading] = []
    reader = threading.Thread(target=lambda: readings.append(watcher.read(NOW.start, NodeNames(()))))
    reader.start()
    server.asked.wait()
    watcher.close()
    reader.join()
    server.close()
    assert readings[0].problems["cpu"].endswith("stopped")


class Stepping(SystemClock):
    """Each look at the clock takes a second."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def monotonic(self) -> float:
        self._seconds += 1.0
        return self._seconds


def test_a_server_that_drips_is_left_after_the_timeout() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    server = Socket(head, *[b"1\r\nx\r\n"] * 50, hold=True)
    wire = HttpSession(server.url, part="BALLAST_PROMETHEUS__", timeout=4, clock=Stepping())
    with pytest.raises(SourceUnavailable, match="within 4 s"):
        wire.get(server.url)
    wire.close()
    server.close()


def test_a_hundred_megabytes_are_not_swallowed() -> None:
    size = 100 * 2**20
    server = Socket(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size, *[b" " * 2**20] * 100)
    with pytest.raises(TooLarge, match=r"larger than 64 MiB.*BALLAST_PROMETHEUS__MATCHERS"):
        ask(server.url)
    server.close()


def test_a_small_answer_that_unpacks_to_a_large_one_is_not_swallowed(plain: HTTPServer) -> None:
    bomb = gzip.compress(b" " * (80 * 2**20))
    plain.expect_request("/api/v1/query").respond_with_data(bomb, headers={"Content-Encoding": "gzip"})
    with pytest.raises(TooLarge):
        ask(plain.url_for(""))


@pytest.mark.parametrize("piece", [b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n20\r\n{"])
def test_half_an_answer_is_no_answer(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_module, "_ATTEMPTS", 1)
    server = Socket(b"HTTP/1.1 200 OK\r\n" + piece)
    wire = HttpSession(server.url, part="BALLAST_PROMETHEUS__", timeout=HUNG)
    with pytest.raises(SourceUnavailable, match=r"\(the answer ended early\)"):
        wire.get(server.url)
    wire.close()
    server.close()


def test_our_own_ca(secure: HTTPServer, ca_file: Path) -> None:
    assert ask(secure.url_for(""), ca_file=ca_file) == OK


def test_an_unknown_ca_is_refused_naming_the_setting(secure: HTTPServer) -> None:
    with pytest.raises(SourceUnavailable, match=r"is not trusted.*BALLAST_PROMETHEUS__CA_FILE"):
        ask(secure.url_for(""))


def test_verification_can_be_switched_off(secure: HTTPServer) -> None:
    assert ask(secure.url_for(""), insecure_skip_verify=True) == OK


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_the_environment_never_decides_whom_we_trust(
    variable: str, secure: HTTPServer, ca_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "/nowhere/ca.pem")
    assert ask(secure.url_for(""), ca_file=ca_file) == OK
    assert ask(secure.url_for(""), insecure_skip_verify=True) == OK
    monkeypatch.setenv(variable, str(ca_file))
    with pytest.raises(SourceUnavailable, match="is not trusted"):
        ask(secure.url_for(""))


def test_client_certificates(mutual: HTTPServer, authority: trustme.CA, ca_file: Path, tmp_path: Path) -> None:
    issued = authority.issue_cert("ballast")
    cert_file, key_file = tmp_path / "tls.crt", tmp_path / "tls.key"
    issued.cert_chain_pems[0].write_to_path(str(cert_file))
    issued.private_key_pem.write_to_path(str(key_file))
    assert ask(mutual.url_for(""), ca_file=ca_file, cert_file=cert_file, key_file=key_file) == OK
    with pytest.raises(SourceUnavailable, match="BALLAST_PROMETHEUS__CERT_FILE"):
        ask(mutual.url_for(""), ca_file=ca_file)


def test_https_to_a_plain_port_says_so(plain: HTTPServer) -> None:
    with pytest.raises(SourceUnavailable, match="http or https in BALLAST_PROMETHEUS__URL"):
        ask(f"https://127.0.0.1:{plain.port}")


def authorization(server: HTTPServer) -> list[str | None]:
    return [request.headers.get("Authorization") for request, _ in server.log]


def test_a_token_file_is_read_again_when_it_changes(plain: HTTPServer, tmp_path: Path) -> None:
    plain.expect_request("/api/v1/query").respond_with_data(OK)
    token = tmp_path / "token"
    token.write_text("first\n")
    client = PrometheusClient(Settings(prometheus=PrometheusSettings(url=plain.url_for(""), token_file=token)))
    client.ask("up", NOW)
    token.write_text("the second\n")
    client.ask("up", NOW)
    token.unlink()
    with pytest.raises(SourceUnavailable, match="BALLAST_PROMETHEUS__TOKEN_FILE"):
        client.ask("up", NOW)
    client.close()
    assert authorization(plain) == ["Bearer first", "Bearer the second"]


def test_user_and_password(plain: HTTPServer, tmp_path: Path) -> None:
    plain.expect_request("/api/v1/query").respond_with_data(OK)
    password = tmp_path / "password"
    password.write_text("s3cret\n")
    ask(plain.url_for(""), username="ada", password_file=password)
    ask(f"http://ada:s3%63ret@127.0.0.1:{plain.port}")
    assert authorization(plain) == ["Basic YWRhOnMzY3JldA=="] * 2


def test_no_netrc_answers_for_us(plain: HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login x password y\n")
    monkeypatch.setenv("NETRC", str(netrc))
    plain.expect_request("/api/v1/query").respond_with_data(OK)
    ask(plain.url_for(""))
    assert authorization(plain) == [None]


def test_further_headers_are_sent(plain: HTTPServer) -> None:
    plain.expect_request("/api/v1/query", headers={"X-Scope-OrgID": "team"}).respond_with_data(OK)
    assert ask(plain.url_for(""), headers={"X-Scope-OrgID": "team"}) == OK


def test_proxies_from_the_environment_are_used(plain: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    plain.expect_request("/api/v1/query").respond_with_data(OK)
    monkeypatch.setenv("http_proxy", plain.url_for(""))
    monkeypatch.setenv("no_proxy", "")
    assert ask("http://prometheus.invalid") == OK


def test_bodies_are_kept_as_they_came(plain: HTTPServer) -> None:
    answer = {"status": "success", "warnings": ["partial"], "data": {"resultType": "vector", "result": []}}
    plain.expect_request("/api/v1/query").respond_with_json(answer)
    assert json.loads(ask(plain.url_for(""))) == answer


def test_the_library_gives_back_the_undecoded_answer(plain: HTTPServer) -> None:
    plain.expect_request("/api/v1/query").respond_with_data(OK)
    session = HttpSession(plain.url_for("/"), part="BALLAST_PROMETHEUS__", timeout=HUNG)
    with PrometheusConnect(plain.url_for("").rstrip("/"), session=session, method="POST") as connection:
        assert connection.custom_query("up").content == OK


def test_the_times_of_a_range_are_not_rounded(plain: HTTPServer) -> None:
    plain.expect_request("/api/v1/query_range").respond_with_data(OK)
    settings = Settings(prometheus=PrometheusSettings(url=plain.url_for("/")))
    assert PrometheusClient(settings).ask("up", Grid(0.5, 0.25, 3)) == OK
    [(request, _)] = plain.log
    assert request.form.to_dict() == {"query": "up", "start": "0.5", "end": "1", "step": "0.25", "timeout": "10s"}
