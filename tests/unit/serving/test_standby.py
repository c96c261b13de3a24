"""A standby answers with what the leader says, or says that it cannot; never with what it does not know."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ballast.answers.ledger_answer import LedgerAnswer
from ballast.base.metrics import Metrics
from ballast.cluster.conditions import Conditions
from ballast.cluster.leader_page import FORWARDED, PAGE_PORT, LeaderAnswer, LeaderPage, LeaderUnreachable
from ballast.serving.board import Board, DaemonAnswers
from ballast.serving.exposition import Exposition
from ballast.serving.standby import Leader
from tests.unit.serving.client import ask
from tests.worlds import acting
from tests.worlds.board import TIME, board_of, serving, snapshot
from tests.worlds.clock import FakeClock
from tests.worlds.kube_api import FakeApi

SLICE = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/ballast-extender"
ACTING = ["evictions", "plans", "plans/summaries", "power", "overview", "ledger", "history"]


def endpoint_slice(port: int, pod: str = "one") -> dict[str, Any]:
    return {
        "metadata": {"name": "ballast-extender", "annotations": {PAGE_PORT: str(port)}},
        "endpoints": [{"addresses": ["127.0.0.1"], "targetRef": {"name": pod}}],
    }


def page_of(objects: Mapping[str, Any], **options: Any) -> LeaderPage:
    given = {"path": SLICE, "pod": "two", "tls": None, "standing_by": lambda: "standing by: one holds the Lease"}
    return LeaderPage(FakeApi(dict(objects)), FakeClock(), **{**given, **options})  # type: ignore[arg-type]


def leading() -> Board:
    board = board_of(snapshot([[0.95, 0.5], [0.85, 0.4]]))
    board.leader = lambda: True
    board.plans = acting.as_plans(acting.plan(number, TIME, mode="on") for number in range(3))
    board.evictions = acting.as_evictions(acting.evictions(TIME, 14))
    board.conditions = lambda: [CONDITION]
    return board


CONDITION = {"type": "PlannerStopped", "status": "True", "reason": "R", "message": "late", "lastTransitionTime": ""}


def following(get: Any) -> DaemonAnswers:
    return DaemonAnswers(leader=Leader(lambda: True, get))


def test_both_replicas_say_the_same() -> None:
    standby = board_of(snapshot([[0.95, 0.5], [0.85, 0.4]]))
    with (
        serving(leading()) as port,
        serving(standby, answers=following(page_of({SLICE: endpoint_slice(port)}).get)) as other,
    ):
        for path in ACTING:
            for encoding in ("", "gzip"):
                one, two = (ask(each, f"/api/v1/{path}", accept_encoding=encoding) for each in (port, other))
                assert (one.status, one.body) == (two.status, two.body), path
        mine, status = (ask(each, "/api/v1/status", accept_encoding="gzip").json for each in (port, other))
    assert (mine["leader"], status["leader"]) == (True, False)
    for key in ("conditions", "troubles", "jobs", "paused"):
        assert mine[key] == status[key]
    assert status["troubles"][0]["type"] == "PlannerStopped"
    assert (mine["headline"]["word"], status["headline"]["word"]) == ("1 hot", "Standby")


def test_without_the_leader_it_names_who_has_the_answer() -> None:
    standby = board_of(snapshot([[0.95, 0.5], [0.85, 0.4]]))
    ledger = LedgerAnswer(hours=[], days=[])
    answers = replace(following(page_of({}).get), ledger=lambda: ledger)
    with serving(standby, answers=answers) as port:
        for path in (*ACTING, "plans/x", "pods/a/b/explain"):
            answer = ask(port, f"/api/v1/{path}")
            assert answer.status == 503, path
            assert "one holds the Lease; it has this answer and could not be asked" in answer.json["error"]
        status = ask(port, "/api/v1/status").json
        assert ask(port, "/api/v1/nodes").status == 200
    assert [(each["type"], each["rank"]) for each in status["troubles"]] == [("LeaderUnreachable", "partial")]


def test_nothing_is_passed_on_twice() -> None:
    def never(path: str, headers: Mapping[str, str]) -> LeaderAnswer:
        raise AssertionError("it was passed on")

    with serving(board_of(snapshot([[0.5], [0.4]])), answers=following(never)) as port:
        answer = ask(port, "/api/v1/plans", **{FORWARDED: "one"})
        status = ask(port, "/api/v1/status", **{FORWARDED: "one"})
    assert answer.status == 503
    assert "does not lead any more" in answer.json["error"]
    assert status.json["leader"] is False


def test_two_standbys_that_take_each_other_for_the_leader_end_at_once() -> None:
    boards = [board_of(snapshot([[0.5], [0.4]])) for _ in range(2)]
    objects: dict[str, Any] = {}
    pages = [page_of(objects, pod="two"), page_of(objects, pod="two")]
    with (
        serving(boards[0], answers=following(pages[0].get)) as one,
        serving(boards[1], answers=following(pages[1].get)) as two,
    ):
        pages[0]._known = (FakeClock().monotonic(), f"http://127.0.0.1:{two}")
        pages[1]._known = (FakeClock().monotonic(), f"http://127.0.0.1:{one}")
        answer = ask(one, "/api/v1/evictions")
    assert answer.status == 503
    assert "does not lead any more" in answer.json["error"]


@pytest.mark.parametrize(
    "found",
    [
        {},
        {"metadata": {}, "endpoints": []},
        endpoint_slice(1, pod="two"),
        {"metadata": {"annotations": {PAGE_PORT: "2020/@evil"}}, "endpoints": [{"addresses": ["127.0.0.1"]}]},
        {"metadata": {"annotations": {PAGE_PORT: "2020"}}, "endpoints": [{"addresses": ["evil.example"]}]},
        {"metadata": {"annotations": {PAGE_PORT: "2020"}}, "endpoints": [{"addresses": []}]},
        {"metadata": {"annotations": {PAGE_PORT: "1"}}, "endpoints": [{"addresses": ["127.0.0.1"]}]},
    ],
)
def test_an_address_that_is_none_is_not_asked(found: dict[str, Any]) -> None:
    with pytest.raises(LeaderUnreachable, match="one holds the Lease"):
        page_of({SLICE: found} if found else {}).get("/api/v1/plans", {})


def test_a_slice_that_named_nobody_is_read_again_at_once() -> None:
    api = FakeApi({SLICE: {"metadata": {}, "endpoints": []}})
    page = LeaderPage(api, FakeClock(), path=SLICE, pod="two", tls=None, standing_by=lambda: None)  # type: ignore[arg-type]
    with pytest.raises(LeaderUnreachable, match="names no other replica"):
        page.get("/api/v1/plans", {})
    with serving(leading()) as port:
        api.objects[SLICE] = endpoint_slice(port)
        assert page.get("/api/v1/plans", {}).status == 200


def test_metrics_that_only_a_leader_knows_are_absent_on_a_standby() -> None:
    metrics, board = Metrics(), Board()
    Conditions(FakeClock(), metrics)
    leads = Exposition(board, metrics).render("")[0].decode()
    board.follows = lambda: True
    stands_by = Exposition(board, metrics).render("")[0].decode()
    assert 'ballast_condition{type="PlannerStopped"} 0.0' in leads
    assert "ballast_evictions_total" in leads
    for text in ('"PlannerStopped"', "ballast_eviction", "ballast_planning_", "ballast_batch_"):
        assert text not in stands_by
    assert 'ballast_condition{type="TelemetryDegraded"} 0.0' in stands_by
    assert "ballast_leader 0.0" in stands_by
    assert 'ballast_condition{type="PlannerStopped"} 0.0' in Exposition(Board(), metrics).render("")[0].decode()
