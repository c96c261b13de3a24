"""Cron expressions of five fields: minute, hour, day of month, month, day of week; as crontab(5) has them."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

ALLOWED = (
    'five fields "minute hour day month weekday", such as "0 22 * * mon-fri": *, numbers, names of months and days, '
    "lists, ranges and steps"
)
"""The end of a sentence that begins with `expected`."""

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day", 1, 31, {}),
    ("month", 1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    ("weekday", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)
_ITEM = re.compile(r"(?:(?P<all>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>[0-9]{1,2}))?")
_ONE_DAY = timedelta(days=1)
AHEAD = 366 * 40
"""Days within which every expression that comes at all comes: February 29 falls on each weekday within 28 years,
40 where a century has no leap day."""


@dataclass(frozen=True)
class Cron:
    """When something begins, in the wall time of a zone.

    A day counts if its day of month and its weekday both do; where both are restricted (neither begins with `*`), if
    one of them does. A time that clocks skip begins when they have been put forward, by as much later. A time that they
    show twice begins the first time, and both times where the hour begins with `*`.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    either: bool
    every_hour: bool

    @classmethod
    def parse(cls, text: str) -> "Cron":
        """Raises ValueError, saying what is allowed."""
        fields = text.lower().split()
        if len(fields) != len(_FIELDS):
            raise ValueError(f"expected {ALLOWED}; {text!r} has {len(fields)} fields")
        minutes, hours, days, months, weekdays = (
            frozenset(_numbers(field, *form)) for field, form in zip(fields, _FIELDS, strict=True)
        )
        cron = cls(
            tuple(sorted(minutes)),
            tuple(sorted(hours)),
            days,
            months,
            frozenset(number % 7 for number in weekdays),
            either=not fields[2].startswith("*") and not fields[4].startswith("*"),
            every_hour=fields[1].startswith("*"),
        )
        if not any(cron._includes(date(2000, 1, 1) + day * _ONE_DAY) for day in range(AHEAD)):
            raise ValueError(f"expected {ALLOWED}; {text!r} never comes")
        return cron

    def last(self, at: float, zone: tzinfo, within: float) -> float | None:
        """The latest beginning at or before `at`, at most `within` seconds before; Unix seconds."""
        today, earliest = datetime.fromtimestamp(at, zone).date(), datetime.fromtimestamp(at - within, zone).date()
        # A skipped time may fall on the day after the one that it was written for.
        for back in range((today - earliest).days + 2):
            begins = self._of_day(today - back * _ONE_DAY, zone)
            if begun := bisect_right(begins, at):
                return begins[begun - 1] if begins[begun - 1] >= at - within else None
        return None

    def following(self, at: float, zone: tzinfo) -> float | None:
        """The first beginning after `at`; None where the calendar ends."""
        today = datetime.fromtimestamp(at, zone).date()
        for ahead in range(-1, AHEAD):
            begins = self._of_day(today + ahead * _ONE_DAY, zone)
            begun = bisect_right(begins, at)
            if begun < len(begins):
                return begins[begun]
        return None

    def _of_day(self, day: date, zone: tzinfo) -> tuple[float, ...]:
        return _begins_of_day(self, day, zone) if self._includes(day) else ()

    def _includes(self, day: date) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return day.month in self.months and (of_month or of_week if self.either else of_month and of_week)


@lru_cache(maxsize=32)
def _begins_of_day(cron: Cron, day: date, zone: tzinfo) -> tuple[float, ...]:
    """Ascending Unix seconds. One that comes each minute is asked thousands of times about the same day."""
    walls = [datetime.combine(day, time(hour, minute), zone) for hour in cron.hours for minute in cron.minutes]
    if cron.every_hour:
        walls += [wall.replace(fold=1) for wall in walls]
    return tuple(sorted(wall.astimezone(UTC).timestamp() for wall in walls))


def _numbers(field: str, name: str, lowest: int, highest: int, names: dict[str, int]) -> Iterator[int]:
    for item in field.split(","):
        match = _ITEM.fullmatch(item)
        if match is None:
            raise ValueError(f"expected {ALLOWED}; {item!r} is no {name}")
        first = lowest if match["all"] else _number(match["first"], name, lowest, highest, names)
        last = first
        if match["last"]:
            last = 7 if match["last"] == "sun" else _number(match["last"], name, lowest, highest, names)
        elif match["all"] or match["step"]:
            last = min(highest, 6) if name == "weekday" else highest
        step = int(match["step"] or 1)
        if last < first or not step:
            raise ValueError(f"expected {ALLOWED}; {item!r} is no {name}: a range ascends, a step is at least 1")
        yield from range(first, last + 1, step)


def _number(text: str, name: str, lowest: int, highest: int, names: dict[str, int]) -> int:
    number = names.get(text, int(text) if text.isascii() and text.isdigit() and len(text) < 3 else -1)
    if not lowest <= number <= highest:
        either = f", or {', '.join(names)}" if names else ""
        raise ValueError(f"expected {ALLOWED}; {text!r} is no {name}: {lowest} to {highest}{either}")
    return number
