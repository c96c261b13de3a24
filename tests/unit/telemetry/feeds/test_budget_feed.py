"""The watts of a policy, from every kind of feed, and what a workload's own load asks for."""

import json
from concurrent.futures import Future
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from ballast.base.clock import AHEAD
from ballast.base.errors import SettingsError, SourceUnavailable
from ballast.base.metrics import Metrics
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import read
from ballast.telemetry.feeds.budget_feed import BudgetFeed, NeedsReader, Watts, problems
from ballast.telemetry.prometheus_client import Grid
from tests.worlds.clock import FakeClock

AT = 1_700_000_000.0


class Prometheus:
    """Answers a query with what `values` holds for it; `timestamp(...)` with a time one second ago."""

    url = "http://prometheus"

    def __init__(self, **values: float | list[float] | None) -> None:
        self.values = values
        self.age = 1.0

    def start(self, query: str, grid: Grid) -> Future[bytes]:
        answer: Future[bytes] = Future()
        if "timestamp" in query:
            found: Any = grid.start - self.age
        else:
            found = self.values[query]
        if found is None:
            answer.set_exception(SourceUnavailable("no answer"))
            return answer
        series = found if isinstance(found, list) else [found]
        result = [{"metric": {"n": str(n)}, "value": [grid.start, str(value)]} for n, value in enumerate(series)]
        body = {"status": "success", "data": {"resultType": "vector", "result": result}}
        answer.set_result(json.dumps(body).encode())
        return answer


def policy(feed: dict[str, Any], **keys: Any) -> PowerPolicy:
    independents = [{"ref": "ns/a", "max": 20, **keys.pop("member", {})}]
    return read([{"feed": feed, "independents": independents, **keys}])[0]


def feed(one: PowerPolicy, prometheus: Prometheus | None = None, metrics: Metrics | None = None) -> BudgetFeed:
    return BudgetFeed(one, prometheus, FakeClock(AT), metrics or Metrics())  # type: ignore[arg-type]


def test_available_watts_are_the_budget_in_their_unit_and_both_queries_are_counted_apart() -> None:
    metrics = Metrics()
    one = feed(policy({"query": "pv", "semantics": "available", "unit": "kW"}), Prometheus(pv=1.2), metrics)
    assert one.read(AT) == Watts(Fraction(1200), AT - 1)
    assert metrics.queries.labels("power", "ok")._value.get() == 2


def test_series_are_added_up_and_their_number_is_held() -> None:
    keys = {"query": "sum(pv)", "semantics": "available"}
    one = feed(policy({**keys, "expectSeries": 2}), Prometheus(**{"sum(pv)": [100, 50]}))
    assert one.read(AT).watts == 150
    doubled = feed(policy(keys), Prometheus(**{"sum(pv)": [100, 50]})).read(AT)
    assert (doubled.watts, doubled.reason) == (None, "series")


@pytest.mark.parametrize(
    ("value", "reason"),
    [(float("nan"), "non_finite"), (float("inf"), "non_finite"), ([], "series"), (None, "unreachable")],
)
def test_what_is_no_power_is_no_sample(value: Any, reason: str) -> None:
    found = feed(policy({"query": "pv", "semantics": "available"}), Prometheus(pv=value)).read(AT)
    assert (found.watts, found.reason) == (None, reason)
    assert found.problem


def test_old_samples_and_those_of_the_future_are_none() -> None:
    prometheus = Prometheus(pv=100)
    one = feed(policy({"query": "pv", "semantics": "available", "maxAge": "20s"}), prometheus)
    prometheus.age = 20
    assert one.read(AT).watts == 100
    prometheus.age = 21
    assert one.read(AT).problem == "the newest sample is 21 s old, maxAge is 20 s"
    prometheus.age = -AHEAD
    assert one.read(AT).watts == 100
    prometheus.age = -AHEAD - 1
    assert one.read(AT).reason == "future"


def test_without_a_word_the_age_is_three_times_the_distance_of_samples_at_least_a_minute() -> None:
    prometheus = Prometheus(pv=100)
    one = feed(policy({"query": "pv", "semantics": "available"}), prometheus)
    prometheus.age = 61
    assert one.read(AT).problem == "the newest sample is 61 s old, maxAge is 60 s"
    for hour in range(1, 4):
        prometheus.age = 61
        one.read(AT + 900 * hour)
    prometheus.age = 2699
    assert one.read(AT + 9000).watts == 100
    prometheus.age = 2701
    assert one.read(AT + 9000).reason == "stale"


