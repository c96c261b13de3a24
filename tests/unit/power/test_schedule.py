"""A bound that is known beforehand: held from its first minute on, and nothing is given up long before."""

import random
from fractions import Fraction

import pytest

from ballast.base.errors import SettingsError
from ballast.power.feed_spec import Schedule, ScheduleSpec, Unit
from ballast.power.replay import AS_DECLARED, NO_DEMAND, Replay, replay
from tests.worlds.power import policy, samples

MEMBERS = [{"ref": "ns/t0", "min": 0, "max": 100, "wattsPerReplica": 10, "replicas": 100}]


def scheduled(rows: list[tuple[int, int]], ticks: int, lead: str = "1m", watts: float = 1000.0) -> Replay:
    one = policy(independents=MEMBERS, margin=0, decrease={}, schedule={"csv": "unused", "lead": lead})
    bounds = Schedule.of((Fraction(at), Fraction(bound)) for at, bound in rows)
    return replay(one, samples([watts] * ticks), {"ns/t0": 100}, NO_DEMAND, AS_DECLARED, bounds)


def test_a_bound_holds_when_it_begins_and_not_long_before() -> None:
    run = scheduled([(0, 1000), (300, 400), (600, 1000)], 60)
    totals = {int(tick.t or 0): tick.total for tick in run.ticks}
    assert totals[225] == 100
    assert totals[240] == totals[300] == totals[585] == 40
    assert totals[660] == 100


def test_a_bound_of_less_than_half_needs_no_second_sample() -> None:
    run = scheduled([(0, 1000), (300, 100)], 25, lead="15s")
    assert {int(tick.t or 0): tick.total for tick in run.ticks}[285] == 10


@pytest.mark.slow
def test_random_events_are_held_from_their_first_minute_on() -> None:
    chance, held, early, events = random.Random(7), 0, 0, 200
    for _ in range(events):
        begin, depth = 15 * chance.randint(20, 60) + chance.randint(0, 14), chance.randint(0, 900)
        run = scheduled([(0, 1000), (begin, depth), (begin + 1200, 1000)], (begin + 1200) // 15)
        after = [tick for tick in run.ticks if int(tick.t or 0) >= begin]
        held += all(10 * tick.total <= depth for tick in after)
        early += any(tick.total < 100 for tick in run.ticks if int(tick.t or 0) < begin - 120)
    assert held >= 0.99 * events
    assert not early


def test_before_its_first_row_a_schedule_bounds_what_it_leads_to() -> None:
    rows = Schedule.of([(Fraction(100), Fraction(5)), (Fraction(50), Fraction(7))])
    assert rows.bound(Fraction(0), Fraction(10)) is None
    assert rows.bound(Fraction(0), Fraction(60)) == 7
    assert rows.bound(Fraction(60), Fraction(60)) == 5
    assert rows.bound(Fraction(60), Fraction(10)) == 7
    assert rows.ahead(Fraction(60), Fraction(60)) == rows.rows


@pytest.mark.slow
def test_a_budget_of_energy_is_kept_and_used() -> None:
    one = policy(independents=MEMBERS, margin=0, decrease={}, energy={"kWh": 6, "per": "12h"})
    feed = [200.0] * 1440 + [1000.0] * 1440 + [1000.0] * 100
    run = replay(one, samples(feed), {"ns/t0": 100})
    joules = [10 * tick.total * 15 for tick in run.ticks]
    assert 0.93 * 6 <= sum(joules[:2880]) / 3_600_000 <= 6
    assert run.ticks[1439].total == 20
    assert run.ticks[-1].total > 20


def test_energy_needs_the_watts_of_replicas() -> None:
    with pytest.raises(SettingsError, match="energy is given"):
        policy(energy={"kWh": 1})


def test_the_rows_have_a_unit_of_their_own() -> None:
    rows = Schedule.of([(Fraction(0), Fraction(5)), (Fraction(600), Fraction(2))])
    assert rows.meant(ScheduleSpec(csv="x.csv", unit=Unit.KILOWATT)).bound(Fraction(0), Fraction(60)) == 5000
    assert policy(schedule={"csv": "x.csv", "unit": "kW"}).schedule.unit is Unit.KILOWATT  # type: ignore[union-attr]


def test_after_an_event_the_bound_rises_by_its_ramp() -> None:
    rows = Schedule.of([(0, Fraction(5000)), (600, Fraction(1000), "a", Fraction(100)), (1200, Fraction(5000))])
    levels = [rows.bound(Fraction(at), Fraction(0)) for at in (599, 600, 1199, 1200, 1260, 3000, 3600, 4000)]
    assert levels == [5000, 1000, 1000, 1000, 1100, 4000, 5000, 5000]
    lowest = rows.lowest(Fraction(540), Fraction(60))
    assert lowest is not None
    assert (
        lowest.id,
        rows.meant(ScheduleSpec(csv="x.csv", unit=Unit.KILOWATT)).bound(Fraction(1260), Fraction(0)),
    ) == ("a", 1_000_100)


@pytest.mark.slow
def test_one_hundred_events_begin_in_time_and_end_by_their_ramp() -> None:
    """Each bound is kept within 60 s of its begin, and the load rises by no more than the ramp allows."""
    chance = random.Random(27)
    for _ in range(100):
        begin, length = chance.randint(300, 900), chance.randint(300, 1800)
        depth, ramp = chance.randint(0, 900), chance.randint(5, 200)
        one = policy(independents=MEMBERS, margin=0, decrease={}, increase={}, schedule={"csv": "unused"})
        event = begin, Fraction(depth), "x", Fraction(ramp)
        bounds = Schedule.of([(0, Fraction(1000)), event, (begin + length, Fraction(1000))])
        ticks = (begin + length + 60 * 1000 // ramp) // 15 + 60
        run = replay(one, samples([1000.0] * ticks), {"ns/t0": 100}, NO_DEMAND, AS_DECLARED, bounds)
        for tick in run.ticks:
            at = int(tick.t or 0)
            if begin <= at < begin + length:
                assert 10 * tick.total <= depth
            if at >= begin + length:
                assert 10 * tick.total <= depth + Fraction(ramp, 60) * (at - begin - length)
        assert run.ticks[-1].total == 100
