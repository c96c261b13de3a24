"""The controller's options, one by one."""

from fractions import Fraction
from typing import Any

import pytest

from ballast.power.controller import observe, rebaselined, resumed
from ballast.power.controller_state import ControllerMode, ControllerState, Reason, Sample
from tests.worlds.power import follow, members, policy, rig, totals

FALL = [1000.0] + [500.0] * 5


def test_a_change_waits_for_its_window_and_says_so() -> None:
    run = follow(policy(), FALL, one=40)
    assert [tick.reason for tick in run.ticks] == [
        "Bootstrapped",
        "DecreaseDetected",
        "WaitingForWindow",
        "WaitingForWindow",
        "WaitingForWindow",
        "ScaledDown",
    ]
    assert [tick.state for tick in run.ticks][1] is ControllerMode.PENDING_DECREASE
    assert run.ticks[-1].state is ControllerMode.STABLE
    assert totals(run)[-1] == 20


def test_the_level_a_window_confirms_is_its_careful_end() -> None:
    down = follow(policy(), [1000, 500, 800, 600, 700, 500], one=100)
    up = follow(policy(), [1000, 1500, 1200, 1400, 1300, 1500], one=100)
    assert (totals(down)[-1], down.ticks[-1].reference) == (80, 800)
    assert (totals(up)[-1], up.ticks[-1].reference) == (120, 1200)
    steady = follow(policy(), [1000, 500, 510, 505, 502, 501], one=100)
    assert (totals(steady)[-1], steady.ticks[-1].reference) == (50, 501)


def test_without_a_window_it_acts_at_once() -> None:
    run = follow(policy(decrease={"window": 0}), [1000, 500], one=40)
    assert totals(run) == [40, 20]


def test_the_other_direction_opens_a_new_window() -> None:
    run = follow(policy(), [1000, 1200, 1200, 1200, 800, 800, 800, 800, 800], one=40)
    assert run.cancels == 1
    assert totals(run) == [40] * 8 + [32]


def test_the_two_ends_alone_can_be_asked_for() -> None:
    endpoint = policy(stability="endpoint")
    assert totals(follow(endpoint, [1000, 500, 800, 600, 700, 500], one=100))[-1] == 50
    moved = follow(endpoint, [1000, 500, 500, 500, 500, 700, 700], one=100)
    assert (totals(moved)[-1], moved.cancels, moved.ticks[5].reason) == (100, 1, "Unstable")
    assert moved.ticks[5].reference == 1000
    own = follow(policy(stability="endpoint", reference="paper"), [1000, 500, 500, 500, 500, 700, 700], one=100)
    assert own.ticks[5].reference == 700


def test_an_emergency_acts_on_the_highest_of_its_samples() -> None:
    one = policy(emergencyDrop={"relative": 0.5, "samples": 2})
    run = follow(one, [1000, 450, 400, 1000], one=100)
    assert totals(run) == [100, 100, 45, 45]
    assert run.ticks[2].reason == "EmergencyDrop"
    assert totals(follow(one, [1000, 450, 600, 450, 600], one=100)) == [100] * 5


def test_an_emergency_is_not_held_by_a_rate_limit() -> None:
    slow = {"window": 60, "maxStep": {"pods": 1}}
    one = policy(decrease=slow, emergencyDrop={"relative": 0.5, "samples": 2})
    assert totals(follow(one, [1000, *[700.0] * 6, 300, 300], one=100))[-3:] == [98, 97, 30]


def test_a_rate_limit_cuts_a_change_into_steps() -> None:
    one = policy(decrease={"window": 60, "maxStep": {"pods": 5, "period": "30s"}})
    run = follow(one, [1000.0] + [500.0] * 14, one=30)
    assert totals(run) == [30] * 5 + [25, 25, 20, 20, 15, 15, 15, 15, 15, 15]
    assert {tick.state for tick in run.ticks[5:9]} == {ControllerMode.PENDING_DECREASE}
    assert run.ticks[6].reason == "RateLimited"
    assert run.ticks[9].reference == 500


def test_a_contrary_signal_ends_a_change_that_was_cut() -> None:
    one = policy(decrease={"window": 60, "maxStep": {"pods": 5}})
    run = follow(one, [1000.0, *[500.0] * 5, *[1000.0] * 6], one=30)
    assert totals(run)[5:7] == [25, 25]
    assert totals(run)[-1] == 30


@pytest.mark.parametrize(
    ("fallback", "silent"),
    [
        ({"after": "60s"}, [10, 10]),
        ({"after": "60s", "policy": "floor"}, [2, 3]),
        ({"after": "60s", "policy": "replicas", "replicas": {"ns/t0": 4}}, [4, 10]),
    ],
)
def test_a_silent_feed_leads_to_what_was_said(fallback: dict[str, Any], silent: list[int]) -> None:
    one = policy(fallback=fallback, **members((2, 10), (3, 10)))
    run = follow(one, [1000.0, 1000.0, *[None] * 8, *[1000.0] * 8])
    assert [tick.total for tick in run.ticks[2:5]] == [20] * 3
    assert list(run.ticks[8].replicas.values()) == silent
    assert run.ticks[8].reason == "Fallback"
    assert totals(run)[-1] == 20
    assert run.ticks[10].total == sum(silent)


