"""A budget of energy: when its period begins, what was used of it, and which watts that leaves for now.

What is left is spread evenly over the rest of the period, as far as a schedule of watts lets it. With `shift` the hours
that are cleanest, cheapest or sunniest beforehand get it first (the day-ahead planning of Radovanović et al.,
"Carbon-Aware Computing for Datacenters", 2021). Either is decided anew each hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator

from ballast.power.controller_state import EnergyMeter
from ballast.power.feed_spec import DAY, Schedule
from ballast.power.sections import PolicySection
from ballast.power.values import Period, Positive

HOUR = Fraction(3600)
"""Seconds after which the watts for now are decided anew."""

CALENDAR = Fraction(250_000_000_000)
"""Unix seconds up to which days are known; later ones have 24 hours."""

ZERO = Fraction(0)


class EnergySpec(PolicySection):
    """A budget of energy: `kWh` per period, beside that of power. Periods begin at midnight of the time zone.

    `shift`: whether the best hours of the schedule get the energy first; None: where the schedule has no watts.
    """

    kwh: Annotated[Positive, Field(alias="kWh")]
    per: Period = DAY
    timezone: str = "UTC"
    shift: bool | None = None

    @field_validator("per")
    @classmethod
    def _in_days(cls, per: Fraction) -> Fraction:
        if per % DAY and DAY % per:
            raise ValueError("expected whole days, or an even part of a day such as 1h, 6h or 12h")
        return per

    @field_validator("timezone")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            raise ValueError("expected an IANA time zone such as Europe/Amsterdam or UTC") from None
        return name

    @field_validator("shift", mode="before")
    @classmethod
    def _yes_or_no(cls, value: object) -> object:
        if not isinstance(value, bool):
            raise ValueError("expected true or false")
        return value

    def period(self, at: Fraction) -> tuple[Fraction, Fraction]:
        """Begin and end (Unix seconds) of the period at this time. Weeks begin on Mondays."""
        if not 0 <= at < CALENDAR:
            return at // self.per * self.per, (at // self.per + 1) * self.per
        midnight = datetime.fromtimestamp(int(at), ZoneInfo(self.timezone)).replace(hour=0, minute=0, second=0, fold=0)
        days = max(1, int(self.per / DAY))
        begin = midnight - timedelta(days=(midnight.toordinal() - 1) % days)
        first, last = (Fraction(int(day.timestamp())) for day in (begin, begin + timedelta(days=days)))
        if self.per >= DAY:
            return first, last
        # A day of 23 or 25 hours has as many parts as any other; its last one is shorter or longer.
        part, parts = (at - first) // self.per, int(DAY / self.per)
        if part >= parts - 1:
            return first + (parts - 1) * self.per, last
        return first + part * self.per, first + (part + 1) * self.per

    def left(self, used: Fraction) -> Fraction:
        """Joules that are left."""
        return max(ZERO, self.kwh * 3_600_000 - used)

    def undecided(self, meter: EnergyMeter) -> bool:
        """Whether the watts for now are not decided, or no longer hold."""
        return meter.watts is None or meter.at >= meter.expires or not self.left(meter.used)

    def metered(self, meter: EnergyMeter | None, at: Fraction, drawn: Fraction) -> EnergyMeter:
        """The meter at `at` (Unix seconds), with `drawn` watts since it was last read.

        What was used before the first reading is not known: the part of the energy for that time counts as used.
        """
        begin, end = self.period(at)
        if meter is None:
            return EnergyMeter(begin, self.kwh * 3_600_000 * (at - begin) / (end - begin), at)
        if meter.since < begin:
            used = Fraction(round(drawn * (at - begin)))
            return replace(meter, since=begin, used=used, at=at, expires=at, drawn=drawn)
        used = meter.used + round(drawn * max(ZERO, at - meter.at))
        return replace(meter, since=begin, used=used, at=at, drawn=drawn)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a site can draw, in watts with the base power."""

    least: Fraction
    """With all targets at their minima."""
    now: Fraction
    """As far as the feed, maxima and demand allow it now."""
    most: Fraction
    """With all targets at their maxima."""
    usable: Fraction
    """The part of a schedule's watts that may be used."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """A time of an hour at most, the schedule's mean, and the most watts that can be drawn then."""

    seconds: Fraction
    value: Fraction | None
    most: Fraction


def plan(spec: EnergySpec, meter: EnergyMeter, reach: Reach, forecast: Schedule | None) -> EnergyMeter:
    """The meter with the watts that may be drawn now."""
    left, end = spec.left(meter.used), spec.period(meter.at)[1]
    slots = list(_slots(forecast, meter.at, end, reach))
    priced = forecast is not None and forecast.priced
    shifts = forecast is not None and (priced if spec.shift is None else spec.shift)
    spare = left - reach.least * (end - meter.at)
    if shifts and spare > 0:
        watts = reach.least + _spared(slots, reach.least, spare, priced=priced) / slots[0].seconds
    else:
        watts = left / (end - meter.at) if priced else _level(slots, left)
    return replace(meter, watts=watts, expires=meter.at + slots[0].seconds)


def _slots(forecast: Schedule | None, begin: Fraction, end: Fraction, reach: Reach) -> Iterator[_Slot]:
    """The hours until the end; rows of a part of an hour are one, so that replicas change hourly at most."""
    while begin < end:
        finish = min(end, (begin // HOUR + 1) * HOUR)
        value, most = None if forecast is None else forecast.mean(begin, finish), reach.most
        if forecast is not None and forecast.priced:
            most = reach.now
        elif value is not None:
            most = min(reach.most, reach.usable * value)
        yield _Slot(finish - begin, value, most)
        begin = finish


def _level(slots: list[_Slot], left: Fraction) -> Fraction:
    """The watts that use up `left` joules where each slot draws these, or what it can."""
    seconds = sum((slot.seconds for slot in slots), ZERO)
    for slot in sorted(slots, key=lambda slot: slot.most):
        if slot.most * seconds >= left:
            return left / seconds
        left, seconds = left - slot.most * slot.seconds, seconds - slot.seconds
    return slots[0].most + left / slots[0].seconds


def _spared(slots: list[_Slot], least: Fraction, spare: Fraction, *, priced: bool) -> Fraction:
    """What better slots leave to the first one of `spare` joules, which are those beyond the minima."""

    def rank(number: int) -> tuple[bool, float, int]:
        # A value that is not known is the worst; of equal ones the first comes first.
        value = slots[number].value
        return value is None, 0.0 if value is None else float(value if priced else -value), number

    now = rank(0)
    better = (slot for number, slot in enumerate(slots) if number and rank(number) < now)
    return max(ZERO, spare - sum((max(ZERO, slot.most - least) * slot.seconds for slot in better), ZERO))
