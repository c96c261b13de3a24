"""No secret of a source comes back in what is said of it."""

import base64
import json
import ssl
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
import requests
import trustme
from responses import RequestsMock

from ballast.base.errors import BallastError, SettingsError
from ballast.base.text import without_secrets
from ballast.power.feed_spec import FeedSpec
from ballast.telemetry.feeds.power_feed import access, read_headers
from ballast.telemetry.http import HttpAccess, HttpSession, basic
from ballast_lab.harness.waiting import HUNG
from tests.worlds.http_server import Answer, Request, serving

SECRET = 'S3cr3t/"+token=='


def echo(status: int) -> Callable[[Request], Answer]:
    """Says what it was sent, in all the forms servers do."""

    def answer(request: Request) -> Answer:
        sent = {name: value for name, value in request.headers.items() if name in ("Authorization", "X-Key")}
        decoded = base64.b64decode(sent.get("Authorization", "").removeprefix("Basic ") + "==", validate=False)
        words = f"{sent} {dict(request.query)} {request.path} {decoded.decode('latin-1')}"
        return Answer(json.dumps({"status": "error", "error": words}).encode(), status)

    return answer


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 422, 500, 503])
@pytest.mark.parametrize(
    ("query", "access"),
    [
        ("?token=QUERYSECRETTOK", HttpAccess()),
        ("", HttpAccess(credentials=lambda: f"Bearer {SECRET}")),
        ("", HttpAccess(credentials=lambda: basic("user", SECRET))),
        ("", HttpAccess(headers={"X-Key": SECRET})),
    ],
)
def test_a_refusal_that_repeats_a_secret_is_masked(status: int, query: str, access: HttpAccess) -> None:
    with serving(echo(status)) as server:
        url = server.url + "/watts" + query
        session = HttpSession(url, part="BALLAST_POWER__", timeout=HUNG, access=access)
        try:
            said = session.get(url).decode()
        except BallastError as error:
            said = str(error)
        session.close()
    assert "QUERYSECRETTOK" not in said
    assert SECRET not in said
    assert "S3cr3t" not in said