def test_a_fallback_that_holds_brings_nobody_within_its_bounds() -> None:
    one = policy(fallback={"after": "60s"}, **members((2, 10)))
    state = observe(one, ControllerState(), Sample.of(0, 1000.0), {"ns/t0": 10}).state
    outcome = observe(one, state, Sample.of(60, None), {"ns/t0": 1})
    assert (outcome.reason, outcome.state.plan) == (Reason.FALLBACK, None)


@pytest.mark.parametrize(("silent", "reason"), [(59, Reason.INVALID), (60, Reason.FALLBACK)])
def test_a_fallback_waits_for_its_time_and_keeps_the_bounds(silent: int, reason: Reason) -> None:
    """Those of the objects may have become narrower than the policy's own."""
    replicas = {"ns/t0": 4, "ns/t1": 10}
    one = policy(fallback={"after": "60s", "policy": "replicas", "replicas": replicas}, **members((2, 10), (3, 10)))
    one = one.within({"ns/t0": (6, 10), "ns/t1": (3, 7)})
    counts = {"ns/t0": 10, "ns/t1": 5}
    state = observe(one, ControllerState(), Sample.of(0, 1000.0), counts).state
    outcome = observe(one, state, Sample.of(silent, None), counts)
    plan = outcome.state.plan
    assert outcome.reason == reason
    assert (None if plan is None else plan.replicas) == (None if reason == Reason.INVALID else {"ns/t0": 6, "ns/t1": 7})


def test_a_tick_that_is_no_later_than_the_last_one_decides_nothing() -> None:
    one = policy(decrease={"window": 0})
    state = observe(one, ControllerState(), Sample.of(15, 1000.0), {"ns/one": 40}).state
    for at in (0, 15):
        outcome = observe(one, state, Sample.of(at, 500.0), {"ns/one": 40})
        assert (outcome.reason, outcome.state.plan) == (Reason.INVALID, None)
    assert observe(one, state, Sample.of(16, 500.0), {"ns/one": 40}).state.plan is not None


def test_one_sample_confirms_no_window_however_many_ticks_see_it() -> None:
    one, counts = policy(), {"ns/one": 40}
    state = observe(one, ControllerState(), Sample(Fraction(0), Fraction(1000), Fraction(0)), counts).state
    for at in range(15, 150, 15):
        outcome = observe(one, state, Sample(Fraction(at), Fraction(500), Fraction(15)), counts)
        assert outcome.state.plan is None
        state = outcome.state
    outcome = observe(one, state, Sample(Fraction(150), Fraction(500), Fraction(150)), counts)
    assert outcome.state.plan is not None
    assert outcome.state.plan.replicas == {"ns/one": 20}


def test_after_a_long_silence_a_window_begins_again() -> None:
    one = policy(fallback={"after": "60s"})
    run = follow(one, [1000.0, 500.0, *[None] * 5, *[500.0] * 5], one=40)
    assert run.ticks[6].state is ControllerMode.PENDING_DECREASE
    assert totals(run) == [40] * 11 + [20]


def test_nothing_is_done_for_a_feed_that_never_spoke() -> None:
    one = policy(fallback={"after": "60s", "policy": "floor"})
    assert follow(one, [None] * 20, one=40).actions == 0


def test_what_is_nominal_is_the_anchor_from_the_start() -> None:
    one = policy(nominal={"watts": 1000, "replicas": 40})
    assert totals(follow(one, [1000.0] * 7, one=20))[-1] == 40
    assert totals(follow(one, [500.0] * 7, one=40))[-1] == 20
    assert follow(one, [500.0] * 7, one=20).actions == 0


def test_base_power_is_taken_off_first() -> None:
    run = follow(policy(basePower=200), [1000.0] + [600.0] * 6, one=40)
    assert totals(run)[-1] == 20
    assert run.ticks[-1].reference == 600


def test_replicas_of_different_watts_stay_within_the_power() -> None:
    weights = {
        "independents": [{"ref": f"ns/t{i}", "min": 0, "max": 20, "wattsPerReplica": 10 * (i + 1)} for i in range(3)]
    }
    one = policy(budget="anchor", **weights)
    for last in (900, 700, 333, 80):
        run = follow(one, [1200.0] + [float(last)] * 6)
        used = sum(count * 10 * (index + 1) for index, count in enumerate(run.ticks[-1].replicas.values()))
        assert last - 30 < used <= last
    even = policy(budget="anchor", independents=[{"ref": "ns/t0", "max": 40, "wattsPerReplica": 25}])
    assert totals(follow(even, FALL))[-1] == 20


