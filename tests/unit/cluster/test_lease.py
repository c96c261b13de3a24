import math
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from ballast.base.clock import SystemClock
from ballast.base.errors import Conflict, Forbidden, Unreachable
from ballast.base.metrics import Metrics
from ballast.cluster.lease import AlwaysLeader, Elector, LeaseTimes, read_lease
from ballast.cluster.state import StateAge
from ballast.cluster.write import Result, WriteOutcome, WriteTarget
from ballast_lab.harness.waiting import HUNG
from tests.properties import examples
from tests.worlds.clock import FakeClock
from tests.worlds.kube_api import FakeApi

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/ballast"


def elector(
    api: Any, clock: Any, identity: str, on_gain: Callable[[], Any] = int, on_loss: Callable[[], Any] = int
) -> Elector:
    found = Elector(api, clock, Metrics(), namespace="ns", name="ballast", identity=identity)
    found.subscribe(on_gain, on_loss)
    return found


def gauge(metrics: Metrics) -> float:
    return next(iter(metrics.leader.collect())).samples[0].value


def test_the_first_creates_the_lease_and_the_second_waits() -> None:
    api, clock = FakeApi(), FakeClock()
    first, second = elector(api, clock, "a"), elector(api, clock, "b")
    first.tick()
    second.tick()
    assert (first.is_leader(), second.is_leader()) == (True, False)
    assert second.holder() == "a"
    spec = api.objects[PATH]["spec"]
    assert spec["holderIdentity"] == "a"
    assert spec["leaseDurationSeconds"] == 15
    assert spec["leaseTransitions"] == 0
    assert spec["renewTime"] == spec["acquireTime"] == "2023-11-14T22:13:20.000000Z"


def test_renewals_keep_it_and_the_time_of_acquisition() -> None:
    api, clock = FakeApi(), FakeClock()
    first, second = elector(api, clock, "a"), elector(api, clock, "b")
    for _ in range(30):
        first.tick()
        second.tick()
        clock.advance(2)
    assert first.is_leader()
    assert not second.is_leader()
    spec = api.objects[PATH]["spec"]
    assert spec["acquireTime"] < spec["renewTime"]
    assert spec["leaseTransitions"] == 0


def test_a_silent_holder_is_replaced_after_the_duration_by_our_own_clock() -> None:
    api, clock = FakeApi(), FakeClock()
    first, second = elector(api, clock, "a"), elector(api, clock, "b")
    first.tick()
    second.tick()
    clock.step_wall(1e6)
    second.tick()
    assert not second.is_leader()
    clock.advance(14.9)
    second.tick()
    assert not second.is_leader()
    assert not first.is_leader()
    clock.advance(0.1)
    second.tick()
    assert second.is_leader()
    spec = api.objects[PATH]["spec"]
    assert (spec["leaseTransitions"], spec["acquireTime"]) == (1, spec["renewTime"])


@pytest.mark.parametrize("renewals", [0, 1, 3])
def test_leading_counts_from_the_sending_however_late_the_answer(renewals: int) -> None:
    api, clock = FakeApi(), FakeClock()
    leader = elector(api, clock, "a")
    api.after = lambda *_: clock.advance(4.0)
    for _ in range(renewals + 1):
        sent = clock.monotonic()
        leader.tick()
    clock.advance(sent + 9.9 - clock.monotonic())
    assert leader.is_leader()
    clock.advance(0.1)
    assert not leader.is_leader()


def test_an_answer_that_comes_after_the_deadline_makes_no_leader() -> None:
    api, clock, told = FakeApi(), FakeClock(), list[str]()
    leader = elector(api, clock, "a", on_gain=lambda: told.append("gain"))
    api.after = lambda *_: clock.advance(10.0)
    leader.tick()
    assert not leader.is_leader()
    assert told == []


def test_who_reads_another_holder_leads_no_more() -> None:
    api, clock, told = FakeApi(), FakeClock(), list[str]()
    leader = elector(api, clock, "a", on_loss=lambda: told.append("loss"))
    leader.tick()
    api.request("PATCH", PATH, body={"metadata": {}, "spec": {"holderIdentity": "b"}})
    leader.tick()
    assert not leader.is_leader()
    assert told == ["loss"]
    assert api.objects[PATH]["spec"]["holderIdentity"] == "b"


