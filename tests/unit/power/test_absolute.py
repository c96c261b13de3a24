"""An absolute budget: the watts of all replicas stay within the feed, whoever changed what."""

from fractions import Fraction
from typing import Any

import pytest

from ballast.power.absolute import carried, may_rise
from ballast.power.controller import observe
from ballast.power.controller_state import ControllerState, Reason, Sample
from ballast.power.policy import PowerPolicy
from tests.worlds.power import follow, policy, rig, totals


def absolute(*members: dict[str, Any], **keys: Any) -> PowerPolicy:
    """A policy of targets ns/t0, ns/t1, …, each of 10 W, 0..40 replicas unless told otherwise; no margin."""
    made = [
        {"ref": f"ns/t{i}", "min": 0, "max": 40, "wattsPerReplica": 10, **member} for i, member in enumerate(members)
    ]
    return policy(**{"independents": made, "margin": 0, "decrease": {}, **keys})


def load(counts: dict[str, int]) -> int:
    return 10 * sum(counts.values())


def test_watts_for_every_member_make_the_budget_absolute() -> None:
    assert absolute({}).absolute
    assert absolute({}).margin_in_force == 0
    assert absolute({}, margin="").margin_in_force == Fraction(2, 100)
    assert absolute({}).falls.window == 0
    assert absolute({}, decrease={"window": 30}).falls.window == 30
    assert not policy().absolute
    assert not absolute({}, budget="anchor").absolute
    assert not absolute({}, compat="paper").absolute


def test_a_fall_counts_at_the_next_sample_a_rise_after_its_window() -> None:
    run = follow(absolute({}), [400.0, 390.0, 400.0, *[500.0] * 6], t0=40)
    assert totals(run)[:3] == [40, 39, 39]
    run = follow(absolute({}), [200.0, *[300.0] * 6], t0=40)
    assert totals(run) == [20, 20, 20, 20, 20, 30, 30]
    assert [tick.reason for tick in run.ticks][:2] == ["ScaledDown", "IncreaseDetected"]


def test_the_first_valid_sample_is_judged_already_and_confirmed_like_any_other() -> None:
    assert totals(follow(absolute({}), [None, 250.0], t0=40)) == [40, 25]
    assert totals(follow(absolute({}), [None, 100.0, 100.0], t0=40)) == [40, 20, 10]
    assert totals(follow(absolute({}), [0.0, 400.0, 400.0, 400.0, 400.0, 400.0], t0=40))[0] == 20
    assert totals(follow(absolute({}, confirm={"below": 0.9}), [None, 100.0], t0=40)) == [40, 36]


@pytest.mark.parametrize("silence", [4, 24, 100])
def test_one_sample_of_nothing_after_a_silence_never_takes_all(silence: int) -> None:
    feed = [400.0] * 3 + [None] * silence + [0.0] + [400.0] * 8
    counts = totals(follow(absolute({}), feed, t0=40))
    assert min(counts) == 20
    assert counts[-1] == 40


def test_a_bound_and_the_last_level_hold_while_the_feed_is_silent() -> None:
    one, counts = absolute({}), {"ns/t0": 40}
    state = observe(one, ControllerState(), Sample(Fraction(0), Fraction(400), Fraction(0)), counts).state

    def silent(at: int, running: int, bound: int | None) -> int:
        sample = Sample(Fraction(at), None, None, None if bound is None else Fraction(bound))
        plan = observe(one, state, sample, {"ns/t0": running}).state.plan
        return running if plan is None else plan.replicas["ns/t0"]

    for at in (15, 400):
        assert silent(at, 40, None) == 40
        assert silent(at, 60, None) == 40, "what others add is trimmed to the last level"
        assert silent(at, 40, 100) == 10
        assert silent(at, 8, 100) == 8
    for kind in ("floor", "replicas"):
        fixed = {"replicas": {"ns/t0": 30}} if kind == "replicas" else {}
        one = absolute({"min": 8}, fallback={"policy": kind, "after": 60, **fixed})
        level = 30 if kind == "replicas" else 8
        assert silent(400, level, None) == level, "the fallback stands, whatever the last level was"
        assert silent(400, 20, None) == level
        assert silent(400, 20, 100) == min(level, 10)
        assert silent(400, 10, 100) == min(level, 10), "fallback and bound do not take turns"
    one = absolute({})
    sample = Sample(Fraction(15), None, None, Fraction(100))
    fresh = observe(one, ControllerState(), sample, counts).state.plan
    assert fresh is not None
    assert fresh.replicas == {"ns/t0": 10}


def test_a_rise_takes_what_the_lowest_sample_of_its_window_carries() -> None:
    run = follow(absolute({}), [200.0, 300.0, 260.0, 280.0, 300.0, 300.0], t0=20)
    assert totals(run)[-1] == 26


