"""Each fall of what a policy may draw is a record."""

from dataclasses import replace
from fractions import Fraction

from structlog.testing import capture_logs

from ballast.jobs.power.falls import Falls
from ballast.jobs.power.report import Inputs, Outcome, TickContext, TickReport
from ballast.telemetry.feeds.budget_feed import Watts
from tests.worlds.power import policy

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
    assert (fall.id, fall.begin, fall.end, fall.source) == ("site-1", 60, 240, "meter")
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
