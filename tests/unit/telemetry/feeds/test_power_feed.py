import json
import math
from pathlib import Path
from typing import Any

import pytest
from responses import RequestsMock

from ballast.base.errors import SettingsError, SourceUnavailable, UsageError
from ballast.power.feed_spec import ScheduleSpec
from ballast.power.policy import PowerPolicy
from ballast.power.policy_reader import read
from ballast.telemetry.feeds.budget_feed import problems
from ballast.telemetry.feeds.power_feed import (
    CsvFeed,
    HttpFeed,
    PowerSample,
    PrometheusFeed,
    compile_path,
    own_timestamp,
    pick,
    trace,
)
from ballast.telemetry.feeds.power_schedule import ScheduleReader, _of_document
from ballast.telemetry.prometheus_client import PrometheusClient
from tests.unit.telemetry.fake_prometheus import FakePrometheus, QueryRefused, Series, settings
from tests.worlds.clock import FakeClock
from tests.worlds.power_run import CrashPoint, Keys

AT = 1_700_000_000.0


def feed(evaluate: object, wire: RequestsMock, query: str = "sum(site_watts)", **more: object) -> PrometheusFeed:
    FakePrometheus(evaluate).serve(wire)  # type: ignore[arg-type]
    return PrometheusFeed(PrometheusClient(settings()), query, **more)  # type: ignore[arg-type]


