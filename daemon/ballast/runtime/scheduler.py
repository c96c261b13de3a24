"""Jobs on apscheduler: on the grid of their interval, never overlapping, no miss or error silent."""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.base import BaseTrigger

from ballast.base.clock import Clock, SystemClock
from ballast.base.errors import BallastError
from ballast.base.metrics import Metrics
from ballast.base.text import printable
from ballast.cluster.threads import going
from ballast.serving.board import CycleRecord

log = structlog.get_logger("ballast.cycle")

CLOCK_STEP = 2.0
MISSED_BEATS = 5
LEAST_PATIENCE = 120.0


@dataclass
class _Job:
    interval: float
    run: Callable[[], str]
    beat: float


class GridTrigger(BaseTrigger):  # type: ignore[misc]
    """Fires at multiples of `interval` plus `delay` on the given clock, so that query times are multiples of it too.

    A timer that fires up to half the delay too early has fired for the slot it was meant for.
    """

    def __init__(self, clock: Clock, interval: float, delay: float = 0.0) -> None:
        self._clock = clock
        self._interval = interval
        self._delay = delay

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        wall = self._clock.wall()
        slot = math.floor((wall - self._delay / 2) / self._interval) + 1
        fire = slot * self._interval + self._delay
        return now + timedelta(seconds=(fire - wall) / self._clock.speed)


class JobScheduler:
    """Runs named cycles. A cycle returns its sentence; an exception becomes a failed cycle, never a dead job."""

    def __init__(self, clock: Clock, metrics: Metrics, record: Callable[[CycleRecord], None]) -> None:
        self._clock = clock
        self._machine = SystemClock()
        self._metrics = metrics
        self._record = record
        self._jobs: dict[str, _Job] = {}
        self._stop = threading.Event()
        self._scheduler = BackgroundScheduler(
            timezone=UTC, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )
        self._scheduler.add_listener(self._missed, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
        self._supervised: float | None = None
        self._supervisor = threading.Thread(target=self._supervise, name="jobs-supervisor", daemon=True)

    def every(self, name: str, interval: float, run: Callable[[], str], *, delay: float = 0.0) -> None:
        self._jobs[name] = _Job(interval, run, self._clock.monotonic())
        self._scheduler.add_job(self.run, GridTrigger(self._clock, interval, delay), args=[name], id=name, name=name)

    def soon(self, name: str) -> None:
        """The next cycle of a job begins at once; those after it keep their times."""
        if self._scheduler.running and not self._stop.is_set():
            self._scheduler.modify_job(name, next_run_time=datetime.fromtimestamp(self._machine.wall(), UTC))

    def start(self) -> None:
        for job in self._jobs.values():
            job.beat = self._clock.monotonic()
        self._scheduler.start()
        self._supervisor.start()

    def ending(self) -> None:
        """From now on cycles may be cut off by the stop: one that fails is no error."""
        self._stop.set()

    def stop(self) -> None:
        """Starts nothing new and waits for the cycles that run."""
        self._stop.set()
        if self._scheduler.running:
            self._scheduler.shutdown(wait=True)

    def run(self, name: str) -> CycleRecord:
        """One cycle of a job, now, in the caller's thread."""
        job = self._jobs[name]
        job.beat = begun = self._clock.monotonic()
        started = self._clock.wall()
        try:
            sentence, ok = job.run(), True
        except BallastError as error:
            sentence, ok = f"{name} failed: {error}", False
        except Exception as error:
            log.exception("unexpected error", job=name)
            sentence, ok = f"{name} failed unexpectedly: {type(error).__name__}: {error}", False
        job.beat = self._clock.monotonic()
        cycle = CycleRecord(name, started, job.beat - begun, ok, printable(sentence))
        self._metrics.cycle_seconds.labels(name).observe(cycle.seconds)
        self._metrics.cycles.labels(name, "ok" if ok else "failed").inc()
        if ok:
            self._metrics.cycle_succeeded.labels(name).set(cycle.started + cycle.seconds)
        (log.info if ok or self._stop.is_set() else log.error)(sentence, job=name)
        self._record(cycle)
        return cycle

    @property
    def supervised(self) -> float | None:
        """When the supervisor last looked (the machine's monotonic clock)."""
        return self._supervised

    @property
    def alive(self) -> bool:
        """Whether the supervisor still runs."""
        return going(self._supervisor, self._stop)

    def overdue(self) -> dict[str, float]:
        """Jobs that have not beaten for longer than patience allows, with the seconds since their last beat."""
        now = self._clock.monotonic()
        return {
            name: now - job.beat
            for name, job in self._jobs.items()
            if now - job.beat > max(MISSED_BEATS * job.interval, LEAST_PATIENCE)
        }

    def _missed(self, event: Any) -> None:
        reason = "overlap" if event.code == EVENT_JOB_MAX_INSTANCES else "late"
        self._metrics.cycles_missed.labels(event.job_id, reason).inc()
        log.warning("a cycle was skipped: the one before it still runs", job=event.job_id, reason=reason)

    def _supervise(self) -> None:
        """apscheduler waits for wall times: after a step of the wall clock, every next run is computed again."""
        offset = self._clock.wall() - self._clock.monotonic()
        while not self._clock.wait(self._stop, 1.0 * self._clock.speed):
            self._supervised = self._machine.monotonic()
            now = self._clock.wall() - self._clock.monotonic()
            if abs(now - offset) > CLOCK_STEP:
                log.warning("the wall clock was stepped", seconds=round(now - offset, 3))
                offset = now
                for job in self._scheduler.get_jobs():
                    job.reschedule(job.trigger)