def test_the_pace_of_a_slow_feed_is_known_after_a_restart_and_from_a_file(tmp_path: Path) -> None:
    prometheus = Prometheus(pv=100)
    prometheus.age = 1800
    one = feed(policy({"query": "pv", "semantics": "available"}), prometheus)
    assert one.read(AT).reason == "stale"
    one.remember(3600.0)
    assert (one.read(AT).watts, one.read(AT).apart) == (100, 3600)
    path = tmp_path / "hourly.csv"
    path.write_text("".join(["time,watts\n", *(f"{AT + 3600 * hour},{hour}\n" for hour in range(3))]))
    recorded = feed(policy({"csv": str(path), "semantics": "available"})).read(AT + 1800)
    assert (recorded.watts, recorded.apart) == (0, 3600)


def test_a_sudden_fall_is_asked_for_again_after_a_second(httpserver: HTTPServer) -> None:
    answers = iter([5000, 1000, 1200, 1100, 100, 1150, 0, 7])
    httpserver.expect_request("/").respond_with_handler(lambda request: Response(json.dumps(next(answers))))
    one = feed(policy({"url": httpserver.url_for("/"), "semantics": "available"}))
    assert one.read_twice(AT) == Watts(Fraction(5000), AT)
    fallen = one.read_twice(AT)
    assert (fallen.watts, fallen.witnessed, fallen.time) == (1200, 1200, AT + 1)
    assert one.read_twice(AT).watts == 1100, "no sudden fall: asked once"
    spike = one.read_twice(AT)
    assert (spike.watts, spike.witnessed) == (1150, 1150), "one bad answer is gone with the next"
    assert (one.read_twice(AT).watts, next(answers, None)) == (7, None)


def test_a_sample_that_is_the_same_a_second_later_confirms_nothing() -> None:
    prometheus = Prometheus(pv=5000)
    one = feed(policy({"query": "pv", "semantics": "available"}), prometheus)
    one.read_twice(AT)
    prometheus.values["pv"], start = 0, prometheus.start
    prometheus.start = lambda query, grid: start(query, Grid(AT + 15, 1.0, 1))  # type: ignore[method-assign]
    assert one.read_twice(AT + 15) == Watts(Fraction(0), AT + 14, apart=15)


def test_a_second_series_that_falls_too_is_a_witness() -> None:
    prometheus = Prometheus(pdu=[3000, 2000])
    one = feed(policy({"query": "pdu", "semantics": "available", "expectSeries": 2}), prometheus)
    one.read_twice(AT)
    for time, values, witnessed in ((15, [1200, 900], 2250), (30, [1200, 0], 2100), (45, [0, 0], None)):
        prometheus.values["pdu"] = values
        assert one.read(AT + time).witnessed == witnessed


def test_a_second_source_is_a_witness_while_it_speaks() -> None:
    prometheus = Prometheus(pv=5000, inverter=5.1)
    keys = {"query": "pv * 0.001", "freshness": "timestamp(pv)", "unit": "kW", "witness": {"query": "inverter"}}
    prometheus.values["pv * 0.001"] = 5
    one = feed(policy({**keys, "semantics": "available"}), prometheus)
    assert one.read(AT) == Watts(Fraction(5000), AT - 1, witnessed=Fraction(5100))
    for value, witnessed in ((1.2, 1200), (0.5, 1000), (None, None), ([], None)):
        prometheus.values |= {"pv * 0.001": 1, "inverter": value}
        read = one.read(AT)
        assert (read.watts, read.witnessed) == (1000, witnessed)


def test_a_price_below_zero_is_a_price() -> None:
    keys = {"query": "price", "semantics": "price", "map": [[-10, 5000], [50, 2000]]}
    for price, watts in ((-50, 5000), (0, 2000), (99, 0)):
        assert feed(policy(keys), Prometheus(price=price)).read(AT).watts == watts


def shared(**more: Any) -> dict[str, Any]:
    return {"semantics": "limit-minus-consumption", "limit": {"watts": 900}, "consumption": {"query": "draw"}, **more}


def test_what_others_use_is_taken_from_a_limit() -> None:
    prometheus = Prometheus(draw=700, mine=300, breaker=800)
    assert feed(policy(shared(own={"query": "mine"})), prometheus).read(AT).watts == 500
    queried = shared(own={"query": "mine"}, limit={"query": "breaker"})
    assert feed(policy(queried), prometheus).read(AT).watts == 400
    others = shared(consumption={"query": "draw", "of": "others"})
    assert feed(policy(others), prometheus).read(AT).watts == 200
    mine = feed(policy(shared(), member={"wattsPerReplica": 50}, budget="anchor"), prometheus)
    assert mine.needs_own
    assert mine.read(AT, Fraction(400)).watts == 600
    assert "is unknown" in (mine.read(AT).problem or "")
    assert mine.read(AT, Fraction(750)).watts == 900, "never more than the limit"


def test_an_absolute_budget_learns_what_others_draw_from_the_meter_under_its_limit() -> None:
    one = feed(policy(shared(), member={"wattsPerReplica": 50}), Prometheus(draw=700))
    assert not one.needs_own
    found = one.read(AT)
    assert (found.watts, found.consumed) == (900, 700)


