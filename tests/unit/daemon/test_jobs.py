import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from ballast.base.clock import SystemClock
from ballast.base.errors import ClusterError, TelemetryError
from ballast.base.metrics import Metrics
from ballast.runtime.build_context import StateSaver
from ballast.runtime.health import PATIENCE, Health, Loop, LoopKind
from ballast.runtime.scheduler import GridTrigger, JobScheduler
from ballast.serving.board import CycleRecord
from ballast_lab.harness.waiting import HUNG, until
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
        release.wait(HUNG)
        return ""

    jobs = JobScheduler(SystemClock(), metrics, lambda record: None)
    jobs.every("watch", 0.05, slow)
    original = metrics.cycles_missed.labels

    def noticed(*labels: str) -> object:
        skipped.set()
        return original(*labels)

    metrics.cycles_missed.labels = noticed  # type: ignore[method-assign,assignment]
    jobs.start()
    assert skipped.wait(HUNG)
    assert len(runs) == 1
    release.set()
    jobs.stop()
    assert counted(metrics, "ballast_cycles_missed_total", cycle="watch", reason="overlap") >= 1


@pytest.mark.parametrize("kind", LoopKind)
def test_a_loop_that_does_not_come_round_is_named(kind: LoopKind) -> None:
    clock = FakeClock()
    context: Any = SimpleNamespace(machine_clock=clock)
    loops = [Loop("one", kind, None)]
    health = Health(context, None, dict, dict, lambda: loops)  # type: ignore[arg-type]
    assert all(check.ok for check in health.alive())
    loops = [Loop("one", kind, clock.monotonic())]
    clock.advance(PATIENCE[kind] + 1)
    loops.append(Loop("two", LoopKind.LEASE, clock.monotonic()))
    failing = [check for check in health.alive() if not check.ok]
    assert [(check.name, check.message.partition(" has")[0]) for check in failing] == [("loops", "one")]


def test_a_defect_is_told_and_the_next_save_is_tried() -> None:
    called = threading.Semaphore(0)
    errors = iter([KeyError("x")])

    class Saved:
        def save(self) -> Any:
            called.release()
            for error in errors:
                raise error

    saving = StateSaver((Saved(),), lambda: True)
    with capture_logs() as lines:
        saving.start()
        for _ in range(2):
            saving.ask()
            assert called.acquire(timeout=HUNG)
        assert saving.alive
        saving.stop()
    assert [line["log_level"] for line in lines if "exc_info" in line] == ["error"]
    assert saving.problem is None


def test_a_standby_has_no_trouble_with_saving() -> None:
    leading = [True]

    class Saved:
        def save(self) -> Any:
            raise ClusterError("no")

    saving = StateSaver((Saved(),), lambda: leading[0])
    saving.start()
    saving.ask()
    until(lambda: saving.problem == "no")
    leading[0] = False
    saving.ask()
    until(lambda: saving.problem is None)
    saving.stop()
