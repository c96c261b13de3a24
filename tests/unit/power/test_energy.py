"""A budget of energy: its periods, what counts as used, and the hours that get it first."""

import math
import random
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.base.errors import SettingsError
from ballast.power.autoscaled import Autoscaled
from ballast.power.controller import observe, rebaselined
from ballast.power.controller_state import ControllerState, Sample
from ballast.power.energy import EnergySpec
from ballast.power.feed_spec import Schedule
from ballast.power.policy import PowerPolicy
from ballast.power.replay import AS_DECLARED, NO_DEMAND, Replay, Tick, replay
from tests import properties
from tests.worlds.power import examples, policy, samples

QUARTER = 900
DAY = 86_400
SITE = [{"ref": "ns/t0", "min": 0, "max": 100, "wattsPerReplica": 50}]


def spec(**keys: object) -> EnergySpec:
    return EnergySpec.model_validate({"kWh": 60, **keys})


def followed(
    one: PowerPolicy, watts: list[float], rows: list[tuple[int, float]] | None, apart: int = QUARTER
) -> Replay:
    """A replay of quarters of an hour, with ticks each minute; the schedule means what the policy says."""
    schedule = None
    if rows is not None:
        assert one.schedule is not None
        schedule = Schedule.of((Fraction(at), Fraction(value)) for at, value in rows).meant(one.schedule)
    counts = {name: place.member.start for name, place in one.places.items()}
    return replay(one, samples(watts, apart), counts, NO_DEMAND, AS_DECLARED, schedule, interval=Fraction(60))


def used(ticks: list[Tick], apart: int = QUARTER) -> float:
    """kWh that the replicas of these quarters of an hour draw."""
    return sum(float(tick.drawn or 0) * apart for tick in ticks) / 3_600_000


