"""Durations as text: numbers with units, such as `1h30m`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

_SECONDS = {
    "d": Fraction(86_400),
    "h": Fraction(3_600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([a-zµ]+)")

UNITS = ("d", "h", "m", "s", "ms")
"""Units of Ballast's settings."""

GO_UNITS = ("h", "m", "s", "ms", "us", "µs", "ns")
"""Units that Go's time.ParseDuration takes."""


def seconds(text: str, units: Sequence[str] = UNITS, *, falling: bool = True) -> Fraction | None:
    """The exact number of seconds; None if `text` is not one or more numbers, each with one of the units.

    `falling`: each unit at most once, the larger first.
    """
    parts = _PART.findall(text)
    written = [unit for _, unit in parts]
    if not parts or "".join(number + unit for number, unit in parts) != text or not set(written) <= set(units):
        return None
    if falling and written != sorted(set(written), key=list(_SECONDS).index):
        return None
    return sum((Fraction(f"0{number}") * _SECONDS[unit] for number, unit in parts), Fraction(0))
