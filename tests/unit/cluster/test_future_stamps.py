"""Times of the future in `ballast-state` count as now, once, with a sentence; nothing waits until then."""

import json
from typing import Any

import msgspec
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from ballast.actuation.eviction.records import (
    HISTORY,
    PLANS,
    RESERVATIONS,
    TALLY,
    Journal,
    Running,
    StepRecord,
    StepStatus,
)
from ballast.cluster.ledger_book import KEY, LedgerBook, saved_ledger
from ballast.cluster.state import SAVES, SET_BACK, UNREADABLE, StateAge, StateStore
from ballast.eviction.recent_evictions import LOOP, STOP_FOR, PastEviction, RecentEvictions
from ballast.jobs.power.store import PowerStore
from ballast.model.duration import DAY
from ballast.model.ledger import Ledger
from ballast.model.stamps import Stamps
from ballast.power.controller_state import ControllerState, EnergyMeter, Ramp
from tests.worlds.clock import FakeClock
from tests.worlds.writing import WriterRig

STATE = "/api/v1/namespaces/ns/configmaps/ballast-state"
NOW = 1_700_000_000.0
FUTURES = st.floats(NOW + 100, 1e15) | st.sampled_from([NOW + 3600, 4_102_444_800.0, 253_402_300_799.0, 1e300])
WEB = ("shop", "Deployment", "web")


class Kept:
    """A `ballast-state` with these keys."""

    def __init__(self, **keys: str) -> None:
        self.rig, self.clock = WriterRig(modes={}), FakeClock(wall=NOW)
        self.put({"schema": "1", **keys})

    def put(self, keys: dict[str, str]) -> None:
        meta = {"name": "ballast-state", "namespace": "ns", "resourceVersion": "1"}
        self.rig.api.objects[STATE] = {"metadata": meta, "data": keys}

    @property
    def data(self) -> dict[str, str]:
        return dict(self.rig.api.objects[STATE]["data"])

    def store(self, age: StateAge | None = None) -> StateStore:
        return StateStore(self.rig.api, self.rig.writer, "ns", self.clock, age)  # type: ignore[arg-type]


@given(FUTURES.map(int).filter(lambda at: at < 10**15))
def test_a_set_back_of_the_future_was_noticed_now_and_does_not_move_on(at: int) -> None:
    kept = Kept(**{SET_BACK: str(at), SAVES: "9"})
    store = kept.store()
    store.check_age()
    assert store.set_back == NOW
    kept.clock.advance(90)
    store.check_age()
    store.read()
    assert store.set_back == NOW
    [(when, sentence)] = store.ahead.values()
    assert when == NOW
    assert "key set-back of ConfigMap ns/ballast-state has times later than now" in sentence
    assert store.update(lambda keys: {**keys, "plan": "x"}, reason="a test").done
    assert kept.data[SET_BACK] == str(int(NOW))
    following = kept.store()
    following.check_age()
    assert (following.set_back, following.ahead) == (NOW, {})


def test_a_time_of_2100_counts_as_now_and_what_ends_then_begins_now() -> None:
    told: list[float] = []
    stamps = Stamps(NOW, told.append)
    assert [stamps.past(at) for at in (NOW - 5, NOW, 4_102_444_800.0)] == [NOW - 5, NOW, NOW]
    assert [stamps.end(at, 60.0) for at in (NOW - 5, NOW + 60, 4_102_444_800.0)] == [NOW - 5, NOW + 60, NOW + 60]
    assert told == [4_102_444_800.0] * 2


@pytest.mark.parametrize(
    "saves", ["9" * 12, "1" + "0" * 12, "9" * 13, "9" * 15, "9" * 16, "8" * 400, "NaN", "-3", "1e3"]
)
def test_a_count_that_cannot_be_is_none_and_no_start_after_the_next_save_is_set_back(saves: str) -> None:
    kept, age = Kept(**{SAVES: saves}), StateAge()
    age.see(saves)
    for number in range(3):
        store = kept.store(age)
        assert store.update(lambda keys, number=number: {**keys, "plan": str(number)}, reason="a test").done
        assert store.set_back is None
        age = StateAge()
        age.see(kept.data[SAVES])


def memory_of(at: float) -> RecentEvictions:
    memory = RecentEvictions()
    for number in range(40):
        memory.add(PastEviction(at, f"u{number}", "n1", WEB))
    memory.back_off(WEB, at)
    memory.note_landing(WEB, "n1", at)
    memory.note_late(WEB, at)
    memory.stop("relieve", "it did nothing", at)
    memory.note_useless("n1", "cpu", "it did not fall", at)
    memory.probed = {"default-scheduler": at}
    return memory


