"""What the controller keeps on any feed."""

from fractions import Fraction
from math import floor
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ballast.power.anchor import rounded
from ballast.power.controller import observe
from ballast.power.controller_state import ControllerMode, ControllerState, Reason, Sample
from ballast.power.policy import PowerPolicy
from ballast.power.sections import Rounding
from tests.worlds.power import TICK, WINDOW, examples, feeds, follow, junk, members, policy, power, rig, samples, totals

SETTLE = WINDOW // TICK + 2
STEPS = {
    "plain": {},
    "endpoint": {"stability": "endpoint"},
    "own-reference": {"reference": "paper"},
    "paper": {"compat": "paper"},
    "rates": {"increase": {"window": 60, "tolerance": 0.04, "maxStep": {"percent": 20}}},
    "emergency": {"emergencyDrop": {"relative": 0.5}},
    "floor": {"fallback": {"after": 60, "policy": "floor"}},
    "nominal": {"nominal": {"watts": 1000, "replicas": 40}},
    "base": {"basePower": 100},
    "watts": {"budget": "anchor", **members((1, 40), (0, 30), wattsPerReplica=25)},
}
variants = st.sampled_from(list(STEPS)).map(lambda name: policy(**STEPS[name]))
bounds = st.tuples(st.integers(1, 10), st.integers(0, 90)).map(lambda each: (each[0], each[0] + each[1]))


def close(one: PowerPolicy, total: int, ideal: Fraction) -> bool:
    """SM-CONV: within the dead band, and one replica."""
    lowest = sum(place.member.min for place in one.places.values())
    highest = sum(place.member.max for place in one.places.values())
    ideal = min(max(ideal, Fraction(lowest)), Fraction(highest))
    return abs(total - ideal) <= one.deadband / (1 - one.deadband) * max(total, ideal) + 1


def settled(one: PowerPolicy, watts: float) -> list[float]:
    """Long enough for every window that a feed may have left behind."""
    return [watts] * (6 * SETTLE)


@examples
@given(variants, feeds())
def test_no_feed_breaks_it(one: PowerPolicy, feed: list[float | None]) -> None:
    run = follow(one, feed)
    for tick in run.ticks:
        for name, count in tick.replicas.items():
            member = one.places[name].member
            assert member.min <= count <= member.max
    assert "NaN" not in str(run.document())


@examples
@given(variants, feeds(), junk)
def test_an_invalid_sample_changes_nothing(one: PowerPolicy, feed: list[float | None], bad: float | None) -> None:
    assume(one.fallback.policy == "hold")
    daemon = rig(one).run(feed)
    assume(daemon.state.plan is None)
    before = daemon.state
    outcome = observe(one, before, Sample.of(daemon.at, bad), daemon.cluster)
    if Sample.of(0, bad).watts is None:
        assert outcome.state == before
        assert outcome.reason in (Reason.INVALID, Reason.FALLBACK)


@examples
@given(st.sampled_from(["plain", "endpoint", "emergency", "nominal", "rates"]), feeds())
def test_the_reference_moves_with_an_action_alone(variant: str, feed: list[float | None]) -> None:
    run = follow(policy(**STEPS[variant]), feed)
    for before, after in zip(run.ticks, run.ticks[1:], strict=False):
        if before.reference is not None and after.reference != before.reference:
            assert after.delta != 0


FALLS_BACK_ON_THE_WAY_UP = [1208, 1118, 1006.5, 895, 783.5, 672, 560.5, 449, 337.5, 226, 114.5]
FALLS_BACK_ON_THE_WAY_UP += [913.75, 833.125, 860, 860, 860, 860, 806.25]


@examples
@given(st.sampled_from(["plain", "endpoint", "rates", "emergency"]), feeds())
@example("rates", FALLS_BACK_ON_THE_WAY_UP)
def test_an_action_has_the_sign_of_the_change_of_power(variant: str, feed: list[float | None]) -> None:
    run = follow(policy(**STEPS[variant]), feed)
    for before, after in zip(run.ticks, run.ticks[1:], strict=False):
        if after.delta:
            assert before.reference is not None
            assert after.watts is not None
            assert (after.delta > 0) == (after.watts > before.reference)


