"""Where a policy's numbers come from: its feed, what is known of it beforehand, and which watts they mean."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from ballast.power.sections import PolicySection
from ballast.power.values import Count, NotNegative, Number, Period, Positive, Share

DEFAULT_FLOOR = Fraction(1)


class Semantics(StrEnum):
    """What a number of the feed means. Carbon intensities and prices become watts through `map`."""

    AVAILABLE = "available"
    LIMIT = "limit"
    LIMIT_MINUS_CONSUMPTION = "limit-minus-consumption"
    CHARGE = "state-of-charge"
    CARBON = "carbon-intensity"
    PRICE = "price"

    @property
    def mapped(self) -> bool:
        """Whether its numbers are no watts, and become some through `map`."""
        return self in (Semantics.CARBON, Semantics.PRICE)

    @property
    def measured(self) -> bool:
        """Whether its numbers are watts that move by themselves."""
        return self in (Semantics.AVAILABLE, Semantics.LIMIT_MINUS_CONSUMPTION)


class Unit(StrEnum):
    """Unit of a feed's numbers."""

    MICROWATT = "uW"
    MILLIWATT = "mW"
    WATT = "W"
    KILOWATT = "kW"
    MEGAWATT = "MW"

    @property
    def watts(self) -> Fraction:
        """Watts of one unit."""
        exponents = {Unit.MICROWATT: -6, Unit.MILLIWATT: -3, Unit.WATT: 0, Unit.KILOWATT: 3, Unit.MEGAWATT: 6}
        return Fraction(10) ** exponents[self]


class ConsumptionScope(StrEnum):
    """Whose consumption a query gives: of everything, or of everything but the policy's own targets."""

    TOTAL = "total"
    OTHERS = "others"


class BatterySpec(PolicySection):
    """A battery of `kWh`: what is above the `reserve` is spent within `over` seconds, with at most `watts`.

    `full` is the number of the feed for a full one: 1, or 100 for percent.
    """

    kwh: Annotated[Positive, Field(alias="kWh")]
    reserve: Share = Fraction(2, 10)
    over: Period = Fraction(14_400)
    watts: Positive | None = None
    full: Positive = Fraction(1)

    def available(self, charge: Fraction) -> Fraction:
        """Watts at this charge; 0 at the reserve and below."""
        above = max(Fraction(0), min(charge / self.full, Fraction(1)) - self.reserve)
        watts = above * self.kwh * 3_600_000 / self.over
        return watts if self.watts is None else min(watts, self.watts)


class LimitSpec(PolicySection):
    """A limit that is shared with other consumers: a query, or fixed watts."""

    query: str | None = None
    freshness: str | None = None
    watts: Positive | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.query is None) == (self.watts is None):
            raise ValueError("expected either query or watts")
        return self


class Consumption(PolicySection):
    """What is consumed under the limit."""

    query: str
    freshness: str | None = None
    of: ConsumptionScope = ConsumptionScope.TOTAL


class Own(PolicySection):
    """The part of the consumption that is the policy's own targets', or a second source of the same numbers."""

    query: str
    freshness: str | None = None


class UrlAccess(PolicySection):
    """An address with JSON, and the files with what it is asked with; they are read again when they change."""

    url: str | None = None
    token_file: str | None = None
    """A bearer token."""
    ca_file: str | None = None
    """CA certificates that verify the server."""
    headers_file: str | None = None
    """Lines `Name: value`."""

    @model_validator(mode="after")
    def _only_with_url(self) -> Self:
        if self.url is None and (self.token_file or self.ca_file or self.headers_file):
            raise ValueError("expected tokenFile, caFile and headersFile with url, and only with it")
        return self


class FeedSpec(UrlAccess):
    """Where the watts come from: a Prometheus `query`, a `url` with JSON, a `csv` file, or a `limit` that is shared.

    Or they are `watts` that never change.
    """

    watts: NotNegative | None = None
    query: str | None = None
    freshness: str | None = None
    """A query for the Unix time of the samples, where `timestamp(query)` cannot give it."""
    json_path: str = "$"
    time_path: str | None = None
    """Path of the samples' time in the JSON; without it they are as old as the answer."""
    csv: str | None = None
    limit: LimitSpec | None = None
    consumption: Consumption | None = None
    own: Own | None = None
    witness: Own | None = None
    """A second source of the same numbers: a sudden fall that it shows too needs no second sample."""
    semantics: Semantics | None = None
    battery: BatterySpec | None = None
    """What a state of charge means in watts."""
    map: tuple[tuple[Number, NotNegative], ...] | None = None
    """Steps (intensity or price, watts): up to this number these watts, beyond the last 0 W. Prices may be negative."""
    unit: Unit = Unit.WATT
    expect_series: Count = 1
    max_age: Period | None = None
    max: Positive | None = None
    """The most that it can give, in its unit: more is no ground for a rise."""
    floor_watts: Positive = DEFAULT_FLOOR

    @field_validator("semantics", mode="before")
    @classmethod
    def _no_consumption(cls, value: object) -> object:
        if value == "consumption":
            raise ValueError(
                "consumption rises with the replicas it would decide about, so it can be no budget; expected one of "
                f"{', '.join(Semantics)} (limit-minus-consumption takes what others use from a limit)"
            )
        return value

    @model_validator(mode="after")
    def _whole(self) -> Self:
        sources = {name: getattr(self, name) for name in ("watts", "query", "url", "csv", "limit")}
        given = [name for name, source in sources.items() if source is not None]
        if len(given) != 1:
            both = f"; {' and '.join(given)} are given" if given else ""
            raise ValueError(f"expected one of watts, query, url, csv and limit{both}")
        if (self.semantics is Semantics.LIMIT_MINUS_CONSUMPTION) != (self.limit is not None):
            raise ValueError("expected limit and consumption with semantics: limit-minus-consumption, and only with it")
        if (self.limit is None) != (self.consumption is None) or (self.own is not None and self.limit is None):
            raise ValueError("expected limit, consumption and perhaps own together")
        if (self.semantics is not None and self.semantics.mapped) != (self.map is not None):
            raise ValueError(
                "expected a map of [intensity, watts] with semantics: carbon-intensity or price, and only with them"
            )
        if (self.semantics is Semantics.CHARGE) != (self.battery is not None):
            raise ValueError("expected battery: {kWh: ...} with semantics: state-of-charge, and only with it")
        if self.witness is not None and self.limit is not None:
            raise ValueError("expected witness with query, url or csv, not with limit")
        if self.map is not None and (not self.map or list(self.map) != sorted(set(self.map))):
            raise ValueError("expected a map whose intensities rise")
        return self

    @property
    def signed(self) -> bool:
        """Whether its numbers may be below 0: prices, and what is available."""
        return self.map is not None or (self.semantics or Semantics.AVAILABLE) is Semantics.AVAILABLE

    def budget(self, value: Fraction) -> Fraction:
        """The watts that a number of the feed stands for."""
        if self.battery is not None:
            return self.battery.available(value)
        if self.map is None:
            # An inverter that takes watts from the grid has none to give: that is an answer.
            return max(Fraction(0), value) * self.unit.watts
        return next((watts for intensity, watts in self.map if value <= intensity), Fraction(0))


