import gzip
import json
from typing import Any

import jsonschema
import pytest

from ballast.serving.board import Board, CycleRecord, DaemonAnswers
from ballast.serving.openapi import DOCUMENT
from tests.unit.serving.client import ask
from tests.worlds import acting
from tests.worlds.board import TIME, board_of, serving, snapshot

NAN = float("nan")
CONDITION = {
    "type": "SourceDegraded",
    "status": "True",
    "reason": "Timeout",
    "message": "prometheus is silent",
    "lastTransitionTime": "2023-11-14T22:13:20Z",
}


def full_board() -> Board:
    board = board_of(
        snapshot([[0.5, NAN, NAN], [0.25, NAN, NAN]], young=[False, False, True]), scores={"node-0": 61, "node-1": None}
    )
    board.cycles = [
        CycleRecord("telemetry", TIME - 30, 0.2, True, "read 2 resources"),
        CycleRecord("publishing", TIME - 20, 0.1, True, "published 1 of 3 nodes, 2 unknown"),
        CycleRecord("telemetry", TIME, 0.2, False, "no answer"),
    ]
    board.config = [{"name": "BALLAST_PUBLISHING__MODE", "value": "dry-run", "origin": "default"}]
    board.conditions = lambda: [CONDITION]
    return board


def acting_board() -> Board:
    board = full_board()
    board.power = acting.as_power(acting.power(TIME, acting.policy("site-a", TIME), acting.just_started()))
    board.plans = acting.as_plans(acting.plan(number, TIME) for number in range(3))
    board.evictions = acting.as_evictions(acting.evictions(TIME))
    return board


def operations() -> list[tuple[str, dict[str, Any]]]:
    return [(path, operation["get"]) for path, operation in DOCUMENT["paths"].items()]


def check_schema(schema: dict[str, Any], answer: Any) -> None:
    jsonschema.validate(answer, schema | {"components": DOCUMENT["components"]}, cls=jsonschema.Draft202012Validator)


@pytest.mark.parametrize(("path", "operation"), operations(), ids=[path for path, _ in operations()])
@pytest.mark.parametrize(
    "board",
    [Board(), board_of(snapshot([[], []])), full_board(), acting_board()],
    ids=["no snapshot", "no nodes", "nodes", "acts"],
)
def test_every_documented_path_answers_as_documented(path: str, operation: dict[str, Any], board: Board) -> None:
    with serving(board) as port:
        answers = [ask(port, path.replace("{name}", name)) for name in ("node-0", "node-1", "nobody")]
    for answer in answers:
        documented = operation["responses"][str(answer.status)]
        assert answer.headers["content-type"] == "application/json"
        check_schema(documented["content"]["application/json"]["schema"], answer.json)


def test_the_document_is_openapi_and_names_every_parameter() -> None:
    assert DOCUMENT["openapi"].startswith("3.1")
    assert {"title", "version"} <= DOCUMENT["info"].keys()
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    identifiers = [operation["operationId"] for _, operation in operations()]
    assert len(set(identifiers)) == len(identifiers)
    for path, operation in operations():
        named = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"}
        assert named == {part[1:-1] for part in path.split("/") if part.startswith("{")}
    with serving(Board()) as port:
        assert ask(port, "/api/v1/openapi.json").json == DOCUMENT


def test_unknown_is_null_and_never_zero() -> None:
    with serving(full_board()) as port:
        body = ask(port, "/api/v1/nodes").json
        detail = ask(port, "/api/v1/nodes/node-1").json
    known, silent, young = body["nodes"]
    assert known["load"]["cpu"] == {"mean": 0.5, "std": 0.05, "p95": 0.6}
    assert known["load"]["memory"] == {"mean": 0.25, "std": 0.05, "p95": 0.35}
    assert (known["score"], known["state"], known["newest"]) == (61, "known", TIME - 12)
    for node, state in ((silent, "silent"), (young, "young")):
        assert node["load"] == {"cpu": None, "memory": None}
        assert (node["score"], node["class"], node["newest"], node["state"]) == (None, None, None, state)
    assert [node["lost"] for node in (known, silent, young)] == [[], ["cpu", "memory"], []]
    for statistics in detail["windows"]["15m"].values():
        assert [statistics[name] for name in ("mean", "std", "p95", "known")] == [None, None, None, False]


def test_status_sums_up() -> None:
    with serving(full_board()) as port:
        status = ask(port, "/api/v1/status").json
    assert status["snapshot"] | {"sources": {}} == {
        "time": TIME,
        "age": 15.0,
        "windows": ["15m", "10m", "5m"],
        "nodes": 3,
        "known": 1,
        "young": 1,
        "down": 0,
        "unmeasured": 0,
        "disputed": 0,
        "silent": 1,
        "sources": {},
    }
    assert {job["job"]: job["sentence"] for job in status["jobs"]} == {
        "telemetry": "no answer",
        "publishing": "published 1 of 3 nodes, 2 unknown",
    }
    assert status["modes"] == {"publishing": "dry-run", "power": None, "eviction": None, "batch": None}
    assert status["paused"] == {"publishing": None, "power": None, "eviction": None, "batch": None}
    assert status["conditions"] == [CONDITION]