@examples
@given(feeds(), power)
def test_a_lasting_change_leads_to_an_action(feed: list[float | None], last: float) -> None:
    """A window and two ticks later; an older window that is still open may have to end first, for nothing."""
    one = policy()
    daemon = rig(one, one=200).run(feed)
    state, before = daemon.state, daemon.total
    assume(state.reference is not None and state.anchor is not None)
    watts = max(Fraction(str(last)), one.floor)
    assume(abs(watts - state.reference) >= one.deadband * state.reference)
    ideal = state.anchor.load * watts / state.anchor.watts if last >= one.floor else Fraction(0)
    target = min(max(rounded(ideal, before, Rounding.SAFE), 1), 400)
    assume((target - before) * (watts - state.reference) > 0)
    daemon.run([last] * (SETTLE if state.mode is ControllerMode.STABLE else 2 * SETTLE))
    assert daemon.total != before


@examples
@given(st.floats(10, 5000), st.lists(st.floats(-0.0499, 0.0499), max_size=60))
def test_inside_the_dead_band_nothing_is_written(first: float, noise: list[float]) -> None:
    run = follow(policy(), [first, *(first * (1 + each) for each in noise)], one=100)
    assert run.actions == 0
    assert {tick.state for tick in run.ticks} == {ControllerMode.STABLE}


@examples
@given(bounds, st.integers(1, 100), feeds(), power)
def test_it_arrives_wherever_it_came_from(
    limits: tuple[int, int], count: int, feed: list[float | None], last: float
) -> None:
    """No ratchet: the end depends on the last power alone, not on the way there."""
    one = policy(**members(limits))
    start = min(max(count, limits[0]), limits[1])
    run = follow(one, [1000.0, *feed, *settled(one, last)], t0=start)
    ideal = start * Fraction(str(last)) / 1000 if last >= one.floor else Fraction(0)
    assert close(one, run.ticks[-1].total, ideal)


@examples
@given(st.lists(st.floats(0.6, 1.0), max_size=60), st.booleans())
def test_on_a_falling_feed_replicas_never_rise(steps: list[float], rates: bool) -> None:
    feed, watts = [], 2000.0
    for step in steps:
        watts *= step
        feed.append(watts)
    run = follow(policy(**(STEPS["rates"] if rates else {})), feed)
    assert all(tick.delta <= 0 for tick in run.ticks)


@examples
@given(st.integers(1, 3), st.floats(0.06, 0.9), st.sampled_from([1, -1]), st.integers(1, 20))
def test_a_feed_that_swings_within_every_window_moves_nothing(high: int, swing: float, sign: int, times: int) -> None:
    """1000/1200 W every minute was followed 66 times by the two ends of a window."""
    feed = [*[1000.0], *([1000 * (1 + sign * swing)] * high + [1000.0]) * times]
    assert follow(policy(), feed, one=100).actions == 0


@examples
@given(variants, feeds(), st.integers(0, 60))
def test_stored_and_read_again_it_goes_on_as_if_nothing_was(
    one: PowerPolicy, feed: list[float | None], when: int
) -> None:
    counts = {name: place.member.start for name, place in one.places.items()}
    kept, told = ControllerState(), ControllerState()
    for index, sample in enumerate(samples(feed)):
        if index == when:
            told = ControllerState.load(told.dump())
        kept, told = observe(one, kept, sample, counts).state, observe(one, told, sample, counts).state
        if kept.plan:
            counts = dict(kept.plan.replicas)
        kept, told = kept.committed(), told.committed()
        assert kept == told


crashes = st.sampled_from(["", "", "before-plan", "after-plan", "half", "after-patch"])


@examples
@given(st.lists(st.tuples(power, crashes), max_size=60), power, st.booleans())
def test_a_crash_at_any_point_does_nothing_twice(feed: list[tuple[float, str]], last: float, drop: bool) -> None:
    one = policy(**members((1, 60), (2, 40), (1, 100)))
    daemon = rig(one, t0=20, t1=20, t2=20)
    daemon.tick(1000.0)
    anchor = daemon.state.anchor
    for watts, crash in feed:
        daemon.tick(watts, crash)
        if drop and crash and daemon.state.plan:
            daemon.drop_plan()
        assert daemon.state.anchor == anchor
    daemon.run(settled(one, last))
    ideal = 60 * Fraction(str(last)) / 1000 if last >= one.floor else Fraction(0)
    assert close(one, daemon.total, ideal)


