"""Who may ask: tokens, certificates, browsers' hosts, and how often."""

import asyncio
import http.client
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from ballast.base.errors import SettingsError
from ballast.base.metrics import Metrics
from ballast.serving.callers import BURST, MOST_CALLERS, RATE, Callers, RateLimit
from ballast.serving.server import Server
from ballast.serving.web_apps import create_app
from ballast.settings import HttpSettings
from ballast.settings.plain_parts import ExtenderSettings
from ballast_lab.harness.waiting import HUNG
from tests.unit.serving.client import Answer, ask
from tests.unit.serving.test_extender import FORMS, Fake
from tests.worlds.board import LOOPBACK, board_of
from tests.worlds.clock import FakeClock

TOKEN = "pla/n+ted to%ken"
PATH = "/scheduler/pla%2Fn+ted%20to%25ken"
ARGS = json.dumps(FORMS[0]).encode()


@contextmanager
def serving(
    settings: ExtenderSettings,
    metrics: Metrics | None = None,
    where: HttpSettings = LOOPBACK,
    hosts: tuple[str, ...] = (),
    fake: Fake | None = None,
) -> Iterator[int]:
    app = create_app(board_of(None), metrics or Metrics(), fake or Fake(), Callers(settings), hosts)
    server = Server(app, where, optional_ca=settings.client_ca_file)
    port = server.start()
    try:
        yield port
    finally:
        server.stop()


def post(port: int, path: str, **headers: str) -> Answer:
    return ask(port, path, "POST", ARGS, content_type="application/json", **headers)


@pytest.fixture
def with_token(tmp_path: Path) -> ExtenderSettings:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return ExtenderSettings(token_file=path)


@pytest.mark.parametrize("asks", [False, True])
def test_a_caller_has_proved_who_it_is_only_where_something_is_asked_for(
    asks: bool, with_token: ExtenderSettings
) -> None:
    fake = Fake()
    with serving(with_token if asks else ExtenderSettings(), fake=fake) as port:
        assert post(port, f"{PATH if asks else '/scheduler'}/prioritize").status == 200
    assert fake.proved == [asks]


@pytest.mark.parametrize("verb", ["prioritize", "filter"])
def test_a_token_counts_in_the_path_and_in_the_header(verb: str, with_token: ExtenderSettings) -> None:
    with serving(with_token) as port:
        assert post(port, f"{PATH}/{verb}").status == 200
        assert post(port, f"/scheduler/{verb}", authorization=f"Bearer {TOKEN}").status == 200
        assert post(port, f"/scheduler/{verb}", authorization=f"bearer  {TOKEN} ").status == 200
        assert post(port, f"/scheduler/wrong/{verb}", authorization=f"Bearer {TOKEN}").status == 200


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/scheduler/prioritize", {}),
        ("/scheduler//prioritize", {}),
        ("/scheduler/wrong/prioritize", {}),
        ("/scheduler/filter", {}),
        ("/scheduler/wrong/filter", {}),
        (PATH[:-1] + "/prioritize", {}),
        (PATH + "x/filter", {}),
        ("/scheduler/prioritize", {"authorization": "Bearer"}),
        ("/scheduler/prioritize", {"authorization": "Bearer wrong"}),
        ("/scheduler/prioritize", {"authorization": f"Basic {TOKEN}"}),
        ("/scheduler/prioritize", {"authorization": TOKEN}),
        ("/scheduler/prioritize?token=" + TOKEN.replace(" ", "%20"), {}),
        ("/scheduler/%FF%00/prioritize", {}),
    ],
)
def test_others_are_refused_and_counted(path: str, headers: dict[str, str], with_token: ExtenderSettings) -> None:
    metrics = Metrics()
    with serving(with_token, metrics) as port:
        answer = post(port, path, **headers)
        shown = ask(port, "/metrics").body.decode()
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert "ballast profile extender" in answer.json["error"]
    assert metrics.registry.get_sample_value("ballast_http_refused_total", {"code": "401", "port": "page"}) == 1
    assert "ted to" not in shown + answer.body.decode()


@pytest.mark.parametrize("place", [PATH.replace("/scheduler/", "/scheduler"), "/schedulers", "/x/scheduler"])
def test_a_path_that_only_resembles_the_extender_s_is_unknown(place: str, with_token: ExtenderSettings) -> None:
    with serving(with_token) as port:
        assert post(port, f"{place}/prioritize", authorization=f"Bearer {TOKEN}").status == 404