def test_watts_come_with_the_time_of_the_sample(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        return [({}, time - 42 if query == "min(timestamp(site_watts))" else 1250.5)]

    assert feed(evaluate, wire).read(AT) == PowerSample(1250.5, AT - 42)


def test_another_number_of_series_is_no_sample(wire: RequestsMock) -> None:
    reader = feed(lambda query, _time: [({"i": "0"}, 1), ({"i": "1"}, 2)], wire, "site_watts")
    sample = reader.read(AT)
    assert sample.watts is None
    assert "2 series, expectSeries is 1" in str(sample.problem)
    assert feed(lambda query, _time: [], wire, "site_watts").read(AT).watts is None


def test_expected_series_are_added_up_and_the_oldest_time_counts(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        return [({"i": str(index)}, time - index if "timestamp(" in query else 10.0) for index in (1, 2)]

    assert feed(evaluate, wire, "site_watts", expect_series=2).read(AT) == PowerSample(20.0, AT - 2)


def test_a_failing_query_is_no_sample(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        raise QueryRefused(400, "parse error")

    sample = feed(evaluate, wire).read(AT)
    assert sample.watts is None
    assert "parse error" in str(sample.problem)


def test_without_a_time_there_is_no_sample(wire: RequestsMock) -> None:
    sample = feed(lambda query, _time: [] if "timestamp(" in query else [({}, 5)], wire).read(AT)
    assert sample.watts is None


@pytest.mark.parametrize(
    "query", ["sum(a) - sum(b)", "2 * rate(joules_total[5m])", "sum(delta(x[5m]))", "rate(sum(x)[5m:])", "1000"]
)
def test_a_query_that_hides_its_time_is_refused(query: str) -> None:
    client = PrometheusClient(settings())
    with pytest.raises(SettingsError, match="the age of its samples cannot be queried"):
        PrometheusFeed(client, query)
    PrometheusFeed(client, query, freshness="min(timestamp(a))")


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("rate(energy_joules_total[5m])", "timestamp(energy_joules_total)"),
        ('sum(rate(kepler_joules_total{mode=~"[a-z]+"}[90s]))', 'min(timestamp(kepler_joules_total{mode=~"[a-z]+"}))'),
        ("sum by (site) (irate(x_total[2m]))", "min(timestamp(x_total))"),
        ("max without (rack) (increase(x_total[1h]))", "min(timestamp(x_total))"),
        ("avg(pdu_watts)", "min(timestamp(pdu_watts))"),
    ],
)
def test_the_age_of_a_rate_is_that_of_its_counter(query: str, asked: str) -> None:
    assert own_timestamp(query) == asked


def http(
    body: bytes, clock: FakeClock, path: str = "$.site.power[0].watts", time_path: str | None = None
) -> PowerSample:
    return HttpFeed(lambda: body, clock, path, time_path=time_path).read(AT)


def test_a_dotted_path_finds_the_watts(clock: FakeClock) -> None:
    body = b'{"site": {"at": "2023-11-14T22:13:00Z", "power": [{"watts": 900}]}}'
    assert http(body, clock) == PowerSample(900.0, clock.wall())
    assert http(body, clock, "site.power[0].watts", "$.site.at") == PowerSample(900.0, 1_699_999_980.0)
    assert http(b"12.5", clock, "$") == PowerSample(12.5, clock.wall())
    assert http(b'["7"]', clock, "[0]") == PowerSample(7.0, clock.wall())


@pytest.mark.parametrize(
    ("path", "watts"),
    [
        ("$.power-plant.é.of the site", 5.0),
        ("max(a, b)", 6.0),
        ("sum(meters[].watts)", 30.0),
        ("meters[?id=='b'].watts | [0]", 20.0),
        ("meters[-1].watts", 20.0),
        ('"max(a, b)"', None),
    ],
)
def test_keys_are_taken_as_they_are_and_other_paths_are_expressions(
    path: str, watts: float | None, clock: FakeClock
) -> None:
    document = {
        "power-plant": {"é": {"of the site": 5}},
        "max(a, b)": 6,
        "meters": [{"id": "a", "watts": 10}, {"id": "b", "watts": 20}],
    }
    assert http(json.dumps(document).encode(), clock, path).watts == watts


def test_an_expression_that_does_not_fit_the_document_is_no_sample(clock: FakeClock) -> None:
    sample = http(b'{"meters": {"watts": 1}}', clock, "sum(meters[].watts)")
    assert sample.watts is None
    assert sample.problem == "the feed's answer has no usable value at sum(meters[].watts); correct jsonPath"


@pytest.mark.parametrize(
    "body", [b"<html>", b"{}", b"[]", b'{"site": null}', b'{"site": {"power": []}}', b'{"site": {"power": {"0": 1}}}']
)
def test_a_document_without_it_is_no_sample(body: bytes, clock: FakeClock) -> None:
    sample = http(body, clock)
    assert sample.watts is None
    assert sample.problem


@pytest.mark.parametrize("value", [b"null", b"true", b'"much"', b"-1", b"1e999", b"{}"])
def test_what_is_no_power_is_no_sample(value: bytes, clock: FakeClock) -> None:
    sample = http(b'{"w": ' + value + b"}", clock, "w")
    assert sample.watts is None
    assert sample.problem


def test_zero_watts_are_valid(clock: FakeClock) -> None:
    assert http(b'{"w": 0}', clock, "w").watts == 0.0


def test_an_unreachable_feed_is_no_sample(clock: FakeClock) -> None:
    def get() -> bytes:
        raise SourceUnavailable("cannot be reached")

    assert HttpFeed(get, clock).read(AT) == PowerSample(None, AT, "cannot be reached", "unreachable")


@pytest.mark.parametrize("path", ["$..x", "a[b]", "a[", "a..b", "a.", "(" * 2000 + "a["])
def test_a_path_that_is_none_is_refused(path: str, clock: FakeClock) -> None:
    with pytest.raises(SettingsError, match=r"jsonPath .*expected a dotted path .* or a JMESPath expression"):
        HttpFeed(lambda: b"", clock, path)


def rows(tmp_path: Path, text: str) -> list[PowerSample]:
    path = tmp_path / "feed.csv"
    path.write_text(text)
    return list(trace(path))


def test_a_trace_in_seconds_or_rfc_3339(tmp_path: Path) -> None:
    assert rows(tmp_path, "time,watts\n0,100\n15.5,0\n") == [PowerSample(100.0, 0.0), PowerSample(0.0, 15.5)]
    found = rows(tmp_path, "watts, time\n5,2023-11-14T22:13:20Z\n6,2023-11-14T23:13:35+01:00\n")
    assert found == [PowerSample(5.0, AT), PowerSample(6.0, AT + 15)]


def test_invalid_rows_stay_in_their_place(tmp_path: Path) -> None:
    found = rows(tmp_path, "time,watts\n0,1\n1,\n2,NaN\n3,-4\n4,inf\n5,x\n5,9\n1,9\nlater,9\n6,2\n")
    assert [sample.watts for sample in found] == [1, *[None] * 8, 2]
    assert all(sample.problem for sample in found[1:-1])
    assert math.isnan(found[8].time)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "0,100\n"])