def test_status_says_when_the_data_is_history() -> None:
    board = full_board()
    with serving(board) as port:
        assert ask(port, "/api/v1/status").json["current"] is True
        board.max_age = 14.0
        assert ask(port, "/api/v1/status").json["current"] is False


def test_cycles_come_newest_first() -> None:
    with serving(full_board()) as port:
        assert [cycle["started"] for cycle in ask(port, "/api/v1/cycles").json] == [TIME, TIME - 20, TIME - 30]


def test_before_anything_was_planned_the_acts_are_empty_but_whole() -> None:
    board = full_board()
    board.config = [{"name": "BALLAST_POWER__MODE", "value": "dry-run", "origin": "default"}]
    with serving(board) as port:
        power, plans, evictions = (ask(port, f"/api/v1/{path}").json for path in ("power", "plans", "evictions"))
    assert power == {"mode": "dry-run", "paused": None, "policies": [], "conditions": [CONDITION]}
    assert plans == []
    assert evictions == {"mode": None, "paused": None, "recent": [], "reservations": [], "limits": {}, "breaker": None}


@pytest.mark.parametrize("path", ["/api/v1/power", "/api/v1/plans", "/api/v1/evictions"])
def test_what_did_not_change_is_not_sent_again(path: str) -> None:
    board = acting_board()
    with serving(board) as port:
        first = ask(port, path)
        again = ask(port, path, if_none_match=first.headers["etag"])
        packed = ask(port, path, accept_encoding="gzip")
        board.power, board.plans = acting.as_power(acting.power(TIME + 30)), []
        board.evictions = acting.as_evictions(acting.evictions(TIME + 30))
        changed = ask(port, path, if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert json.loads(gzip.decompress(packed.body)) == first.json
    assert changed.status == 200
    assert changed.json != first.json


def test_a_condition_that_comes_changes_the_power_document() -> None:
    board = acting_board()
    board.conditions = list
    with serving(board) as port:
        first = ask(port, "/api/v1/power")
        board.conditions = lambda: [CONDITION]
        assert ask(port, "/api/v1/power", if_none_match=first.headers["etag"]).json["conditions"] == [CONDITION]


@pytest.mark.slow
def test_the_acts_are_of_bounded_size_and_the_newest_stay() -> None:
    board = full_board()
    actions = [{"time": TIME + step, "reason": "", "changes": {}, "replicas": {}, "result": ""} for step in range(300)]
    board.power = acting.as_power(acting.power(TIME, acting.policy("a", TIME, points=3_000, actions=actions)))
    board.plans = acting.as_plans(acting.plan(number, TIME, steps=3_000) for number in range(80))
    board.evictions = acting.as_evictions(acting.evictions(TIME, 900))
    with serving(board) as port:
        power, plans, evictions = (ask(port, f"/api/v1/{path}").json for path in ("power", "plans", "evictions"))
    [policy] = power["policies"]
    assert len(policy["history"]) == 2_880
    assert policy["history"][-1][0] == TIME
    assert [action["time"] for action in policy["actions"]] == [TIME + step for step in range(299, 199, -1)]
    assert [plan["id"] for plan in plans] == ["plan-0", "plan-1", "plan-2"]
    assert [len(plan["steps"]) for plan in plans] == [3_000] * 3
    assert len(evictions["recent"]) == 500
    assert evictions["recent"][0]["time"] == TIME


def test_errors_are_json() -> None:
    with serving(full_board()) as port:
        for path, status in (("/api/v1/nodes/nobody", 404), ("/api/v1/nodes?window=1h", 400), ("/nowhere", 404)):
            answer = ask(port, path)
            assert answer.status == status
            assert list(answer.json) == ["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_nothing_can_be_changed(method: str) -> None:
    with serving(full_board()) as port:
        for path in [path.replace("{name}", "node-0") for path in DOCUMENT["paths"]] + ["/", "/metrics", "/readyz"]:
            answer = ask(port, path, method)
            assert (answer.status, list(answer.json)) == (405, ["error"])
            assert "GET" in answer.headers["allow"]


def test_the_scores_of_a_pod_are_those_the_daemon_makes() -> None:
    scores = {"scores": {"node-0": 61}, "raw": {"node-0": None}, "terms": {"node-0": {"cpu": 61.2}}, "unknown": []}
    document = {
        "pod": "shop/web-1",
        "node": None,
        "decided": "node-0",
        "time": TIME,
        "neutral": None,
        "strategies": [{"strategy": "load-variation", **scores}],
        "strategy": "load-variation",
        "scores": scores["scores"],
        "unknown": [],
    }
    answers = DaemonAnswers(pod_scores=lambda *asked: document if asked == ("shop", "web-1") else None)
    with serving(full_board(), answers=answers) as port:
        answer, stranger = (ask(port, f"/api/v1/pods/shop/{name}/scores") for name in ("web-1", "web-2"))
    assert (answer.status, answer.json) == (200, document)
    check_schema(DOCUMENT["components"]["schemas"]["PodScores"], answer.json)
    assert (stranger.status, stranger.json) == (404, {"error": "no pod shop/web-2"})
