"""A row of the report, and the words for how far a measure is from what it should reach."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Row(TypedDict):
    """`verdict` says whether `reach` is met; `peer` and `ratio` set the measure beside another program's."""

    what: str
    at: str
    reach: str
    measured: str
    verdict: NotRequired[str]
    peer: NotRequired[str]
    ratio: NotRequired[str]


def at_most(value: float, limit: float) -> str:
    """ "met" or "12 % over"."""
    return "met" if value <= limit else f"{100 * (value / limit - 1):.0f} % over"


def at_least(value: float, limit: float) -> str:
    """ "met" or "12 % short"."""
    return "met" if value >= limit else f"{100 * (1 - value / limit):.0f} % short"


def all_equal(values: list[int], wanted: int) -> str:
    """ "met" or what was there instead."""
    return "met" if set(values) == {wanted} else f"{', '.join(map(str, values))} instead of {wanted}"


def times(smaller: float, larger: float) -> str:
    """ "17 ×": how many times `smaller` goes into `larger`."""
    factor = larger / smaller
    return f"{factor:.0f} ×" if factor >= 10 else f"{factor:.1f} ×"
