"""An absolute budget through kills, lost state, other leaders, pauses, blindness and foreign writes."""

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.jobs.power import budget
from ballast.jobs.power.tick_report import IdleReason
from ballast.power.controller_state import Reason
from tests.worlds.power import examples, feeds, policy
from tests.worlds.power_run import TICK, PowerRun

EACH = 50
"""Watts of a replica."""


def power_run(*, shadow: bool = False, **keys: Any) -> PowerRun:
    """Two targets, twenty replicas, 1000 W of them; no margin."""
    members = [
        {"ref": f"ns/t{i}", "min": low, "max": 20, "replicas": 10, "wattsPerReplica": EACH}
        for i, low in enumerate((2, 1))
    ]
    return PowerRun(policy(**{"independents": members, "margin": 0, "decrease": {}, **keys}), shadow=shadow)


def drawn(one: PowerRun) -> int:
    return EACH * one.total


@pytest.fixture
def one() -> PowerRun:
    return power_run()


def test_a_fall_is_done_at_its_first_sample_and_a_constant_feed_writes_nothing_for_hours(one: PowerRun) -> None:
    one.run([1000.0, 700.0])
    assert drawn(one) == 700
    one.tick(700)
    saved, written = one.keys.writes, list(one.cluster.writes)
    one.run([700.0] * (7_200 // TICK))
    assert (one.keys.writes, one.cluster.writes) == (saved, written)


def test_the_next_leader_finishes_the_plan_and_nothing_twice(one: PowerRun) -> None:
    one.tick(1000)
    assert one.dies(700, 2, landed=False), "between the two targets"
    assert one.cluster.counts == {"ns/t0": 7, "ns/t1": 10}
    one.run([700.0] * 20)
    assert one.cluster.writes == [("ns/t0", 7), ("ns/t1", 7)]
    assert "power.plan.power" not in one.keys.data


def test_a_plan_of_ten_minutes_ago_gives_way_to_what_the_watts_carry_now(one: PowerRun) -> None:
    one.tick(1000)
    assert one.dies(700, 1, landed=False)
    one.at += 700
    assert one.tick(1000).problem
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}
    one.tick(700)
    assert drawn(one) == 700


def test_someone_elses_change_while_a_plan_is_open_ends_within_the_watts(one: PowerRun) -> None:
    one.tick(1000)
    assert one.dies(700, 2, landed=False)
    one.cluster.counts["ns/t1"] = 14
    one.run([700.0] * 3)
    assert drawn(one) <= 700


def test_nothing_is_done_that_could_not_be_written_down(one: PowerRun) -> None:
    one.tick(1000)
    one.keys.broken = "no space"
    assert one.run([700.0] * 3).reason == IdleReason.NOT_STORED
    assert one.cluster.writes == []
    one.keys.broken = ""
    one.tick(700)
    assert drawn(one) == 700


def test_another_leaders_state_is_not_overwritten_and_the_budget_holds_a_tick_later(one: PowerRun) -> None:
    one.run([1000.0] * 2)
    one.keys.data["power.state.power"] = one.keys.data["power.state.power"].replace('"1000"', '"1001"')
    views = [one.tick(700) for _ in range(4)]
    assert "someone else wrote the power state" in next(view.problem for view in views if view.problem)
    assert drawn(one) == 700


@pytest.mark.parametrize("rubbish", [None, "{rubbish"])
def test_lost_state_keeps_nobody_above_the_watts(one: PowerRun, rubbish: str | None) -> None:
    one.run([1000.0, 700.0])
    one.keys.data.clear()
    if rubbish is not None:
        one.keys.data["power.state.power"] = rubbish
    one.begin()
    one.run([700.0, 500.0, 500.0])
    assert drawn(one) == 500


def test_what_is_held_changes_nothing_and_a_resume_acts_at_the_next_sample(one: PowerRun) -> None:
    one.tick(1000)
    for _ in range(5):
        view = one.tick(700, hold="paused by key paused.power")
        assert (view.reason, view.words) == (IdleReason.HELD, "paused by key paused.power")
    assert one.cluster.writes == []
    assert view.over is not None, "it is said meanwhile"
    one.tick(700)
    assert drawn(one) == 700


def test_a_pause_never_shortens_the_window_of_a_rise(one: PowerRun) -> None:
    one.run([700.0] * 2)
    one.run([1000.0] * 3)
    for _ in range(10):
        one.tick(1000, hold="paused by key paused.power")
    assert one.tick(1000).reason == Reason.INCREASE_DETECTED


def test_nobody_acts_on_targets_that_cannot_be_seen_nor_for_a_silent_feed(one: PowerRun) -> None:
    one.tick(1000)
    one.cluster.blind = True
    assert "the watch is silent" in one.run([700.0] * 9).words
    one.cluster.blind = False
    one.run([None] * 200)
    assert one.cluster.writes == []
    one.tick(700)
    assert drawn(one) == 700


def test_one_target_that_cannot_be_written_leaves_the_fall_to_the_other(one: PowerRun) -> None:
    one.tick(1000)
    one.cluster.refusing.add("ns/t1")
    one.run([700.0] * 8)
    assert one.cluster.counts["ns/t1"] == 10
    assert drawn(one) <= 700


def test_a_dry_run_follows_what_it_would_have_done_and_writes_its_state_alone() -> None:
    one = power_run(shadow=True)
    view = one.run([1000.0, 700.0, 700.0])
    assert EACH * sum(view.counts.values()) == 700
    assert one.cluster.counts == {"ns/t0": 10, "ns/t1": 10}
    assert set(one.keys.data) == {"power.shadow.power"}
    one.begin()
    assert EACH * sum(one.tick(700).counts.values()) == 700, "a restart does not forget it"


kills = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=6)
hands = st.lists(st.tuples(st.sampled_from(["ns/t0", "ns/t1"]), st.integers(0, 30)), max_size=6)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 100])
@examples
@given(feeds(20), kills, hands, st.integers(100, 2000), st.booleans())
def test_killed_before_between_or_after_any_write_among_foreign_hands_it_ends_within_the_watts(
    at_once: int,
    feed: list[float | None],
    killed: list[tuple[int, bool]],
    hands: list[tuple[str, int]],
    last: int,
    slow: bool,
) -> None:
    with patch.object(budget, "ROUND", at_once):
        one, others = power_run(), list(hands)

        def scaled(number: int) -> None:
            if others and number % 5 == 4:
                name, count = others.pop(0)
                one.cluster.counts[name] = count

        one.killed_in(feed, killed, slow=slow, before=scaled)
        one.run([float(last)] * 20)
    least = EACH * sum(low for name, low in (("ns/t0", 2), ("ns/t1", 1)) if one.cluster.counts[name])
    assert drawn(one) <= max(last, least)
    stopped = [name for name, count in one.cluster.counts.items() if not count]
    room = min(last, EACH * 20 * (2 - len(stopped)))
    assert drawn(one) >= room / 1.05 - EACH, "and uses what they give, but for the dead band and a part of a replica"
    assert "power.plan.power" not in one.keys.data
