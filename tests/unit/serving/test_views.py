"""The fleet in columns and the overview, over HTTP."""

import gzip
from typing import Any

from ballast.answers.ledger_answer import LedgerAnswer, LedgerEntry
from ballast.base.errors import BallastError
from ballast.model.ledger import AMOUNTS, COUNTS
from ballast.serving.board import DaemonAnswers
from tests.unit.serving.client import ask
from tests.worlds import acting
from tests.worlds.board import TIME, board_of, fleet, serving, snapshot

NAN = float("nan")


def entry(hours_ago: int, **amounts: Any) -> LedgerEntry:
    unknown = dict.fromkeys(AMOUNTS)
    return LedgerEntry(**{"begin": TIME - 3600 * hours_ago, **dict.fromkeys(COUNTS, 0), **unknown, **amounts})


LEDGER = LedgerAnswer(
    hours=[
        entry(30, evicted=40, predicted=9.0, measured=9.0),
        entry(3, evicted=4, refused=2),
        entry(0, evicted=3, failed=1, predicted=0.12, measured=0.104),
    ],
    days=[
        entry(40, evicted=99),
        entry(3, evicted=7, refused=2, failed=1, predicted=0.12, measured=0.104, hot_node_minutes=30.0),
    ],
)


def test_names_and_loads_are_columns_of_the_same_nodes() -> None:
    board = board_of(snapshot([[0.4217, NAN], [0.3, NAN]], names=["a", "b"]), scores={"a": 61, "b": None})
    with serving(board) as port:
        names, loads = (ask(port, f"/api/v1/{path}").json for path in ("fleet", "fleet/loads"))
        odd = ask(port, "/api/v1/fleet/loads?window=7m")
    assert names["names"] == ["a", "b"]
    assert names["roster"] == loads["roster"]
    assert loads["load"] == {"cpu": [422, None], "memory": [300, None]}
    assert (loads["score"], loads["state"]) == ([61, None], [0, 4])
    assert odd.status == 400


def test_the_loads_of_another_time_are_those_that_were_kept() -> None:
    board = board_of(snapshot([[0.5], [0.4]]))
    with serving(board) as port:
        past = ask(port, f"/api/v1/fleet/loads?at={TIME}")
        older, odd = (ask(port, f"/api/v1/fleet/loads?at={at}") for at in (TIME - 7200, "noon"))
    assert past.json["load"] == {"cpu": [500], "memory": [400]}
    assert past.json["score"] == [50]
    assert (older.status, odd.status) == (400, 400)
    assert "nothing of that time is kept" in older.json["error"]


def test_an_update_of_five_thousand_nodes_is_small() -> None:
    with serving(board_of(fleet(5_000))) as port:
        answer = ask(port, "/api/v1/fleet/loads", accept_encoding="gzip")
        names = ask(port, "/api/v1/fleet", accept_encoding="gzip")
    assert len(answer.body) < 60_000
    assert len(names.body) < 40_000
    assert len(gzip.decompress(answer.body)) < 200_000


def test_the_overview_says_what_is_hot_and_what_was_done() -> None:
    board = board_of(snapshot([[0.95, 0.5, NAN], [0.85, 0.4, NAN]]))
    board.plans = acting.as_plans(acting.plan(number, TIME, mode="on") for number in range(3))
    board.evictions = acting.as_evictions(acting.evictions(TIME, 14))
    with serving(board, answers=DaemonAnswers(ledger=lambda: LEDGER)) as port:
        found = ask(port, "/api/v1/overview").json
        ledger = ask(port, "/api/v1/ledger").json
    assert found["hot"] == 1
    assert found["hottest"] == [{"node": "node-0", "resource": "cpu", "load": 0.95}]
    assert found["balance"]["cpu"]["now"] == 0.225
    assert found["balance"]["cpu"]["before"] == 0.225
    assert found["balance"]["cpu"]["threshold"] == 0.8
    assert sum(found["balance"]["cpu"]["bars"]) == 2
    assert found["today"]["evictions"] == {"evicted": 7, "refused": 2, "failed": 1}
    assert found["today"]["since"] == LEDGER.days[-1].begin
    assert (found["today"]["hot_node_minutes"], found["today"]["hot_node_minutes_without"]) == (30.0, None)
    assert found["today"]["predicted"] == 0.12
    assert found["today"]["measured"] == 0.104
    assert [hour["evicted"] for hour in ledger["hours"]] == [40, 4, 3]
    assert ledger["hours"][1]["measured"] is None
    assert found["obstacles"][0] == {
        "check": "pdb",
        "pods": 12,
        "kind": "rebalance",
        "plain": "disruption budget used up",
    }
    assert found["considered"] == 3 * 22 + 9
    assert found["held"] is None


def test_evictions_of_yesterday_are_not_of_today() -> None:
    board = board_of(snapshot([[0.5], [0.4]]))
    board.plans = acting.as_plans([acting.plan(0, TIME - 90_000)])
    board.evictions = acting.as_evictions(acting.evictions(TIME - 90_000, 14, breaker="14 % of the nodes are NotReady"))
    with serving(board) as port:
        found = ask(port, "/api/v1/overview").json
    assert found["today"].pop("would").keys() == {"day", "week"}
    assert found["today"] == {
        "since": None,
        "hot_node_minutes": None,
        "hot_node_minutes_without": None,
        "evictions": {},
        "predicted": None,
        "measured": None,
        "plans": 0,
        "moves": 0,
        "replicas": 0,
    }
    assert found["held"] == "14 % of the nodes are NotReady"


def test_a_ledger_that_cannot_be_read_is_unknown_and_not_empty() -> None:
    def unreadable() -> LedgerAnswer:
        raise BallastError("ConfigMap ballast-state cannot be read")

    with serving(board_of(snapshot([[0.5], [0.4]])), answers=DaemonAnswers(ledger=unreadable)) as port:
        ledger, overview = ask(port, "/api/v1/ledger"), ask(port, "/api/v1/overview").json
    assert ledger.status == 503
    assert "ConfigMap ballast-state cannot be read" in ledger.json["error"]
    assert overview["today"]["evictions"] == {}


def test_plans_are_listed_without_their_steps_and_each_can_be_read_whole() -> None:
    board = board_of(snapshot([[0.5], [0.4]]))
    board.plans = acting.as_plans(acting.plan(number, TIME) for number in range(3))
    with serving(board) as port:
        listed, whole, none = (
            ask(port, f"/api/v1/plans/{name}") for name in ("summaries", board.plans[1].id, "nothing")
        )
    assert [(each["id"], each["moves"], each["refused"]) for each in listed.json] == [
        (f"plan-{number}", 3, 22) for number in range(3)
    ]
    assert whole.json == acting.plan(1, TIME)
    assert none.status == 404


def test_what_cannot_be_explained_now_is_503_with_the_reason() -> None:
    board = board_of(snapshot([[0.5], [0.4]]))

    def explain(namespace: str, name: str) -> None:
        if name == "busy":
            raise BallastError("the planning process is busy; ask again in a minute")

    with serving(board, answers=DaemonAnswers(explain=explain)) as port:
        busy, gone = (ask(port, f"/api/v1/pods/shop/{name}/explain") for name in ("busy", "gone"))
    assert (busy.status, busy.headers["retry-after"]) == (503, "30")
    assert busy.json == {"error": "the planning process is busy; ask again in a minute"}
    assert (gone.status, gone.json) == (404, {"error": "no pod shop/gone"})