def test_who_is_stopped_while_it_reads_takes_no_lease() -> None:
    api, clock = FakeApi(), FakeClock()
    leader = elector(api, clock, "a")
    api.before = lambda *_: leader._stop.set()
    leader.tick()
    assert api.writes == []
    assert not leader.is_leader()


def test_a_paused_process_wakes_up_fenced() -> None:
    api, clock = FakeApi(), FakeClock()
    losses: list[str] = []
    first = elector(api, clock, "a", on_loss=lambda: losses.append("a"))
    second = elector(api, clock, "b")
    first.tick()
    second.tick()
    clock.advance(16)
    assert not first.is_leader()
    second.tick()
    assert second.is_leader()
    first.tick()
    assert not first.is_leader()
    assert losses == ["a"]
    assert api.objects[PATH]["spec"]["holderIdentity"] == "b"
    requests = len(api.requests)
    first.tick()
    assert [method for method, _, _ in api.requests[requests:]] == ["GET"]


def test_a_failing_api_ends_leadership_at_the_deadline_and_regains_it() -> None:
    api, clock = FakeApi(), FakeClock()
    told: list[str] = []
    leader = elector(api, clock, "a", on_gain=lambda: told.append("gain"), on_loss=lambda: told.append("loss"))
    leader.tick()

    def fail(*_: object) -> None:
        raise Unreachable("down")

    api.before = fail
    for _ in range(6):
        clock.advance(2)
        leader.tick()
    assert told == ["gain", "loss"]
    assert leader.problem == "down"
    api.before = lambda *_: None
    leader.tick()
    assert told == ["gain", "loss", "gain"]
    assert leader.problem is None


def test_someone_touching_the_lease_does_not_cost_leadership() -> None:
    api, clock = FakeApi(), FakeClock()
    leader = elector(api, clock, "a")
    leader.tick()
    api.request("PATCH", PATH, body={"metadata": {"annotations": {"by": "a person"}}})
    clock.advance(2)
    leader.tick()
    assert leader.is_leader()
    assert api.objects[PATH]["metadata"]["annotations"] == {"by": "a person"}


def test_stop_gives_the_lease_back() -> None:
    api, clock = FakeApi(), FakeClock()
    losses: list[str] = []
    first, second = elector(api, clock, "a", on_loss=lambda: losses.append("a")), elector(api, clock, "b")
    first.tick()
    second.tick()
    first.stop()
    assert losses == ["a"]
    assert not first.is_leader()
    spec = api.objects[PATH]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
    writes = len(api.writes)
    first.stop()
    assert len(api.writes) == writes
    second.tick()
    assert second.is_leader()
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 1


def test_giving_the_lease_back_waits_but_a_moment_for_the_answer() -> None:
    waits: list[float] = []

    class Slow(FakeApi):
        def request(self, method: str, path: str, *, timeout: float | None = None, **more: Any) -> bytes:
            waits.append(timeout or math.inf)
            return super().request(method, path, timeout=timeout, **more)

    leader = elector(Slow(), FakeClock(), "a")
    leader.tick()
    leader.stop()
    assert waits[-1] <= 3.0


def test_stop_without_the_lease_writes_nothing() -> None:
    api, clock = FakeApi(), FakeClock()
    first, second = elector(api, clock, "a"), elector(api, clock, "b")
    first.tick()
    second.tick()
    before = len(api.writes)
    second.stop()
    assert len(api.writes) == before


def test_missing_rights_are_a_problem_not_an_end() -> None:
    api, clock = FakeApi(), FakeClock()

    def refuse(*_: object) -> None:
        raise Forbidden("Ballast needs verb `get` on `leases`")

    api.before = refuse
    leader = elector(api, clock, "a")
    leader.tick()
    assert leader.problem == "Ballast needs verb `get` on `leases`"
    assert not leader.is_leader()


def test_the_thread_acquires_and_stops() -> None:
    api, gained, threads = FakeApi(), threading.Event(), []

    def gain() -> None:
        threads.append(threading.current_thread())
        gained.set()

    leader = elector(api, SystemClock(), "a", on_gain=gain)
    leader.start()
    assert gained.wait(HUNG)
    leader.stop()
    assert api.objects[PATH]["spec"]["holderIdentity"] == ""
    assert [(thread.name, thread.daemon) for thread in threads] == [("lease", True)]


def test_stop_does_not_wait_for_an_attempt_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ballast.cluster.lease.STOP_PATIENCE", 0.01)
    api, sent, answered = FakeApi(), threading.Event(), threading.Event()
    api.before = lambda *_: (sent.set(), answered.wait(HUNG))
    leader = elector(api, SystemClock(), "a")
    leader.start()
    assert sent.wait(HUNG)
    leader.stop()
    assert api.requests == []
    answered.set()


