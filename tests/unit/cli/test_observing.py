import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner

from ballast.base.errors import BallastError, UsageError
from ballast.cli.app import app
from ballast.cli.observing import remote, report
from ballast.cli.observing.summary import hot, limits_of, spread
from ballast.cli.output import paint
from ballast.cli.place import Place
from ballast.model.ledger import AMOUNTS, COUNTS

Daemon = Callable[..., str]
NOON = 1_795_348_800.0


def node(name: str, cpu: float | None, memory: float | None = 0.5, **others: Any) -> dict[str, Any]:
    loads = {"cpu": cpu, "memory": memory}
    return {
        "name": name,
        "pool": None,
        "state": "known" if cpu is not None else "silent",
        "lost": [],
        "score": 50 if cpu is not None else None,
        "class": None,
        "schedulable": True,
        "published": {"score": "5", "load": "normal"},
        "newest": NOON,
        "load": {key: None if load is None else {"mean": load, "std": 0, "p95": load} for key, load in loads.items()},
        **others,
    }


def day(ago: int, **amounts: Any) -> dict[str, Any]:
    unknown = dict.fromkeys(AMOUNTS)
    return {"begin": NOON // 86_400 * 86_400 - ago * 86_400, **dict.fromkeys(COUNTS, 0), **unknown, **amounts}


def answers(nodes: list[dict[str, Any]], **status: Any) -> dict[str, Any]:
    return {
        "status": {
            "version": "0.1.0",
            "time": NOON,
            "leader": True,
            "ready": True,
            "frozen": False,
            "current": True,
            "modes": {"publishing": "on", "power": "off", "eviction": "dry-run"},
            "paused": {"publishing": None, "power": None, "eviction": "paused by ballast-switches"},
            "interval": "5s",
            "snapshot": {"time": NOON, "age": 3.0, "windows": ["15m"], "nodes": len(nodes), "known": 2, "young": 0,
                         "down": 0, "unmeasured": 0, "silent": 1, "sources": {}},
            "jobs": [],
            "conditions": [],
            "troubles": [],
            **status,
        },
        "nodes": {"time": NOON, "window": "15m", "resources": ["cpu", "memory"], "nodes": nodes},
        "power": {"mode": "off", "paused": None, "policies": [], "conditions": []},
        "plans": [],
        "evictions": {"mode": "dry-run", "paused": None, "limits": {}, "breaker": None, "recent": [],
                      "reservations": []},
        "ledger": {"hours": [], "days": [day(1, evicted=5), day(0, evicted=7, refused=1, hot_node_minutes=90.0,
                                                                hot_node_minutes_without=360.0,
                                                                predicted=0.5, measured=0.4)]},
        "cycles": [],
        "config": [{"name": "BALLAST_PUBLISHING__HIGH", "value": 0.8, "origin": "default"}],
    }  # fmt: skip


@pytest.fixture
def daemon(httpserver: HTTPServer) -> Daemon:
    def serve(documents: dict[str, Any]) -> str:
        for name, document in documents.items():
            httpserver.expect_request(f"/api/v1/{name}").respond_with_json(document)
        httpserver.expect_request("/metrics").respond_with_data("ballast_leader 1\n")
        httpserver.expect_request("/readyz").respond_with_data("readyz passed\n")
        return httpserver.url_for("").rstrip("/")

    return serve


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def test_a_planner_that_may_less_than_its_part_is_named(daemon: Daemon) -> None:
    may = {"relieve": "on", "consolidate": "dry-run"}
    url = daemon(answers([node("a", 0.3)], modes={"eviction": "on"}, paused={"eviction": None}, planners=may))
    assert "eviction on (consolidate dry-run)" in run("status", "--url", url).stdout


def test_a_balanced_cluster_with_nothing_wrong_exits_0(daemon: Daemon) -> None:
    url = daemon(answers([node("a", 0.3), node("b", 0.5)]))
    result = run("status", "--url", url)
    assert result.exit_code == 0, result.stdout
    assert f"Ballast 0.1.0 at {url}: leader, ready" in result.stdout
    assert "balanced  yes, no node above cpu 80%, memory 80%" in result.stdout
    assert "spread    cpu 0.100, memory 0.000" in result.stdout
    assert "eviction dry-run (paused: paused by ballast-switches)" in result.stdout
    assert "wrong     nothing" in result.stdout


def test_what_switching_on_would_have_brought_stands_beside_the_switch(daemon: Daemon) -> None:
    documents = answers([node("a", 0.3)])
    documents["ledger"]["days"] = [
        day(2, would_evict=40, hot_node_minutes=600.0, would_spare_hot_node_minutes=480.0),
        day(1, hot_node_minutes=6000.0),
        day(0, would_evict=3, hot_node_minutes=60.0, would_spare_hot_node_minutes=-6.0, over_watt_hours=9.0,
            would_spare_over_watt_hours=7.5),
    ]  # fmt: skip
    url = daemon(documents)
    shown = run("status", "--url", url).stdout
    assert (
        "dry-run   evictions: 3 pods moved, 0.1 more hot node-hours than 1.0; in 7 days 43 pods moved, "
        "7.9 of 11.0 hot node-hours fewer" in shown
    )
    assert "          power: 7.5 of 9.0 Wh above the feed fewer; in 7 days 7.5 of 9.0 Wh above the feed fewer" in shown
    assert json.loads(run("status", "--url", url, "-o", "json").stdout)["would"]["week"]["evict"] == 43


def trouble(name: str, rank: str, message: str) -> dict[str, Any]:
    words = {"title": name, "message": message, "since": "", "do": "look", "runbook": None}
    return {"type": name, "rank": rank, "mild": rank == "tuning", **words}


def test_what_is_wrong_is_named_and_exits_1(daemon: Daemon) -> None:
    troubles = [trouble("SeriesDiffer", "partial", "two clusters"), trouble("ScrapesSlow", "tuning", "60 s apart")]
    url = daemon(answers([node("a", 0.95), node("b", 0.2)], troubles=troubles))
    result = run("status", "--url", url, "-o", "json")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["balanced"] is False
    assert [each["node"] for each in found["hot"]] == ["a"]
    assert [(each["type"], each["rank"], each["message"]) for each in found["wrong"]] == [
        ("SeriesDiffer", "partial", "two clusters"),
        ("ScrapesSlow", "tuning", "60 s apart"),
    ]


def test_a_terminal_has_colour_unless_it_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert paint("nothing", "green") == "\x1b[32mnothing\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("nothing", "green") == "nothing"


def test_a_hint_is_nothing_wrong(daemon: Daemon) -> None:
    url = daemon(answers([node("a", 0.3)], troubles=[trouble("ScrapesSlow", "tuning", "60 s apart")]))
    result = run("status", "--url", url)
    assert result.exit_code == 0
    assert "wrong     nothing" in result.stdout
    assert "ScrapesSlow: 60 s apart" in result.stdout


def test_nothing_known_is_not_called_balanced(daemon: Daemon) -> None:
    found = json.loads(run("status", "--url", daemon(answers([node("a", None, None)])), "-o", "json").stdout)
    assert found["balanced"] is None
    assert found["spread"] == {"cpu": None, "memory": None}


def test_top_prints_all_nodes_once_when_it_is_piped(daemon: Daemon) -> None:
    url = daemon(
        answers([node("idle", 0.1, 0.2), node("hot", 0.9), node("silent", None, None), node("full", 0.2, 0.8)])
    )
    result = run("top", "--url", url)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("3 of 4 nodes known; window 15m; spread cpu ")
    assert lines[1].split() == ["NODE", "STATE", "CPU", "MEMORY", "SCORE", "LABEL"]
    assert [line.split()[0] for line in lines[2:]] == ["hot", "full", "idle", "silent"]
    assert lines[-1].split() == ["silent", "silent", "-", "-", "-", "5/normal"]
    rows = json.loads(run("top", "--url", url, "-o", "json").stdout)
    assert rows[0]["load"] == {"cpu": 0.9, "memory": 0.5}
    assert rows[3]["load"] == {"cpu": None, "memory": None}


def test_before_the_first_cycle_there_are_no_nodes(httpserver: HTTPServer, daemon: Daemon) -> None:
    no_data = trouble("NoData", "outage", "no cycle has ended yet")
    documents = answers([], snapshot=None, current=False, troubles=[no_data])
    del documents["nodes"]
    url = daemon(documents)
    httpserver.expect_request("/api/v1/nodes").respond_with_json({"error": "no cycle has ended yet"}, status=503)
    result = run("status", "--url", url)
    assert result.exit_code == 1
    assert "NoData: no cycle has ended yet" in result.stdout
    assert run("top", "--url", url).stdout.startswith("0 of 0 nodes known")


def test_top_sorts_as_asked_and_shows_one_pool(daemon: Daemon) -> None:
    nodes = [node("a", 0.3, 0.7), node("b", 0.5, 0.2), node("c", None)]
    for each, score, pool in zip(nodes, (40, 90, None), ("blue", "blue", "red"), strict=True):
        each |= {"score": score, "pool": pool}
    url = daemon(answers(nodes))

    def order(*arguments: str) -> list[str]:
        return [row["node"] for row in json.loads(run("top", "--url", url, "-o", "json", *arguments).stdout)]

    assert order() == order("--sort", "score") == ["a", "b", "c"]
    assert order("--sort", "memory")[0] == "a"
    assert order("--sort", "cpu") == ["b", "a", "c"]
    assert order("--sort", "name", "--pool", "blue") == ["a", "b"]
    assert "1 of 1" not in run("top", "--url", url, "--pool", "blue").stdout
    for arguments, said in (
        (("--sort", "disk"), "one of load, score, name, cpu, memory"),
        (("--pool", "x"), "blue, red"),
    ):
        result = run("top", "--url", url, *arguments)
        assert result.exit_code != 0
        assert said in str(result.exception)


@pytest.mark.parametrize("command", ["status", "top", "sysdump", "doctor"])
def test_an_address_without_a_daemon_is_named_with_the_next_step(
    command: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    result = run(command, "--url", "http://127.0.0.1:1")
    assert isinstance(result.exception, BallastError)
    words = str(result.exception)
    assert "--url http://127.0.0.1:1: no Ballast daemon answers there (no connection)" in words
    assert "kubectl -n ballast port-forward service/ballast 2020" in words
    assert list(tmp_path.iterdir()) == []


def test_without_an_address_both_ways_are_tried_and_named(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "NEAR", "http://127.0.0.1:1")
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(BallastError) as raised:
        remote.find(Place())
    words = str(raised.value)
    assert "Tried http://127.0.0.1:1 (no connection), then the cluster (" in words
    assert str(tmp_path / "none") in words
    assert "--namespace" in words


def test_who_names_a_cluster_is_not_told_of_another_one(daemon: Daemon, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(remote, "NEAR", daemon(answers([])))
    assert remote.find(Place()).cluster is None
    with pytest.raises(BallastError, match="not asked, because a cluster or a namespace is named"):
        remote.find(Place(kubeconfig=tmp_path / "none"))


@pytest.mark.parametrize("command", ["status", "top", "report"])
def test_yaml_says_the_same_as_json(command: str, daemon: Daemon) -> None:
    url = daemon(answers([node("a", 0.3)]))
    one, other = (run(command, "--url", url, "-o", form).stdout for form in ("json", "yaml"))
    assert yaml.safe_load(other) == json.loads(one)


@pytest.mark.parametrize("url", ["localhost:2020", "ftp://x", "http://", ""])
def test_an_address_that_is_none_is_wrong_use(url: str) -> None:
    assert isinstance(run("status", "--url", url).exception, UsageError)


def test_another_server_is_not_taken_for_a_daemon(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/api/v1/status").respond_with_json({"status": "success"})
    result = run("top", "--url", httpserver.url_for(""))
    assert "something else than Ballast answers" in str(result.exception)


def test_an_error_of_the_daemon_is_passed_on(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/api/v1/status").respond_with_json({"error": "who are you"}, status=401)
    assert "HTTP 401: who are you" in str(run("status", "--url", httpserver.url_for("")).exception)


def test_a_daemon_that_asks_for_a_token_gets_that_of_the_kubeconfig(
    httpserver: HTTPServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    user = {"name": "u", "user": {"token": "mine"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    file = tmp_path / "kubeconfig"
    document = {"current-context": "x", "clusters": [cluster], "users": [user], "contexts": [context]}
    file.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("KUBECONFIG", str(file))
    known = {"Authorization": "Bearer mine"}
    for name, document in answers([node("a", 0.3)]).items():
        httpserver.expect_request(f"/api/v1/{name}", headers=known).respond_with_json(document)
        httpserver.expect_request(f"/api/v1/{name}").respond_with_json({"error": "who are you"}, status=401)
    assert run("status", "--url", httpserver.url_for("")).exit_code == 0
    sent = [request.headers.get("Authorization") for request, _ in httpserver.log]
    assert set(sent) == {None, "Bearer mine"}
    assert sent[0] is None, "not unasked"


POOLS = {"a": [node("a-1", 0.9), node("a-2", 0.3)], "b": [node("b-1", 0.5), node("b-2", None)], "c": [node("c-1", 0.1)]}


@pytest.fixture
def pools() -> Iterator[dict[str, str]]:
    """Addresses of three Ballasts, each with its own nodes."""
    urls, servers = {}, []
    for number, (name, nodes) in enumerate(POOLS.items()):
        server = HTTPServer()
        server.start()
        servers.append(server)
        ledger = {"hours": [], "days": [day(0, evicted=number, hot_node_minutes=30.0)]}
        for path, document in (answers(nodes) | {"ledger": ledger}).items():
            server.expect_request(f"/api/v1/{path}").respond_with_json(document)
        urls[name] = server.url_for("").rstrip("/")
    yield urls
    for server in servers:
        server.stop()


def status_of(*urls: str) -> tuple[int, dict[str, Any]]:
    result = run("status", *(word for url in urls for word in ("--url", url)), "-o", "json")
    return result.exit_code, json.loads(result.stdout)


def test_three_ballasts_are_shown_as_one_cluster(pools: dict[str, str]) -> None:
    code, view = status_of(*pools.values())
    assert code == 0
    assert view["nodes"] == {"nodes": 5, "known": 4, "silent": 1, "age": 3.0} | dict.fromkeys(
        ("young", "down", "unmeasured", "disputed"), 0
    )
    assert [hot["node"] for hot in view["hot"]] == ["a-1"]
    assert view["balanced"] is False
    assert view["spread"] == spread([node for nodes in POOLS.values() for node in nodes], ["cpu", "memory"])
    assert view["today"]["evicted"] == 3
    assert view["today"]["hot_node_minutes"] == 90.0
    assert view["today"]["over_watt_hours"] is None
    assert [one["address"] for one in view["daemons"]] == list(pools.values())
    screen = run("status", *(word for url in pools.values() for word in ("--url", url))).stdout
    assert screen.count("Ballast 0.1.0 at ") == 3
    assert "nodes     4 of 5 known (1 silent)" in screen


def test_one_ballast_that_is_silent_is_named_and_the_others_are_shown(pools: dict[str, str]) -> None:
    code, view = status_of(pools["c"], "http://127.0.0.1:1", pools["b"])
    assert code == 1
    assert view["balanced"] is None, "what nobody answers for is unknown"
    assert [(one["type"], one["rank"]) for one in view["wrong"]] == [("NoAnswer", "outage")]
    assert "http://127.0.0.1:1" in view["wrong"][0]["message"]
    assert view["nodes"]["nodes"] == 3


def test_a_node_of_two_ballasts_counts_once_and_is_named(httpserver: HTTPServer, pools: dict[str, str]) -> None:
    for path, document in answers([POOLS["a"][0]]).items():
        httpserver.expect_request(f"/api/v1/{path}").respond_with_json(document)
    code, view = status_of(pools["a"], httpserver.url_for("").rstrip("/"))
    assert code == 1
    assert view["nodes"]["nodes"] == 2
    assert [one["type"] for one in view["wrong"]] == ["SecondBallast"]
    assert "work on the same nodes: a-1" in view["wrong"][0]["message"]


def test_the_same_address_twice_is_one(pools: dict[str, str]) -> None:
    assert "daemons" not in status_of(pools["a"], pools["a"])[1]


def test_doctor_takes_the_settings_of_the_daemon_but_no_secrets_and_no_files_of_its_pod(daemon: Daemon) -> None:
    documents = answers([])
    documents["config"] = [
        {"name": "BALLAST_PROMETHEUS__URL", "value": "http://p:9090", "origin": "environment"},
        {"name": "BALLAST_PROMETHEUS__HEADERS", "value": {"X-Scope-OrgID": "********"}, "origin": "environment"},
        {"name": "BALLAST_PROMETHEUS__TOKEN_FILE", "value": "/token", "origin": "environment"},
        {"name": "BALLAST_TELEMETRY__RESOURCES", "value": ["cpu", "gpu"], "origin": "file"},
        {"name": "BALLAST_LEASE__ENABLED", "value": True, "origin": "environment"},
        {"name": "BALLAST_TELEMETRY__INTERVAL", "value": "30s", "origin": "default"},
    ]
    found = remote.settings_of(remote.find(Place(daemon(documents))))
    assert found == {
        "BALLAST_PROMETHEUS__URL": "http://p:9090",
        "BALLAST_TELEMETRY__RESOURCES": '["cpu", "gpu"]',
        "BALLAST_LEASE__ENABLED": "true",
    }


def test_spread_counts_known_schedulable_nodes_alone() -> None:
    nodes = [node("a", 0.2), node("b", 0.6), node("c", 1.0, schedulable=False), node("d", None)]
    assert spread(nodes, ["cpu"]) == {"cpu": pytest.approx(0.2)}
    assert spread([], ["cpu"]) == {"cpu": None}


def test_hot_is_what_the_settings_call_high() -> None:
    nodes = [node("a", 0.7), node("b", 0.72, 0.9), node("c", 0.1)]
    assert limits_of([]) == {"cpu": 0.8, "memory": 0.8}
    assert limits_of([{"name": "BALLAST_PUBLISHING__HIGH", "value": "0.5"}]) == {"cpu": 0.5, "memory": 0.5}
    assert limits_of([{"name": "BALLAST_PUBLISHING__HIGH", "value": {"cpu": 0.71}}]) == {"cpu": 0.71}
    assert [each["node"] for each in hot(nodes, {"cpu": 0.7})] == ["b", "a"]
    assert [each["node"] for each in hot(nodes, {"memory": 0.9, "disk": 0.1})] == ["b"]


def test_today_is_the_present_day_of_the_ledger(daemon: Daemon) -> None:
    url = daemon(answers([node("a", 0.3)]))
    found = json.loads(run("status", "--url", url, "-o", "json").stdout)["today"]
    assert (found["begin"], found["evicted"], found["refused"]) == (NOON // 86_400 * 86_400, 7, 1)
    words = run("status", "--url", url).stdout
    assert "today     7 pods moved, 1 refused, 0 label writes, 1.5 hot node-hours (6.0 without the moves)" in words


def test_a_standby_that_cannot_ask_the_leader_has_a_status_all_the_same(daemon: Daemon, httpserver: HTTPServer) -> None:
    documents = answers([node("a", 0.3)])
    del documents["ledger"]
    url = daemon(documents)
    httpserver.expect_request("/api/v1/ledger").respond_with_json({"error": "one holds the Lease"}, status=503)
    assert json.loads(run("status", "--url", url, "-o", "json").stdout)["today"] is None
    assert "today     not known: the ledger cannot be read" in run("status", "--url", url).stdout
    assert run("report", "--url", url).exit_code != 0


def test_report_sums_the_days_and_leaves_the_unknown_unknown(daemon: Daemon) -> None:
    url = daemon(answers([node("a", 0.3)]))
    found = json.loads(run("report", "--url", url, "-o", "json").stdout)
    assert [each["evicted"] for each in found["days"]] == [5, 7]
    assert (found["total"]["evicted"], found["total"]["measured"], found["total"]["over_watt_hours"]) == (12, 0.4, None)
    text = run("report", "--url", url, "--days", "1").stdout
    assert [line.split()[:3] for line in text.splitlines()[1:3]] == [["2026-11-22", "7", "1"], ["total", "7", "1"]]
    assert text.splitlines()[2].split()[-1] == "-"
    assert "Without the moves 6.0 node-hours would have been hot; 1.5 were." in text


def test_report_says_what_would_have_been_hot_without_the_moves() -> None:
    days = [
        dict.fromkeys((*report.COUNTS, *report.AMOUNTS)) | dict.fromkeys(report.COUNTS, 1) | {"begin": 0.0, **each}
        for each in ({"hot_node_minutes": 60.0, "hot_node_minutes_without": 180.0}, {"hot_node_minutes": 6000.0})
    ]
    text = report.table({"days": days, "total": report.total(days)})
    assert text.splitlines()[-1] == "Without the moves 3.0 node-hours would have been hot; 1.0 were."
