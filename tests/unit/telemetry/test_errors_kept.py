"""Errors that a source answers with, however long, hold nothing of the answer once they are told."""

import gc
import json
from collections.abc import Iterator

import pytest
from pytest_httpserver import HTTPServer

from ballast.base.answer_budget import ANSWERS
from ballast.base.metrics import Metrics
from ballast.model.node import Node
from ballast.settings import load
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_source import PrometheusSource

NAMES = NodeNames([Node(name="a", addresses=(("InternalIP", "10.0.0.1"),), capacity={"cpu": 4.0})])
LONG = "no\n\x1b[31m\u202e" + "A" * 5_000_000
SHAPES = {
    "an error": (200, json.dumps({"status": "error", "errorType": "bad_data", "error": LONG})),
    "an error in raw characters": (200, json.dumps({"status": "error", "error": LONG}, ensure_ascii=False)),
    "an error that comes first": (200, json.dumps({"error": LONG, "status": "error"})),
    "an error without a text": (200, json.dumps({"status": "error", "data": LONG})),
    "a page": (200, f"<html>{LONG}"),
    "no JSON": (200, LONG),
    "an answer that ends": (200, f'{{"status":"success","data":{{"resultType":"vector","result":"{LONG}'),
    "another kind": (200, json.dumps({"status": "success", "data": {"resultType": "string", "result": [1, LONG]}})),
    "a refusal": (422, json.dumps({"status": "error", "error": LONG})),
    "a failure": (503, LONG),
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("shape", SHAPES)
def test_an_error_keeps_nothing_of_a_long_answer(httpserver: HTTPServer, shape: str) -> None:
    status, body = SHAPES[shape]
    httpserver.expect_request("/api/v1/query").respond_with_data(body, status=status, content_type="application/json")
    source = PrometheusSource(load({"BALLAST_PROMETHEUS__URL": httpserver.url_for("")}), Metrics())
    reading = source.read(1_700_000_000.0, NAMES)
    pods, problems = source.ask_about_pods({"cpu": "up"}, 1_700_000_000.0)
    del pods
    source.close()
    assert ANSWERS.held == 0
    told = [str(problem) for problem in (*reading.problems.values(), *problems.values())]
    assert set(reading.problems) == {"cpu", "memory"}
    assert all(len(text) <= 2048 and text.isprintable() for text in told), told


def test_what_stands_at_the_beginning_of_a_long_error_is_told(httpserver: HTTPServer) -> None:
    body = json.dumps({"status": "error", "errorType": "execution", "error": f"too many samples \u00e9 {LONG}"})
    httpserver.expect_request("/api/v1/query").respond_with_data(body)
    source = PrometheusSource(load({"BALLAST_PROMETHEUS__URL": httpserver.url_for("")}), Metrics())
    reading = source.read(1_700_000_000.0, NAMES)
    source.close()
    assert "answers an error: too many samples \u00e9 no" in reading.problems["cpu"]
