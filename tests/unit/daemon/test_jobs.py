import threading
from datetime import UTC, datetime

import pytest
import structlog

from ballast.base.clock import SystemClock
from ballast.base.errors import TelemetryError
from ballast.base.metrics import Metrics
from ballast.runtime.scheduler import GridTrigger, JobScheduler
from ballast.serving.board import CycleRecord
from tests.worlds.clock import FakeClock


def counted(metrics: Metrics, name: str, **labels: str) -> float:
    return metrics.registry.get_sample_value(name, labels) or 0.0


def test_a_cycle_ends_in_its_sentence() -> None:
    records: list[CycleRecord] = []
    metrics = Metrics()
    jobs = JobScheduler(FakeClock(), metrics, records.append)
    jobs.every("publish", 30.0, lambda: "published 3 of 5 nodes")
    jobs.run("publish")
    assert [(r.job, r.ok, r.sentence) for r in records] == [("publish", True, "published 3 of 5 nodes")]
    assert counted(metrics, "ballast_cycles_total", cycle="publish", result="ok") == 1


def test_a_cycle_that_the_stop_cuts_off_is_no_error() -> None:
    def fails() -> str:
        raise TelemetryError("Ballast is stopping")

    jobs = JobScheduler(FakeClock(), Metrics(), lambda record: None)
    jobs.every("eviction", 30.0, fails)
    with structlog.testing.capture_logs() as before:
        jobs.run("eviction")
    jobs.ending()
    with structlog.testing.capture_logs() as after:
        jobs.run("eviction")
    assert [line["log_level"] for line in before] == ["error"]
    assert [line["log_level"] for line in after] == ["info"]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (TelemetryError("Prometheus answered 401"), "watch failed: Prometheus answered 401"),
        (KeyError("x"), "watch failed unexpectedly: KeyError: 'x'"),
    ],
)
def test_an_error_becomes_a_failed_cycle_and_the_job_lives(error: Exception, sentence: str) -> None:
    records: list[CycleRecord] = []
    metrics = Metrics()
    jobs = JobScheduler(FakeClock(), metrics, records.append)

    def fails() -> str:
        raise error

    jobs.every("watch", 30.0, fails)
    jobs.run("watch")
    jobs.run("watch")
    assert [r.sentence for r in records] == [sentence, sentence]
    assert not any(r.ok for r in records)
    assert counted(metrics, "ballast_cycles_total", cycle="watch", result="failed") == 2


def test_jobs_fire_on_the_grid_of_their_interval() -> None:
    clock = FakeClock(wall=1_700_000_003.0)
    now = datetime.fromtimestamp(clock.wall(), UTC)
    trigger = GridTrigger(clock, 15.0, delay=0.5)
    assert trigger.get_next_fire_time(None, now).timestamp() == pytest.approx(1_700_000_010.5)
    clock.advance(7.5)
    now = datetime.fromtimestamp(clock.wall(), UTC)
    assert trigger.get_next_fire_time(now, now).timestamp() == pytest.approx(1_700_000_025.5)


def test_a_job_that_stopped_beating_is_overdue() -> None:
    clock = FakeClock()
    jobs = JobScheduler(clock, Metrics(), lambda record: None)
    jobs.every("watch", 30.0, lambda: "")
    clock.advance(150.0)
    assert jobs.overdue() == {}
    clock.advance(1.0)
    assert jobs.overdue() == {"watch": 151.0}
    jobs.run("watch")
    assert jobs.overdue() == {}


def test_a_cycle_that_still_runs_is_not_started_again_and_that_is_counted() -> None:
    metrics = Metrics()
    skipped, release = threading.Event(), threading.Event()
    runs: list[int] = []

    def slow() -> str:
        runs.append(1)
        release.wait(20)
        return ""

    jobs = JobScheduler(SystemClock(), metrics, lambda record: None)
    jobs.every("watch", 0.05, slow)
    original = metrics.cycles_missed.labels

    def noticed(*labels: str) -> object:
        skipped.set()
        return original(*labels)

    metrics.cycles_missed.labels = noticed  # type: ignore[method-assign,assignment]
    jobs.start()
    assert skipped.wait(60)
    assert len(runs) == 1
    release.set()
    jobs.stop()
    assert counted(metrics, "ballast_cycles_missed_total", cycle="watch", reason="overlap") >= 1
