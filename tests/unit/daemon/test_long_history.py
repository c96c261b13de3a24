"""More than a day of a node, from Prometheus."""

import json
from urllib.parse import parse_qs

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from ballast.base.errors import SourceUnavailable
from ballast.runtime.long_history import POINTS, LongHistory
from ballast.settings import load
from tests.worlds.clock import FakeClock

NOW = 1_700_000_000.0


def history(server: HTTPServer, answer: object, status: int = 200) -> tuple[LongHistory, list[dict[str, list[str]]]]:
    asked: list[dict[str, list[str]]] = []

    def respond(request: Request) -> Response:
        asked.append(parse_qs(request.get_data(as_text=True)))
        found = answer if "load_mean" in asked[-1]["query"][0] else []
        document = {"status": "success", "data": {"resultType": "matrix", "result": found}}
        return Response(json.dumps(document), status, content_type="application/json")

    server.expect_request("/api/v1/query_range").respond_with_handler(respond)
    settings = load({"BALLAST_PROMETHEUS__URL": server.url_for("/"), "BALLAST_PROMETHEUS__TIMEOUT": "5s"})
    return LongHistory(settings, FakeClock(NOW), "15m"), asked


def test_a_week_has_as_many_points_as_a_day(httpserver: HTTPServer) -> None:
    step = 7 * 86_400 / POINTS
    last = NOW // step * step
    ask, asked = history(
        httpserver, [{"metric": {"resource": "cpu"}, "values": [[last - step, "0.25"], [last, "0.5"]]}]
    )
    found = ask('node"1', 7)
    assert found is not None
    assert len(found.times) == len(found.load["cpu"]) == len(found.score) == POINTS
    assert found.load["cpu"][-3:] == [None, 0.25, 0.5]
    assert found.times[-1] == pytest.approx(last)
    assert set(found.score) == {None}
    assert asked[0]["query"] == ['max by (resource) (ballast_node_load_mean{node="node\\"1",window="15m"})']


def test_a_prometheus_that_does_not_scrape_ballast_has_none(httpserver: HTTPServer) -> None:
    ask, _ = history(httpserver, [])
    assert ask("node-1", 30) is None
    assert LongHistory(load({"BALLAST_TELEMETRY__SOURCE": "metrics-server"}), FakeClock(NOW), "15m")("a", 7) is None


def test_one_that_fails_is_named(httpserver: HTTPServer) -> None:
    ask, _ = history(httpserver, [], status=503)
    with pytest.raises(SourceUnavailable):
        ask("node-1", 7)
