"""`ballast power`: what it answers, and what it refuses."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.worlds.commands import Run

POLICY = """
power:
  mode: on
  feed: {query: 'sum(site_available_watts)', semantics: available, expectSeries: 1, maxAge: 60s, floorWatts: 50}
  deadband: 0.05
  increase: {window: 60s,  tolerance: 0.04, maxStep: {percent: 100}}
  decrease: {window: 120s, tolerance: 0.05}
  emergencyDrop: {relative: 0.5, samples: 2}
  stability: window
  reference: anchor
  rounding: safe
  onForeignChange: rebase
  fallback: {after: 5m, policy: hold}
  groups:
    - name: backend
      members: [{ref: prod/api, min: 3, max: 20, weight: 10}, {ref: prod/worker, min: 2, max: 15, weight: 5}]
  independents: [{ref: prod/frontend, min: 2, max: 10}]
  actuation: auto
  restoreFirst: true
"""
TWO = (
    "power: {policies: [{name: a, independents: [{ref: x/a, max: 4}]}, {name: b, independents: [{ref: x/b, max: 4}]}]}"
)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return written(tmp_path / "policy.yaml", POLICY)


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def feed(path: Path, *watts: object, step: int = 15) -> Path:
    return written(path, "time,watts\n" + "".join(f"{step * i},{value}\n" for i, value in enumerate(watts)))


def answer(ballast: Run, *arguments: object) -> Any:
    code, out, _ = ballast("power", *map(str, arguments), "-o", "json")
    assert code == 0
    return json.loads(out, parse_constant=pytest.fail)


def test_replay_follows_a_fall_and_comes_back(ballast: Run, policy: Path, tmp_path: Path) -> None:
    trace = feed(tmp_path / "feed.csv", *[1000] * 4, *[800] * 12, "", "NaN", -5, *[1000] * 12)
    result = answer(ballast, "replay", "--policy", policy, "--feed", trace)
    assert set(result) == {"ticks", "actions", "cancels", "final", "mean_abs_error_replicas", "over", "unused"}
    assert set(result["over"]) == {"share", "watt_hours", "worst_watts", "unknown"}
    assert result["over"]["unknown"] == {"share": pytest.approx(2 / 30)}
    assert set(result["unused"]) == {"watt_hours"}
    first, ticks = result["ticks"][0], result["ticks"]
    assert first == {
        "t": 0.0,
        "watts": 1000.0,
        "state": "STABLE",
        "reference": 1000.0,
        "delta": 0,
        "replicas": {"prod/api": 20, "prod/frontend": 10, "prod/worker": 15},
        "caps": {"prod/api": None, "prod/frontend": None, "prod/worker": None},
        "reason": "Bootstrapped",
        "allowed": None,
        "drawn": None,
    }
    assert [tick["delta"] for tick in ticks if tick["delta"]] == [-9, 9]
    assert [(tick["t"], tick["delta"]) for tick in ticks if tick["delta"]] == [(180.0, -9), (345.0, 9)]
    assert [tick["watts"] for tick in ticks[16:19]] == [None, None, 0]
    assert result["final"]["replicas"] == first["replicas"]
    assert (result["actions"], result["cancels"]) == (2, 1), "one sample of 0 W is not followed"


def test_replay_begins_with_the_replicas_given(ballast: Run, policy: Path, tmp_path: Path) -> None:
    trace = feed(tmp_path / "feed.csv", *[1000] * 4, *[500] * 20)
    result = answer(
        ballast,
        "replay",
        "--policy",
        policy,
        "--feed",
        trace,
        "--replicas",
        "prod/api=10",
        "--replicas",
        "prod/worker=8",
    )
    assert result["ticks"][0]["replicas"] == {"prod/api": 10, "prod/frontend": 10, "prod/worker": 8}
    assert sum(result["final"]["replicas"].values()) == 14


def test_the_published_model_loses_a_ramp(ballast: Run, policy: Path, tmp_path: Path) -> None:
    trace = feed(tmp_path / "feed.csv", *range(1000, 300, -15), *[300] * 40)
    ours = answer(ballast, "replay", "--policy", policy, "--feed", trace)
    paper = answer(ballast, "replay", "--policy", policy, "--feed", trace, "--compat", "paper")
    assert sum(ours["final"]["replicas"].values()) == 13
    assert sum(paper["final"]["replicas"].values()) > 30
    assert paper["cancels"] > 2
    assert paper["mean_abs_error_replicas"] > 3 * ours["mean_abs_error_replicas"]


def test_replay_prints_a_table_and_draws(ballast: Run, policy: Path, tmp_path: Path) -> None:
    trace = feed(tmp_path / "feed.csv", *[1000] * 4, "NaN", *[700] * 12)
    picture = tmp_path / "out.svg"
    code, out, err = ballast("power", "replay", "--policy", str(policy), "--feed", str(trace), "--plot", str(picture))
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == ["T", "WATTS", "STATE", "REFERENCE", "DELTA", "REPLICAS", "REASON"]
    assert out.splitlines()[-1].startswith("17 ticks, 1 action, 0 cancels, 31 replicas at the end; ")
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_allocate_says_whose_replicas_change(ballast: Run, policy: Path) -> None:
    result = answer(ballast, "allocate", "--policy", policy, "--delta", "-9")
    assert result == {
        "delta": -9,
        "effective": -9,
        "unmet": 0,
        "entities": {"backend": {"quota": 7.0, "share": 7}, "prod/frontend": {"quota": 2.0, "share": 2}},
        "changes": {"prod/api": -5, "prod/frontend": -2, "prod/worker": -2},
        "redistributed": 0,
    }
    there, back = answer(ballast, "allocate", "--policy", policy, "--delta", "-9", "--delta", "9")
    assert {name: -change for name, change in there["changes"].items()} == back["changes"]
    code, out, _ = ballast("power", "allocate", "--policy", str(policy), "--delta", "-100")
    assert code == 0
    assert out.splitlines()[-1] == "-38 of -100 replicas, 3 redistributed; 62 cannot be met within the bounds."


def test_allocate_can_follow_a_feed(ballast: Run, policy: Path, tmp_path: Path) -> None:
    trace = feed(tmp_path / "feed.csv", 1000, "NaN", 900, 800)
    assert answer(ballast, "allocate", "--policy", policy, "--feed", trace)["delta"] == -9
    fallen = feed(tmp_path / "fallen.csv", 1000, *[800] * 10)
    assert set(answer(ballast, "allocate", "--policy", policy, "--feed", fallen, "--delta", 9)["changes"].values()) == {
        2,
        5,
    }


def test_one_of_several_policies_is_chosen_by_name(ballast: Run, tmp_path: Path) -> None:
    two = written(tmp_path / "two.yaml", TWO)
    assert answer(ballast, "allocate", "--policy", two, "--name", "b", "--delta", "-1")["changes"] == {"x/b": -1}
    for arguments in ((), ("--name", "c")):
        code, _, err = ballast("power", "allocate", "--policy", str(two), "--delta", "1", *arguments)
        assert (code, "a, b" in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("power: {dryRun: true}", "BALLAST_POWER__MODE"),
        ("power: {deadband: 0}", "deadband is 0"),
        ("power: {deadbnd: 0.1}", "Did you mean deadband?"),
        ("power: {feed: {query: x, semantics: consumption}}", "consumption rises with the replicas"),
        ("power: {independents: [{ref: a/b, min: 5, max: 3}]}", "min is 5, max 3"),
        ("power: {independents: [{ref: a/b, max: 3}, {ref: a/b, max: 3}]}", "a/b is listed 2 times"),
        ("power: {groups: [{name: g, members: [{ref: a/b, max: 3, weight: 0}]}]}", "all weights of g are 0"),
        ("power: {independents: [{ref: a/b, max: 3}], decrease: {window: 10s}}", "shorter than one tick"),
        ("power: {independents: [{ref: a/b, max: 3}], feed: {query: x, maxAge: 90s}}", "feed.maxAge is 90s"),
        ("power: {deadband: 0.1, deadband: 0.2}", "is given twice"),
        ("prometheus: {url: http://x}", "no power policy"),
        ("power: [", "--policy"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused(ballast: Run, tmp_path: Path, text: str, message: str) -> None:
    path, trace = written(tmp_path / "policy.yaml", text), feed(tmp_path / "feed.csv", *[1000] * 9)
    code, out, err = ballast("power", "replay", "--policy", str(path), "--feed", str(trace))
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay"],
        ["replay", "--range", "0,60"],
        ["replay", "--range", "60,0", "--step", "5s"],
        ["replay", "--feed", "missing.csv"],
        ["replay", "--compat", "elara"],
        ["allocate"],
        ["allocate", "--delta", "x"],
        ["allocate", "--delta", "1", "--replicas", "prod/other=3"],
        ["allocate", "--delta", "1", "--replicas", "prod/api=-3"],
    ],
)
def test_wrong_use_is_refused_with_a_reason(ballast: Run, policy: Path, arguments: list[str]) -> None:
    code, out, err = ballast("power", *arguments, "--policy", str(policy))
    assert (code, out) == (2, "")
    assert err


def test_a_plot_is_svg_and_a_missing_feed_is_named(ballast: Run, policy: Path, tmp_path: Path) -> None:
    common = ("power", "replay", "--policy", str(policy), "--feed", str(tmp_path / "none.csv"))
    assert ballast(*common)[2] == f"{tmp_path / 'none.csv'} cannot be read: No such file or directory.\n"
    assert "ends in .svg" in ballast(*common, "--plot", str(tmp_path / "watts.png"))[2]


def test_risky_tolerances_are_warned_of(ballast: Run, tmp_path: Path) -> None:
    path = written(tmp_path / "policy.yaml", "power: {increase: {tolerance: 0.2}, independents: [{ref: a/b, max: 3}]}")
    code, _, err = ballast("power", "allocate", "--policy", str(path), "--delta", "1")
    assert code == 0
    assert "increase.tolerance is 0.2" in err
    assert "0.047619" in err


def test_config_check_refuses_what_the_policies_have_wrong(
    ballast: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALLAST_PROMETHEUS__URL", "http://prometheus:9090")
    path = tmp_path / "ballast.yaml"
    monkeypatch.setenv("BALLAST_CONFIG_FILE", str(path))
    written(path, POLICY.replace("mode: on", "mode: dry-run"))
    assert ballast("config", "check")[0] == 0
    written(path, "power: {feed: {query: x}, decrease: {window: 20s}, independents: [{ref: a/b, max: 3}]}")
    code, _, err = ballast("config", "check")
    assert code == 2
    assert "feed.semantics is missing" in err
    assert "BALLAST_TELEMETRY__INTERVAL is 30s" in err


ABSOLUTE = """
power:
  margin: 0
  independents:
  - {ref: shop/api, min: 1, max: 40, wattsPerReplica: 10}
  - {ref: shop/cart, min: 1, max: 40, wattsPerReplica: 10, share: 2, priority: 1}