@examples
@given(feeds(), st.floats(0, 0.5), st.integers(2, 4))
def test_an_emergency_needs_no_window(feed: list[float | None], share: float, count: int) -> None:
    one = policy(emergencyDrop={"relative": 0.5, "samples": count})
    daemon = rig(one, one=200).run(feed)
    state, before = daemon.state, daemon.total
    assume(state.reference is not None and before > 1 and state.reference * Fraction(1, 2) >= one.floor)
    ideal = state.anchor.load / state.anchor.watts * state.reference
    assume(rounded(ideal / 2, before, Rounding.SAFE) < before)
    daemon.run([float(state.reference) * share * 0.999] * count)
    assert daemon.total < before


@examples
@given(st.integers(-30, 60), st.sampled_from([700.0, 1000.0, 1400.0]))
def test_what_others_change_is_neither_undone_nor_amplified(change: int, watts: float) -> None:
    daemon = rig(policy(), one=40).run([1000.0, *[watts] * 10])
    before = daemon.total
    assume(1 <= before + change <= 400)
    daemon.scale("ns/one", before + change)
    daemon.run([watts] * 20)
    assert daemon.total == before + change
    daemon.run([watts * 2] * 10)
    assert abs(daemon.total - min(400, 2 * (before + change))) <= 2


@examples
@given(st.integers(-30, 60), st.sampled_from([700.0, 1000.0, 1400.0]))
def test_what_others_change_is_undone_where_that_is_wanted(change: int, watts: float) -> None:
    daemon = rig(policy(onForeignChange="enforce"), one=40).run([1000.0, *[watts] * 10])
    before = daemon.total
    assume(1 <= before + change <= 400)
    daemon.scale("ns/one", before + change)
    daemon.run([watts])
    assert daemon.total == before


@examples
@given(st.integers(1, 300), st.floats(0.1, 3), st.sampled_from(list(Rounding)))
def test_the_first_step_is_that_of_the_published_equation(count: int, factor: float, rounding: Rounding) -> None:
    last = round(1000 * factor, 3)
    feed = [1000.0, *[last] * SETTLE]
    keys: dict[str, Any] = {"rounding": rounding.value, **members((0, 2000))}
    ours, paper = follow(policy(**keys), feed, t0=count), follow(policy(compat="paper", **keys), feed, t0=count)
    assert totals(ours)[-1] == totals(paper)[-1]
    if rounding is Rounding.NEAREST_AWAY:
        change = count * (Fraction(str(last)) - 1000) / 1000
        expected = floor(abs(change) + Fraction(1, 2)) * (1 if change > 0 else -1)
        assert totals(ours)[-1] - count == (expected if abs(change) >= Fraction(count, 20) else 0)


@examples
@given(st.fractions(0, 1000, max_denominator=1000), st.integers(0, 1000), st.sampled_from(list(Rounding)))
def test_rounding_is_what_it_is_called(ideal: Fraction, current: int, rounding: Rounding) -> None:
    whole = rounded(ideal, current, rounding)
    assert abs(whole - ideal) <= (1 if rounding is Rounding.FLOOR else Fraction(1, 2))
    if rounding is Rounding.FLOOR:
        assert whole <= ideal
    half = int(ideal) + Fraction(1, 2)
    assert rounded(half, current, Rounding.SAFE) == int(ideal)
    assert abs(rounded(half, current, Rounding.NEAREST_AWAY) - current) >= abs(half - current)


@examples
@given(st.lists(st.sampled_from([500.0, 1000.0, 2000.0, 4000.0]), min_size=1, max_size=12), st.integers(5, 100))
def test_a_step_is_never_larger_than_its_limit(levels: list[float], percent: int) -> None:
    limit = {"percent": percent}
    one = policy(
        increase={"window": 60, "tolerance": 0.04, "maxStep": limit}, decrease={"window": 60, "maxStep": limit}
    )
    run = follow(one, [watts for level in levels for watts in [level] * 8] + [1000.0] * 120, one=50)
    for before, after in zip(run.ticks, run.ticks[1:], strict=False):
        assert abs(after.delta) <= max(1, before.total * percent // 100)
    ideal = 50 * Fraction(1000) / Fraction(str(levels[0]))
    assert close(one, run.ticks[-1].total, ideal)


@pytest.mark.slow
@pytest.mark.parametrize("variant", list(STEPS))
def test_a_constant_feed_writes_nothing_for_a_day(variant: str) -> None:
    one = policy(**{**STEPS[variant], "nominal": None})
    run = follow(one, [1000.0] * 1440, tick=60)
    assert run.actions == 0