def test_the_dead_band_holds_rises_alone() -> None:
    assert follow(absolute({}), [200.0, *[209.0] * 9], t0=20).actions == 0
    assert totals(follow(absolute({}), [200.0, *[199.0] * 2], t0=20))[-1] == 19


def test_rises_go_to_the_maximum_baselines_first() -> None:
    one = absolute({"max": 30, "replicas": 4}, {"max": 30, "replicas": 16})
    run = follow(one, [50.0, *[200.0] * 6, *[900.0] * 6], t0=4, t1=16)
    assert dict(run.ticks[6].replicas) == {"ns/t0": 4, "ns/t1": 16}
    assert dict(run.ticks[-1].replicas) == {"ns/t0": 30, "ns/t1": 30}


@pytest.mark.parametrize(("watts", "replicas"), [(400, 40), (399, 39), (391, 39), (390, 39)])
def test_a_fall_takes_as_many_replicas_as_it_has_to(watts: float, replicas: int) -> None:
    assert totals(follow(absolute({}), [watts], t0=40)) == [replicas]


def test_pods_that_are_ending_leave_no_room_for_a_rise() -> None:
    one, counts = absolute({}, increase={"window": 0}), {"ns/t0": 20}

    def rises_to(leaving: int) -> int:
        state = observe(one, ControllerState(), Sample(Fraction(0), Fraction(200), Fraction(0)), counts).state
        sample = Sample(Fraction(15), Fraction(300), Fraction(15), leaving=Fraction(leaving))
        plan = observe(one, state, sample, counts).state.plan
        return counts["ns/t0"] if plan is None else plan.replicas["ns/t0"]

    assert [rises_to(leaving) for leaving in (0, 50, 100)] == [30, 25, 20]


def test_below_its_floor_a_feed_carries_nothing() -> None:
    one = absolute({})
    assert [carried(one, Fraction(watts, 100)) for watts in (99, 100, 101)] == [0, 1, Fraction(101, 100)]


def test_a_fall_with_a_window_waits_for_it_and_no_longer() -> None:
    one = absolute({}, decrease={"window": 30})
    run = follow(one, [400.0, 300.0, 300.0, 300.0], t0=40)
    assert totals(run) == [40, 40, 40, 30]
    assert [tick.reason for tick in run.ticks[1:]] == ["DecreaseDetected", "WaitingForWindow", "ScaledDown"]


def test_margin_and_base_are_taken_off_the_feed() -> None:
    one = absolute({}, margin=0.1, baseWatts=50)
    assert totals(follow(one, [500.0], t0=40)) == [40]
    assert totals(follow(one, [400.0], t0=40)) == [31]


@pytest.mark.parametrize("hour", [0, 5, 11])
def test_what_someone_sets_at_night_holds_neither_by_night_nor_by_day(hour: int) -> None:
    """An anchored budget keeps 10 replicas at 300 W all night and makes 33 of them in the morning."""
    rig_ = rig(absolute({"max": 100}), t0=40)
    rig_.run([1000.0] * 8 + [100.0] * (2 + hour))
    rig_.scale("ns/t0", 40)
    rig_.tick(100.0)
    assert rig_.total == 10
    assert rig_.run([400.0] * 8).total == 40


def test_a_single_sample_of_nothing_is_no_night() -> None:
    one = absolute({})
    assert totals(follow(one, [400.0, 0.0, *[400.0] * 25, 0.0, 400.0], t0=40))[:3] == [40, 20, 20]
    assert min(totals(follow(one, [400.0, 0.0, *[400.0] * 25, 0.0, 400.0], t0=40))) == 20
    # Low ones that come again within five minutes confirm one another.
    assert totals(follow(one, [400.0, 0.0, 400.0, 0.0, 0.0], t0=40)) == [40, 20, 20, 0, 0]
    run = follow(one, [400.0, 150.0, 60.0, 60.0], t0=40)
    assert totals(run) == [40, 20, 7, 6]
    assert totals(follow(one, [400.0, 150.0, 150.0], t0=40)) == [40, 20, 15]
    assert follow(one, [400.0, 150.0], t0=18).ticks[1].reason == Reason.UNCONFIRMED
    assert totals(follow(one, [400.0, 200.0], t0=40)) == [40, 20]


def test_two_ticks_over_one_sample_confirm_nothing() -> None:
    one, counts = absolute({}), {"ns/t0": 40}
    state = observe(one, ControllerState(), Sample(Fraction(0), Fraction(400), Fraction(0)), counts).state
    for at in (15, 30, 45):
        outcome = observe(one, state, Sample(Fraction(at), Fraction(100), Fraction(10)), counts)
        if outcome.state.plan is not None:
            counts = dict(outcome.state.plan.replicas)
        state = outcome.state.committed()
        assert counts == {"ns/t0": 20}
    again = observe(one, state, Sample(Fraction(60), Fraction(100), Fraction(55)), counts)
    assert again.state.plan is not None
    assert again.state.plan.replicas == {"ns/t0": 10}