def test_rounding_decides_the_halves() -> None:
    for name, down, up in (("safe", 14, 14), ("nearest-away", 14, 15), ("floor", 14, 14)):
        one = policy(rounding=name)
        assert totals(follow(one, [1000.0] + [500.0] * 5, one=29))[-1] == down
        assert totals(follow(one, [1000.0] + [1450.0] * 5, one=10))[-1] == up


def test_limits_are_told_once_a_window() -> None:
    run = follow(policy(**members((5, 20))), [1000.0] + [100.0] * 12, t0=10)
    assert totals(run)[-1] == 5
    daemon = rig(policy(**members((5, 20))), t0=5).run([1000.0, *[500.0] * 5])
    assert (daemon.outcomes[-1].reason, daemon.outcomes[-1].unmet) == (Reason.AT_LIMIT, -3)
    assert rig(policy(), one=9).run([1000.0, *[947.0] * 5]).outcomes[-1].reason is Reason.ROUNDS_TO_ZERO


def test_a_suspended_target_stays_at_zero() -> None:
    one = policy(**members((1, 20), (1, 20)))
    run = follow(one, [1000.0] + [2000.0] * 6, t0=0, t1=5)
    assert run.ticks[-1].replicas == {"ns/t0": 0, "ns/t1": 10}
    undo = rig(policy(onForeignChange="enforce", **members((1, 20), (1, 20))), t0=5, t1=5).run([1000.0, 1000.0])
    undo.scale("ns/t0", 0)
    undo.run([1000.0] * 3)
    assert undo.cluster == {"ns/t0": 0, "ns/t1": 5}


def test_a_fight_over_replicas_does_not_keep_it_from_acting() -> None:
    daemon = rig(policy(onForeignChange="enforce"), one=40).run([1000.0])
    for _ in range(6):
        daemon.scale("ns/one", 45)
        daemon.run([500.0])
    assert daemon.total == 20


def test_targets_that_come_and_go_are_no_reason_to_act() -> None:
    daemon = rig(policy(**members((1, 20), (1, 20))), t0=10, t1=10).run([1000.0])
    gone = daemon.cluster.pop("ns/t1")
    daemon.run([1000.0] * 8)
    assert daemon.cluster == {"ns/t0": 10}
    daemon.cluster["ns/t1"] = gone
    daemon.run([1000.0] * 8 + [500.0] * 6)
    assert daemon.cluster == {"ns/t0": 5, "ns/t1": 5}


def test_what_a_target_needs_is_left_to_it_within_the_budget_of_the_others() -> None:
    one = policy(**members((1, 20), (1, 20)))
    counts = {"ns/t0": 20, "ns/t1": 20}
    steady = observe(one, ControllerState(), Sample.of(0, 1000.0), counts).state
    fallen = observe(one, steady, Sample.of(15, 500.0), counts).state
    plan = observe(one, fallen, Sample.of(90, 500.0), counts, {"ns/t0": 18}).state.plan
    assert plan is not None
    assert plan.replicas == {"ns/t0": 18, "ns/t1": 2}


def test_an_open_plan_comes_before_anything_else() -> None:
    one = policy()
    daemon = rig(one, one=40).run(FALL[:-1])
    daemon.tick(500.0, crash="after-plan")
    state = daemon.state
    assert state.plan is not None
    assert state.plan.replicas == {"ns/one": 20}
    again = observe(one, state, Sample.of(daemon.at, 3000.0), daemon.cluster)
    assert (again.state, again.reason) == (state, Reason.PLAN_OPEN)
    after = state.committed()
    assert (after.plan, after.last, after.reference) == (None, {"ns/one": 20}, 500)
    daemon.drop_plan()
    assert daemon.state.reference == 1000
    daemon.run([500.0] * 6)
    assert daemon.total == 20


def test_a_restart_never_shortens_a_window() -> None:
    daemon = rig(policy(), one=40).run([1000.0, *[500.0] * 4])
    daemon.stored = resumed(daemon.state).dump()
    daemon.run([500.0] * 4)
    assert daemon.total == 40
    daemon.run([500.0])
    assert daemon.total == 20


def test_a_new_baseline_forgets_the_old_one() -> None:
    daemon = rig(policy(), one=40).run(FALL)
    daemon.stored = rebaselined(daemon.state).dump()
    daemon.run([500.0] * 8)
    assert daemon.total == 20
    daemon.run([1000.0] * 6)
    assert daemon.total == 40


def test_the_state_is_small_text_and_refuses_what_is_none() -> None:
    daemon = rig(policy(), one=40).run([1000.0, 700.0, 2000 / 3])
    assert len(daemon.stored) < 600
    assert ControllerState.load(daemon.stored).window is not None
    assert (
        daemon.state.lasting()
        == observe(daemon.policy, daemon.state, Sample.of(46, 700.0), {"ns/one": 40}).state.lasting()
    )
    assert daemon.state.reference == Fraction(1000)
    for text in ("", "{", "[]", '{"schema": 2}', '{"reference": "x"}'):
        with pytest.raises(ValueError, match=r".+"):
            ControllerState.load(text)