def test_the_lease_can_be_read_by_others() -> None:
    api, clock = FakeApi(), FakeClock()
    assert read_lease(api, "ns", "ballast") is None
    elector(api, clock, "a").tick()
    found = read_lease(api, "ns", "ballast")
    assert found is not None
    assert found.holder_identity == "a"
    assert found.renew_time is not None
    assert found.renew_time.timestamp() == clock.wall()


def test_without_a_lease_this_replica_leads_while_it_runs() -> None:
    told: list[str] = []
    metrics = Metrics()
    alone = AlwaysLeader(metrics)
    alone.subscribe(lambda: told.append("gain"), lambda: told.append("loss"))
    assert alone.standing_by() == "standing by: this replica does not lead"
    alone.start()
    assert (alone.is_leader(), alone.standing_by(), gauge(metrics)) == (True, None, 1.0)
    alone.stop()
    assert (alone.is_leader(), gauge(metrics)) == (False, 0.0)
    assert told == ["gain", "loss"]


class Time:
    def __init__(self) -> None:
        self.now = 0.0


class SkewedClock:
    """The common time as one machine sees it: another zero, another wall."""

    speed = 1.0

    def __init__(self, time: Time, offset: float, wall: float) -> None:
        self._time, self._offset, self._wall = time, offset, wall

    def wall(self) -> float:
        return self._time.now + self._wall

    def monotonic(self) -> float:
        return self._time.now + self._offset

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        raise AssertionError("electors do not wait in this test")


@st.composite
def schedules(draw: st.DrawFn) -> list[tuple[Any, ...]]:
    delay = st.sampled_from([0.0, 1.0, 4.9, 9.9, 15.0, 16.0])
    tick = st.tuples(
        st.just("tick"),
        st.integers(0, 2),
        delay,
        st.booleans(),
        delay,
        st.booleans(),
        st.integers(-1, 2),
        st.integers(-1, 2),
    )
    return draw(st.lists(st.one_of(tick, st.tuples(st.just("advance"), delay)), max_size=40))


@examples(300)
@given(schedule=schedules(), walls=st.tuples(*[st.floats(0, 2e9)] * 3))
def test_two_never_lead_at_once_whatever_is_delayed_or_lost(
    schedule: list[tuple[Any, ...]], walls: tuple[float, float, float]
) -> None:
    time, api = Time(), FakeApi()
    electors = [elector(api, SkewedClock(time, 1000.0 * n, walls[n]), f"e{n}") for n in range(3)]

    def check() -> None:
        assert sum(each.is_leader() for each in electors) <= 1

    def advance(seconds: float) -> None:
        time.now += seconds
        check()

    busy: set[int] = set()

    def tick(who: int, before: float, lost: bool, after: float, unheard: bool, during: int, then: int) -> None:
        """A request travels `before` long or is lost, its answer `after` long or is unheard; others act meanwhile."""
        if who in busy:
            return
        busy.add(who)

        def plain(other: int) -> None:
            if other >= 0 and other not in busy:
                hooks = api.before, api.after
                api.before = api.after = lambda *_: None
                electors[other].tick()
                api.before, api.after = hooks
                check()

        def on_way(*_: object) -> None:
            advance(before)
            plain(during)
            if lost:
                raise Unreachable("lost")

        def on_return(*_: object) -> None:
            plain(then)
            advance(after)
            plain(then)
            if unheard:
                raise Unreachable("unheard")

        api.before, api.after = on_way, on_return
        electors[who].tick()
        api.before = api.after = lambda *_: None
        busy.discard(who)
        check()

    for step in schedule:
        if step[0] == "advance":
            advance(step[1])
        else:
            tick(*step[1:])
    for _ in range(20):
        advance(2.0)
        electors[0].tick()
    assert electors[0].is_leader()


@pytest.mark.parametrize("body", [b"{}", b'{"spec":{}}'])
def test_a_lease_without_a_holder_can_be_read(body: bytes) -> None:
    class Api:
        def get(self, path: str) -> bytes:
            return msgspec.json.encode({"metadata": {}, **msgspec.json.decode(body)})

    found = read_lease(Api(), "ns", "ballast")
    assert found is not None
    assert found.holder_identity is None


