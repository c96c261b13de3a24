"""Each fall of what a policy may draw is a record."""

import random
from dataclasses import replace
from fractions import Fraction

from structlog.testing import capture_logs

from ballast.jobs.power.falls import Falls
from ballast.jobs.power.tick_report import Inputs, Outcome, TickContext, TickReport
from ballast.telemetry.feeds.budget_feed import Watts
from tests.worlds.power import policy
from tests.worlds.power_run import CrashPoint, Keys

ONE = policy(independents=[{"ref": "ns/one", "max": 100, "wattsPerReplica": 50}])


def tick(at: int, watts: int, load: int, bound: int | None = None, drawn: int | None = None) -> TickReport:
    sample = Watts(Fraction(watts), at, bound=None if bound is None else Fraction(bound))
    if drawn is not None:
        sample = replace(sample, consumed=Fraction(drawn))
    return TickReport(Inputs(ONE, TickContext(Fraction(at), float(at)), sample), outcome=Outcome(load=Fraction(load)))


def test_a_fall_is_followed_until_as_much_is_allowed_again() -> None:
    falls = Falls("site")
    with capture_logs() as lines:
        for report in (
            tick(0, 5000, 4900),
            tick(60, 3000, 2900, drawn=4900),
            tick(120, 3000, 2900, drawn=2950),
            tick(180, 4000, 2900, drawn=2950),
            tick(240, 5000, 2900, drawn=2950),
        ):
            falls.add(report)
    (fall,) = falls.newest_first
    assert (fall.id, fall.begin, fall.end, fall.source) == ("site-60", 60, 240, "meter")
    assert (fall.before, fall.allowed, fall.drawn) == (5000, 3000, 2950)
    assert fall.seconds_to_comply == 60
    assert round(fall.over_watt_hours, 2) == round(1900 / 60, 2)
    assert [(line["kind"], line["target"], line["begin"], line["end"]) for line in lines] == [("fall", "site", 60, 240)]


def test_what_is_complied_with_at_once_takes_no_time_and_bounds_count() -> None:
    falls = Falls("site")
    for report in (tick(0, 5000, 4900), tick(15, 5000, 950, bound=1000), tick(30, 5000, 450, bound=500)):
        falls.add(report)
    newer, older = falls.newest_first
    assert (older.end, older.seconds_to_comply, older.over_watt_hours, older.source) == (30, 0, 0, "model")
    assert (newer.end, newer.allowed, newer.before) == (None, 500, 1000)


def test_less_of_what_nobody_used_is_no_fall_and_a_hundred_are_kept() -> None:
    falls = Falls("site")
    falls.add(tick(0, 5000, 1000))
    falls.add(tick(15, 3000, 1000))
    assert falls.newest_first == []
    for number in range(300):
        falls.add(tick(30 + 15 * number, 5000 if number % 2 else 500, 2000 if number % 2 else 450))
    assert len(falls.newest_first) == 100
    assert falls.newest_first[0].begin > falls.newest_first[-1].begin


def test_the_next_leader_goes_on_with_the_records_and_a_standby_makes_none() -> None:
    keys = Keys(CrashPoint())
    first, standby = Falls("site", keys), Falls("site", keys)  # type: ignore[arg-type]
    reports = [tick(600, 5000, 4900), tick(660, 3000, 4900), tick(675, 3000, 4900)]
    with capture_logs() as lines:
        for report in reports:
            first.add(report)
            standby.add(replace(report, inputs=replace(report.inputs, now=replace(report.inputs.now, standby=True))))
        assert standby.newest_first == []
        standby.forget()
        for report in (tick(720, 3000, 2900), tick(735, 5000, 2900)):
            standby.add(report)
    (fall,) = standby.newest_first
    assert (fall.id, fall.begin, fall.end, fall.seconds_to_comply) == ("site-660", 660, 735, 60)
    assert round(fall.over_watt_hours, 2) == round(1900 / 60, 2)
    assert [line["event"] for line in lines] == ["fall site-660: 5000 W to 3000 W, complied with after 60 s"]


def test_a_fall_of_a_schedule_has_the_id_of_its_event() -> None:
    falls = Falls("site")
    falls.add(tick(0, 5000, 4900))
    report = tick(15, 5000, 950, bound=1000)
    watts = replace(report.inputs.watts, event="grid-7")
    falls.add(replace(report, inputs=replace(report.inputs, watts=watts)))
    assert falls.newest_first[0].id == "grid-7"


def test_records_that_cannot_be_read_now_are_not_overwritten() -> None:
    keys = Keys(CrashPoint(), {"power.falls.site": "[broken"}, unreadable=True)
    falls = Falls("site", keys)  # type: ignore[arg-type]
    for at, watts in ((600, 5000), (660, 3000), (720, 5000)):
        falls.add(tick(at, watts, 2000))
    assert not falls.newest_first
    keys.unreadable = False
    for at, watts in ((780, 5000), (840, 3000), (900, 5000)):
        falls.add(tick(at, watts, 4000 if watts == 5000 else 2900))
    assert [fall.begin for fall in falls.newest_first] == [840]


def test_a_feed_that_trembles_makes_no_record_after_record_and_a_slow_ramp_makes_one() -> None:
    falls = Falls("site")
    for number in range(20):
        falls.add(tick(15 * number, 100 - number % 2, 200))
    assert falls.newest_first == []
    for number in range(20, 40):
        falls.add(tick(15 * number, 120 - number, 200))
    assert [fall.before for fall in falls.newest_first][-1] == 100
    assert 5 <= len(falls.newest_first) <= 10


def test_records_of_a_hundred_events_equal_the_audit_log_and_the_meter() -> None:
    """Each event's load comes down after a drain of its own, seen each 5 s by a meter that is added up beside it."""
    chance, falls, at, metered = random.Random(27), Falls("site"), 0, {}
    with capture_logs() as lines:
        for number in range(100):
            for _ in range(12):
                falls.add(tick(at, 5000, 4900, bound=5000, drawn=4900))
                at += 5
            allowed, drain = chance.randint(100, 4000), 5 * chance.randint(0, 120)
            length = drain + 5 * chance.randint(1, 60)
            begin, joules = at, 0
            while at < begin + length:
                drawn = 4900 if at < begin + drain else allowed - 7
                report = tick(at, 5000, allowed - 7, bound=allowed, drawn=drawn)
                falls.add(with_event(report, f"event-{number}"))
                joules += max(0, drawn - allowed) * 5
                at += 5
            metered[f"event-{number}"] = begin, at, allowed, drain, joules / 3600
        falls.add(tick(at, 5000, 4900, bound=5000, drawn=4900))
    records = {fall.id: fall for fall in falls.newest_first}
    assert records.keys() == metered.keys()
    audited = {line["event"].split(":")[0].removeprefix("fall "): line for line in lines}
    assert audited.keys() == metered.keys()
    for name, (begin, end, allowed, drain, watt_hours) in metered.items():
        fall, line = records[name], audited[name]
        assert (fall.begin, fall.end, fall.allowed, fall.seconds_to_comply) == (begin, end, allowed, drain)
        assert abs(fall.over_watt_hours - watt_hours) < 1e-6
        shown = (line["begin"], line["end"], line["drawn"], line["over_watt_hours"])
        assert shown == (fall.begin, fall.end, fall.drawn, fall.over_watt_hours)


def with_event(report: TickReport, name: str) -> TickReport:
    return replace(report, inputs=replace(report.inputs, watts=replace(report.inputs.watts, event=name)))
