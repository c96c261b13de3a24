import gc
import gzip
import weakref

import pytest

from ballast.serving.rendering import render
from tests.unit.serving.client import ask
from tests.worlds.board import TIME, board_of, fleet, serving, snapshot
from tests.worlds.clock import FakeClock

NAN = float("nan")
KNOWN = snapshot([[0.5, NAN], [0.25, NAN]])
DARK = snapshot([[NAN], [NAN]])


@pytest.mark.parametrize(
    "path", ["/watcher", "//watcher", "/watcher?host=", "/watcher?host=node-0", "/watcher?unheard=of"]
)
def test_known_nodes_are_served(path: str) -> None:
    with serving(board_of(KNOWN)) as port:
        answer = ask(port, path)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert list(answer.json["data"]["NodeMetricsMap"]) == ["node-0"]


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_every_method_of_load_watcher_is_answered(method: str) -> None:
    with serving(board_of(KNOWN)) as port:
        answer = ask(port, "/watcher", method)
        plain = ask(port, "/watcher")
    assert answer.status == 200
    assert answer.headers["content-length"] == plain.headers["content-length"]
    assert answer.body == (b"" if method == "HEAD" else plain.body)


@pytest.mark.parametrize("host", ["nobody", "node-1"])
def test_a_host_without_metrics_is_404_in_the_words_of_load_watcher(host: str) -> None:
    with serving(board_of(KNOWN)) as port:
        answer = ask(port, f"/watcher?host={host}")
    assert answer.status == 404
    assert answer.body == f"No metrics found for host {host}".encode()
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/watcher", "/watcher?host=node-0", "/watcher?window=5m"])
@pytest.mark.parametrize(
    "board", [board_of(None), board_of(DARK), board_of(KNOWN, frozen=True)], ids=["no", "dark", "ice"]
)
def test_nothing_known_or_frozen_is_500_with_an_empty_body(board, path: str) -> None:
    with serving(board) as port:
        answer = ask(port, path)
        health = ask(port, "/watcher/health")
    assert (answer.status, answer.body, answer.headers["content-type"]) == (500, b"", "application/json")
    assert (health.status, health.body) == (503, b"")


def test_data_that_outlived_its_cycles_is_not_served() -> None:
    board = board_of(KNOWN)
    board.max_age = 90.0
    clock = FakeClock(TIME + 90)
    board.clock = clock
    with serving(board) as port:
        assert ask(port, "/watcher").status == 200
        clock.advance(1)
        assert (ask(port, "/watcher").status, ask(port, "/watcher/health").status) == (500, 503)
        metrics = ask(port, "/metrics").body.decode()
    assert "ballast_nodes_unknown 2.0" in metrics
    assert "ballast_node_" not in metrics


def test_health_is_200_when_the_watcher_is() -> None:
    with serving(board_of(KNOWN)) as port:
        assert ask(port, "/watcher/health").status == 200


def test_windows_are_named_as_in_the_settings() -> None:
    with serving(board_of(KNOWN)) as port:
        for window in ("15m", "10m", "5m"):
            body = ask(port, f"/watcher?window={window}").json
            assert body["window"]["duration"] == window
            assert {m["rollup"] for m in body["data"]["NodeMetricsMap"]["node-0"]["metrics"]} == {window}
        assert ask(port, "/watcher").json["window"]["duration"] == "15m"
        for wrong in ("7m", "300", "", "5M"):
            answer = ask(port, f"/watcher?window={wrong}")
            assert answer.status == 400
            assert b"15m, 10m, 5m" in answer.body
        assert ask(port, "/watcher?resources=some").status == 400


def test_gzip_is_sent_only_to_those_who_take_it() -> None:
    with serving(board_of(fleet(300))) as port:
        plain = ask(port, "/watcher")
        for accept in ("gzip", "deflate, gzip;q=0.5", "*", "br, *;q=0.1"):
            packed = ask(port, "/watcher", accept_encoding=accept)
            assert packed.headers["content-encoding"] == "gzip"
            assert gzip.decompress(packed.body) == plain.body
            assert len(packed.body) < 0.15 * len(plain.body)
        for refuse in ("identity", "gzip;q=0", "*, gzip;q=0", "*;q=0", "br"):
            assert "content-encoding" not in ask(port, "/watcher", accept_encoding=refuse).headers
    assert plain.headers["vary"] == "accept-encoding"


def test_an_unchanged_document_is_304_until_the_next_snapshot() -> None:
    board = board_of(KNOWN)
    with serving(board) as port:
        etag = ask(port, "/watcher").headers["etag"]
        for condition in (etag, f'"other", {etag}', etag.removeprefix("W/"), "*"):
            again = ask(port, "/watcher", if_none_match=condition, accept_encoding="gzip")
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", etag)
        assert ask(port, "/watcher", if_none_match='"other"').status == 200
        board.rendered = render(snapshot([[0.6], [0.2]], time=TIME + 30), {})
        assert ask(port, "/watcher", if_none_match=etag).status == 200


def test_what_was_asked_for_is_ready_in_the_next_snapshot() -> None:
    board = board_of(KNOWN)
    with serving(board) as port:
        ask(port, "/watcher?window=5m", accept_encoding="gzip")
    assert board.rendered is not None
    following = render(KNOWN, {}, previous=board.rendered)
    assert following.watcher["5m", False]._packed is not None
    assert following.watcher["10m", False]._plain is None
    assert render(KNOWN, {}, previous=following).watcher["5m", False]._plain is None


def test_all_resources_are_opt_in() -> None:
    taken = snapshot([[0.5], [0.25], [0.75]], resources=("cpu", "memory", "disk"))
    with serving(board_of(taken)) as port:
        few = ask(port, "/watcher").json["data"]["NodeMetricsMap"]["node-0"]["metrics"]
        everything = ask(port, "/watcher?resources=all&host=node-0").json["data"]["NodeMetricsMap"]["node-0"]["metrics"]
    assert {m["type"] for m in few} == {"CPU", "Memory"}
    assert [m["value"] for m in everything if m["type"] == "Storage"] == [75.0, 5.0]


def test_an_old_snapshot_is_gone_at_once_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        taken = snapshot([[0.5], [0.25]])
        gone = weakref.ref(taken)
        rendered = render(taken, {})
        del taken, rendered
        assert gone() is None
    finally:
        gc.enable()