@given(FUTURES)
def test_all_that_is_known_of_evictions_is_over_within_a_day_and_the_rates_window(at: float) -> None:
    steps = (
        StepRecord("shop/web-1", "u1", "n1", at, status=StepStatus.EVICTED, gone_at=at, landed_at=at, ready_at=at),
    )
    plans = msgspec.json.encode((Running("relieve-1", "relieve", at, steps=steps),)).decode()
    held = [{"name": "r", "node": "n1", "kind": "replacement", "for": "shop/web-1", "holder": "o", "until": at}]
    kept = Kept(**{HISTORY: memory_of(at).encode(), PLANS: plans, RESERVATIONS: json.dumps(held)})
    store = kept.store()
    saved = Journal(store).read()
    history = saved.memory.history(NOW)
    assert set(history.evictions) == {NOW} == set(history.node_evictions.values())
    [[step]] = [plan.steps for plan in saved.plans]
    assert (saved.plans[0].time, step.time, step.gone_at, step.landed_at, step.ready_at) == (NOW,) * 5
    assert saved.memory.stopped["relieve"].until <= NOW + STOP_FOR
    assert saved.reservations[0].until <= NOW + 3600
    later = saved.memory.history(NOW + STOP_FOR)
    assert not later.backing_off
    assert not later.ineffective
    assert not saved.memory.history(NOW + LOOP + 1).looping
    assert {*store.ahead} >= {HISTORY, PLANS}
    saved.memory.forget(NOW + DAY + 1)
    assert not saved.memory.history(NOW + DAY + 1).evictions


@given(st.floats(0, 86_400))
def test_what_is_of_the_past_is_read_as_it_was_written(back: float) -> None:
    memory = memory_of(round(NOW - back, 1))
    again = RecentEvictions.decode(memory.encode(), Stamps(NOW, lambda at: pytest.fail(f"{at}")))
    assert again.encode() == memory.encode()


@given(st.integers(1, 100_000))
def test_hours_of_the_future_count_to_the_present_one_and_push_none_out(hours: int) -> None:
    ledger = Ledger()
    for number in range(49):
        ledger.add(NOW + 3600 * (hours + number), evicted=1)
    ledger.add(NOW, evicted=1)
    ledger.until = {"hot": NOW + 3600 * hours, "labels": 1e300}
    kept = Kept(**{KEY: ledger.encode()})
    read = saved_ledger(kept.store(), kept.data, KEY)
    assert read.hours(NOW)[-1].evicted > 1
    assert read.days(NOW)[-1].evicted >= 1
    assert read.until == {"hot": NOW, "labels": NOW}


@given(FUTURES.map(int))
def test_a_power_policy_waits_for_no_step_of_the_future(at: int) -> None:
    state = ControllerState(
        stepped={"shop/web": at},  # type: ignore[dict-item]
        ramp=Ramp(level=1, stepped=at),  # type: ignore[arg-type]
        energy=EnergyMeter(since=at, used=5, at=at, watts=7, expires=at),  # type: ignore[arg-type]
    )
    record = {"state": json.loads(state.dump()), "based": at, "lost": at}
    kept = Kept(**{"power.state.site": json.dumps(record)})
    store = kept.store()
    read: Any = PowerStore(store, "site", shadow=False).read()
    assert (read.based, read.lost, read.state.stepped["shop/web"], read.state.ramp.stepped) == (NOW,) * 4
    energy = read.state.energy
    assert energy.expires <= max(energy.at, at)
    assert energy.expires <= NOW + 3600
    assert (energy.since, energy.at, energy.used, energy.watts) == (NOW, NOW, 5, 7)
    assert "power.state.site" in store.ahead


@pytest.mark.parametrize("text", ['{"hours": [[0, 1', '{"hours": [[NaN]]}', '{"version": 9, "hours": {}}', "\x00"])
def test_what_cannot_be_read_stays_beside_what_begins_anew(text: str) -> None:
    kept = Kept(**{KEY: text, TALLY: text})
    store = kept.store()
    book = LedgerBook(store, kept.clock, gap=75)
    book.add(NOW, {"evicted": 1}, urgent=True)
    with structlog.testing.capture_logs() as said:
        outcome = book.save()
    assert outcome is not None
    assert outcome.done
    assert kept.data[f"{UNREADABLE}{KEY}"] == text
    assert saved_ledger(store, kept.data, KEY).hours(NOW)[-1].evicted == 1
    assert kept.data[TALLY] == text, "it was neither read nor written"
    assert sum("cannot be read and begins anew" in line["event"] for line in said) == 1


@pytest.mark.parametrize("key", [PLANS, HISTORY, RESERVATIONS])
def test_half_of_what_evictions_go_by_is_refused_with_its_name(key: str) -> None:
    steps = (StepRecord("shop/web-1", "u1", "n1", NOW),)
    whole = {
        PLANS: msgspec.json.encode((Running("relieve-1", "relieve", NOW, steps=steps),)).decode(),
        HISTORY: memory_of(NOW).encode(),
        RESERVATIONS: '[{"name":"r","node":"n","kind":"waiting","for":"a/b","holder":"o","until":1700000000.0}]',
    }
    for spoiled in (whole[key][: len(whole[key]) // 2], whole[key].replace("1700000000.0", "NaN", 1), "[]x"):
        kept = Kept(**{**whole, key: spoiled})
        with pytest.raises(Exception, match=rf"Key {key} of ConfigMap ballast-state cannot be read: .+ nothing is"):
            Journal(kept.store()).read()
        assert kept.data[key] == spoiled