"""


def test_replay_knows_what_autoscalers_want(ballast: Run, tmp_path: Path) -> None:
    one, trace = written(tmp_path / "policy.yaml", ABSOLUTE), feed(tmp_path / "feed.csv", *[500] * 6)
    rows = "time,ns/name,replicas\n0,shop/api,20\n0,shop/cart,1\n60,shop/cart,39\n"
    demand = written(tmp_path / "demand.csv", rows)
    result = answer(ballast, "replay", "--policy", one, "--feed", trace, "--demand", demand)
    assert [None in tick["caps"].values() for tick in result["ticks"]] == [False] * 6
    assert result["ticks"][0]["replicas"] == {"shop/api": 20, "shop/cart": 1}
    assert result["ticks"][-1]["replicas"] == {"shop/api": 10, "shop/cart": 39}
    assert result["over"] == {"share": 0, "watt_hours": 0, "worst_watts": 0, "unknown": {"share": 0}}
    true = answer(ballast, "replay", "--policy", one, "--feed", trace, "--watts-true", "shop/api=20")
    assert true["over"]["worst_watts"] > 0


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("time,name\n0,x\n", "expected the columns time,ns/name,replicas"),
        ("time,ns/name,replicas\n0,shop/other,1\n", "line 2: shop/other is no target of the policy"),
        ("time,ns/name,replicas\n0,shop/api,-1\n", "replicas is '-1', expected a whole number"),
        ("time,ns/name,replicas\nnoon,shop/api,1\n", "time is 'noon', expected seconds or RFC 3339"),
    ],
)
def test_a_demand_that_cannot_be_read_is_refused(ballast: Run, tmp_path: Path, rows: str, told: str) -> None:
    one, trace = written(tmp_path / "policy.yaml", ABSOLUTE), feed(tmp_path / "feed.csv", 500)
    demand = written(tmp_path / "demand.csv", rows)
    code, _, err = ballast("power", "replay", "--policy", str(one), "--feed", str(trace), "--demand", str(demand))
    assert code == 2
    assert told in err


def test_allocate_takes_from_lower_priorities_first(ballast: Run, tmp_path: Path) -> None:
    one = written(tmp_path / "policy.yaml", ABSOLUTE)
    found = answer(ballast, "allocate", "--policy", one, "--delta", "-30")
    assert found["changes"] == {"shop/api": -30, "shop/cart": 0}
    both = answer(ballast, "allocate", "--policy", one, "--delta", "-50", "--delta", "20")
    assert [each["changes"] for each in both] == [{"shop/api": -39, "shop/cart": -11}, {"shop/api": 9, "shop/cart": 11}]


def test_a_replay_follows_what_a_column_says_is_needed_or_warns(ballast: Run, tmp_path: Path) -> None:
    text = """
