"""Tokens of the cluster for `/metrics` and the API: who is asked, what is kept, and for how long."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ballast.base.errors import ClusterError
from ballast.base.metrics import Metrics
from ballast.cluster.token_review import ACCESS, TOKENS, TokenReviewer, TokenVerdict
from ballast.serving.board import DaemonAnswers
from ballast.serving.callers import ALLOWED_FOR, REFUSED_FOR, REMEMBERED, Reviewed
from ballast.serving.refusals import Refusals
from ballast.serving.server import Server
from ballast.serving.web_apps import create_app, create_health_app
from ballast.settings import HttpSettings
from tests.unit.serving.client import ask
from tests.worlds import http_server as api_server
from tests.worlds.board import LOOPBACK, board_of
from tests.worlds.clock import FakeClock

VERDICTS = {"reader": TokenVerdict.ALLOWED, "other": TokenVerdict.FORBIDDEN}


class Fake:
    """Knows two tokens; `failing` stands for an API server that does not answer."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.failing = False

    def __call__(self, token: str, path: str) -> TokenVerdict:
        self.asked.append((token, path))
        if self.failing:
            raise ClusterError("no answer")
        return VERDICTS.get(token, TokenVerdict.UNKNOWN)


@contextmanager
def serving(
    review: Any, monkeypatch: pytest.MonkeyPatch, *paths: str, clock: Any = None, metrics: Metrics | None = None
) -> Iterator[int]:
    if clock is not None:
        monkeypatch.setattr("ballast.serving.web_apps.SystemClock", lambda: clock)
    app = create_app(board_of(None), metrics or Metrics(), reviewed=(review, paths))
    server = Server(app, LOOPBACK)
    try:
        yield server.start()
    finally:
        server.stop()


def status(port: int, path: str, token: str | None = None) -> int:
    return ask(port, path, **({} if token is None else {"authorization": f"Bearer {token}"})).status


def test_only_whom_the_cluster_knows_and_allows_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    review, metrics = Fake(), Metrics()
    with serving(review, monkeypatch, "/metrics", "/api/", metrics=metrics) as port:
        for path in ("/metrics", "/api/v1/cycles"):
            assert status(port, path) == 401
            assert status(port, path, "stranger") == 401
            assert status(port, path, "other") == 403
            assert status(port, path, "reader") == 200
        for path in ("/livez", "/watcher/health", "/"):
            assert status(port, path) not in (401, 403)
    assert {path for _, path in review.asked} == {"/metrics", "/api/"}
    counted = {
        code: metrics.registry.get_sample_value("ballast_http_refused_total", {"code": code, "port": "page"})
        for code in ("401", "403")
    }
    assert counted == {"401": 4, "403": 2}


@pytest.mark.parametrize(
    "path", ["/metrics", "//metrics", "/metrics?x=1", "/%6detrics", "/api/v1/cycles", "//api/v1/cycles"]
)
def test_no_other_spelling_of_a_path_leads_past(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Fake(), monkeypatch, "/metrics", "/api/") as port:
        assert status(port, path) == 401


def test_what_is_not_named_is_read_by_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    review = Fake()
    with serving(review, monkeypatch, "/metrics") as port:
        assert status(port, "/api/v1/cycles") == 200
    assert not review.asked


def test_verdicts_are_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    review, clock = Fake(), FakeClock()
    with serving(review, monkeypatch, "/metrics", clock=clock) as port:
        for token, lasts in (("reader", ALLOWED_FOR), ("stranger", REFUSED_FOR)):
            review.asked.clear()
            for _ in range(3):
                status(port, "/metrics", token)
            assert len(review.asked) == 1
            clock.advance(lasts + 1)
            status(port, "/metrics", token)
            assert len(review.asked) == 2


def test_many_wrong_tokens_are_not_all_reviewed(monkeypatch: pytest.MonkeyPatch) -> None:
    review = Fake()
    with serving(review, monkeypatch, "/metrics", clock=FakeClock()) as port:
        assert status(port, "/metrics", "reader") == 200
        found = [status(port, "/metrics", f"guess-{number}") for number in range(60)]
        assert status(port, "/metrics", "reader") == 200, "a verdict that is kept costs nobody anything"
    assert set(found) == {401, 429}
    assert len(review.asked) < 30


def test_strangers_use_up_no_rate_of_a_token_that_was_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    review, clock = Fake(), FakeClock()
    with serving(review, monkeypatch, "/metrics", clock=clock) as port:
        assert status(port, "/metrics", "reader") == 200
        clock.advance(ALLOWED_FOR + 1)
        guesses = {status(port, "/metrics", f"guess-{number}") for number in range(60)}
        assert guesses == {401, 429}
        assert status(port, "/metrics", "other") == 429, "not known yet: it shares the strangers' rate"
        assert status(port, "/metrics", "reader") == 200
        assert review.asked[-1] == ("reader", "/metrics")