def test_no_body_is_read_of_a_stranger(with_token: ExtenderSettings) -> None:
    with serving(with_token) as port:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=HUNG)
        connection.putrequest("POST", "/scheduler/prioritize")
        connection.putheader("content-type", "application/json")
        connection.putheader("content-length", "60000000")
        connection.endheaders()
        assert connection.getresponse().status == 401
        connection.close()


def test_pages_and_probes_need_no_token(with_token: ExtenderSettings) -> None:
    with serving(with_token) as port:
        assert [ask(port, path).status for path in ("/livez", "/metrics", "/")] == [200, 200, 200]


def test_a_new_token_counts_at_once_and_a_broken_file_changes_nothing(with_token: ExtenderSettings) -> None:
    assert with_token.token_file is not None
    with serving(with_token) as port:
        with_token.token_file.write_text("another-token")
        assert post(port, PATH + "/prioritize").status == 401
        assert post(port, "/scheduler/another-token/prioritize").status == 200
        with_token.token_file.write_text("")
        assert post(port, "/scheduler/another-token/prioritize").status == 200
        assert post(port, "/scheduler//prioritize").status == 401
        with_token.token_file.write_text("  \n")
        for path in ("/scheduler/prioritize", "/scheduler//prioritize", "/scheduler/%20/prioritize"):
            assert post(port, path).status == 401
            assert post(port, path, authorization="Bearer ").status == 401
        assert post(port, "/scheduler/another-token/prioritize").status == 200


def test_without_a_token_there_is_no_such_path(tmp_path: Path) -> None:
    with serving(ExtenderSettings()) as port:
        assert post(port, "/scheduler/prioritize").status == 200
        assert post(port, "/scheduler/x/prioritize").status == 404


