"""Feeds that swing, with the defaults: the time over them, and the use of what the window of rises carries."""

from dataclasses import replace
from fractions import Fraction

import pytest

from ballast.power.controller import observe, resumed
from ballast.power.controller_state import ControllerState, FeedReading, Sample, Trust
from ballast.power.replay import NO_DEMAND, replay
from tests.worlds.power import samples
from tests.worlds.swinging import FEEDS, follow, one_target

OVER_AND_ACTIONS = {
    "ramp of 1 % a minute": (0.002, 45),
    "brown-outs": (0, 100),
    "flapping, above a half": (0, 2),
    "flapping, two low ones": (0.002, 4),
    "noise": (0, 220),
    # Each cliff is a fall of more than a half, whose second part waits for a sample.
    "saw with cliffs": (0.025, 410),
    # Low samples confirm one another, so it is served at its lower level.
    "flapping, below a half": (0.002, 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FEEDS)
def test_feeds_that_swing(name: str) -> None:
    over, actions = OVER_AND_ACTIONS[name]
    followed = follow(FEEDS[name], asked_again=False)
    assert followed.use >= 0.95
    assert followed.over <= over
    assert followed.worst_watts <= 450
    assert followed.actions <= actions
    assert follow(FEEDS[name], asked_again=True).over <= 0.002


@pytest.mark.parametrize("apart", [900, 3600])
def test_slow_feeds_fall_with_their_row(apart: int) -> None:
    one = one_target()
    feed = samples([5000.0, 2000.0] * 12, apart)
    assert not replay(one, feed, {"ns/one": 50}, NO_DEMAND, interval=Fraction(15)).over.share


HALF = Trust(Fraction(1, 2))


def read(*rows: tuple[int, int], trust: Trust = HALF) -> list[int]:
    """What counts of each sample (time, watts)."""
    reading = FeedReading(Fraction(0), Fraction(5000), Fraction(5000), Fraction(15))
    counted = []
    for time, watts in rows:
        reading = reading.then(Fraction(time), Fraction(watts), trust)
        counted.append(int(reading.confirmed))
    return counted


def test_a_witness_confirms_a_fall_as_far_as_it_saw_one() -> None:
    assert read((15, 1000)) == [2500]
    for witnessed, counted in ((1000, 1000), (0, 1000), (1800, 1800), (4900, 2500)):
        assert read((15, 1000), trust=replace(HALF, witnessed=Fraction(witnessed))) == [counted]


def test_a_clock_that_steps_back_hides_one_sample() -> None:
    assert read((-600, 1000), (-585, 1000), (-570, 1000)) == [5000, 2500, 1000]
    assert read((59, 5000), (15, 4000), (30, 4000)) == [5000, 5000, 4000]


def test_older_samples_of_a_second_source_behind_are_passed_over() -> None:
    """Two Prometheus in turn, one of which is five seconds behind: its samples are no news, and confirm nothing."""
    assert read((15, 0), (10, 5000), (15, 0), (10, 5000), (30, 5000), (25, 0), (30, 5000)) == [2500] * 4 + [5000] * 3


def test_the_pace_of_a_slow_feed_outlives_a_restart() -> None:
    one = one_target()
    state, count = ControllerState(), {"ns/one": 50}
    for at in (0, 3600, 7200):
        sample = replace(Sample.of(at, 5000.0), time=Fraction(at))
        before, state = state, observe(one, state, sample, count).state.committed()
    assert before.lasting() == state.lasting(), "nothing is saved with each sample"
    assert ControllerState().lasting() != state.lasting()
    state = resumed(ControllerState.load(state.dump()))
    sample = replace(Sample.of(10_830, 2000.0), time=Fraction(10_800))
    plan = observe(one, state, sample, count).state.plan
    assert plan is not None
    assert plan.replicas == {"ns/one": 39}


def test_the_first_sample_of_a_feed_that_is_known_to_be_slow_counts() -> None:
    one = one_target()
    for apart, left in ((0, 50), (15, 50), (3600, 19)):
        sample = replace(Sample.of(0, 1000.0), time=Fraction(0), apart=Fraction(apart))
        plan = observe(one, ControllerState(), sample, {"ns/one": 100}).state.plan
        assert plan is not None
        assert plan.replicas == {"ns/one": left}
