from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from ballast.model.cron import Cron

AMSTERDAM = ZoneInfo("Europe/Amsterdam")


def at(text: str, zone: ZoneInfo = AMSTERDAM) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def begins(cron: str, first: str, last: str, zone: ZoneInfo = AMSTERDAM) -> list[str]:
    """All beginnings between two times, in UTC."""
    parsed, now, times = Cron.parse(cron), at(first, zone) - 1, []
    while (begin := parsed.following(now, zone)) is not None and begin <= at(last, zone):
        times.append(f"{datetime.fromtimestamp(begin, UTC):%m-%d %H:%M}")
        now = begin
    return times


@pytest.mark.parametrize(
    ("cron", "days"),
    [
        ("0 0 * * *", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("0 0 * * mon-fri", [2, 3, 4, 5, 6]),
        ("0 0 * * 1,3", [2, 4]),
        ("0 0 * * 0", [1, 8]),
        ("0 0 * * 7", [1, 8]),
        ("0 0 * * SAT-SUN", [1, 7, 8]),
        ("0 0 * * 5-7", [1, 6, 7, 8]),
        ("0 0 */3 * *", [1, 4, 7]),
        ("0 0 2-6/2 * *", [2, 4, 6]),
        ("0 0 5/2 jun *", [5, 7]),
        ("0 0 5 * *", [5]),
        ("0 0 5 * mon", [2, 5]),
        ("0 0 */2 * mon", []),
        ("0 0 2 7 *", []),
    ],
)
def test_days_of_june_2025_which_begins_on_a_sunday(cron: str, days: list[int]) -> None:
    shown = begins(cron, "2025-06-01T00:00", "2025-06-08T12:00", ZoneInfo("UTC"))
    assert shown == [f"06-{day:02} 00:00" for day in days]


def test_minutes_and_hours() -> None:
    assert begins("5,35 8-10/2 * * *", "2025-06-01T00:00", "2025-06-01T23:59", ZoneInfo("UTC")) == [
        "06-01 08:05",
        "06-01 08:35",
        "06-01 10:05",
        "06-01 10:35",
    ]


def test_a_time_follows_the_clocks_of_its_zone() -> None:
    # Amsterdam is two hours ahead of UTC until 26 October 2025, 03:00.
    assert begins("0 22 * * *", "2025-10-25T12:00", "2025-10-27T12:00") == ["10-25 20:00", "10-26 21:00"]


def test_a_time_that_is_skipped_begins_as_much_later() -> None:
    assert begins("30 2 * * *", "2025-03-29T12:00", "2025-03-31T12:00") == ["03-30 01:30", "03-31 00:30"]


def test_a_time_that_comes_twice_begins_once_unless_every_hour_counts() -> None:
    assert begins("30 2 * * *", "2025-10-25T12:00", "2025-10-26T12:00") == ["10-26 00:30"]
    assert begins("30 * * * *", "2025-10-26T01:00", "2025-10-26T03:45") == [
        "10-25 23:30",
        "10-26 00:30",
        "10-26 01:30",
        "10-26 02:30",
    ]


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "0 12 29 2 *", "7 3,23 * 3,10 sun", "15 */5 1 * *"])
@pytest.mark.parametrize("start", ["2025-03-28T11:03", "2025-10-24T23:59", "2024-02-27T02:30"])
def test_the_last_beginning_is_the_one_that_came_before(cron: str, start: str) -> None:
    parsed, now, within = Cron.parse(cron), at(start), timedelta(days=3).total_seconds()
    times, time = [], parsed.following(now - within - 60, AMSTERDAM)
    while time is not None and time <= now + timedelta(days=4).total_seconds():
        times.append(time)
        time = parsed.following(time, AMSTERDAM)
    for minute in range(0, 4 * 1440, 13):
        moment = now + minute * 60
        before = [time for time in times if moment - within <= time <= moment]
        assert parsed.last(moment, AMSTERDAM, within) == (before[-1] if before else None)


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "* * * * monday",
        "5-1 * * * *",
        "*/0 * * * *",
        "1,,2 * * * *",
        "-1 * * * *",
        "? * * * *",
        "@daily",
        "٣ * * * *",
        "0 0 31 2 *",
        "1.5 * * * *",
    ],
)
def test_what_is_no_expression_is_refused_with_what_is_allowed(cron: str) -> None:
    with pytest.raises(ValueError, match="expected five fields"):
        Cron.parse(cron)
