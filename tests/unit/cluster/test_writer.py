"""The one writer, its pace, and writes that cannot wait: at once, each with the checks of the one writer."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ballast.base.errors import ClusterError, NotFound, TooManyRequests, Unreachable
from ballast.cluster.node_writes import node_metadata, replace_taints
from ballast.cluster.write import MERGE_PATCH, Result, Write, WriteOutcome, WriteTarget
from ballast.cluster.writer import AT_ONCE, BURST, MOST_AT_ONCE, PATIENCE, EmergencyWriter, Pace
from ballast_lab.harness.waiting import HUNG
from tests.worlds.clock import FakeClock
from tests.worlds.kube_api import FakeApi
from tests.worlds.writing import WriterRig, raising

NODE = "/api/v1/nodes/n1"


@pytest.fixture
def rig() -> WriterRig:
    return writer_rig()


def writer_rig(api: FakeApi | None = None, **pace: Any) -> WriterRig:
    api = api or FakeApi({NODE: {"metadata": {"name": "n1"}, "spec": {}}})
    modes = {"publishing": "on", "power": "dry-run", "eviction": "off"}
    return WriterRig(api, modes=modes, **({"qps": 20, "burst": 40} | pace))


def label(rig: WriterRig, part: str = "publishing") -> WriteOutcome:
    return rig.writer.submit(node_metadata("n1", {"ballast.dev/score": "7"}, {}, part=part, reason="busy"))


def own(**fields: Any) -> Write:
    return Write(
        kind="state",
        part=None,
        method="PATCH",
        path=NODE,
        target=WriteTarget("Node", "n1"),
        reason="test",
        body={"metadata": {"labels": {"a": "b"}}},
        **fields,
    )


def test_an_acting_part_writes_a_merge_patch_without_a_version(rig: WriterRig) -> None:
    outcome = label(rig)
    assert outcome.result is Result.DONE
    assert rig.api.writes == [("PATCH", NODE, {"metadata": {"labels": {"ballast.dev/score": "7"}}})]
    assert rig.counted("labels", "done") == 1
    assert rig.reported == [outcome]


def test_every_outcome_leaves_one_audit_line(rig: WriterRig) -> None:
    with capture_logs() as lines:
        label(rig)
        label(rig, part="power")
        label(rig, part="eviction")
    assert [(line["result"], line["part"]) for line in lines] == [
        ("done", "publishing"),
        ("dry-run", "power"),
        ("refused", "eviction"),
    ]


def test_dry_run_sends_nothing_and_makes_no_event_but_is_counted(rig: WriterRig) -> None:
    assert label(rig, part="power").result is Result.DRY_RUN
    assert rig.api.requests == []
    assert rig.reported == []
    assert rig.counted("labels", "dry-run") == 1


def test_a_part_that_is_off_or_unknown_is_refused(rig: WriterRig) -> None:
    assert "BALLAST_EVICTION__MODE" in label(rig, part="eviction").reason
    assert label(rig, part="nonsense").result is Result.REFUSED
    assert rig.api.requests == []


def test_only_the_leader_writes(rig: WriterRig) -> None:
    rig.leads = False
    assert label(rig).result is Result.REFUSED
    assert rig.writer.submit(own()).result is Result.REFUSED
    assert rig.writer.submit(own(leader_only=False)).result is Result.DONE
    assert rig.reported == []


def test_a_pause_refuses_parts_but_not_own_bookkeeping(rig: WriterRig) -> None:
    rig.pauses["publishing"] = "paused by key paused"
    assert label(rig).reason == "paused by key paused"
    assert rig.writer.submit(own()).result is Result.DONE


def test_leadership_lost_while_waiting_for_a_token_is_noticed() -> None:
    rig = writer_rig(qps=1, burst=1)
    label(rig)
    asked = iter([True, False])
    rig.writer._leading = lambda: next(asked, False)
    assert label(rig).result is Result.REFUSED
    assert len(rig.api.writes) == 1


def test_a_burst_then_the_rate() -> None:
    rig = writer_rig(qps=2, burst=3)
    began = rig.clock.monotonic()
    for _ in range(7):
        label(rig)
    assert rig.clock.monotonic() - began == pytest.approx(2.0)


def test_tokens_do_not_pile_up_while_nothing_is_written() -> None:
    rig = writer_rig(qps=2, burst=3)
    rig.clock.advance(1000.0)
    began = rig.clock.monotonic()
    for _ in range(7):
        label(rig)
    assert rig.clock.monotonic() - began == pytest.approx(2.0)


def test_a_refusal_of_api_fairness_is_tried_again_and_holds_no_other_write(rig: WriterRig) -> None:
    began = rig.clock.monotonic()
    took: list[float] = []

    def refuse(method: str, path: str, body: Any) -> None:
        if path == NODE and not took:
            took.append(0.0)
            assert rig.writer.submit(own(), deadline=rig.writer.within(0.0)).done
            raise TooManyRequests("busy")

    rig.api.before = refuse
    rig.writer._turn = threading.Semaphore(2)
    assert label(rig).result is Result.DONE
    assert rig.clock.monotonic() - began == PATIENCE
    assert rig.counted("labels", "done") == 1


@pytest.mark.parametrize("seconds", [1.5, 8.0, 100.0, 86_400.0, 1e12])
def test_who_is_asked_for_more_patience_fails_alone_at_once(seconds: float, rig: WriterRig) -> None:
    rig.api.before = raising(TooManyRequests("busy", retry_after=seconds), 1)
    began = rig.clock.monotonic()
    first, second = label(rig), rig.writer.submit(own(), deadline=rig.writer.within(0.0))
    assert (first.result, first.status, first.too_late, first.reason) == (Result.FAILED, 429, False, "busy")
    assert second.done
    assert rig.clock.monotonic() == began


def test_what_is_given_up_costs_no_token() -> None:
    rig = writer_rig(qps=0.1, burst=1)
    label(rig)
    write = node_metadata("n1", {"a": "b"}, {}, part="publishing", reason="busy")
    for _ in range(5):
        outcome = rig.writer.submit(write, deadline=rig.writer.within(5.0))
        assert (outcome.result, outcome.status, outcome.too_late) == (Result.REFUSED, 0, True)
    assert "BALLAST_CLUSTER__QPS" in outcome.reason
    assert rig.writer.submit(write, deadline=rig.writer.within(10.0)).done


def while_it_waits_for_its_turn(rig: WriterRig, happens: Callable[[], object]) -> None:
    """The next writes find their turn only after this has happened."""

    class Turn:
        def __enter__(self) -> None:
            happens()

        def __exit__(self, *_: object) -> None: ...

    rig.writer._turn = Turn()  # type: ignore[assignment]


def test_a_deadline_that_passed_behind_another_write_sends_nothing(rig: WriterRig) -> None:
    deadline = rig.writer.within(5.0)
    while_it_waits_for_its_turn(rig, lambda: rig.clock.advance(6.0))
    assert rig.writer.submit(own(), deadline=deadline).too_late
    assert rig.api.requests == []


def test_a_pause_that_comes_behind_another_write_sends_nothing(rig: WriterRig) -> None:
    while_it_waits_for_its_turn(rig, lambda: rig.pauses.update(publishing="paused by key paused"))
    assert label(rig).reason == "paused by key paused"
    assert rig.api.requests == []


def test_leadership_that_goes_behind_another_write_sends_nothing(rig: WriterRig) -> None:
    while_it_waits_for_its_turn(rig, lambda: setattr(rig, "leads", False))
    assert label(rig).result is Result.REFUSED
    assert rig.api.requests == []


def test_the_end_of_parts_that_comes_behind_another_write_stops_them_but_not_own_bookkeeping(rig: WriterRig) -> None:
    while_it_waits_for_its_turn(rig, rig.writer._finished.set)
    assert label(rig).reason == "Ballast is stopping"
    assert rig.api.requests == []
    assert rig.writer.submit(own()).done


def test_taints_have_a_deadline_too(rig: WriterRig) -> None:
    rig.writer._pace = Pace(rig.clock, 0.01, 1)
    assert rig.writer.submit(own()).done
    sent = list(rig.api.writes)
    outcome = replace_taints(
        rig.api,
        rig.writer,
        "n1",
        lambda taints: [*taints, {"key": "x"}],
        part="publishing",
        reason="t",
        deadline=rig.writer.within(27.0),
    )
    assert outcome.too_late
    assert rig.api.writes == sent


def test_an_api_server_that_stays_busy_fails_the_write(rig: WriterRig) -> None:
    rig.api.before = raising(TooManyRequests("busy", retry_after=1.0))
    outcome = label(rig)
    assert (outcome.result, outcome.status) == (Result.FAILED, 429)
    assert rig.counted("labels", "failed") == 1


@pytest.mark.parametrize("cause", [{"causes": ("DisruptionBudget",)}, {"admission": True}])
def test_a_disruption_budget_or_webhook_fails_this_write_alone(rig: WriterRig, cause: dict[str, Any]) -> None:
    asked: list[str] = []

    def refuse(method: str, *_: Any) -> None:
        asked.append(method)
        raise TooManyRequests("no", **cause)

    rig.api.before = refuse
    began = rig.clock.monotonic()
    assert label(rig).result is Result.FAILED
    assert asked == ["PATCH"]
    assert rig.clock.monotonic() == began


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (NotFound("x", status=404), Result.GONE),
        (ClusterError("x", status=500), Result.FAILED),
        (Unreachable("x"), Result.FAILED),
    ],
)
def test_refusals_of_the_server_become_outcomes(rig: WriterRig, error: ClusterError, result: Result) -> None:
    rig.api.before = raising(error)
    assert label(rig).result is result


def test_stop_ends_a_wait() -> None:
    rig = writer_rig(qps=0.001, burst=1)
    label(rig)
    rig.writer.stop()
    assert label(rig).reason == "Ballast is stopping"


def test_taints_are_patched_as_the_list_just_read() -> None:
    foreign = {"key": "gpu", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    own_taint = {"key": "ballast.dev/overloaded", "effect": "PreferNoSchedule"}
    rig = writer_rig(FakeApi({NODE: {"metadata": {"name": "n1"}, "spec": {"taints": [foreign]}}}))

    def add(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [taint for taint in taints if taint["key"] != own_taint["key"]] + [own_taint]

    outcome = replace_taints(rig.api, rig.writer, "n1", add, part="publishing", reason="overloaded")
    assert outcome.result is Result.DONE
    ((_, _, body),) = rig.api.writes
    assert body == {"metadata": {"resourceVersion": "101"}, "spec": {"taints": [foreign, own_taint]}}
    again = replace_taints(rig.api, rig.writer, "n1", add, part="publishing", reason="overloaded")
    assert again.done
    assert len(rig.api.writes) == 1


def test_a_conflict_is_read_again_a_few_times(rig: WriterRig) -> None:

    def interfere(method: str, path: str, body: Any) -> None:
        if method == "PATCH":
            rig.api._store(NODE, rig.api.objects[NODE])

    rig.api.before = interfere
    outcome = replace_taints(
        rig.api, rig.writer, "n1", lambda taints: [*taints, {"key": "x"}], part="publishing", reason="t"
    )
    assert outcome.result is Result.CONFLICT
    assert rig.counted("taint", "conflict") == 5


def test_a_node_that_vanished_is_gone() -> None:
    rig = writer_rig(FakeApi())
    assert replace_taints(rig.api, rig.writer, "n1", list, part="publishing", reason="t").result is Result.GONE


def test_parallel_taint_writers_lose_nothing() -> None:
    api = FakeApi({NODE: {"metadata": {"name": "n1"}, "spec": {}}})
    rigs = [writer_rig(api, burst=1000) for _ in range(4)]
    start = threading.Barrier(len(rigs))

    def work(number: int, rig: WriterRig) -> None:
        start.wait()
        for turn in range(8):
            taint = {"key": f"k{number}-{turn}", "effect": "PreferNoSchedule"}
            while not replace_taints(
                api, rig.writer, "n1", lambda taints, t=taint: [*taints, t], part="publishing", reason="t"
            ).done:
                pass

    threads = [threading.Thread(target=work, args=(number, rig)) for number, rig in enumerate(rigs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {taint["key"] for taint in api.objects[NODE]["spec"]["taints"]}
    assert found == {f"k{number}-{turn}" for number in range(4) for turn in range(8)}


PLENTY = 300


def path(number: int) -> str:
    return f"/apis/apps/v1/namespaces/shop/deployments/d{number}/scale"


class Emergency(WriterRig):
    def __init__(self, mode: str = "on") -> None:
        objects = {path(number): {"metadata": {}, "spec": {"replicas": 5}} for number in range(PLENTY)}
        super().__init__(FakeApi(objects), modes={"power": mode}, qps=1, burst=1)
        self.emergency = EmergencyWriter(self.writer)

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
        return self.emergency.each(
            [lambda writer, number=number: writer.submit(self.write(number)) for number in range(count)]
        )


def test_eight_writes_of_an_emergency_are_under_way_at_once() -> None:
    rig = Emergency()
    together = threading.Barrier(AT_ONCE)
    most, lock, now = [0], threading.Lock(), [0]

    def before(*_: Any) -> None:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        together.wait(HUNG)
        with lock:
            now[0] -= 1

    rig.api.before = before
    outcomes = rig.all(3 * AT_ONCE)
    assert all(outcome.done for outcome in outcomes)
    assert most == [AT_ONCE]
    assert [outcome.write.path for outcome in outcomes] == [path(number) for number in range(3 * AT_ONCE)]


def test_slow_writes_of_an_emergency_are_as_many_at_once_as_the_rate_needs() -> None:
    rig = Emergency()
    rig.api.before = lambda *_: rig.clock.advance(0.2)
    assert rig.all(1)[0].done
    together = threading.Barrier(20)
    rig.api.before = lambda *_: together.wait(HUNG)
    assert all(outcome.done for outcome in rig.all(20))
    rig.api.before = lambda *_: rig.clock.advance(60)
    assert rig.all(1)[0].done
    assert rig.emergency._at_once == MOST_AT_ONCE


def test_an_emergency_has_its_own_bucket() -> None:
    rig = Emergency()
    assert rig.writer.submit(rig.write(0)).done
    began = rig.clock.monotonic()
    assert all(outcome.done for outcome in rig.all(BURST))
    assert rig.clock.monotonic() == began
    assert len(rig.reported) == 1 + BURST


def test_an_emergency_has_the_checks_of_the_writer() -> None:
    rig = Emergency(mode="dry-run")
    assert {outcome.result for outcome in rig.all(3)} == {Result.DRY_RUN}
    rig.pauses["power"] = "paused by key paused.power"
    assert {outcome.reason for outcome in rig.all(3)} == {rig.pauses["power"]}
    rig.leads = False
    assert {outcome.result for outcome in rig.all(3)} == {Result.REFUSED}
    assert rig.api.writes == []
    assert rig.counted("scale", "refused") == 6


def test_an_emergency_finishes_with_the_writer() -> None:
    rig = Emergency()
    begun, finishing = threading.Semaphore(0), threading.Event()

    def before(*_: Any) -> None:
        begun.release()
        finishing.wait(HUNG)

    rig.api.before = before
    answers: list[list[WriteOutcome]] = []
    emergency = threading.Thread(target=lambda: answers.append(rig.all(PLENTY)))
    emergency.start()
    for _ in range(AT_ONCE):
        assert begun.acquire(timeout=HUNG)
    ending = threading.Thread(target=rig.writer.finish, args=[10.0])
    ending.start()
    while not rig.writer._finished.is_set():
        ending.join(0.01)
    finishing.set()
    ending.join(HUNG)
    emergency.join(HUNG)
    done = [outcome for outcome in answers[0] if outcome.done]
    assert len(rig.api.writes) == len(done) == AT_ONCE


@given(
    qps=st.sampled_from([0.5, 1.0, 20.0]),
    burst=st.integers(1, 50),
    gaps=st.lists(st.floats(0, 5, allow_nan=False), max_size=80),
)
def test_no_stretch_of_time_holds_more_than_burst_and_rate_allow(qps: float, burst: int, gaps: list[float]) -> None:
    clock, stop = FakeClock(), threading.Event()
    pace = Pace(clock, qps, burst)
    went: list[float] = []
    for gap in gaps:
        clock.advance(gap)
        assert pace.wait(stop)
        went.append(clock.monotonic())
    for first in range(len(went)):
        for last in range(first, len(went)):
            assert last - first + 1 <= burst + qps * (went[last] - went[first]) + 1e-6


def test_stop_ends_the_wait_for_the_pace() -> None:
    clock, stop = FakeClock(), threading.Event()
    pace = Pace(clock, 1, 1)
    assert pace.wait(stop)
    stop.set()
    assert not pace.wait(stop)
