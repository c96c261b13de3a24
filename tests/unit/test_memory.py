"""Memory has bounds: telemetry answers and request bodies that arrive together, and what the C library keeps."""

import gc
import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_httpserver import HTTPServer

from ballast.base.answer_budget import ANSWERS, AnswerBudget, AnswersInFlight
from ballast.base.body_budget import BodiesInFlight, BodyBudget
from ballast.base.errors import SourceUnavailable
from ballast.settings import PrometheusSettings, Settings
from ballast.telemetry.failed_answers import TooLarge
from ballast.telemetry.http import HttpSession
from ballast.telemetry.prometheus_client import Grid, PrometheusClient
from ballast_lab.harness.waiting import HUNG

NOW = Grid(1_700_000_000.0, 1.0, 1)
MIB = 2**20


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    with HTTPServer(host="127.0.0.1", port=0) as server:
        yield server


def session(server: HTTPServer, budget: AnswerBudget, **more: int) -> HttpSession:
    return HttpSession(server.url_for("/"), part="BALLAST_PROMETHEUS__", timeout=HUNG, budget=budget, **more)


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
            thread.join(HUNG)
    gc.collect()
    assert ANSWERS.held == before


def test_one_coding_is_understood(server: HTTPServer) -> None:
    twice = gzip.compress(gzip.compress(b"{}"))
    server.expect_request("/").respond_with_data(twice, headers={"Content-Encoding": "gzip, gzip"})
    one = session(server, AnswerBudget())
    with pytest.raises(SourceUnavailable, match=r"Content-Encoding 'gzip, gzip'; one coding"):
        one.get(server.url_for("/"))
    one.close()


def hold(budget: BodyBudget, *bodies: Sequence[bytes]) -> list[bytes | None]:
    """All of them at a time; None for a body that is refused."""
    opened, found = [], list[bytes | None]()
    for chunks in bodies:
        opened.append(own := budget.open())
        try:
            for chunk in chunks:
                budget.add(own, chunk)
            found.append(budget.complete(own))
        except BodiesInFlight:
            budget.close(opened.pop())
            found.append(None)
        assert budget.held == sum(len(body) for body in found if body is not None)
    for own in opened:
        budget.close(own)
    assert budget.held == 0
    return found


def test_large_bodies_share_one_limit_and_small_ones_have_their_own() -> None:
    budget = BodyBudget(limit=100, small=10, reserved=20)
    assert hold(budget, [b"x" * 60], [b"x" * 60], [b"s" * 10], [b"s" * 10], [b"s" * 10], [b"s" * 40]) == [
        b"x" * 60,
        None,
        b"s" * 10,
        b"s" * 10,
        b"s" * 10,
        None,
    ]


def test_a_body_that_grows_leaves_the_share_of_the_small_ones() -> None:
    budget = BodyBudget(limit=100, small=10, reserved=10)
    assert hold(budget, [b"x" * 9, b"x" * 9], [b"s" * 10]) == [b"x" * 18, b"s" * 10]


@hypothesis.given(st.lists(st.lists(st.integers(0, 30), max_size=5), max_size=12))
def test_no_more_is_held_than_allowed(bodies: list[list[int]]) -> None:
    budget = BodyBudget(limit=60, small=10, reserved=20)
    held = hold(budget, *[[b"x" * size for size in chunks] for chunks in bodies])
    assert sum(len(body) for body in held if body) <= 80
    for body, chunks in zip(held, bodies, strict=True):
        assert body is None or len(body) == sum(chunks)


def test_a_request_that_breaks_off_gives_its_bytes_back() -> None:
    budget = BodyBudget(limit=60, small=10, reserved=20)
    own = budget.open()
    budget.add(own, b"x" * 50)
    assert budget.busy()
    budget.close(own)
    budget.close(own)
    assert (budget.held, budget.busy()) == (0, False)


def test_unfinished_small_bodies_give_way_oldest_first() -> None:
    budget = BodyBudget(limit=10, small=10, reserved=20)
    slow = [budget.open() for _ in range(3)]
    for own in slow:
        budget.add(own, b"x" * 10)
    assert budget.held == 30
    assert hold_one(budget, b"genuine") == b"genuine"
    assert [own.dropped for own in slow] == [True, False, False]
    with pytest.raises(BodiesInFlight, match="Too many request bodies"):
        budget.add(slow[0], b"x")
    for own in slow:
        budget.close(own)
    assert budget.held == 0


def hold_one(budget: BodyBudget, body: bytes) -> bytes:
    own = budget.open()
    budget.add(own, body)
    try:
        return budget.complete(own)
    finally:
        budget.close(own)


PROGRAM = """
import ctypes, pathlib, threading
from ballast.base.freed_memory import tune_malloc

{before}
malloc, found = ctypes.CDLL(None).malloc, []
malloc.restype = ctypes.c_size_t
threads = [threading.Thread(target=lambda: found.append(malloc(1000))) for _ in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
[heap] = [line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if line.endswith("[heap]")]
low, high = (int(each, 16) for each in heap.split()[0].split("-"))
print(sum(low <= each < high for each in found))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
@pytest.mark.parametrize(("before", "shared"), [("", False), ("tune_malloc()", True)])
def test_threads_share_one_heap(before: str, shared: bool) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(before=before)], capture_output=True, check=True)
    assert (int(done.stdout) == 4) == shared