def test_what_someone_adds_is_trimmed_though_the_sample_is_old() -> None:
    one = absolute({})
    state = observe(one, ControllerState(), Sample(Fraction(0), Fraction(200), Fraction(0)), {"ns/t0": 20}).state
    outcome = observe(one, state, Sample(Fraction(15), Fraction(200), Fraction(0)), {"ns/t0": 35})
    assert outcome.state.plan is not None
    assert outcome.state.plan.replicas == {"ns/t0": 20}


def test_lower_priorities_give_first_and_get_back_last() -> None:
    one = absolute({"priority": 0}, {"priority": 5}, {"priority": -1, "min": 2})
    rig_ = rig(one, t0=10, t1=10, t2=10)
    rig_.run([150.0] * 2)
    assert rig_.cluster == {"ns/t0": 3, "ns/t1": 10, "ns/t2": 2}
    rig_.run([260.0] * 6)
    assert rig_.cluster == {"ns/t0": 10, "ns/t1": 10, "ns/t2": 6}
    rig_.run([330.0] * 6)
    assert rig_.cluster == {"ns/t0": 10, "ns/t1": 13, "ns/t2": 10}


def test_different_watts_fill_what_they_can() -> None:
    one = absolute({"wattsPerReplica": 100}, {"wattsPerReplica": 10})
    run = follow(one, [955.0, *[955.0] * 9], t0=2, t1=2)
    counts = dict(run.ticks[-1].replicas)
    assert 950 <= 100 * counts["ns/t0"] + 10 * counts["ns/t1"] <= 955


def test_what_the_minima_forbid_is_unmet_with_any_watts() -> None:
    one = absolute({"min": 2, "wattsPerReplica": 100}, {"min": 2, "wattsPerReplica": 50})
    first = observe(one, ControllerState(), Sample.of(0, 100.0), {"ns/t0": 4, "ns/t1": 4}).state.committed()
    outcome = observe(one, first, Sample.of(5, 100.0), {"ns/t0": 2, "ns/t1": 2})
    outcome = observe(one, first, Sample.of(5, 100.0), {"ns/t0": 4, "ns/t1": 4})
    assert outcome.state.plan is not None
    assert outcome.state.plan.replicas == {"ns/t0": 2, "ns/t1": 2}
    assert outcome.unmet < 0
    resting = observe(one, outcome.state.committed(), Sample.of(15, 100.0), {"ns/t0": 2, "ns/t1": 2})
    assert (resting.reason, resting.state.plan) == (Reason.AT_LIMIT, None)
    assert resting.unmet < 0


def test_what_the_maxima_forbid_is_unmet_too() -> None:
    outcome = observe(absolute({"max": 5}), ControllerState(), Sample.of(0, 100.0), {"ns/t0": 5})
    assert outcome.unmet == 5
    later = observe(absolute({"max": 5}), outcome.state, Sample.of(15, 100.0), {"ns/t0": 5})
    assert later.reason == Reason.AT_LIMIT


def test_bounds_are_repaired_at_constant_watts() -> None:
    one = absolute({"min": 4, "max": 12})
    for found, repaired in ((1, 4), (40, 12)):
        rig_ = rig(one, t0=12).run([1000.0] * 3)
        rig_.scale("ns/t0", found)
        assert rig_.tick(1000.0).reason == Reason.OUT_OF_BOUNDS
        assert rig_.total == repaired


def test_what_was_stopped_by_hand_stays_stopped_and_starts_again() -> None:
    one = absolute({"min": 2}, {"min": 2}, onForeignChange="enforce")
    rig_ = rig(one, t0=10, t1=10).run([200.0] * 2)
    rig_.scale("ns/t0", 0)
    rig_.run([200.0] * 3)
    assert rig_.cluster["ns/t0"] == 0
    rig_.scale("ns/t0", 5)
    rig_.run([200.0] * 3)
    assert rig_.cluster["ns/t0"] >= 2


def test_enforced_counts_are_restored_within_the_watts() -> None:
    rig_ = rig(absolute({}, onForeignChange="enforce"), t0=20).run([200.0] * 2)
    for found in (25, 15):
        rig_.scale("ns/t0", found)
        rig_.tick(200.0)
        assert rig_.total == 20


def test_steps_of_the_policy_and_of_a_target_cut_a_rise() -> None:
    one = absolute({}, increase={"window": 0, "maxStep": {"pods": 5, "period": "30s"}})
    assert totals(follow(one, [200.0] * 7, t0=0)) == [5, 5, 10, 10, 15, 15, 20]
    one = absolute({"maxStep": {"pods": 5, "period": "30s"}}, increase={"window": 0})
    assert totals(follow(one, [200.0] * 7, t0=0)) == [5, 5, 10, 10, 15, 15, 20]