@pytest.mark.parametrize("value", [-250.0, -0.1, 0.0])
def test_a_site_that_takes_watts_from_the_grid_has_none_to_give(value: float) -> None:
    found = feed(policy({"query": "pv", "semantics": "available"}), Prometheus(pv=value)).read(AT)
    assert (found.watts, found.problem) == (0, None)
    assert feed(policy(shared(own={"query": "mine"})), Prometheus(draw=value - 1, mine=1)).read(AT).watts is None


def test_a_constant_is_as_old_as_it_is_asked_for() -> None:
    one = feed(policy({"watts": "3.3", "unit": "kW"}))
    assert one.read(AT) == Watts(Fraction(3300), AT)


def test_one_silent_part_makes_the_whole_no_sample_and_is_named() -> None:
    found = feed(policy(shared(own={"query": "mine"})), Prometheus(draw=700, mine=None)).read(AT)
    assert found.watts is None
    assert (found.problem or "").startswith("own: no answer")


def test_a_constant_limit_leads_to_no_swing() -> None:
    """900 W for 100 W of others and replicas of 50 W each, which are added back: 16 replicas, always."""
    prometheus = Prometheus(draw=0)
    one = feed(policy(shared(), member={"wattsPerReplica": 50}, budget="anchor"), prometheus)
    for replicas in (8, 16, 10, 3, 16):
        prometheus.values["draw"] = 100.0 + 50 * replicas
        assert one.read(AT, Fraction(50 * replicas)).watts == 800


def test_carbon_intensity_goes_through_its_map() -> None:
    keys = {"query": "grid", "semantics": "carbon-intensity", "map": [[100, 1000], [300, 400]]}
    for intensity, watts in ((50, 1000), (100, 1000), (101, 400), (301, 0), (0, 1000)):
        assert feed(policy(keys), Prometheus(grid=intensity)).read(AT).watts == watts


def test_a_json_document_is_as_old_as_it_says(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/site").respond_with_json({"pv": {"w": 640, "t": AT - 5}})
    keys = {"url": httpserver.url_for("/site"), "jsonPath": "$.pv.w", "timePath": "$.pv.t", "semantics": "available"}
    one = feed(policy(keys))
    assert one.read(AT) == Watts(Fraction(640), AT - 5)
    assert one.read(AT + 120).reason == "stale"
    one.close()


def test_an_address_that_gives_no_json_is_no_sample(httpserver: HTTPServer) -> None:
    httpserver.expect_request("/site").respond_with_data("<html>", status=200)
    found = feed(policy({"url": httpserver.url_for("/site"), "semantics": "available"})).read(AT)
    assert (found.watts, found.reason) == (None, "unreadable")


def test_a_file_is_read_again_when_it_grew(tmp_path: Path) -> None:
    path = tmp_path / "feed.csv"
    path.write_text(f"time,watts\n{AT - 10},500\n")
    one = feed(policy({"csv": str(path), "semantics": "available"}))
    assert one.read(AT).watts == 500
    path.write_text(f"time,watts\n{AT - 10},500\n{AT - 1},700\n")
    assert one.read(AT).watts in (500, 700)
    path.unlink()
    assert one.read(AT).reason == "unreachable"


def test_a_query_whose_age_nobody_could_tell_is_refused_unless_it_says_how() -> None:
    strange = policy({"query": "pv - house", "semantics": "available"})
    assert "the age of its samples cannot be queried" in next(problems(strange))
    with pytest.raises(SettingsError, match="freshness"):
        feed(strange, Prometheus())
    told = policy({"query": "pv - house", "freshness": "min(timestamp(pv))", "semantics": "available"})
    assert list(problems(told)) == []
    assert feed(told, Prometheus(**{"pv - house": 30})).read(AT).watts == 30


@pytest.mark.parametrize(
    ("needs", "value", "needed"),
    [
        ({"load": "cpu", "target": 0.5}, 0.8, 16),
        ({"load": "cpu", "target": 0.5}, 0.2, 4),
        ({"latency": "cpu", "target": 0.5}, 0.6, 10),
        ({"latency": "cpu", "target": 0.5}, 0.4, 0),
        ({"load": "cpu", "target": 0.5}, None, 10),
        ({"load": "cpu", "target": 0.5}, float("nan"), 10),
        ({"load": "cpu", "target": 0.5}, [0.1, 0.2], 10),
    ],
)
def test_what_a_load_or_latency_needs(needs: dict[str, Any], value: Any, needed: int) -> None:
    one = policy({"query": "pv", "semantics": "available"}, member={"needs": needs})
    asked = NeedsReader(one, Prometheus(cpu=value), Metrics())  # type: ignore[arg-type]
    assert asked.read(AT, {"ns/a": 10})["ns/a"].least == needed
    assert asked.read(AT, {}) == {}
