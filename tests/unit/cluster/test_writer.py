import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from ballast.base.errors import ClusterError, NotFound, TooManyRequests, Unreachable
from ballast.base.metrics import Metrics
from ballast.cluster.node_writes import node_metadata, replace_taints
from ballast.cluster.write import Result, Write, WriteOutcome, WriteTarget
from ballast.cluster.writer import Pace, Writer
from tests.worlds.clock import FakeClock
from tests.worlds.kube_api import FakeApi

NODE = "/api/v1/nodes/n1"


class Rig:
    """A writer on a fake API whose rights the test turns."""

    def __init__(self, api: FakeApi | None = None, *, qps: float = 20, burst: int = 40) -> None:
        self.api = api or FakeApi({NODE: {"metadata": {"name": "n1"}, "spec": {}}})
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.modes = {"publishing": "on", "power": "dry-run", "eviction": "off"}
        self.pauses: dict[str, str] = {}
        self.leads = True
        self.reported: list[WriteOutcome] = []
        self.writer = Writer(
            self.api,
            self.clock,
            self.metrics,
            pace=Pace(self.clock, qps, burst),
            modes=self.modes,
            paused=lambda part: self.pauses.get(part),
            leading=lambda: self.leads,
            events=self,
        )

    def report(self, outcome: WriteOutcome) -> None:
        self.reported.append(outcome)

    def label(self, value: str = "7", part: str = "publishing") -> WriteOutcome:
        return self.writer.submit(node_metadata("n1", {"ballast.dev/score": value}, {}, part=part, reason="busy"))

    def counted(self, kind: str, result: str) -> float | None:
        return self.metrics.registry.get_sample_value("ballast_writes_total", {"kind": kind, "result": result})


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


def test_an_acting_part_writes_a_merge_patch_without_a_version() -> None:
    rig = Rig()
    outcome = rig.label()
    assert outcome.result is Result.DONE
    assert rig.api.writes == [("PATCH", NODE, {"metadata": {"labels": {"ballast.dev/score": "7"}}})]
    assert rig.counted("labels", "done") == 1
    assert rig.reported == [outcome]


def test_every_outcome_leaves_one_audit_line() -> None:
    rig = Rig()
    with capture_logs() as lines:
        rig.label()
        rig.label(part="power")
        rig.label(part="eviction")
    assert [(line["result"], line["part"]) for line in lines] == [
        ("done", "publishing"),
        ("dry-run", "power"),
        ("refused", "eviction"),
    ]


def test_dry_run_sends_nothing_and_makes_no_event_but_is_counted() -> None:
    rig = Rig()
    assert rig.label(part="power").result is Result.DRY_RUN
    assert rig.api.requests == []
    assert rig.reported == []
    assert rig.counted("labels", "dry-run") == 1


def test_a_part_that_is_off_or_unknown_is_refused() -> None:
    rig = Rig()
    assert "BALLAST_EVICTION__MODE" in rig.label(part="eviction").reason
    assert rig.label(part="nonsense").result is Result.REFUSED
    assert rig.api.requests == []


def test_only_the_leader_writes() -> None:
    rig = Rig()
    rig.leads = False
    assert rig.label().result is Result.REFUSED
    assert rig.writer.submit(own()).result is Result.REFUSED
    assert rig.writer.submit(own(leader_only=False)).result is Result.DONE
    assert rig.reported == []


def test_a_pause_refuses_parts_but_not_own_bookkeeping() -> None:
    rig = Rig()
    rig.pauses["publishing"] = "paused by key paused"
    assert rig.label().reason == "paused by key paused"
    assert rig.writer.submit(own()).result is Result.DONE


def test_leadership_lost_while_waiting_for_a_token_is_noticed() -> None:
    rig = Rig(qps=1, burst=1)
    rig.label()
    asked = iter([True, False])
    rig.writer._leading = lambda: next(asked, False)
    assert rig.label().result is Result.REFUSED
    assert len(rig.api.writes) == 1


def test_a_burst_then_the_rate() -> None:
    rig = Rig(qps=2, burst=3)
    began = rig.clock.monotonic()
    for _ in range(7):
        rig.label()
    assert rig.clock.monotonic() - began == pytest.approx(2.0)


def test_a_refusal_of_api_fairness_makes_every_write_wait_and_is_tried_again() -> None:
    rig = Rig()
    answers = iter([TooManyRequests("busy", retry_after=7.0)])

    def before(*_: object) -> None:
        for error in answers:
            raise error

    rig.api.before = before
    began = rig.clock.monotonic()
    assert rig.label().result is Result.DONE
    assert rig.clock.monotonic() - began >= 7.0
    assert rig.counted("labels", "done") == 1


def busy(rig: Rig, seconds: float) -> None:
    def before(*_: object) -> None:
        raise TooManyRequests("busy", retry_after=seconds)

    rig.api.before = before


