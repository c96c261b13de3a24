"""One policy in the daemon: what is written down, done and remembered, whatever happens in between."""

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.actuation.scaling.target_status import Actuator
from ballast.jobs.power import budget
from ballast.jobs.power.power_sentences import of_cycle
from ballast.jobs.power.tick_report import IdleReason
from ballast.power.controller_state import Reason
from ballast.power.sections import Need
from tests.worlds.power import examples, feeds, members, policy
from tests.worlds.power_run import TICK, PowerRun

TWO = members((2, 20), (1, 20))
DOWN = [1000.0, *[700.0] * 6]


def power_run(keys: dict[str, Any] | None = None, *, shadow: bool = False, **counts: int) -> PowerRun:
    return PowerRun(policy(**(TWO | (keys or {}))), shadow=shadow, **({"t0": 10, "t1": 10} | counts))


def plan(one: PowerRun) -> dict[str, Any] | None:
    text = one.keys.data.get("power.plan.power")
    found: dict[str, Any] | None = None if text is None else json.loads(text)
    return found


@pytest.fixture
def one() -> PowerRun:
    return power_run()


def test_a_confirmed_fall_is_written_down_done_and_remembered(one: PowerRun) -> None:
    assert one.tick(1000).reason == Reason.BOOTSTRAPPED
    view = one.run([700.0] * 5)
    assert view.reason == Reason.SCALED_DOWN
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 7}
    assert plan(one) is None
    assert view.outcome.action is not None
    assert (view.outcome.action.changes, view.outcome.action.result) == ({"ns/t0": -3, "ns/t1": -3}, "done")
    assert "scaled ns/t0 10 → 7, ns/t1 10 → 7 (ScaledDown)" in of_cycle([view])


def test_the_open_plan_has_names_and_absolute_counts(one: PowerRun) -> None:
    one.run(DOWN[:-2])
    assert one.dies(700, 1, landed=False)
    found = plan(one)
    assert found is not None
    assert found["replicas"] == {"ns/t0": 7, "ns/t1": 7}
    assert found["status"] == "open"


@pytest.mark.slow
def test_a_constant_feed_writes_nothing_for_a_day(one: PowerRun) -> None:
    one.tick(1000)
    written = one.keys.writes
    one.run([1000.0] * (86_400 // TICK))
    assert (one.keys.writes, one.cluster.writes) == (written, [])


def test_the_next_leader_finishes_the_plan_and_nothing_twice(one: PowerRun) -> None:
    one.run(DOWN[:-2])
    assert one.dies(700, 2, landed=False), "between the two targets"
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 10}
    assert one.tick(700).reason == IdleReason.RESUMED
    one.run([700.0] * 20)
    assert one.cluster.writes == [("ns/t0", 7), ("ns/t1", 7)]
    assert plan(one) is None


def test_a_plan_of_ten_minutes_ago_is_dropped(one: PowerRun) -> None:
    one.run(DOWN[:-2])
    assert one.dies(700, 1, landed=False)
    one.at += 700
    view = one.tick(1000)
    assert "12 min old" in (view.problem or "")
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}
    assert plan(one) is None
    assert one.run([700.0] * 6).state.reference == 700, "a new window confirms it"


def test_someone_elses_change_meanwhile_is_not_undone_by_the_open_plan(one: PowerRun) -> None:
    one.run(DOWN[:-2])
    assert one.dies(700, 2, landed=False)
    one.cluster.counts["ns/t1"] = 14
    view = one.tick(700)
    assert "someone else changed ns/t1" in (view.problem or "")
    assert one.cluster.counts["ns/t1"] == 14
    one.run([700.0] * 10)
    assert one.total == pytest.approx((20 + 4 / 0.85) * 0.7, abs=1.5)


