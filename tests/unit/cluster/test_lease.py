from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.base.clock import SystemClock
from ballast.base.errors import Forbidden, Unreachable
from ballast.base.metrics import Metrics
from ballast.cluster.lease import AlwaysLeader, Elector, read_lease
from tests.fakes import FakeClock
from tests.properties import examples
from tests.unit.cluster.fake_api import FakeApi

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/ballast"


def elector(
    api: Any, clock: Any, identity: str, on_gain: Callable[[], Any] = int, on_loss: Callable[[], Any] = int
) -> Elector:
    found = Elector(api, clock, Metrics(), namespace="ns", name="ballast", identity=identity)
    found.subscribe(on_gain, on_loss)
    return found


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
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 1


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
    api, gained = FakeApi(), threading.Event()
    leader = elector(api, SystemClock(), "a", on_gain=gained.set)
    leader.start()
    assert gained.wait(60)
    leader.stop()
    assert api.objects[PATH]["spec"]["holderIdentity"] == ""


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
    alone = AlwaysLeader(Metrics())
    alone.subscribe(lambda: told.append("gain"), lambda: told.append("loss"))
    assert not alone.is_leader()
    alone.start()
    assert alone.is_leader()
    alone.stop()
    assert not alone.is_leader()
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