@pytest.mark.parametrize("shape", ["json", "text"])
@pytest.mark.parametrize("status", [200, 400, 403, 407, 422, 500, 503])
@pytest.mark.parametrize("user", ["puser:PROXYSECRET77", "puser:PROXY%2FSECRET77"])
def test_a_proxy_that_repeats_its_password_is_masked(
    status: int, user: str, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = []

    def answer(request: Request) -> Answer:
        header = request.headers["Proxy-Authorization"]
        pair = base64.b64decode(header.removeprefix("Basic ")).decode()
        sent.append(header)
        words = f"sent Proxy-Authorization: {header}, which is {pair}, or {header.partition(' ')[2]}, of {user}"
        body = json.dumps({"status": "error", "error": words}) if shape == "json" else words
        return Answer(body.encode(), status)

    with serving(answer) as server:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", server.url.replace("//", f"//{user}@"))
        session = HttpSession("http://prometheus.example", part="BALLAST_PROMETHEUS__", timeout=HUNG)
        try:
            said = session.get("http://prometheus.example/api/v1/query").decode()
            assert (status, shape) == (200, "text") or "********" in said
        except BallastError as error:
            said = str(error)
        session.close()
    if (status, shape) != (200, "text"):
        assert "SECRET77" not in said
        assert sent[0].removeprefix("Basic ") not in said


def test_the_words_of_an_error_are_masked_as_plain_text_is() -> None:
    words = "upstream http://prom:PASSWORDTOK@10.0.0.1 was sent password=PASSWORDTOK and Bearer PASSWORDTOK"
    with serving(lambda request: Answer(json.dumps({"status": "error", "error": words}).encode(), 422)) as server:
        session = HttpSession(server.url, part="BALLAST_PROMETHEUS__", timeout=HUNG)
        with pytest.raises(BallastError, match=r"upstream http://\*+@10\.0\.0\.1 was sent") as refused:
            session.get(server.url)
        session.close()
    assert "TOK" not in str(refused.value)


def test_an_unreachable_address_is_named_without_its_query() -> None:
    url = "http://user:PASSWORDTOK@127.0.0.1:1/watts?token=QUERYSECRETTOK#FRAGMENTTOK"
    with pytest.raises(BallastError, match=r"http://127\.0\.0\.1:1/watts cannot be reached") as refused:
        HttpSession(url, part="BALLAST_POWER__", timeout=HUNG).get(url)
    assert "TOK" not in str(refused.value)


def test_short_secrets_do_not_spoil_every_word() -> None:
    assert without_secrets(b"a b c", ["a", ""]) == b"a b c"


def test_an_answer_is_left_as_it_is() -> None:
    body = b'{"status":"success","data":{"node":"production-1"}}'
    with serving(lambda request: Answer(body)) as server:
        session = HttpSession(server.url, part="P__", timeout=HUNG, access=HttpAccess(headers={"X-Org": "production"}))
        assert session.get(server.url) == body
        session.close()


@pytest.mark.parametrize("error", [requests.ConnectionError, requests.exceptions.InvalidHeader, OSError])
def test_no_error_of_a_library_stands_behind_what_is_raised(error: type[Exception]) -> None:
    """A traceback shows the whole chain, and those of libraries carry the address that was asked."""
    url = "http://127.0.0.1:1/watts?token=QUERYSECRETTOK"
    session = HttpSession(url, part="P__", timeout=HUNG)
    with RequestsMock() as mock:
        mock.add("GET", url, body=error(f"Max retries exceeded with {url}"))
        with pytest.raises(BallastError) as raised:
            session.get(url)
    assert "QUERYSECRETTOK" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("content", "sent"),
    [
        ("X-Key: one\nAuthorization: Token two\n", {"X-Key": "one", "Authorization": "Token two"}),
        ('{"X-Key": "one"}', {"X-Key": "one"}),
        ("# a comment\n\nX-Key:one:two\r\n", {"X-Key": "one:two"}),
    ],
)
def test_headers_of_a_file(content: str, sent: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "headers"
    path.write_text(content)
    assert read_headers(path, "the feed's headersFile") == sent


@pytest.mark.parametrize(
    "content", [b"", b"PLANTED", b"X Y: PLANTED", b"X-Y: PLAN\x07TED", b"{PLANTED", b"\xff\xfePLANTED", b"[1]"]
)
def test_a_file_of_headers_that_cannot_be_used(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "headers"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"the feed's headersFile is .*Correct the file") as refused:
        read_headers(path, "the feed's headersFile")
    assert "PLANTED" not in str(refused.value)


def test_a_feed_shows_its_token_and_headers_and_follows_their_files(tmp_path: Path) -> None:
    token, headers = tmp_path / "token", tmp_path / "headers"
    token.write_text("first\n")
    headers.write_text("X-Key: one")
    with serving(lambda request: Answer(b"{}")) as server:
        spec = FeedSpec(url=server.url, tokenFile=str(token), headersFile=str(headers))
        session = HttpSession(server.url, part="the feed's ", timeout=HUNG, access=access(spec, "the feed's "))
        session.get(server.url)
        token.write_text("second one")
        headers.write_text("X-Key: two")
        session.get(server.url)
        session.close()
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer first", "Bearer second one"]
    assert [request.headers["X-Key"] for request in server.requests] == ["one", "two"]


def test_files_belong_to_an_address() -> None:
    with pytest.raises(ValueError, match="tokenFile, caFile and headersFile with url"):
        FeedSpec(query="up", semantics="available", tokenFile="x")


def test_a_feed_over_tls_is_verified_by_its_own_ca(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.crt")
    with serving(lambda request: Answer(b"{}")) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        url = server.url.replace("http://127.0.0.1", "https://localhost")
        for file, trusted in ((None, False), (str(tmp_path / "ca.crt"), True)):
            spec = FeedSpec(url=url, caFile=file)
            session = HttpSession(url, part="the feed's ", timeout=HUNG, access=access(spec, "the feed's "))
            if trusted:
                assert session.get(url) == b"{}"
            else:
                with pytest.raises(BallastError, match="the feed's caFile"):
                    session.get(url)
            session.close()
