"""All telemetry answers together: what they hold has a bound, and is given back."""

from __future__ import annotations

import gc
import gzip
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer

from ballast.base.errors import SourceUnavailable
from ballast.base.memory import ANSWERS, AnswerBudget, AnswersInFlight
from ballast.settings import PrometheusSettings, Settings
from ballast.telemetry.error_messages import TooLarge
from ballast.telemetry.http import HttpSession
from ballast.telemetry.prometheus_client import Grid, PrometheusClient

NOW = Grid(1_700_000_000.0, 1.0, 1)
MIB = 2**20


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(host="127.0.0.1", port=0) as server:
        yield server


def session(server: HTTPServer, budget: AnswerBudget, **more: int) -> HttpSession:
    return HttpSession(server.url_for("/"), part="BALLAST_PROMETHEUS__", timeout=30, budget=budget, **more)


@given(st.lists(st.integers(0, 60)))
def test_no_more_than_the_limit_is_ever_held(sizes: list[int]) -> None:
    budget, shares = AnswerBudget(100), []
    for size in sizes:
        share = budget.share()
        try:
            share.grow(size)
            shares.append(share)
        except AnswersInFlight:
            assert budget.held + size > 100
            share.release()
        assert budget.held <= 100
    for share in shares:
        share.release()
        share.release()
    assert budget.held == 0


def test_an_answer_counts_until_it_is_dropped(server: HTTPServer) -> None:
    server.expect_request("/").respond_with_data(b"x" * MIB)
    budget = AnswerBudget(3 * MIB // 2)
    one = session(server, budget)
    answer = one.request("GET", server.url_for("/"))
    assert budget.held == MIB
    with pytest.raises(AnswersInFlight, match=r"more than 1\.5 MiB in all; .*BALLAST_TELEMETRY__RESOURCES"):
        one.request("GET", server.url_for("/"))
    assert budget.held == MIB, "what was refused holds nothing"
    del answer
    gc.collect()
    assert budget.held == 0
    assert len(one.get(server.url_for("/"))) == MIB
    one.close()


def test_what_fails_gives_back_what_it_held(server: HTTPServer) -> None:
    server.expect_request("/large").respond_with_data(b"x" * MIB)
    server.expect_request("/refused").respond_with_data(b"x" * 1000, status=422)
    budget = AnswerBudget()
    one = session(server, budget, max_body=MIB // 2)
    with pytest.raises(TooLarge):
        one.get(server.url_for("/large"))
    with pytest.raises(Exception, match="422"):
        one.get(server.url_for("/refused"))
    gc.collect()
    assert budget.held == 0
    one.close()


def test_a_started_query_counts_until_its_future_is_dropped(server: HTTPServer) -> None:
    server.expect_request("/api/v1/query").respond_with_data(b" " * MIB)
    client = PrometheusClient(Settings(prometheus=PrometheusSettings(url=server.url_for(""))))
    gc.collect()
    before = ANSWERS.held
    future = client.start("up", NOW)
    assert len(future.result()) == MIB
    assert ANSWERS.held == before + MIB
    del future
    client.close()
    for thread in threading.enumerate():
        if thread.name == "prometheus":
            thread.join(60)
    gc.collect()
    assert ANSWERS.held == before


def test_one_coding_is_understood(server: HTTPServer) -> None:
    twice = gzip.compress(gzip.compress(b"{}"))
    server.expect_request("/").respond_with_data(twice, headers={"Content-Encoding": "gzip, gzip"})
    one = session(server, AnswerBudget())
    with pytest.raises(SourceUnavailable, match=r"Content-Encoding 'gzip, gzip'; one coding"):
        one.get(server.url_for("/"))
    one.close()
