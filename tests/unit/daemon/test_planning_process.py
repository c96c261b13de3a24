"""The process that plans: what reaches it, and what happens when it does not answer."""

import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ballast.base.errors import WorkerError
from ballast.eviction.facts import ClusterObjects
from ballast.eviction.gate_rules import GateRules
from ballast.eviction.history import History
from ballast.model.node import Node
from ballast.model.pod import Owner, Pod
from ballast.model.shape import ContainerShape, shape_of
from ballast.model.workload import Workload
from ballast.planning import process as module
from ballast.planning.moment import Moment
from ballast.planning.process import PlanningProcess
from ballast.planning.request import PlansRequest, RequestedPlan, receive, send
from ballast.planning.worker import answer
from ballast.telemetry.pod_usage import PodAnswers
from ballast_lab.harness.waiting import HUNG, until

pytestmark = pytest.mark.slow

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc, SCHED_IDLE and RLIMIT_DATA are Linux's")
NOW = 1_700_000_000.0
PATIENT = 500.0
"""Seconds: the process has what other processes leave, which on a busy machine is little."""
SHAPE = shape_of([ContainerShape({"cpu": 1.0, "memory": 2.0**30})])
OWNER = Owner("ReplicaSet", "web", "u-web", True)


def pod(number: int, node: str) -> Pod:
    return Pod(
        "shop",
        f"web-{number}",
        uid=f"u{number}",
        node=node,
        phase="Running",
        shape=SHAPE,
        labels={"app": "web"},
        owner=OWNER,
        ready=True,
        nominated="n9",
    )


def errand(**moment: Any) -> PlansRequest:
    amounts = {"cpu": 10.0, "memory": 100 * 2.0**30, "pods": 100.0}
    objects = ClusterObjects(
        nodes=[Node(name, allocatable=amounts) for name in ("n1", "n2", "n3")],
        pods=[pod(number, "n1") for number in range(9)] + [pod(9, "n2")],
        workloads=[Workload("ReplicaSet", "shop", "web", replicas=10)],
    )
    load = np.array([[0.9, 0.1], [0.1, 0.1], [np.nan, np.nan]])
    kinds = ("redistribute", "relieve", "rebalance")
    return PlansRequest(
        replace(Moment(NOW, objects, ("cpu", "memory"), load), **moment),
        tuple(RequestedPlan(kind, GateRules(max_unknown=0.5)) for kind in kinds),
    )


@pytest.fixture(autouse=True)
def never_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine does not change what is asked; the tests of starvation set limits of their own."""
    monkeypatch.setattr(module, "STARVED_AFTER", PATIENT)
    monkeypatch.setattr(module, "LOOK_AFTER", PATIENT)


@pytest.fixture
def worker() -> Iterator[PlanningProcess]:
    one = PlanningProcess(deadline=PATIENT)
    yield one
    one.stop()


def test_what_is_sent_is_what_is_received() -> None:
    usage = PodAnswers(NOW, {"cpu": b"{}"}, {"memory": "refused"}, ("cpu", "memory"), 90.0, 30.0)
    request, stream = errand(usage=usage, history=History(confirmed={"n1": 3}), pool_label="pool"), BytesIO()
    send(request, stream.write)
    stream.seek(0)
    received = receive(stream)
    sent, arrived = request.moment, received.moment
    assert list(arrived.objects.pods) == list(sent.objects.pods)
    assert list(arrived.objects.nodes) == list(sent.objects.nodes)
    assert list(arrived.objects.workloads) == list(sent.objects.workloads)
    assert (arrived.usage, arrived.history, received.plans) == (sent.usage, sent.history, request.plans)
    assert np.array_equal(arrived.load, sent.load, equal_nan=True)
    pods = arrived.objects.pods
    assert len({id(pod.shape) for pod in pods}) == len({id(pod.owner) for pod in pods}) == 1


def test_a_plan_of_the_process_is_that_of_the_function(worker: PlanningProcess) -> None:
    there, here = worker.ask(errand()), answer(errand())
    assert there.plans == here.plans
    assert [plan.kind for plan in there.plans] == ["redistribute", "relieve"]
    assert [step.source for step in there.plans[1].steps] == ["n1"]
    assert there.plans[1].refusals[0].reason
    first = worker.pid
    worker.ask(errand())
    assert worker.pid == first


def test_a_step_that_the_rate_alone_leaves_undone_is_named() -> None:
    spent = History(confirmed={"n1": 9}, evictions=tuple(NOW - 60.0 * number for number in range(40)))
    [redistribute, relieve, _] = answer(errand(history=spent)).plans
    assert not relieve.steps
    assert relieve.held_back is not None
    assert relieve.held_back.source == "n1"
    free = answer(errand(history=History(confirmed={"n1": 9}))).plans[1]
    assert relieve.held_back == free.steps[0]
    assert (free.held_back, redistribute.held_back) == (None, None)
    calm = answer(errand(history=spent, load=np.full((3, 2), 0.3))).plans
    assert [plan.held_back for plan in calm] == [None] * 3


@ON_LINUX
def test_the_process_is_nice_and_has_no_environment_to_speak_of(
    worker: PlanningProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BALLAST_PROMETHEUS__PASSWORD_FILE", "/secret")
    monkeypatch.setenv("METRICS_PROVIDER_TOKEN", "secret")
    monkeypatch.setattr(worker, "_command", (sys.executable, "-m", "ballast.planning.start"))
    worker.ask(errand())
    process = Path(f"/proc/{worker.pid}")
    names = {line.partition("=")[0] for line in (process / "environ").read_text().split("\0") if line}
    assert not [name for name in names if "TOKEN" in name or name.startswith(("BALLAST", "KUBE"))]
    assert os.getpriority(os.PRIO_PROCESS, worker.pid or 0) >= min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    assert os.sched_getscheduler(worker.pid or 0) == os.SCHED_IDLE
    assert os.getsid(worker.pid or 0) == os.getsid(0), "another session would be scheduled as a peer"
    assert os.getpgid(worker.pid or 0) != os.getpgid(0), "a terminal's Ctrl-C would end it"
    data = next(line for line in (process / "limits").read_text().splitlines() if line.startswith("Max data size"))
    assert data.split()[3].isdigit()


@ON_LINUX
def test_a_killed_process_costs_one_errand(worker: PlanningProcess) -> None:
    worker.ask(errand())
    os.kill(worker.pid or 0, 9)
    until(lambda: Path(f"/proc/{worker.pid}/stat").read_text().split()[2] == "Z", "its end")
    assert worker.ask(errand()).plans


def test_a_crash_is_told_and_the_next_errand_finds_a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = PlanningProcess([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"], deadline=PATIENT)
    with pytest.raises(WorkerError, match="ended by signal 11"):
        worker.ask(errand())
    monkeypatch.setattr(worker, "_command", module.COMMAND)
    assert worker.ask(errand()).plans
    worker.stop()


STARVED = [sys.executable, "-c", "import sys, time; sys.stdin.read(1); time.sleep(60)"]
"""A process that gets no processor."""


@ON_LINUX
@pytest.mark.parametrize("limit", ["STARVED_AFTER", "LOOK_AFTER"])
def test_what_gets_no_time_is_asked_again_with_ordinary_priority_and_so_are_the_next(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process gets no processor unless it has ordinary priority."""
    monkeypatch.setattr(module, "ORDINARY_FOR", 3)
    monkeypatch.setattr(module, limit, 0.3)
    monkeypatch.setattr(module, "FAIR", 100.0)
    code = (
        "import os, sys, time; import ballast.planning.worker as worker; "
        "worker.main() if sys.argv[1:] else time.sleep(60)"
    )
    worker = PlanningProcess([sys.executable, "-c", code], deadline=PATIENT)
    running = []
    for _ in range(3):
        assert worker.ask(errand()).plans
        running.append(worker.pid is not None)
    assert running == [True, True, False], "the third ends, so that the next begins with little priority"
    worker.stop()


