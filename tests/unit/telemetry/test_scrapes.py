import numpy as np
import pytest
from responses import RequestsMock

from ballast.telemetry.scrapes import ScrapeIntervals
from tests.unit.telemetry.fake_prometheus import FakePrometheus, Series, by_instance, healthy, named, settings, source

INTERVAL = 30.0
START = 1_700_000_010.0


def newest(at: float, every: float, node: int, lost: bool) -> float:
    """The newest scrape of a node at a time; of seven scrapes one is lost."""
    number = (at - 7.0 * node) // every
    if lost and (number + node) % 7 == 0:
        number -= 1
    return number * every + 7.0 * node


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("every", [15.0, 30.0, 60.0, 120.0, 300.0])
def test_the_distance_of_scrapes_is_measured_or_that_of_the_readings(every: float, lost: bool) -> None:
    intervals = ScrapeIntervals()
    times = START + INTERVAL * np.arange(60)
    rows = [f"node-{node}" for node in range(5)]
    for at in times:
        intervals.add("f", rows, np.array([[newest(at, every, node, lost)] for node in range(5)]))
    assert intervals.of("f") == pytest.approx(max(every, INTERVAL), rel=0.05)


def test_the_past_that_is_read_after_the_present_tells_it_at_once() -> None:
    intervals = ScrapeIntervals()
    intervals.add("f", ["a"], np.array([[START]]))
    assert intervals.of("f") is None
    past = START - 600 + INTERVAL * np.arange(20)
    intervals.add("f", ["a"], np.array([[newest(at, 60.0, 0, False) for at in past]]))
    assert intervals.of("f") == 60.0


@pytest.mark.parametrize("step", [1e-3, 0.5, 7.0, 1e6])
def test_one_exporter_with_times_of_its_own_does_not_decide(step: float) -> None:
    intervals, alone = ScrapeIntervals(), ScrapeIntervals()
    rows = [f"node-{node}" for node in range(5)]
    for cycle in range(60):
        at = START + INTERVAL * cycle
        times = [[newest(at, 60.0, node, False)] for node in range(5)]
        alone.add("f", rows, np.array(times))
        times[4] = [START + step * cycle]
        intervals.add("f", rows, np.array(times))
    assert intervals.of("f") == alone.of("f") == 60.0


def test_rates_and_ages_follow_slow_scrapes(wire: RequestsMock) -> None:
    """Scrapes two minutes apart: samples are no longer stale after 90 s, and a rate spans four of them."""

    def evaluate(query: str, time: float) -> list[Series]:
        if "timestamp(" in query:
            return by_instance(newest(time, 120.0, 0, False))
        if "rate(" in query and "[120s]" in query:
            return []
        return healthy(query, time)

    prometheus = FakePrometheus(evaluate)
    prometheus.serve(wire)
    watcher = source(settings({"interval": "30s"}))
    first = watcher.read(START, named(3))
    assert "cpu" in first.problems
    assert "a rate needs two samples within 120 s" in first.problems["cpu"]
    assert "PRESET" not in first.problems["cpu"]
    list(watcher.backfill(START - 900, START - 30, 30, named(3)))
    for cycle in range(1, 20):
        reading = watcher.read(START + cycle * INTERVAL, named(3))
        assert not reading.problems
        assert not reading.rejected
        assert [len(samples.rows) for samples in reading.samples.values()] == [3, 3]
        assert reading.scrape_interval == pytest.approx({"cpu": 120.0, "memory": 120.0})
    assert any("[480s]" in query for query in prometheus.queries)


def test_max_age_that_is_set_stays(wire: RequestsMock) -> None:
    FakePrometheus(
        lambda query, time: by_instance(newest(time, 120.0, 0, False)) if "timestamp(" in query else []
    ).serve(wire)
    chosen = settings().model_copy(update={"windows": settings().windows.model_copy(update={"max_age": 20.0})})
    watcher = source(chosen)
    list(watcher.backfill(START - 900, START - 30, 30, named(3)))
    assert watcher._assembly._max_age(watcher._questions.asked[0]) == 20.0
