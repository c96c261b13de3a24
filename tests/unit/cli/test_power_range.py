"""`ballast power replay --range`: the feed as Prometheus recorded it."""

import json
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.worlds.commands import Run

START = 1_700_000_000


@pytest.fixture
def asked(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """A Prometheus: `supply` falls from 1000 W to 500 W after 60 s, one sample is missing; `other` is 100 W."""
    queries: list[dict[str, str]] = []

    def now(request: Request) -> Response:
        queries.append(dict(request.form))
        at = float(request.form["time"])
        return _success("vector", [{"metric": {}, "value": [at, str(_supply(at))]}])

    def past(request: Request) -> Response:
        queries.append(dict(request.form))
        start, end, step = (float(request.form[name]) for name in ("start", "end", "step"))
        times = [start + i * step for i in range(int((end - start) / step) + 1)]
        other = request.form["query"] == "other"
        values = [[at, "100" if other else str(_supply(at))] for at in times if at != START + 30]
        return _success("matrix", [{"metric": {}, "values": values}])

    httpserver.expect_request("/api/v1/query").respond_with_handler(now)
    httpserver.expect_request("/api/v1/query_range").respond_with_handler(past)
    monkeypatch.setenv("BALLAST_PROMETHEUS__URL", httpserver.url_for("/").rstrip("/"))
    return queries


def _success(kind: str, result: list[dict[str, Any]]) -> Response:
    body = {"status": "success", "data": {"resultType": kind, "result": result}}
    return Response(json.dumps(body), content_type="application/json")


def _supply(at: float) -> int:
    return 1000 if at < START + 60 else 500


def replayed(ballast: Run, path: Path, feed: str) -> Any:
    path.write_text(f"power: {{feed: {feed}, independents: [{{ref: a/b, max: 40}}]}}", encoding="utf-8")
    span = f"2023-11-14T22:13:20Z,{START + 300}"
    code, out, err = ballast("power", "replay", "--policy", str(path), "--range", span, "--step", "15s", "-o", "json")
    assert code == 0, err
    return json.loads(out)


def test_the_feed_is_read_at_every_step(ballast: Run, asked: list[dict[str, str]], tmp_path: Path) -> None:
    result = replayed(ballast, tmp_path / "p.yaml", "{query: supply, semantics: available}")
    assert [tick["watts"] for tick in result["ticks"][:5]] == [1000, 1000, None, 1000, 500]
    assert len(result["ticks"]) == 21
    assert result["final"]["replicas"] == {"a/b": 20}
    assert [query["query"] for query in asked] == ["supply"]


def test_what_others_use_is_taken_off_the_limit(
    ballast: Run,
    asked: list[dict[str, str]],
    tmp_path: Path,
) -> None:
    feed = "{semantics: limit-minus-consumption, limit: {query: supply}, consumption: {query: other, of: others}}"
    result = replayed(ballast, tmp_path / "p.yaml", feed)
    assert [tick["watts"] for tick in result["ticks"][:5]] == [900, 900, None, 900, 400]
    assert result["final"]["total"] == 18
    assert len(asked) == 2


def test_a_long_span_is_asked_for_in_pieces(
    ballast: Run,
    asked: list[dict[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ballast.cli.power.inputs.PIECE", 10)
    result = replayed(ballast, tmp_path / "p.yaml", "{query: supply, semantics: available}")
    assert len(result["ticks"]) == 21
    assert len(asked) == 3