@ON_LINUX
def test_what_has_its_fair_part_of_a_processor_is_not_ended_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FAIR", 0.0)
    monkeypatch.setattr(module, "LOOK_AFTER", 0.1)
    slow = "import time; import ballast.planning.worker as worker; time.sleep(0.5); worker.main()"
    worker = PlanningProcess([sys.executable, "-c", slow], deadline=PATIENT)
    assert worker.ask(errand()).plans
    assert not worker._ordinary
    worker.stop()


def test_what_does_not_end_with_ordinary_priority_either_is_given_up() -> None:
    worker = PlanningProcess(STARVED, deadline=0.3)
    with pytest.raises(WorkerError, match="took longer than 2 s and was ended"):
        worker.ask(errand())
    assert worker.pid is None


@ON_LINUX
def test_what_takes_too_much_of_the_processor_is_ended() -> None:
    busy = (
        "import pickle, signal, sys\nsignal.setitimer(signal.ITIMER_PROF, pickle.load(sys.stdin.buffer)[1])\nwhile 1: 0"
    )
    worker = PlanningProcess([sys.executable, "-c", busy], deadline=0.3)
    worker._ordinary = 5
    with pytest.raises(WorkerError, match="took longer than 0 CPU seconds"):
        worker.ask(errand())
    assert worker.pid is None


@pytest.mark.parametrize(("interval", "seconds"), [(1, 20), (10, 20), (15, 30), (60, 60), (600, 60)])
def test_a_plan_may_take_two_intervals_and_a_minute_at_most(interval: float, seconds: float) -> None:
    assert module.deadline_of(interval) == seconds


@ON_LINUX
def test_memory_is_limited_and_said_to_be(worker: PlanningProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MEMORY", 2**20)
    with pytest.raises(WorkerError, match=r"it needs more than the|ended"):
        worker.ask(errand())


def test_an_unexpected_error_is_told(worker: PlanningProcess, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WorkerError, match="the plan could not be made: IndexError"):
        worker.ask(errand(load=np.zeros((3, 1))))
    assert "Traceback" in capfd.readouterr().err
    assert worker.ask(errand()).plans


def test_a_stop_ends_an_errand_under_way() -> None:
    worker = PlanningProcess([sys.executable, "-c", "import sys, time; sys.stdin.read(1); time.sleep(60)"])
    told: list[str] = []

    def ask() -> None:
        with pytest.raises(WorkerError) as error:
            worker.ask(errand())
        told.append(str(error.value))

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: worker.pid, "a process")
    worker.stop()
    thread.join(HUNG)
    assert told == ["Ballast is stopping"]
    with pytest.raises(WorkerError, match="stopping"):
        worker.ask(errand())


def test_no_program_no_plan() -> None:
    with pytest.raises(WorkerError, match="no process for planning can be started"):
        PlanningProcess(["/nowhere/python"]).ask(errand())