def test_other_columns_are_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="time,watts"):
        rows(tmp_path, text)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        CsvFeed(tmp_path / "nowhere.csv")


def test_the_newest_row_that_is_not_in_the_future(tmp_path: Path) -> None:
    path = tmp_path / "feed.csv"
    path.write_text("time,watts\n10,1\n20,\n30,3\n")
    reader = CsvFeed(path)
    assert reader.read(5).watts is None
    assert reader.read(10) == PowerSample(1.0, 10.0)
    assert reader.read(25) == PowerSample(None, 20.0, "no value", "unreadable")
    assert reader.read(99).watts == 3.0


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("{.site.power[0].watts}", 7),
        ("{$.site.power[0].watts}", 7),
        ("$.site.power[0].watts", 7),
        ("site.power[].{w: watts}", [{"w": 7}]),
        ("{w: site.power[0].watts}", {"w": 7}),
    ],
)
def test_braces_of_kubectl_and_of_jmespath(path: str, expected: object) -> None:
    assert pick({"site": {"power": [{"watts": 7}]}}, compile_path(path)) == expected


@pytest.mark.parametrize(
    ("part", "key"),
    [
        ({"feed": {"url": "http://x", "semantics": "available", "jsonPath": "a[.{"}}, "feed"),
        ({"feed": {"url": "http://x", "semantics": "available", "timePath": "a[.{"}}, "feed"),
        ({"feed": {"watts": 9}, "consumption": {"url": "http://x", "jsonPath": "a[.{"}}, "consumption"),
        ({"schedule": {"url": "http://x", "jsonPath": "a[.{"}}, "schedule"),
    ],
)
def test_a_path_that_the_daemon_would_refuse_is_refused_beforehand(part: dict[str, Any], key: str) -> None:
    members = [{"ref": "ns/a", "max": 1, "wattsPerReplica": 5}]
    (policy,) = read([{"name": "p", "independents": members, **part}], "power")
    assert [problem.startswith(f"{key}.jsonPath 'a[.{{'") for problem in problems(policy)] == [True]


def scheduled(tmp_path: Path, text: str, keys: Keys | None = None) -> ScheduleReader:
    path = tmp_path / "events.csv"
    path.write_text(text)
    one = PowerPolicy.model_validate({"schedule": {"csv": str(path)}, "independents": [{"ref": "ns/a", "max": 1}]})
    return ScheduleReader(one, None, keys)


@pytest.mark.parametrize("broken", ["", "<html>Log in</html>", "time,watts\n", "time,watts\n600,n/a\n", None])
def test_a_promise_outlives_the_process_that_was_told_it(tmp_path: Path, broken: str | None) -> None:
    keys = Keys(CrashPoint())
    told = scheduled(tmp_path, "time,watts,id,ramp\n0,5000,,\n600,1300,grid-7,120\n4200,5000,,\n", keys)
    assert [told.lowest(at).watts for at in (0, 700)] == [5000, 1300]  # type: ignore[union-attr]
    assert keys.writes == 2, "the row that has passed is not kept"
    again = scheduled(tmp_path, broken or "", keys)
    if broken is None:
        (tmp_path / "events.csv").unlink()
    for at, watts, name in ((760, 1300, "grid-7"), (4100, 1300, "grid-7"), (4260, 1420, "grid-7"), (9000, 5000, None)):
        row = again.lowest(at)
        assert row is not None
        assert (row.watts, row.id) == (watts, name)
        assert "the rows that were saved before the start are in force" in (again.problem or "")
    (tmp_path / "events.csv").write_text("time,watts\n0,7000\n")
    row = again.lowest(9060)
    assert row is not None
    assert (row.watts, again.problem) == (7000, None)