def remaining(limit: Fraction, consumption: Fraction, own: Fraction) -> Fraction:
    """Watts for the policy's own targets: max(0, limit - max(0, consumption - own)), all in watts."""
    return max(Fraction(0), limit - max(Fraction(0), consumption - own))


DEFAULT_LEAD = Fraction(60)
DAY = Fraction(86_400)


class ScheduleSpec(UrlAccess):
    """Where the rows come from: a `csv` with time,watts, a `url` with JSON, or a `query` for the bound `lead` ahead."""

    csv: str | None = None
    json_path: str = "$"
    """Path of the rows in the JSON: a list of {"time", "watts", "id", "ramp"} or of [time, watts, id, ramp]."""
    query: str | None = None
    freshness: str | None = None
    unit: Unit = Unit.WATT
    """What its numbers are in; the feed's unit is not its own."""
    lead: Period = DEFAULT_LEAD
    """Seconds by which a fall begins early."""
    priced_as: Annotated[Literal["carbon", "price"] | None, Field(alias="as")] = None
    """What its numbers are where they are no watts: then they bound nothing, and the policy's energy follows them."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if sum(source is not None for source in (self.csv, self.url, self.query)) != 1:
            raise ValueError("expected one of csv, url and query")
        return self


class ScheduleRow(NamedTuple):
    """An upper bound from a time on."""

    time: Fraction
    """Unix seconds."""
    watts: Fraction
    id: str | None = None
    """The event, as its sender names it."""
    ramp: Fraction | None = None
    """Watts a minute by which the bound rises once the row has ended; None: at once."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Rows by time; each holds until the next, the last one for ever."""

    rows: tuple[ScheduleRow, ...]
    priced: bool = False
    """Whether its numbers are carbon intensities or prices instead of watts."""

    @classmethod
    def of(cls, rows: Iterable[tuple[Any, ...]]) -> Self:
        """From rows in any order: (Unix seconds, watts), where known with id and ramp."""
        return cls(tuple(sorted((ScheduleRow(*row) for row in rows), key=lambda row: row[:2])))

    def meant(self, spec: ScheduleSpec) -> Self:
        """The rows as the policy means them: in watts, or as prices. Ramps always are in watts a minute."""
        if spec.priced_as is not None:
            return replace(self, priced=True)
        return replace(self, rows=tuple(row._replace(watts=row.watts * spec.unit.watts) for row in self.rows))

    def bound(self, now: Fraction, lead: Fraction) -> Fraction | None:
        """The lowest watts from now until `lead` seconds later; None where no row holds yet, or none has watts."""
        lowest = self.lowest(now, lead)
        return None if lowest is None else lowest.watts

    def mean(self, begin: Fraction, end: Fraction) -> Fraction | None:
        """The mean from `begin` to `end`; None where no row holds at `begin`."""
        rows = self.ahead(begin, end - begin)
        if not rows or rows[0].time > begin:
            return None
        ends = [*(row.time for row in rows[1:]), end]
        parts = (row.watts * (last - max(begin, row.time)) for row, last in zip(rows, ends, strict=True))
        return sum(parts, Fraction(0)) / (end - begin)

    def lowest(self, now: Fraction, lead: Fraction) -> ScheduleRow | None:
        """The row with the lowest watts from now until `lead` seconds later; one that has ended as far as it rose."""
        if self.priced:
            return None
        first, rows = self._first(now), [*self.ahead(now, lead)]
        ended = ((row, later.time) for row, later in pairwise(self.rows[: first + 1]) if row.ramp is not None)
        rows += [row._replace(watts=row.watts + (row.ramp or 0) * (now - end) / 60) for row, end in ended]
        return min(rows, key=lambda row: row.watts, default=None)

    def ahead(self, now: Fraction, seconds: Fraction) -> tuple[ScheduleRow, ...]:
        """The rows that hold at some time until `seconds` later."""
        return self.rows[self._first(now) : bisect_right(self.rows, now + seconds, key=lambda row: row.time)]

    def _first(self, now: Fraction) -> int:
        return max(0, bisect_right(self.rows, now, key=lambda row: row.time) - 1)