def test_a_hold_beyond_the_deadline_gives_up_at_once() -> None:
    rig = Rig()
    busy(rig, 100.0)
    began = rig.clock.monotonic()
    write = node_metadata("n1", {"a": "b"}, {}, part="publishing", reason="busy")
    first, second = (rig.writer.submit(write, deadline=rig.writer.within(27.0)) for _ in range(2))
    assert rig.clock.monotonic() == began
    assert (first.result, first.status, first.too_late) == (Result.FAILED, 429, True)
    assert first.reason == "busy; held back by the API server until 22:15:00 UTC"
    assert (second.result, second.status, second.too_late) == (Result.REFUSED, 429, True)
    assert second.reason == "held back by the API server until 22:15:00 UTC"
    assert rig.api.requests == []
    rig.api.before = lambda *_: None
    rig.clock.advance(80.0)
    assert rig.writer.submit(write, deadline=rig.writer.within(27.0)).done
    assert rig.clock.monotonic() == began + 100.0


def test_what_is_given_up_costs_no_token() -> None:
    rig = Rig(qps=0.1, burst=1)
    rig.label()
    write = node_metadata("n1", {"a": "b"}, {}, part="publishing", reason="busy")
    for _ in range(5):
        outcome = rig.writer.submit(write, deadline=rig.writer.within(5.0))
        assert (outcome.result, outcome.status, outcome.too_late) == (Result.REFUSED, 0, True)
    assert "BALLAST_CLUSTER__QPS" in outcome.reason
    assert rig.writer.submit(write, deadline=rig.writer.within(10.0)).done


def test_a_deadline_that_passed_behind_another_write_sends_nothing() -> None:
    rig = Rig()
    deadline = rig.writer.within(5.0)

    class Turn:
        def __enter__(self) -> None:
            rig.clock.advance(6.0)

        def __exit__(self, *_: object) -> None: ...

    rig.writer._turn = Turn()  # type: ignore[assignment]
    assert rig.writer.submit(own(), deadline=deadline).too_late
    assert rig.api.requests == []


def test_taints_have_a_deadline_too() -> None:
    rig = Rig()
    rig.writer._pace.hold(100.0)
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
    assert rig.api.writes == []


def test_an_api_server_that_stays_busy_fails_the_write() -> None:
    rig = Rig()

    def before(*_: object) -> None:
        raise TooManyRequests("busy", retry_after=1.0)

    rig.api.before = before
    outcome = rig.label()
    assert (outcome.result, outcome.status) == (Result.FAILED, 429)
    assert rig.counted("labels", "failed") == 1


def test_a_disruption_budget_fails_this_write_alone() -> None:
    rig = Rig()

    def before(*_: object) -> None:
        raise TooManyRequests("no", causes=("DisruptionBudget",))

    rig.api.before = before
    began = rig.clock.monotonic()
    assert rig.label().result is Result.FAILED
    assert rig.clock.monotonic() == began


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (NotFound("x", status=404), Result.GONE),
        (ClusterError("x", status=500), Result.FAILED),
        (Unreachable("x"), Result.FAILED),
    ],
)
def test_refusals_of_the_server_become_outcomes(error: ClusterError, result: Result) -> None:
    rig = Rig()

    def before(*_: object) -> None:
        raise error

    rig.api.before = before
    assert rig.label().result is result


def test_stop_ends_a_wait() -> None:
    rig = Rig(qps=0.001, burst=1)
    rig.label()
    rig.writer.stop()
    assert rig.label().reason == "Ballast is stopping"


def test_taints_are_patched_as_the_list_just_read() -> None:
    foreign = {"key": "gpu", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    own_taint = {"key": "ballast.dev/overloaded", "effect": "PreferNoSchedule"}
    rig = Rig(FakeApi({NODE: {"metadata": {"name": "n1"}, "spec": {"taints": [foreign]}}}))

    def add(taints: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [taint for taint in taints if taint["key"] != own_taint["key"]] + [own_taint]

    outcome = replace_taints(rig.api, rig.writer, "n1", add, part="publishing", reason="overloaded")
    assert outcome.result is Result.DONE
    ((_, _, body),) = rig.api.writes
    assert body == {"metadata": {"resourceVersion": "101"}, "spec": {"taints": [foreign, own_taint]}}
    again = replace_taints(rig.api, rig.writer, "n1", add, part="publishing", reason="overloaded")
    assert again.done
    assert len(rig.api.writes) == 1


def test_a_conflict_is_read_again_a_few_times() -> None:
    rig = Rig()

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
    rig = Rig(FakeApi())
    assert replace_taints(rig.api, rig.writer, "n1", list, part="publishing", reason="t").result is Result.GONE


def test_parallel_taint_writers_lose_nothing() -> None:
    api = FakeApi({NODE: {"metadata": {"name": "n1"}, "spec": {}}})
    rigs = [Rig(api, burst=1000) for _ in range(4)]
    start = threading.Barrier(len(rigs))

    def work(number: int, rig: Rig) -> None:
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
