"""An upper bound of the watts that is known beforehand: a forecast, a day-ahead price, an event of the grid."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Self

from pydantic import Field, model_validator

from ballast.power.feed_spec import UrlAccess
from ballast.power.policy_section import PolicySection
from ballast.power.values import Period, Positive

DEFAULT_LEAD = Fraction(60)
DAY = Fraction(86_400)


class ScheduleSpec(UrlAccess):
    """Where the rows come from: a `csv` with time,watts, a `url` with JSON, or a `query` for the bound `lead` ahead."""

    csv: str | None = None
    json_path: str = "$"
    """Path of the rows in the JSON: a list of {"time", "watts"} or of [time, watts]."""
    query: str | None = None
    freshness: str | None = None
    lead: Period = DEFAULT_LEAD
    """Seconds by which a fall begins early."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(each is not None for each in (self.csv, self.url, self.query)) != 1:
            raise ValueError("expected one of csv, url and query")
        return self


class EnergySpec(PolicySection):
    """A budget of energy: `kWh` per period, beside that of power."""

    kwh: Annotated[Positive, Field(alias="kWh")]
    per: Period = DAY

    def watts(self, used: Fraction, left: Fraction) -> Fraction:
        """The watts that use up the rest of the energy in the `left` seconds; `used` in joules."""
        return self.left(used) / left

    def left(self, used: Fraction) -> Fraction:
        """Joules that are left."""
        return max(Fraction(0), self.kwh * 3_600_000 - used)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rows of (Unix seconds, watts) by time; each holds until the next, the last one for ever."""

    rows: tuple[tuple[Fraction, Fraction], ...]

    @classmethod
    def of(cls, rows: Iterable[tuple[Fraction, Fraction]]) -> Self:
        """From rows in any order."""
        return cls(tuple(sorted(rows)))

    def bound(self, now: Fraction, lead: Fraction) -> Fraction | None:
        """The lowest watts from now until `lead` seconds later; None where no row holds yet."""
        first = max(0, bisect_right(self.rows, now, key=lambda row: row[0]) - 1)
        return min((watts for time, watts in self.rows[first:] if time <= now + lead), default=None)

    def ahead(self, now: Fraction, seconds: Fraction) -> tuple[tuple[Fraction, Fraction], ...]:
        """The rows that hold at some time until `seconds` later."""
        first = max(0, bisect_right(self.rows, now, key=lambda row: row[0]) - 1)
        return tuple(row for row in self.rows[first:] if row[0] <= now + seconds)