def test_no_more_verdicts_are_kept_than_stated_and_strangers_displace_no_known_token() -> None:
    reviewed = Reviewed(lambda *_: None, Fake(), ("/metrics",), FakeClock())  # type: ignore[arg-type,return-value]
    for verdict in (TokenVerdict.ALLOWED, TokenVerdict.UNKNOWN):
        for number in range(REMEMBERED + 50):
            reviewed._remember((b"%s %d" % (verdict.encode(), number), "/metrics"), verdict)
    assert len(reviewed._refused) == len(reviewed._allowed) == REMEMBERED
    lost = (b"allowed 100", "/metrics")
    reviewed._remember(lost, TokenVerdict.FORBIDDEN)
    assert reviewed._recall(lost) is TokenVerdict.FORBIDDEN
    assert lost not in reviewed._allowed


DETAILS = ("/livez?verbose", "/readyz?verbose", "/readyz?verbose=1", "//readyz?verbose", "/readyz?%76erbose&x")


@pytest.mark.parametrize("of_health", [False, True])
def test_details_of_probes_and_the_watcher_need_a_token_and_plain_probes_none(of_health: bool) -> None:
    review, metrics, board = Fake(), Metrics(), board_of(None)
    reviewed = (review, HttpSettings(api_auth="kubernetes").reviewed)
    answers = DaemonAnswers()
    if of_health:
        app = create_health_app(board, Refusals(metrics, FakeClock(), "health"), answers, reviewed)
    else:
        app = create_app(board, metrics, reviewed=reviewed, answers=answers)
    server = Server(app, LOOPBACK)
    try:
        port = server.start()
        for path in ("/livez", "/readyz", "/readyz?verbose=false", "/readyz?verbose&verbose=false"):
            assert (status(port, path), ask(port, path).body) == (200, b"ok\n")
        for path in DETAILS if of_health else (*DETAILS, "/watcher", "//watcher", "/watcher?host=node-0"):
            assert status(port, path) == status(port, path, "stranger") == 401
            assert status(port, path, "other") == 403
            assert status(port, path, "reader") not in (401, 403)
    finally:
        server.stop()
    assert {path for _, path in review.asked} == ({"/api/"} if of_health else {"/api/", "/watcher"})


def test_a_silent_api_server_is_503_and_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    review = Fake()
    review.failing = True
    with serving(review, monkeypatch, "/metrics") as port:
        assert status(port, "/metrics", "reader") == 503
        review.failing = False
        assert status(port, "/metrics", "reader") == 200


def test_the_settings_name_the_paths() -> None:
    assert HttpSettings().reviewed == ()
    assert HttpSettings(metrics_auth="kubernetes").reviewed == ("/metrics",)
    assert HttpSettings(metrics_auth="kubernetes", api_auth="kubernetes").reviewed == ("/metrics", "/api/", "/watcher")


@pytest.mark.parametrize(
    ("token", "access", "wanted"),
    [
        ({"authenticated": True, "user": {"username": "u", "groups": ["g"]}}, {"allowed": True}, TokenVerdict.ALLOWED),
        ({"authenticated": True, "user": {"username": "u"}}, {"allowed": False}, TokenVerdict.FORBIDDEN),
        ({"authenticated": False}, {"allowed": True}, TokenVerdict.UNKNOWN),
        ({"error": "expired"}, {"allowed": True}, TokenVerdict.UNKNOWN),
        ({"authenticated": True}, {"allowed": True}, TokenVerdict.UNKNOWN),
    ],
)
def test_the_api_server_is_asked_who_and_whether(token: Any, access: Any, wanted: TokenVerdict) -> None:
    def answer(request: api_server.Request) -> api_server.Answer:
        return api_server.Answer({"status": token if request.path == TOKENS else access}, 201)

    with api_server.serving(answer) as server:
        assert TokenReviewer(api_server.api_for(server))("shown", "/metrics") is wanted
    assert server.requests[0].json["spec"] == {"token": "shown"}
    if wanted is not TokenVerdict.UNKNOWN:
        assert server.requests[1].path == ACCESS
        assert server.requests[1].json["spec"]["nonResourceAttributes"] == {"path": "/metrics", "verb": "get"}


def test_an_answer_that_is_no_review_is_an_error() -> None:
    with api_server.serving(lambda _: api_server.Answer(b"<html>")) as server, pytest.raises(ClusterError):
        TokenReviewer(api_server.api_for(server))("shown", "/metrics")