def test_a_target_that_cannot_be_written_is_tried_again_and_then_planned_again(one: PowerRun) -> None:
    one.cluster.refusing.add("ns/t1")
    view = one.run(DOWN[:-1])
    assert view.reason == IdleReason.PLAN_FAILED
    assert "no rights" in (view.problem or "")
    assert one.tick(700).reason == IdleReason.PLAN_FAILED
    assert "could not be carried out" in (one.tick(700).problem or "")
    one.cluster.refusing.clear()
    one.run([700.0] * 10)
    assert one.total == 14


def test_nothing_is_done_that_could_not_be_written_down(one: PowerRun) -> None:
    one.tick(1000)
    one.keys.broken = "no space"
    view = one.run([700.0] * 8)
    assert view.reason == IdleReason.NOT_STORED
    assert one.cluster.writes == []
    one.keys.broken = ""
    one.tick(700)
    assert one.total == 14


def test_another_leaders_state_is_not_overwritten(one: PowerRun) -> None:
    one.run(DOWN[:3])
    one.keys.data["power.state.power"] = one.keys.data["power.state.power"].replace('"1000"', '"1001"')
    views = [one.tick(700) for _ in range(12)]
    assert "someone else wrote the power state" in next(view.problem for view in views if view.problem)
    assert one.total == 14


def test_a_fall_beyond_the_emergency_needs_two_ticks() -> None:
    one = power_run({"emergencyDrop": {"relative": 0.5}})
    one.tick(1000)
    one.run([400.0] * 2)
    assert one.cluster.emergencies == 1
    assert one.total == 8


def test_an_emergency_does_not_wait_for_a_plan_that_fails() -> None:
    one = power_run({"emergencyDrop": {"relative": 0.5}})
    one.cluster.refusing.add("ns/t1")
    one.run(DOWN[:-1])
    assert one.last.reason == IdleReason.PLAN_FAILED
    one.cluster.refusing.clear()
    one.run([300.0] * 2)
    assert one.cluster.emergencies == 1
    assert one.total == 6


def test_a_long_plan_goes_on_tick_by_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "ROUND", 1)
    one = power_run()
    view = one.run(DOWN[:-1])
    assert (view.reason, one.cluster.counts) == (Reason.SCALED_DOWN, {"ns/t0": 7, "ns/t1": 10})
    assert view.outcome.action is not None
    assert (view.outcome.action.changes, view.problem) == ({"ns/t0": -3}, None)
    assert "1 more targets follow" in of_cycle([view])
    found = plan(one)
    assert found is not None
    assert found["status"] == "open"
    assert one.tick(700).reason == IdleReason.RESUMED
    one.run([700.0] * 10)
    assert one.cluster.writes == [("ns/t0", 7), ("ns/t1", 7)]
    assert plan(one) is None


def test_one_target_that_cannot_be_written_does_not_hold_up_a_long_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "ROUND", 1)
    one = power_run()
    one.cluster.refusing.add("ns/t0")
    assert one.run(DOWN[:-1]).reason == IdleReason.PLAN_FAILED
    one.tick(700)
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 7}
    assert plan(one) is not None
    one.cluster.refusing.clear()
    one.tick(700)
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 7}
    assert plan(one) is None


def test_what_can_never_be_written_ends_a_long_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "ROUND", 1)
    one = power_run()
    one.cluster.refusing |= {"ns/t0", "ns/t1"}
    problems = [one.run(DOWN[:-1]).problem, *(one.tick(700).problem for _ in range(4))]
    assert any("could not be carried out" in (problem or "") for problem in problems)


def test_an_emergency_does_not_wait_for_a_long_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "ROUND", 1)
    one = power_run({"emergencyDrop": {"relative": 0.5}})
    one.run(DOWN[:-1])
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 10}
    assert "gives way to an emergency" in (one.tick(300).problem or "")
    one.tick(300)
    assert (one.cluster.emergencies, one.total) == (1, 6)
    assert plan(one) is None


def test_what_is_held_changes_nothing_and_its_window_begins_again(one: PowerRun) -> None:
    one.run(DOWN[:4])
    for _ in range(5):
        view = one.tick(700, hold="paused by key paused.power")
        assert (view.reason, view.words) == (IdleReason.HELD, "paused by key paused.power")
    assert one.tick(700).reason == Reason.DECREASE_DETECTED
    assert one.cluster.writes == []
    assert one.run([700.0] * 4).reason == Reason.SCALED_DOWN