def test_a_target_that_falls_by_steps_leaves_the_rest_to_others() -> None:
    one = absolute({"maxStep": {"pods": 1, "period": "15s"}}, {})
    rig_ = rig(one, t0=20, t1=20).run([400.0, 300.0])
    assert rig_.cluster == {"ns/t0": 19, "ns/t1": 11}


def test_a_silent_feed_falls_back_as_said() -> None:
    one = absolute({"min": 3}, fallback={"after": "60s", "policy": "floor"})
    run = follow(one, [400.0, *[None] * 8, *[400.0] * 8], t0=40)
    assert (totals(run)[8], totals(run)[-1]) == (3, 40)


def test_a_restart_between_any_two_ticks_changes_nothing_that_runs() -> None:
    feed = [400.0, 300.0, 305.0, *[380.0] * 9, 150.0, 150.0]
    straight, broken = rig(absolute({}, {}), t0=20, t1=20), rig(absolute({}, {}), t0=20, t1=20)
    for watts in feed:
        straight.tick(watts)
        broken.tick(watts, crash="after-patch")
        broken.at -= 15
        broken.tick(watts)
        assert load(broken.cluster) <= watts or watts == 150.0
    assert straight.total == broken.total == 15


@pytest.mark.parametrize(
    ("highest", "watts", "feed", "unmet"),
    [((9, 1), (10, 90), 216, 2), ((9, 1), (10, 90), 197, 0), ((0, 0), (10, 90), 100, 2), ((0, 0), (10, 90), 99, 1)],
)
def test_what_idle_watts_would_carry_counts_in_replicas_of_the_present_average(
    highest: tuple[int, int], watts: tuple[int, int], feed: int, unmet: int
) -> None:
    one = absolute(*({"max": most, "wattsPerReplica": each} for most, each in zip(highest, watts, strict=True)))
    counts = {"ns/t0": highest[0], "ns/t1": highest[1]}
    known = observe(one, ControllerState(), Sample(Fraction(0), Fraction(feed), None), counts).state
    result = observe(one, known, Sample(Fraction(15), Fraction(feed), None), counts)
    assert (result.reason, result.unmet) == (Reason.AT_LIMIT if unmet else Reason.INSIDE, unmet)


def test_a_fallback_above_the_last_level_stands() -> None:
    one = absolute({}, fallback={"policy": "replicas", "after": 60, "replicas": {"ns/t0": 30}})
    state = observe(one, ControllerState(), Sample(Fraction(0), Fraction(100), None), {"ns/t0": 10}).state
    result = observe(one, state, Sample(Fraction(400), None, None), {"ns/t0": 10})
    assert result.state.plan is not None
    assert (result.reason, result.state.plan.replicas) == (Reason.FALLBACK, {"ns/t0": 30})


def test_replicas_beyond_their_maximum_go_at_once_whatever_the_step() -> None:
    one = absolute({"maxStep": {"pods": 2, "period": "60s"}})
    result = observe(one, ControllerState(), Sample(Fraction(0), Fraction(1000), None), {"ns/t0": 50})
    assert result.state.plan is not None
    assert result.state.plan.replicas == {"ns/t0": 40}


def test_one_sample_carries_no_rise_however_long_ago_it_was() -> None:
    """The window of a rise has passed, but all that was seen in it is one sample."""
    one, counts = absolute({}, increase={"window": 30}), {"ns/t0": 20}
    state = ControllerState()
    for at in range(0, 120, 15):
        outcome = observe(one, state, Sample(Fraction(at), Fraction(300), Fraction(0)), counts)
        assert outcome.state.plan is None
        state = outcome.state
    outcome = observe(one, state, Sample(Fraction(120), Fraction(300), Fraction(120)), counts)
    assert outcome.state.plan is not None
    assert outcome.state.plan.replicas == {"ns/t0": 30}


def test_while_the_meter_is_above_what_is_allowed_nothing_may_rise() -> None:
    one = policy(independents=[{"ref": "ns/t0", "max": 100, "wattsPerReplica": 50}])
    for drawn, levels, free in (
        (1001, (2000, 1000), False),
        (1000, (2000, 1000), True),
        (1001, (None, 2000), True),
        (2001, (None, 2000), False),
        (None, (1000,), True),
        (9999, (None, None), True),
    ):
        known = [None if level is None else Fraction(level) for level in levels]
        assert may_rise(one, None if drawn is None else Fraction(drawn), *known) is free
    anchor = policy(independents=[{"ref": "ns/t0", "max": 100}])
    assert may_rise(anchor, Fraction(9), Fraction(1))