@pytest.mark.parametrize("saved", ["", "[", '[["x","1",null,null]]', '[["1","1/0",null,null]]', "[[1,2]]", "{}"])
def test_saved_rows_that_cannot_be_read_are_none(tmp_path: Path, saved: str) -> None:
    keys = Keys(CrashPoint())
    keys.data = {"power.schedule.power": saved}
    reader = scheduled(tmp_path, "nothing", keys)
    assert reader.lowest(0) is None
    assert (reader.problem or "").startswith("the schedule cannot be read")


def test_rows_of_a_schedule_may_have_an_id_and_a_ramp(tmp_path: Path) -> None:
    reader = scheduled(tmp_path, "time, watts, id, ramp\n0,5000,,\n600,1000,grid-7,120\n1200,5000\n")
    inside, after = reader.lowest(700), reader.lowest(1260)
    assert inside is not None
    assert after is not None
    assert (inside.watts, inside.id, after.watts) == (1000, "grid-7", 1120)


def test_a_ramp_that_cannot_be_read_is_told_and_the_last_schedule_stays(tmp_path: Path) -> None:
    reader = scheduled(tmp_path, "time,watts,id,ramp\n0,1000,a,5\n")
    assert reader.lowest(0) is not None
    (tmp_path / "events.csv").write_text("time,watts,id,ramp\n0,2000,a,-5\n")
    last = reader.lowest(120)
    assert last is not None
    assert last.watts == 1000
    assert "ramp is '-5': expected watts a minute above 0" in (reader.problem or "")


def test_a_document_of_events(tmp_path: Path) -> None:
    rows = [{"time": 0, "watts": 5, "id": 7, "ramp": 2}, [60, 6], [120, 7, "b"], [180, 8, None, 3]]
    spec = ScheduleSpec(url="https://grid.example")
    schedule = _of_document(json.dumps(rows).encode(), compile_path("$"), spec)
    assert [(row.watts, row.id, row.ramp) for row in schedule.rows] == [
        (5, "7", 2),
        (6, None, None),
        (7, "b", None),
        (8, None, 3),
    ]
    with pytest.raises(ValueError, match="ramp"):
        _of_document(b'[[0, 1, "a", "fast"]]', compile_path("$"), spec)
    with pytest.raises(ValueError, match="watts are -5"):
        _of_document(b"[[0, -5]]", compile_path("$"), spec)
    prices = ScheduleSpec.model_validate({"url": "https://grid.example", "as": "price"})
    assert [
        row.watts for row in _of_document(b'[[0, -5], {"time": 60, "price": 7}]', compile_path("$"), prices).rows
    ] == [-5, 7]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time,watts\n", "it has no rows"),
        ("time,watts\n0,1000\n600,\n1200,500\n", "row 2 (600): no value"),
        ("time,watts\n0,1000\n600,n/a\n", "row 2 (600)"),
        ("time,watts\n0,900\n60,800\n", "its rows ahead are gone, which went until 1970-01-01 00:20 UTC"),
    ],
)
def test_a_schedule_that_loses_rows_is_told_and_the_last_one_stays(tmp_path: Path, text: str, words: str) -> None:
    reader = scheduled(tmp_path, "time,watts\n0,5000\n600,1000\n1200,5000\n")
    assert reader.lowest(0) is not None
    (tmp_path / "events.csv").write_text(text)
    last = reader.lowest(700)
    assert last is not None
    assert last.watts == 1000
    assert words in (reader.problem or "")


def test_an_event_may_be_changed_while_rows_ahead_are_left(tmp_path: Path) -> None:
    reader = scheduled(tmp_path, "time,watts\n0,5000\n600,1000\n1200,5000\n")
    assert reader.lowest(0) is not None
    (tmp_path / "events.csv").write_text("time,watts\n0,5000\n600,4000\n")
    reader.lowest(120)
    assert reader.problem is None
    assert reader.lowest(700) is not None


def test_a_csv_of_prices_may_name_its_column(tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("time,price\n0,-3\n3600,4\n")
    keys = {"schedule": {"csv": str(path), "as": "price"}, "energy": {"kWh": 1}}
    one = PowerPolicy.model_validate({**keys, "independents": [{"ref": "ns/a", "max": 1, "wattsPerReplica": 1}]})
    reader = ScheduleReader(one, None)
    assert reader.lowest(0) is None
    assert reader.known is not None
    assert [row.watts for row in reader.known.rows] == [-3, 4]