@pytest.mark.parametrize("text", ["", "\n", " ", "  \n"])
def test_an_unusable_token_file_stops_the_start(text: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(SettingsError, match="BALLAST_EXTENDER__TOKEN_FILE"):
        Callers(ExtenderSettings(token_file=tmp_path / "token"))


@pytest.mark.parametrize("token", [False, True])
def test_certificates_are_asked_of_schedulers_alone(token: bool, tmp_path: Path) -> None:
    authority, clients, strangers = trustme.CA(), trustme.CA(), trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    cert, key, trusted = tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "clients.crt"
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(cert)
    clients.cert_pem.write_to_path(trusted)
    (tmp_path / "token").write_text("a-token")
    settings = ExtenderSettings(client_ca_file=trusted, token_file=tmp_path / "token" if token else None)

    def asked(path: str, method: str, who: trustme.CA | None, **headers: str) -> int:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        if who is not None:
            who.issue_cert("kube-scheduler").configure_cert(context)
        connection: Any = http.client.HTTPSConnection("localhost", port, timeout=HUNG, context=context)
        try:
            body = ARGS if method == "POST" else None
            connection.request(method, path, body, {"content-type": "application/json", **headers})
            status: int = connection.getresponse().status
            return status
        finally:
            connection.close()

    with serving(settings, where=HttpSettings(host="127.0.0.1", port=0, tls_cert_file=cert, tls_key_file=key)) as port:
        assert asked("/scheduler/prioritize", "POST", clients) == 200
        assert asked("/scheduler/prioritize", "POST", None) == 401
        assert asked("/livez", "GET", None) == 200
        assert asked("/livez", "GET", clients) == 200
        with pytest.raises((ssl.SSLError, OSError)):
            asked("/scheduler/prioritize", "POST", strangers)
        shown = asked("/scheduler/prioritize", "POST", None, authorization="Bearer a-token")
        assert shown == (200 if token else 401)


def test_of_certificates_only_those_of_the_newest_ca_that_are_valid_now_count(tmp_path: Path) -> None:
    authority, before, after = trustme.CA(), trustme.CA(), trustme.CA()
    issued = authority.issue_cert("localhost")
    cert, key, trusted = tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "clients.crt"
    issued.private_key_pem.write_to_path(key)
    issued.cert_chain_pems[0].write_to_path(cert)
    before.cert_pem.write_to_path(trusted)
    where = HttpSettings(host="127.0.0.1", port=0, tls_cert_file=cert, tls_key_file=key)
    app = create_app(board_of(None), Metrics(), Fake(), Callers(ExtenderSettings(client_ca_file=trusted)))
    server = Server(app, where, optional_ca=trusted)
    port = server.start()

    def asked(who: trustme.LeafCert) -> int:
        context = ssl.create_default_context()
        authority.configure_trust(context)
        who.configure_cert(context)
        connection = http.client.HTTPSConnection("localhost", port, timeout=HUNG, context=context)
        try:
            connection.request("POST", "/scheduler/prioritize", ARGS, {"content-type": "application/json"})
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    try:
        past = datetime.now(UTC) - timedelta(days=1)
        expired = before.issue_cert("kube-scheduler", not_before=past - timedelta(days=1), not_after=past)
        old, new = before.issue_cert("kube-scheduler"), after.issue_cert("kube-scheduler")
        assert [asked(each) for each in (old, new, expired)] == [200, 0, 0]
        trusted.write_text("half written")
        asyncio.run(server.renew_certificate())
        assert [asked(each) for each in (old, new)] == [200, 0]
        after.cert_pem.write_to_path(trusted)
        asyncio.run(server.renew_certificate())
        assert [asked(each) for each in (old, new)] == [0, 200]
    finally:
        server.stop()


BROWSER = {"user_agent": "Mozilla/5.0 (X11; Linux x86_64)"}


@pytest.mark.parametrize("host", ["evil.example", "evil.example:2020", "127.0.0.1.evil.example", "svc.example", "a.b"])
@pytest.mark.parametrize(
    "headers",
    [
        BROWSER,
        {"origin": "http://evil.example"},
        {"sec_fetch_mode": "cors"},
        {"user_agent": "x", "accept_language": "en"},
        {"user_agent": "x", "referer": "http://evil.example/"},
        {"user_agent": "x", "cookie": "a=b"},
    ],
)
def test_a_browser_that_names_another_host_is_refused(host: str, headers: dict[str, str]) -> None:
    metrics = Metrics()
    with serving(ExtenderSettings(), metrics) as port:
        answer = ask(port, "/api/v1/config", host=host, **headers)
    assert answer.status == 421
    assert metrics.registry.get_sample_value("ballast_http_refused_total", {"code": "421", "port": "page"}) == 1
    assert "BALLAST_HTTP__ALLOWED_HOSTS" in answer.json["error"]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:2020",
        "localhost",
        "LOCALHOST:1",
        "[::1]:2020",
        "10.0.0.7",
        "ballast:2020",
        "ballast.ballast.svc",
        "ballast.ns.svc.cluster.local:2020",
        "ballast.example.com",
        "Ballast.Example.com.:80",
    ],
)
def test_a_browser_is_answered_by_its_own_names(host: str) -> None:
    with serving(ExtenderSettings(), hosts=("ballast.example.com",)) as port:
        assert ask(port, "/livez", host=host, **BROWSER).status == 200


def test_others_than_browsers_may_name_any_host() -> None:
    with serving(ExtenderSettings()) as port:
        assert ask(port, "/livez", host="node-1.example.com:2020", user_agent="Prometheus/3.0").status == 200


def test_expensive_questions_are_limited_by_caller() -> None:
    clock = FakeClock()
    limit = RateLimit(clock)
    assert [limit.wait("a") for _ in range(int(BURST))] == [0.0] * int(BURST)
    assert limit.wait("a") == pytest.approx(1 / RATE)
    assert limit.wait("b") == 0.0
    clock.advance(1 / RATE)
    assert limit.wait("a") == 0.0
    assert limit.wait("a") > 0
    for number in range(2 * MOST_CALLERS):
        limit.wait(str(number))
    assert len(limit._callers) == MOST_CALLERS


def test_who_asks_for_scores_too_often_is_told_when_to_ask_again() -> None:
    with serving(ExtenderSettings()) as port:
        answers = [ask(port, "/api/v1/pods/a/b/scores") for _ in range(2 * int(BURST))]
    assert {answer.status for answer in answers} == {404, 429}
    assert next(answer for answer in answers if answer.status == 429).headers["retry-after"] == "1"
