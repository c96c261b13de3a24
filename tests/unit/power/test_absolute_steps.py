"""An absolute budget tick by tick: what steps cut, what a waiting rise says, what silence leaves."""

from fractions import Fraction

import pytest

from ballast.power.controller import observe
from ballast.power.controller_state import ControllerMode, ControllerState, Reason, Sample
from tests.unit.power.test_absolute import absolute
from tests.worlds.power import follow, rig, totals

STEP = {"pods": 5, "period": "30s"}


def test_a_step_of_the_policy_is_shared_in_the_order_of_names() -> None:
    one = absolute({}, {}, increase={"window": 0, "maxStep": STEP}, decrease={"window": 0, "maxStep": STEP})
    rising = rig(one, t0=2, t1=2)
    rising.tick(200.0)
    assert rising.cluster == {"ns/t0": 7, "ns/t1": 2}
    falling = rig(one, t0=13, t1=7).run([200.0])
    falling.tick(100.0)
    assert falling.cluster == {"ns/t0": 8, "ns/t1": 7}
    uneven = rig(one, t0=13, t1=7).run([200.0])
    uneven.tick(180.0)
    assert uneven.total == 18


def test_the_step_of_a_target_is_a_part_of_what_it_has_now_also_at_its_maximum() -> None:
    one = absolute({"max": 20, "maxStep": {"percent": 50, "period": "15s"}}, confirm={"below": 0.1})
    assert totals(follow(one, [200.0, 20.0, 20.0, 20.0], t0=20)) == [20, 10, 5, 3]


def test_a_rise_says_that_it_was_detected_then_that_it_waits() -> None:
    run = rig(absolute({}, increase={"window": 60}), t0=20).run([200.0, *[300.0] * 5])
    assert [outcome.reason for outcome in run.outcomes] == [
        Reason.BOOTSTRAPPED,
        Reason.INCREASE_DETECTED,
        *[Reason.WAITING] * 3,
        Reason.SCALED_UP,
    ]
    waiting = run.outcomes[2].state
    assert waiting.mode is ControllerMode.PENDING_INCREASE
    assert waiting.window is not None
    assert (waiting.window.since, waiting.window.count) == (Fraction(15), 2)


def test_the_rest_of_a_rise_by_steps_says_so() -> None:
    one = absolute({}, increase={"window": 0, "maxStep": STEP})
    run = rig(one, t0=10).run([100.0, *[200.0] * 3])
    assert [outcome.reason for outcome in run.outcomes][1:] == [Reason.SCALED_UP, Reason.RATE_LIMITED, Reason.SCALED_UP]
    assert run.outcomes[1].state.plan is not None
    assert run.outcomes[1].state.plan.mode is ControllerMode.PENDING_INCREASE


@pytest.mark.parametrize("policy", ["hold", "floor"])
def test_what_the_feed_gave_last_is_kept_through_a_silence(policy: str) -> None:
    one, counts = absolute({"min": 2}, fallback={"policy": policy, "after": 60}), {"ns/t0": 40}
    before = observe(one, ControllerState(), Sample(Fraction(0), Fraction(400), Fraction(0)), counts).state
    silent = observe(one, before, Sample(Fraction(15), None, None, Fraction(100)), counts)
    assert silent.state.plan is not None
    assert silent.state.plan.replicas == {"ns/t0": 10}
    assert silent.state.measured == before.measured
    assert silent.state.measured is not None
    # The bound has taken all but 10; the feed is back, and the newest sample is far below the last one.
    back = observe(one, silent.state.committed(), Sample(Fraction(30), Fraction(80), Fraction(30)), {"ns/t0": 40})
    assert back.state.plan is not None
    assert back.state.plan.replicas == {"ns/t0": 20}


def test_silence_within_the_last_level_changes_nothing() -> None:
    one, counts = absolute({}), {"ns/t0": 40}
    before = observe(one, ControllerState(), Sample(Fraction(0), Fraction(400), Fraction(0)), counts).state
    silent = observe(one, before, Sample(Fraction(15), None, None, Fraction(400)), counts)
    assert silent.state.plan is None
    assert silent.reason is observe(one, before, Sample(Fraction(15), None, None), counts).reason


@pytest.mark.parametrize(
    ("query", "least"),
    [("draw", 200 * (1 + Fraction(4, 100))), ("avg_over_time(draw[5m])", 201 * (1 + 2 * Fraction(4, 100)))],
)
def test_a_rise_is_due_beyond_the_dead_band_and_later_where_the_feed_is_averaged(query: str, least: Fraction) -> None:
    feed = {
        "semantics": "limit-minus-consumption",
        "limit": {"watts": 1000},
        "consumption": {"query": query, "of": "others"},
    }
    one = absolute({"wattsPerReplica": 1, "max": 500}, feed=feed, deadband=0.04, increase={"window": 60})
    counts = {"ns/t0": 200}
    before = observe(one, ControllerState(), Sample(Fraction(0), Fraction(200), Fraction(0)), counts).state
    for watts, reason in ((least - Fraction(1, 10), Reason.INSIDE), (least, Reason.INCREASE_DETECTED)):
        assert observe(one, before, Sample(Fraction(15), watts, Fraction(15)), counts).reason == reason