power:
  margin: 0
  increase: {window: 0}
  independents:
  - {ref: shop/web, min: 1, max: 20, replicas: 4, wattsPerReplica: 10, needs: {load: cpu, target: 0.5, floor: 3}}
  - {ref: shop/other, min: 0, max: 20, replicas: 4, wattsPerReplica: 10}
"""
    one = written(tmp_path / "needs.yaml", text)
    rows = "0,100,4\n30,300,4\n60,300,8\n90,40,8\n120,40,8\n"
    feed = written(tmp_path / "needs.csv", f"time,watts,shop/web\n{rows}")
    code, out, err = ballast("power", "replay", "--policy", str(one), "--feed", str(feed), "-o", "json")
    assert (code, err) == (0, "")
    found = [tick["replicas"]["shop/web"] for tick in json.loads(out)["ticks"]]
    assert found == [4, 4, 8, 5, 4]
    bare = written(tmp_path / "bare.csv", "time,watts\n0,100\n30,300\n")
    _, _, err = ballast("power", "replay", "--policy", str(one), "--feed", str(bare))
    assert "needs of shop/web are not followed: the feed has no column shop/web" in err
    wrong = written(tmp_path / "wrong.csv", "time,watts,shop/web\n0,100,many\n")
    code, _, err = ballast("power", "replay", "--policy", str(one), "--feed", str(wrong))
    assert (code, "line 2: replicas is 'many'" in err) == (2, True)


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
        kind = request.form["query"]
        values = [[at, _recorded(kind, at)] for at in times if at != START + 30]
        return _success("matrix", [{"metric": {}, "values": values}])

    httpserver.expect_request("/api/v1/query").respond_with_handler(now)
    httpserver.expect_request("/api/v1/query_range").respond_with_handler(past)
    monkeypatch.setenv("BALLAST_PROMETHEUS__URL", httpserver.url_for("/").rstrip("/"))
    return queries


def _recorded(query: str, at: float) -> str:
    """A price is below 0 while there is much supply."""
    supply = _supply(at)
    return {"other": "100", "price": "-20" if supply == 1000 else "30"}.get(query, str(supply))


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


def test_what_others_use_is_taken_off_the_limit(ballast: Run, asked: list[dict[str, str]], tmp_path: Path) -> None:
    feed = "{semantics: limit-minus-consumption, limit: {query: supply}, consumption: {query: other, of: others}}"
    result = replayed(ballast, tmp_path / "p.yaml", feed)
    assert [tick["watts"] for tick in result["ticks"][:5]] == [900, 900, None, 900, 400]
    assert result["final"]["total"] == 18
    assert len(asked) == 2


def test_negative_prices_of_a_span_are_prices(ballast: Run, asked: list[dict[str, str]], tmp_path: Path) -> None:
    feed = "{query: price, semantics: price, map: [[0, 1000], [50, 400]]}"
    result = replayed(ballast, tmp_path / "p.yaml", feed)
    assert [tick["watts"] for tick in result["ticks"][:5]] == [1000, 1000, None, 1000, 400]


def test_a_long_span_is_asked_for_in_pieces(
    ballast: Run, asked: list[dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ballast.cli.power.inputs.PIECE", 10)
    result = replayed(ballast, tmp_path / "p.yaml", "{query: supply, semantics: available}")
    assert len(result["ticks"]) == 21
    assert len(asked) == 3


METERED = ABSOLUTE.replace("margin: 0", "consumption: {query: meter_watts}")


def test_what_others_draw_over_time_is_left_to_them(ballast: Run, tmp_path: Path) -> None:
    """They take half of the feed for a while; what is left is kept all the same, and used again after it."""
    one, trace = written(tmp_path / "policy.yaml", METERED), feed(tmp_path / "feed.csv", *[600] * 60, step=30)
    others = written(tmp_path / "others.csv", "time,watts\n0,0\n600,300\n600,NaN\n1200,0\n")
    result = answer(ballast, "replay", "--policy", one, "--feed", trace, "--others", others)
    drawn = {int(tick["t"]): sum(tick["replicas"].values()) * 10 for tick in result["ticks"]}
    assert drawn[570] > 540
    assert drawn[720] <= 300
    assert drawn[1770] > 540
    assert result["over"]["share"] < 0.1


def test_a_draw_that_follows_load(ballast: Run, tmp_path: Path) -> None:
    one, trace = written(tmp_path / "policy.yaml", METERED), feed(tmp_path / "feed.csv", *[600] * 60, step=30)
    load = written(tmp_path / "load.csv", "time,ns/name,factor\n0,shop/api,1\n0,shop/cart,1\n600,shop/api,1.5\n")
    result = answer(ballast, "replay", "--policy", one, "--feed", trace, "--load", load)
    last = result["ticks"][-1]
    drawn = 15 * last["replicas"]["shop/api"] + 10 * last["replicas"]["shop/cart"]
    assert 500 < drawn <= 600
    assert last["drawn"] == drawn


@pytest.mark.parametrize(
    ("option", "rows", "told"),
    [
        ("--others", "time,watts\n0,\n", "no row has a number of watts"),
        ("--others", "time,kW\n0,1\n", "expected the columns time,watts"),
        ("--load", "time,ns/name\n0,shop/api\n", "expected the columns time,ns/name,factor"),
        ("--load", "time,ns/name,factor\n0,shop/api,-1\n", "line 2: factor is '-1', expected a number from 0 on"),
        ("--load", "time,ns/name,factor\n0,shop/api,much\n", "line 2: factor is 'much'"),
        ("--load", "time,ns/name,factor\n0,shop/web,1\n", "shop/web is no target"),
        ("--load", "time,ns/name,factor\nnoon,shop/api,1\n", "time is 'noon'"),
    ],
)
def test_what_a_simulation_cannot_read(ballast: Run, tmp_path: Path, option: str, rows: str, told: str) -> None:
    one, trace = written(tmp_path / "policy.yaml", METERED), feed(tmp_path / "feed.csv", 600)
    arguments = ["replay", "--policy", str(one), "--feed", str(trace), option, str(written(tmp_path / "x.csv", rows))]
    code, _, err = ballast("power", *arguments)
    assert code == 2
    assert told in err


@pytest.mark.parametrize(
    ("watts", "most"),
    [
        ([1500e6] * 20, 20),
        ([300] * 20 + [65535] * 4 + [300] * 20, 30),
        ([300] * 10 + [8e9] * 20, 30),
        ([300] * 10 + [-7] * 30, 30),
    ],
    ids=["microwatts", "a register", "another unit", "an inverter at night"],
)
def test_what_cannot_be_is_no_ground_for_a_rise_in_a_replay_too(
    ballast: Run, tmp_path: Path, watts: list[float], most: int
) -> None:
    one, trace = written(tmp_path / "policy.yaml", ABSOLUTE), feed(tmp_path / "feed.csv", *watts, step=30)
    start = ("--replicas", "shop/api=10", "--replicas", "shop/cart=10")
    ticks = answer(ballast, "replay", "--policy", one, "--feed", trace, *start)["ticks"]
    totals = [sum(tick["replicas"].values()) for tick in ticks]
    assert max(totals) <= most
    assert watts[-1] != -7 or totals[-1] == 2