def days(run: Replay) -> list[list[Tick]]:
    by_day: dict[int, list[Tick]] = {}
    for tick in run.ticks:
        by_day.setdefault(int(tick.t or 0) // DAY, []).append(tick)
    return list(by_day.values())


def carbon(seed: int, number: int) -> list[tuple[int, float]]:
    """A clean noon, a dirty evening, and weather: g/kWh each quarter of an hour."""
    chance, weather, rows = random.Random(seed), 0.0, []
    for quarter in range(number * 96):
        weather = 0.98 * weather + chance.gauss(0, 8)
        hour = quarter / 4 % 24
        rows.append((quarter * QUARTER, 250 - 120 * math.exp(-(((hour - 13) / 3) ** 2)) + 60 * (hour > 17) + weather))
    return rows


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("watts", [50, 700])
def test_a_day_planned_ahead_keeps_its_volume_in_the_cleanest_hours(seed: int, watts: int) -> None:
    members = [{"ref": "ns/t0", "min": 0, "max": 5000 // watts, "wattsPerReplica": watts}]
    one = policy(independents=members, energy={"kWh": 60}, schedule={"csv": "unused", "as": "carbon"})
    rows = carbon(seed, 3)
    run = followed(one, [5000.0] * 3 * 96, rows)
    grams = oracle = 0.0
    for day, values in zip(days(run), (rows[96 * n : 96 * n + 96] for n in range(3)), strict=True):
        assert 0.98 * 60 <= used(day) <= 60 * 1.0001
        grams += sum(used([tick]) * value for tick, (_, value) in zip(day, values, strict=True))
        # The oracle: the 48 cleanest quarters of each day, with all of the feed.
        oracle += sum(sorted(value for _, value in values)[:48]) / 48 * 60
    assert grams / sum(map(used, days(run))) <= 1.03 * oracle / (3 * 60)
    assert run.over.share == 0


def test_negative_prices_are_the_best() -> None:
    one = policy(independents=SITE, energy={"kWh": 5}, schedule={"csv": "unused", "as": "price"})
    rows = [(3600 * hour, -40.0 if hour == 3 else 90.0) for hour in range(24)]
    run = followed(one, [5200.0] * 96, rows)
    assert [int(tick.t or 0) // 3600 for tick in run.ticks if tick.total] == [3] * 4


def test_minima_are_kept_and_paid_for_in_bad_hours() -> None:
    members = [{"ref": "ns/t0", "min": 20, "max": 100, "wattsPerReplica": 50}]
    one = policy(independents=members, energy={"kWh": 60}, schedule={"csv": "unused", "as": "carbon"})
    run = followed(one, [5000.0] * 96, carbon(1, 1))
    assert min(tick.total for tick in run.ticks) == 20
    assert 0.98 * 60 <= used(list(run.ticks)) <= 60.001
    assert all((tick.drawn or 0) <= (tick.allowed or 0) for tick in run.ticks)


@pytest.mark.slow
def test_energy_waits_for_the_sun_that_a_schedule_tells() -> None:
    sun = [5000.0 if 10 <= quarter / 4 < 14 else 0.0 for quarter in range(96)]
    rows = [(quarter * QUARTER, watts) for quarter, watts in enumerate(sun)]
    keys = {"independents": SITE, "decrease": {}, "energy": {"kWh": 10}, "schedule": {"csv": "unused"}}
    even = followed(policy(**keys), sun, rows)
    # The rise comes a minute after the row that shows the sun, which counts for the quarter of an hour here.
    assert 9.3 <= used(list(even.ticks)) <= 10.001
    assert max(tick.total for tick in even.ticks) <= 55
    first = followed(policy(**{**keys, "energy": {"kWh": 10, "shift": True}}), sun, rows)
    assert 8.8 <= used(list(first.ticks)) <= 10.001
    assert max(tick.total for tick in first.ticks) == 98


@pytest.mark.slow
@properties.examples(20)
@given(st.data())
def test_a_period_never_uses_more_than_its_energy(data: st.DataObject) -> None:
    draw = data.draw
    per, kwh = draw(st.sampled_from(["1h", "6h", "24h"])), draw(st.integers(1, 60))
    site = [{**SITE[0], "replicas": 0}]  # Nothing is drawn before the first decision.
    keys: dict[str, object] = {"independents": site, "energy": {"kWh": kwh, "per": per}}
    rows = None
    if draw(st.booleans()):
        kind = draw(st.sampled_from([{"as": "carbon"}, {"as": "price"}, {}]))
        keys |= {"schedule": {"csv": "unused", **kind}}
        rows = [(at * QUARTER, float(draw(st.integers(0, 5000)))) for at in range(0, 96, draw(st.integers(1, 30)))]
    feed = draw(st.lists(st.integers(0, 6000), min_size=96, max_size=96))
    # A row a minute, so that the ticks show all that was drawn.
    run = followed(policy(**keys), [float(watts) for watts in feed for _ in range(15)], rows, 60)
    length = {"1h": 60, "6h": 360, "24h": 1440}[per]
    # A fall of the feed by more than half waits a sample; energy does not.
    for first in range(0, 1440, length):
        assert used(list(run.ticks[first : first + length]), 60) <= kwh + 1e-3


def test_periods_begin_at_midnight_of_the_time_zone() -> None:
    zone = ZoneInfo("Europe/Amsterdam")

    def moment(*parts: int) -> Fraction:
        return Fraction(int(datetime(*parts, tzinfo=zone).timestamp()))  # type: ignore[arg-type, misc]

    daily = spec(timezone="Europe/Amsterdam")
    assert daily.period(moment(2026, 3, 29, 12)) == (moment(2026, 3, 29), moment(2026, 3, 30))
    assert moment(2026, 3, 30) - moment(2026, 3, 29) == 23 * 3600
    halves = spec(timezone="Europe/Amsterdam", per="12h")
    assert halves.period(moment(2026, 10, 25, 23)) == (moment(2026, 10, 25, 12) - 3600, moment(2026, 10, 26))
    weekly = spec(timezone="Europe/Amsterdam", per="7d")
    assert weekly.period(moment(2026, 11, 25, 9)) == (moment(2026, 11, 23), moment(2026, 11, 30))
    assert spec().period(Fraction(10) ** 15)[1] == (10**15 // DAY + 1) * DAY


@examples
@given(
    st.sampled_from(["UTC", "Europe/Amsterdam", "Asia/Kathmandu", "America/St_Johns", "Africa/Cairo"]),
    st.sampled_from(["1h", "6h", "12h", "24h", "7d"]),
    st.integers(1_000_000_000, 2_000_000_000),
)
def test_periods_follow_each_other_without_a_gap(zone: str, per: str, at: int) -> None:
    one = spec(timezone=zone, per=per)
    begin, end = one.period(Fraction(at))
    assert begin <= at < end
    assert one.period(end)[0] == end
    assert one.period(end - 1) == (begin, end)


def tick(one: PowerPolicy, state: ControllerState, at: int, **known: object) -> ControllerState:
    sample = replace(Sample.of(at, 5000.0), **known)  # type: ignore[arg-type]
    scaled = {"ns/t0": Autoscaled(100, 100, 2, 2)}
    return observe(one, state, sample, {"ns/t0": 100}, autoscaled=scaled).state.committed()


@pytest.mark.slow
def test_what_runs_is_metered_and_not_what_might_and_the_meter_goes_before() -> None:
    one = policy(independents=SITE, energy={"kWh": 12})
    state = metered = ControllerState()
    for at in range(0, 6 * 3600 + 1, 60):
        state = tick(one, state, at)
        metered = tick(one, metered, at, drawn=Fraction(150))
    assert state.energy is not None
    assert metered.energy is not None
    assert float(state.energy.used) == pytest.approx(100 * 6 * 3600)
    assert float(metered.energy.used) == pytest.approx(150 * 6 * 3600)


@pytest.mark.slow
def test_a_cap_does_not_hide_the_demand_that_the_day_is_planned_by() -> None:
    one = policy(independents=SITE, energy={"kWh": 60}, schedule={"csv": "unused", "as": "carbon"})
    assert one.schedule is not None
    forecast = Schedule.of((Fraction(at), Fraction(value)) for at, value in carbon(1, 4)).meant(one.schedule)
    state, cap, kwh = ControllerState(), 100, [0.0] * 4
    for at in range(0, 4 * DAY, 300):
        running = min(60, cap)
        sample = replace(Sample.of(at, 5000.0), forecast=forecast, drawn=Fraction(50 * running))
        result = observe(one, state, sample, {"ns/t0": cap}, autoscaled={"ns/t0": Autoscaled(100, cap, running)})
        if result.state.plan is not None:
            cap = result.state.plan.replicas["ns/t0"]
        state = result.state.committed()
        kwh[at // DAY] += 50 * min(60, cap) * 300 / 3_600_000
    assert all(0.98 * 60 <= day <= 60.01 for day in kwh)


def test_energy_is_metered_in_silence_and_kept_by_a_new_baseline() -> None:
    one = policy(independents=SITE, energy={"kWh": 12})
    state = tick(one, tick(one, ControllerState(), 0), 3600, watts=None)
    assert state.energy is not None
    assert state.energy.used == 100 * 3600
    assert rebaselined(state).energy == state.energy


def test_a_period_that_has_begun_before_leaves_its_part() -> None:
    meter = spec().metered(None, Fraction(DAY // 2), Fraction(0))
    assert spec().left(meter.used) == 30 * 3_600_000


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"schedule": {"csv": "x.csv", "as": "carbon"}}, "schedule.as is carbon: expected energy"),
        ({"energy": {"kWh": 1, "shift": True}}, "energy.shift is true: expected a schedule"),
        ({"energy": {"kWh": 1}, "schedule": {"query": "x", "as": "price"}}, "a query tells one number"),
        ({"energy": {"kWh": 1, "per": "7h"}}, "an even part of a day"),
        ({"energy": {"kWh": 1, "timezone": "Mars/Olympus"}}, "IANA time zone"),
        ({"energy": {"kWh": 1, "shift": "perhaps"}}, "expected true or false"),
    ],
)
def test_what_cannot_be_planned_is_refused(keys: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        policy(independents=SITE, **keys)
