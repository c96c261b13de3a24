"""Writes that cannot wait: at once, each with the checks of the one writer."""

import threading
from collections.abc import Callable
from typing import Any

from ballast.base.metrics import Metrics
from ballast.cluster.write import MERGE_PATCH, Result, Write, WriteOutcome, WriteTarget
from ballast.cluster.writer import AT_ONCE, BURST, EmergencyWriter, Pace, Writer
from tests.worlds.clock import FakeClock
from tests.worlds.kube_api import FakeApi

PLENTY = 300


def path(number: int) -> str:
    return f"/apis/apps/v1/namespaces/shop/deployments/d{number}/scale"


class Rig:
    def __init__(self, mode: str = "on") -> None:
        self.api = FakeApi({path(number): {"metadata": {}, "spec": {"replicas": 5}} for number in range(PLENTY)})
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.leads = True
        self.pause: str | None = None
        self.reported: list[WriteOutcome] = []
        self.writer = Writer(
            self.api,
            self.clock,
            self.metrics,
            pace=Pace(self.clock, 1, 1),
            modes={"power": mode},
            paused=lambda part: self.pause,
            leading=lambda: self.leads,
            events=self,
        )
        self.emergency = EmergencyWriter(self.writer)

    def report(self, outcome: WriteOutcome) -> None:
        self.reported.append(outcome)

    def write(self, number: int) -> Write:
        return Write(
            kind="scale",
            part="power",
            method="PATCH",
            path=path(number),
            target=WriteTarget("Deployment", f"d{number}", "shop"),
            reason="power falls",
            body={"metadata": {}, "spec": {"replicas": 1}},
            content_type=MERGE_PATCH,
            event="ScaleForPower",
        )

    def all(self, count: int) -> list[WriteOutcome]:
        def task(number: int) -> Callable[[Writer], WriteOutcome]:
            return lambda writer: writer.submit(self.write(number))

        return self.emergency.each([task(number) for number in range(count)])


def test_eight_are_under_way_at_once() -> None:
    rig = Rig()
    together = threading.Barrier(AT_ONCE)
    most, lock, now = [0], threading.Lock(), [0]

    def before(*_: Any) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        together.wait(10)
        with lock:
            now[0] -= 1

    rig.api.before = before
    outcomes = rig.all(3 * AT_ONCE)
    assert all(outcome.done for outcome in outcomes)
    assert most == [AT_ONCE]
    assert [outcome.write.path for outcome in outcomes] == [path(number) for number in range(3 * AT_ONCE)]


def test_the_bucket_is_its_own() -> None:
    rig = Rig()
    assert rig.writer.submit(rig.write(0)).done
    began = rig.clock.monotonic()
    assert all(outcome.done for outcome in rig.all(BURST))
    assert rig.clock.monotonic() == began
    assert len(rig.reported) == 1 + BURST


def test_the_checks_are_those_of_the_writer() -> None:
    rig = Rig(mode="dry-run")
    assert {outcome.result for outcome in rig.all(3)} == {Result.DRY_RUN}
    rig.pause = "paused by key paused.power"
    assert {outcome.reason for outcome in rig.all(3)} == {rig.pause}
    rig.leads = False
    assert {outcome.result for outcome in rig.all(3)} == {Result.REFUSED}
    assert rig.api.writes == []
    assert rig.metrics.registry.get_sample_value("ballast_writes_total", {"kind": "scale", "result": "refused"}) == 6


def test_it_finishes_with_the_writer() -> None:
    rig = Rig()
    begun, finishing = threading.Semaphore(0), threading.Event()

    def before(*_: Any) -> None:
        begun.release()
        finishing.wait(30)

    rig.api.before = before
    answers: list[list[WriteOutcome]] = []
    emergency = threading.Thread(target=lambda: answers.append(rig.all(PLENTY)))
    emergency.start()
    for _ in range(AT_ONCE):
        assert begun.acquire(timeout=60)
    ending = threading.Thread(target=rig.writer.finish, args=[10.0])
    ending.start()
    while not rig.writer._finished.is_set():
        ending.join(0.01)
    finishing.set()
    ending.join(60)
    emergency.join(60)
    done = [outcome for outcome in answers[0] if outcome.done]
    assert len(rig.api.writes) == len(done) == AT_ONCE