class Recording(FakeApi):
    """Keeps the query and the timeout of each request too."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str, Any, float | None]] = []

    def request(self, method: str, path: str, *, query: Any = None, timeout: float | None = None, **more: Any) -> bytes:
        self.asked.append((method, path, query, timeout))
        return super().request(method, path, query=query, timeout=timeout, **more)


def a_lease(holder: str, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "ballast", "namespace": "ns"}
    return {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseTransitions": 4, **spec}}


@pytest.mark.parametrize(("duration", "free_after"), [(40, 40.0), (5, 15.0), (None, 15.0)])
def test_a_holder_of_a_longer_lease_keeps_it_that_long(duration: int | None, free_after: float) -> None:
    api, clock = FakeApi({PATH: a_lease("other", leaseDurationSeconds=duration)}), FakeClock()
    second = elector(api, clock, "b")
    second.tick()
    clock.advance(free_after - 0.1)
    second.tick()
    assert not second.is_leader()
    assert second.holder() == "other"
    clock.advance(0.1)
    second.tick()
    assert second.is_leader()
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 5


def test_each_write_of_the_lease_is_whole_named_and_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes: list[tuple[WriteOutcome, bool]] = []
    monkeypatch.setattr(
        "ballast.cluster.lease.record", lambda metrics, outcome, routine=False: outcomes.append((outcome, routine))
    )
    api, clock = Recording(), FakeClock()
    leader = elector(api, clock, "a")
    leader.tick()
    clock.advance(2)
    leader.tick()
    leader.stop()
    manager = {"fieldManager": "ballast"}
    collection = PATH.rpartition("/")[0]
    assert api.asked == [
        ("GET", PATH, None, 5.0),
        ("POST", collection, manager, 5.0),
        ("PUT", PATH, manager, 5.0),
        ("PUT", PATH, manager, 2.0),
    ]
    created, renewed, released = (body for _, _, body in api.writes)
    assert {key: created[key] for key in ("apiVersion", "kind", "metadata")} == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "ballast", "namespace": "ns"},
    }
    assert renewed["spec"]["renewTime"] > created["spec"]["renewTime"] == renewed["spec"]["acquireTime"]
    assert released["spec"] == {
        **renewed["spec"], "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": renewed["spec"]["renewTime"]
    }  # fmt: skip
    assert [outcome.write.reason for outcome, _ in outcomes] == ["acquired", "renewed", "released"]
    assert [routine for _, routine in outcomes] == [False, True, False]
    for (outcome, _), method in zip(outcomes, ("POST", "PUT", "PUT"), strict=True):
        write = outcome.write
        assert (write.kind, write.part, write.method, outcome.result) == ("lease", None, method, Result.DONE)
        assert write.target == WriteTarget("Lease", "ballast", "ns", api_version="coordination.k8s.io/v1")
        assert outcome.body


@pytest.mark.parametrize(("error", "result"), [(Conflict("taken"), Result.CONFLICT), (Unreachable("x"), Result.FAILED)])
def test_a_write_that_fails_is_recorded_with_its_reason(
    error: Exception, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[WriteOutcome] = []
    monkeypatch.setattr(
        "ballast.cluster.lease.record", lambda metrics, outcome, routine=False: outcomes.append(outcome)
    )
    api = FakeApi()

    def fail(method: str, *_: object) -> None:
        if method != "GET":
            raise error

    api.before = fail
    elector(api, FakeClock(), "a").tick()
    assert [(outcome.result, outcome.reason) for outcome in outcomes] == [(result, str(error))]


def test_trouble_is_logged_once_and_each_change_of_the_leader() -> None:
    api, clock = FakeApi(), FakeClock()
    leader = elector(api, clock, "a")
    with capture_logs() as lines:
        leader.tick()
        api.before = raising(Unreachable("down"))
        for _ in range(6):
            clock.advance(2)
            leader.tick()
        leader.stop()
    told = [{key: value for key, value in line.items() if key != "logger"} for line in lines]
    assert {"event": "leading", "identity": "a", "log_level": "info"} in told
    assert {"event": "no longer leading", "identity": "a", "log_level": "info"} in told
    renewal = {"event": "cannot renew or acquire the Lease; trying again", "problem": "down", "log_level": "warning"}
    assert told.count(renewal) == 1
    back = "the Lease could not be given back; others wait until it expires"
    assert {"event": back, "problem": "down", "log_level": "warning"} in told


def raising(error: Exception) -> Callable[..., None]:
    def refuse(*_: object) -> None:
        raise error

    return refuse


class Waiting(FakeClock):
    """Keeps for how long it was waited, and stops after some waits."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self._most = most

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        self.waits.append(timeout)
        if len(self.waits) >= self._most:
            event.set()
        return super().wait(event, timeout)


