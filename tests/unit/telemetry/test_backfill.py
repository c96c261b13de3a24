import pytest
from requests import ReadTimeout
from responses import RequestsMock

from ballast.telemetry import prometheus_source as module
from tests.unit.telemetry.fake_prometheus import (
    FakePrometheus,
    QueryRefused,
    Series,
    by_instance,
    healthy,
    named,
    settings,
    source,
)

START, STEP = 1_700_000_000.0, 20.0


def test_one_reading_per_grid_time_ascending(wire: RequestsMock) -> None:
    FakePrometheus(healthy).serve(wire)
    readings = list(source().backfill(START, START + 24 * STEP, STEP, named(3)))
    assert [reading.at for reading in readings] == [START + index * STEP for index in range(25)]
    for reading in readings:
        assert reading.samples["cpu"].values.tolist() == [0.25] * 3
        assert reading.samples["cpu"].times.tolist() == [reading.at - 5] * 3


def test_the_past_equals_what_was_read_then(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        value = time - (time % 40) / 4 if "timestamp(" in query else (time - START) % 700 / 700
        gone = 1 if START + 100 < time < START + 200 else 0
        return by_instance(value, 3)[gone:]

    FakePrometheus(evaluate).serve(wire)
    watcher = source()
    readings = list(watcher.backfill(START, START + 14 * STEP, STEP, named(3)))
    assert len(readings) == 15
    for past in readings:
        then = watcher.read(past.at, named(3))
        assert past.rejected == then.rejected
        for resource, samples in then.samples.items():
            assert past.samples[resource].rows.tolist() == samples.rows.tolist()
            assert past.samples[resource].values.tolist() == samples.values.tolist()
            assert past.samples[resource].times.tolist() == samples.times.tolist()


def test_it_asks_in_pieces_below_the_point_limit(wire: RequestsMock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_POINTS", 25)
    prometheus = FakePrometheus(healthy)
    prometheus.serve(wire)
    readings = list(source().backfill(START, START + 59 * STEP, STEP, named(3)))
    assert len(readings) == 60
    sizes = [
        round((float(form["end"]) - float(form["start"])) / STEP) + 1 for form in prometheus.forms if "end" in form
    ]
    assert sizes == [10] * 3 + [25] * 6
    assert sum(reading.queries for reading in readings) == 9


def test_a_server_with_a_lower_limit_is_asked_for_less(wire: RequestsMock) -> None:
    prometheus = FakePrometheus(healthy)

    def evaluate(query: str, time: float) -> list[Series]:
        form = prometheus.forms[-1]
        if "end" in form and float(form["end"]) - float(form["start"]) > 4 * STEP:
            raise QueryRefused(400, "exceeded maximum resolution of 11,000 points per timeseries.")
        return healthy(query, time)

    prometheus.evaluate = evaluate
    prometheus.serve(wire)
    readings = list(source(settings({"resources": "cpu"})).backfill(START, START + 11 * STEP, STEP, named(3)))
    assert [len(reading.samples.get("cpu", ()).rows) for reading in readings] == [3] * 12  # type: ignore[union-attr]


def test_a_resource_that_fails_is_not_asked_again(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "node_cpu" in query:
            raise QueryRefused(422, "vector cannot contain metrics with the same labelset")
        return healthy(query, time)

    prometheus = FakePrometheus(evaluate)
    prometheus.serve(wire)
    readings = list(source().backfill(START, START + 39 * STEP, STEP, named(3)))
    assert len(readings) == 40
    assert all("the same labelset" in reading.problems["cpu"] for reading in readings)
    assert all(len(reading.samples["memory"].rows) == 3 for reading in readings)
    assert sum("node_cpu" in query for query in prometheus.queries) == 1


TOO_MUCH = [
    "query processing would load too many samples into memory in query execution",
    "exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)",
    "cannot select more than -search.maxSamplesPerQuery=1000000 samples; possible solutions: increase it",
    "the number of matching timeseries exceeds 300000; either narrow down the search or increase the limit",
    "the query exceeded the maximum number of series (limit: 100000 series) (err-mimir-max-series-per-query)",
    "the query exceeded the maximum number of chunks (limit: 2000000 chunks) (err-mimir-max-chunks-per-query)",
    "the query hit the max number of chunks limit while fetching chunks (limit: 2000000)",
    "expanded matching postings: fetch series: exceeded series limit: rpc error: limit 100 violated (got 101)",
    "exceeded samples limit 5000",
    "fetched series data size exceeded 10 bytes: the aggregated chunks size limit",
]


@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize("words", TOO_MUCH)
def test_pieces_are_halved_where_a_server_says_that_they_are_too_large(
    words: str, status: int, wire: RequestsMock
) -> None:
    prometheus = FakePrometheus(healthy)

    def evaluate(query: str, time: float) -> list[Series]:
        form = prometheus.forms[-1]
        if "node_cpu" in query and "end" in form and float(form["end"]) - float(form["start"]) > 2 * STEP:
            raise QueryRefused(status, words)
        return healthy(query, time)

    prometheus.evaluate = evaluate
    prometheus.serve(wire)
    readings = list(source().backfill(START, START + 19 * STEP, STEP, named(3)))
    assert [len(reading.samples["cpu"].rows) for reading in readings] == [3] * 20
    assert not any(reading.problems for reading in readings)
    assert len(prometheus.queries) < 3 * 15, "what was too large once is not tried again"


def test_pieces_are_halved_where_a_server_is_too_slow(wire: RequestsMock) -> None:
    prometheus = FakePrometheus(healthy)

    def evaluate(query: str, time: float) -> list[Series]:
        form = prometheus.forms[-1]
        if "node_cpu" in query and "end" in form and float(form["end"]) - float(form["start"]) > 2 * STEP:
            raise ReadTimeout("read timed out")
        return healthy(query, time)

    prometheus.evaluate = evaluate
    prometheus.serve(wire)
    readings = list(source().backfill(START, START + 19 * STEP, STEP, named(3)))
    assert [len(reading.samples["cpu"].rows) for reading in readings] == [3] * 20
    assert not any(reading.problems for reading in readings)


def test_a_resource_that_is_too_large_at_any_size_costs_only_itself(wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        if "node_cpu" in query:
            raise QueryRefused(422, TOO_MUCH[0])
        return healthy(query, time)

    prometheus = FakePrometheus(evaluate)
    prometheus.serve(wire)
    readings = list(source().backfill(START, START + 39 * STEP, STEP, named(3)))
    assert all("too many samples" in reading.problems["cpu"] for reading in readings)
    assert all(len(reading.samples["memory"].rows) == 3 for reading in readings)
    assert sum("node_cpu" in query for query in prometheus.queries) == 4


@pytest.mark.parametrize("words", ["too many outstanding requests", "unknown function", "parse error at char 5"])
def test_other_refusals_are_not_about_size(words: str, wire: RequestsMock) -> None:
    def evaluate(query: str, time: float) -> list[Series]:
        raise QueryRefused(422, words)

    prometheus = FakePrometheus(evaluate)
    prometheus.serve(wire)
    assert words in next(source().backfill(START, START + 9 * STEP, STEP, named(3))).problems["cpu"]
    assert len(prometheus.queries) == 3


def test_a_past_that_begins_late_is_no_failure(wire: RequestsMock) -> None:
    FakePrometheus(lambda query, time: healthy(query, time) if time >= START + 15 * STEP else []).serve(wire)
    readings = list(source().backfill(START, START + 29 * STEP, STEP, named(3)))
    assert len(readings) == 30
    assert len(readings[-1].samples["cpu"].rows) == 3
    assert not readings[-1].problems


@pytest.mark.parametrize(("end", "count"), [(START - 1, 0), (START, 1), (START + STEP - 1, 1)])
def test_short_ranges(end: float, count: int, wire: RequestsMock) -> None:
    FakePrometheus(healthy).serve(wire)
    assert len(list(source().backfill(START, end, STEP, named(3)))) == count
