"""Watts that can hardly be right: of another unit, standing still, or a schedule in kilowatts."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.power.feed_spec import Schedule
from ballast.power.plausible import ABOVE, ENDS, LITTLE, MUCH, STILL, SUDDEN, Plausibility, doubts, small_rows
from ballast.power.policy import PowerPolicy
from tests.worlds.power import examples, policy

HOUR = 3600


def site(**feed: object) -> PowerPolicy:
    """100 replicas of 50 W, which draw 5 kW at most."""
    members = [{"ref": "ns/t0", "max": 100, "wattsPerReplica": 50}]
    return policy(independents=members, feed={"query": "x", "semantics": "available", **feed})


def test_a_feed_of_another_unit_is_told_in_both_directions() -> None:
    assert Plausibility(site()).see(0, Fraction(5_000_000)) == MUCH
    kilowatts = Plausibility(site())
    assert kilowatts.see(0, Fraction(5)) is None
    assert kilowatts.see(HOUR, Fraction(4)) == LITTLE
    assert kilowatts.see(HOUR + 15, Fraction(5000)) is None


def test_nights_are_no_other_unit() -> None:
    sun = Plausibility(site())
    for quarter in range(4 * 24 * 5):
        at, hour = quarter * 900.0, quarter / 4 % 24
        watts = Fraction(4000 + quarter) if 8 <= hour < 16 else Fraction(quarter % 7)
        if quarter > 4 * 8:
            assert sun.see(at, watts) is None


def test_more_than_ten_times_the_most_of_a_day_is_told_and_moves_that_no_further() -> None:
    feed = Plausibility(site())
    for quarter in range(4 * 25):
        assert feed.see(900.0 * quarter, Fraction(1000 + quarter)) is None
    assert feed.see(25 * HOUR, Fraction(10_990)) is None
    for number, watts in enumerate((109_901, 150_000, 400_000)):
        assert feed.see(25 * HOUR + 30.0 * number, Fraction(watts)) == SUDDEN
    assert feed.see(25 * HOUR + 300, Fraction(1200)) is None


def test_the_most_that_a_feed_can_give_may_be_told() -> None:
    one = Plausibility(site(max=8, unit="kW"))
    assert one.see(0, Fraction(8000)) is None
    assert one.see(30, Fraction(8001)) == ABOVE
    assert Plausibility(site(max=10_000_000)).see(0, Fraction(5_000_000)) is None


@examples
@given(st.lists(st.integers(50, 500_000), min_size=1, max_size=20))
def test_what_a_site_may_have_is_never_told(watts: list[int]) -> None:
    """Up to what all targets can draw, and up to ten times what there was."""
    feed, high = Plausibility(site()), 0
    for number, value in enumerate(watts):
        told = feed.see(600.0 * number, Fraction(value))
        if high and value > max(5000, 10 * high):
            assert told == SUDDEN
        else:
            assert told is None
            high = max(high, value)


def test_a_register_that_says_minus_one_is_told_in_the_first_minutes() -> None:
    feed = Plausibility(site())
    assert all(feed.see(30.0 * number, Fraction(1500)) is None for number in range(20))
    assert feed.see(600.0, Fraction(65_535)) == SUDDEN
    assert feed.see(690.0, Fraction(3000)) is None


def test_measured_watts_that_stand_still_are_told_until_they_move() -> None:
    feed = Plausibility(site())
    told = [feed.see(at, Fraction(3000)) for at in range(0, 7 * HOUR, 900)]
    assert told == [None] * 24 + [STILL] * 4
    assert feed.see(7 * HOUR, Fraction(3001)) is None


@pytest.mark.parametrize("feed", [{"semantics": "limit"}, {"query": None, "csv": "x.csv"}])
def test_a_limit_and_a_file_may_stand_still(feed: dict[str, object]) -> None:
    given = {key: value for key, value in {"query": "x", "semantics": "available", **feed}.items() if value}
    members = [{"ref": "ns/t0", "max": 100, "wattsPerReplica": 50}]
    one = Plausibility(policy(independents=members, feed=given))
    assert all(one.see(at, Fraction(3000)) is None for at in range(0, 48 * HOUR, HOUR))


def test_a_dark_night_may_stand_still() -> None:
    feed = Plausibility(site())
    feed.see(-HOUR, Fraction(2000))
    assert all(feed.see(at, Fraction(0)) is None for at in range(0, 15 * HOUR, HOUR))


def test_kilowatts_in_a_schedule_and_its_end_are_told() -> None:
    keys = {"independents": [{"ref": "ns/t0", "max": 100, "wattsPerReplica": 50}]}
    one = policy(**keys, feed={"csv": "f.csv", "unit": "kW"}, schedule={"csv": "s.csv"})
    rows = Schedule.of([(0, Fraction(5)), (HOUR, Fraction(2))])
    told = list(doubts(one, rows, 0.0))
    assert [text.split(":")[0] for text in told[:1]] == ["feed.unit is kW, schedule.unit W"]
    assert "check its unit. Give schedule.unit." in told[1]
    assert told[2].startswith(ENDS)
    assert small_rows(one, Schedule.of([(0, Fraction(0))])) is None
    watts = policy(**keys, feed={"csv": "f.csv"}, schedule={"csv": "s.csv"})
    assert not list(doubts(watts, Schedule.of([(0, Fraction(5000)), (3 * HOUR, Fraction(0))]), 0.0))
    priced = policy(**keys, energy={"kWh": 1}, schedule={"csv": "s.csv", "as": "price"})
    assert not list(
        doubts(priced, Schedule.of([(0, Fraction(1)), (3 * HOUR, Fraction(2))]).meant(priced.schedule), 0.0)
    )  # type: ignore[arg-type]