def test_attempts_are_two_seconds_apart_and_never_miss_the_deadline() -> None:
    api, clock = FakeApi(), Waiting(12)
    leader = elector(api, clock, "a")
    leader._run()
    assert all(wait is not None and 2.0 <= wait <= 2.4 for wait in clock.waits)
    assert leader.beat is not None
    api.before, clock = raising(Unreachable("down")), Waiting(7)
    late = elector(FakeApi(), clock, "b")
    late.tick()
    late._api = api  # type: ignore[assignment]
    late._run()
    assert sum(wait or 0.0 for wait in clock.waits[:5]) == pytest.approx(10.0)
    assert all(wait is not None and 0 < wait <= 2.4 for wait in clock.waits)


def test_a_tick_that_breaks_does_not_end_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Waiting(3)
    leader = elector(FakeApi(), clock, "a")
    monkeypatch.setattr(leader, "tick", raising(RuntimeError("bug")))
    with capture_logs() as lines:
        leader._run()
    assert [line["event"] for line in lines] == ["the elector failed unexpectedly; trying again"] * 3


def test_leadership_ends_at_the_deadline_itself_and_the_metric_follows() -> None:
    api, clock, metrics = FakeApi(), FakeClock(), Metrics()
    leader = Elector(api, clock, metrics, namespace="ns", name="ballast", identity="a")
    assert (leader.holder(), leader.is_leader(), gauge(metrics)) == ("", False, 0.0)
    leader.tick()
    assert (leader.holder(), leader.is_leader(), gauge(metrics)) == ("a", True, 1.0)
    clock.advance(10.0)
    assert not leader.is_leader()
    api.before = raising(Unreachable("down"))
    leader.tick()
    assert gauge(metrics) == 0.0


@pytest.mark.parametrize(("duration", "seconds"), [(0.4, 1), (1.0, 1), (2.6, 3)])
def test_the_duration_is_written_in_whole_seconds_and_the_time_in_utc(
    duration: float, seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, times = FakeApi(), LeaseTimes(duration=duration)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        Elector(api, FakeClock(), Metrics(), namespace="ns", name="ballast", identity="a", times=times).tick()
    time.tzset()
    spec = api.objects[PATH]["spec"]
    assert (spec["leaseDurationSeconds"], spec["renewTime"]) == (seconds, "2023-11-14T22:13:20.000000Z")


@pytest.mark.parametrize(
    ("holder", "problem", "words"),
    [
        ("", None, "nobody yet holds the Lease"),
        ("b", None, "b holds the Lease"),
        ("b", "down", "b holds the Lease; down"),
        ("a", "down", "this replica held the Lease until its renewals failed; down"),
    ],
)
def test_a_standby_says_who_leads_instead(holder: str, problem: str | None, words: str) -> None:
    replica = elector(FakeApi(), FakeClock(), "a")
    replica._holder, replica.problem = holder, problem
    assert replica.standing_by() == f"standing by: {words}"


def test_a_foreign_lease_of_years_is_waited_for_five_minutes_and_told() -> None:
    api, clock = FakeApi({PATH: a_lease("other", leaseDurationSeconds=10**8)}), FakeClock()
    waiting = elector(api, clock, "a")
    waiting.tick()
    assert waiting.problem is not None
    assert "of other asks others to wait 100000000 s; 300 s count" in waiting.problem
    clock.advance(299)
    waiting.tick()
    assert not waiting.is_leader()
    clock.advance(1)
    waiting.tick()
    assert waiting.is_leader()
    assert waiting.problem is None


def test_the_lease_tells_how_often_the_state_was_saved() -> None:
    api, clock = FakeApi(), FakeClock()
    saved, read = StateAge(), StateAge()
    saved.see("7")
    times = {"namespace": "ns", "name": "ballast"}
    first = Elector(api, clock, Metrics(), identity="a", age=saved, **times)  # type: ignore[arg-type]
    second = Elector(api, clock, Metrics(), identity="b", age=read, **times)  # type: ignore[arg-type]
    first.tick()
    second.tick()
    assert api.objects[PATH]["metadata"]["annotations"] == {"ballast.dev/state-saves": "7"}
    assert read.saves == 7