@pytest.mark.parametrize(
    "standing", [{"excluded": "ballast.dev/exclude-power"}, {"problem": "contended"}, {"actuator": Actuator.OBSERVE}]
)
def test_who_does_not_take_part_is_left_alone_and_counts_nowhere(one: PowerRun, standing: dict[str, Any]) -> None:
    one.cluster.standing["ns/t1"] = standing
    one.run(DOWN)
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 10}
    one.cluster.standing.clear()
    view = one.run([700.0] * 10)
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 10}, "its return is no reason to act"
    assert view.decision.foreign == 0


def test_a_target_that_is_not_there_is_named_and_the_others_go_on(one: PowerRun) -> None:
    del one.cluster.counts["ns/t1"]
    one.run(DOWN)
    assert one.cluster.counts == {"ns/t0": 7}
    assert "left alone: ns/t1 (there is none)" in of_cycle([one.last])


def test_nobody_acts_on_targets_that_cannot_be_seen(one: PowerRun) -> None:
    one.run(DOWN[:4])
    one.cluster.blind = True
    assert "the watch is silent" in one.run([700.0] * 9).words
    one.cluster.blind = False
    assert one.tick(700).reason == Reason.DECREASE_DETECTED


def test_nobody_acts_while_the_state_cannot_be_read(one: PowerRun) -> None:
    one.keys.unreadable = True
    report = one.run(DOWN)
    assert report.words == "the state cannot be read: the API server cannot be reached"
    assert (one.cluster.writes, one.keys.writes) == ([], 0)
    one.keys.unreadable = False
    assert one.tick(1000).reason == Reason.BOOTSTRAPPED


def test_what_the_object_itself_does_not_allow_is_not_planned(one: PowerRun) -> None:
    one.cluster.standing["ns/t1"] = {"minimum": 8, "maximum": 10}
    one.run([1000.0, *[300.0] * 8])
    assert one.cluster.counts == {"ns/t0": 2, "ns/t1": 8}
    assert one.cluster.writes == [("ns/t0", 2), ("ns/t1", 8)]
    assert one.views[5].decision.unmet == -4


def test_who_is_in_a_rollout_stays_but_in_an_emergency() -> None:
    one = power_run({"emergencyDrop": {"relative": 0.5}})
    one.cluster.standing["ns/t1"] = {"rolling": True}
    one.run(DOWN)
    assert one.cluster.counts == {"ns/t0": 4, "ns/t1": 10}
    one.run([300.0] * 2)
    assert one.total == 6
    assert one.cluster.counts["ns/t1"] < 10


def test_what_a_load_needs_is_taken_last(one: PowerRun) -> None:
    one.needed = {"ns/t0": Need(9)}
    one.run(DOWN)
    assert one.cluster.counts == {"ns/t0": 9, "ns/t1": 5}


@pytest.mark.parametrize("bad", [None])
def test_a_silent_feed_holds_everything(one: PowerRun, bad: float | None) -> None:
    one.run([1000.0, *[700.0] * 3, *[bad] * 200])
    assert one.cluster.writes == []
    assert one.last.inputs.silent_for == 200 * TICK
    assert "everything stays" in of_cycle([one.last])


def test_lost_state_waits_where_a_target_is_at_a_bound_by_our_doing() -> None:
    one = power_run(t0=2)
    one.traces = ["ns/t0"]
    view = one.run([1000.0] * 5)
    assert view.reason == IdleReason.BASELINE
    assert "the state was lost" in (view.decision.rebaselining or "")
    one.begin()
    assert one.tick(1000, confirmed=one.views[0].inputs.now.wall - 86_400).reason == IdleReason.BASELINE, (
        "that was for another loss"
    )
    assert one.tick(1000, confirmed=view.inputs.now.wall).reason == Reason.BOOTSTRAPPED
    assert one.cluster.writes == []


def test_lost_state_needs_no_word_without_our_marks_away_from_bounds_or_with_a_nominal() -> None:
    assert power_run(t0=2).tick(1000).reason == Reason.BOOTSTRAPPED
    away = power_run()
    away.traces = ["ns/t0"]
    assert away.tick(1000).reason == Reason.BOOTSTRAPPED
    nominal = power_run({"nominal": {"watts": 1000, "replicas": 20}}, t0=2)
    nominal.traces = ["ns/t0"]
    assert nominal.tick(1000).reason == Reason.BOOTSTRAPPED
    nominal.run([1000.0] * 8)
    assert nominal.total == 20


def test_state_that_nobody_understands_counts_as_lost() -> None:
    one = power_run(t0=2)
    one.traces = ["ns/t0"]
    one.keys.data["power.state.power"] = "{rubbish"
    assert one.tick(1000).reason == IdleReason.BASELINE


def test_a_confirmed_time_after_the_baseline_makes_a_new_one_once(one: PowerRun) -> None:
    one.tick(1000)
    later = one.last.inputs.now.wall + 1
    one.run([1030.0] * 3)
    assert one.tick(1030, confirmed=later).reason == Reason.BOOTSTRAPPED
    assert one.last.state.reference == 1030
    assert one.tick(1030, confirmed=later).reason == Reason.INSIDE
    assert one.tick(1030, confirmed=later + 86_400).reason == Reason.BOOTSTRAPPED, "even one in the future"
    assert one.tick(1030, confirmed=later + 86_400).reason == Reason.INSIDE


def test_a_dry_run_follows_what_it_would_have_done_and_writes_its_state_alone() -> None:
    one = power_run(shadow=True)
    view = one.run(DOWN)
    assert dict(view.counts) == {"ns/t0": 7, "ns/t1": 7}
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}
    assert set(one.keys.data) == {"power.shadow.power"}
    one.begin()
    assert dict(one.tick(700).counts) == {"ns/t0": 7, "ns/t1": 7}, "a restart does not forget them"
    one.cluster.counts["ns/t0"] = 12
    assert dict(one.tick(700).counts) == {"ns/t0": 9, "ns/t1": 7}, "someone else's change shows in them"
    written = one.keys.writes
    one.run([700.0] * 50)
    assert one.keys.writes == written
    one.run([1000.0] * 8)
    assert sum(one.last.counts.values()) == pytest.approx(22, abs=1.5)


def test_someone_elses_change_is_counted_once_and_kept(one: PowerRun) -> None:
    one.tick(1000)
    one.cluster.counts["ns/t0"] = 14
    assert one.tick(1000).decision.foreign == 1
    assert one.tick(1000).decision.foreign == 0
    one.run([1000.0] * 10)
    assert one.cluster.writes == []


kills = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=6)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 100])
@examples
@given(feeds(40), kills, st.floats(100, 2000).map(round), st.booleans())
def test_killed_before_between_or_after_any_write_it_arrives_and_rebases_on_nothing_of_its_own(
    at_once: int, feed: list[float | None], killed: list[tuple[int, bool]], last: int, slow: bool
) -> None:
    with patch.object(budget, "ROUND", at_once):
        _arrives(feed, killed, last, slow)


def _arrives(feed: list[float | None], killed: list[tuple[int, bool]], last: int, slow: bool) -> None:
    one = power_run({"nominal": {"watts": 1000, "replicas": 20}})
    one.killed_in(feed, killed, slow=slow)
    one.run([float(last)] * 60)
    ideal = min(max(20 * last / 1000, 3), 40)
    assert abs(one.total - ideal) <= 0.05 / 0.95 * max(one.total, ideal) + 1
    anchor = one.last.state.anchor
    if anchor is not None:
        assert anchor.load / anchor.watts == pytest.approx(20 / 1000), "never rebased by own writes"
    assert plan(one) is None
