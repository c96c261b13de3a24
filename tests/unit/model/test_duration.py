"""Durations as text, in the units of the settings and of Go."""

from fractions import Fraction

import pytest

from ballast.model.duration import seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1h30m", Fraction(5400)),
        ("1d2h3m4s5ms", Fraction(93_784_005, 1000)),
        ("0.1s", Fraction(1, 10)),
        ("30", None),
        ("", None),
        ("1h1h", None),
        ("1m1h", None),
        ("5us", None),
        ("1h 30m", None),
        ("-1s", None),
        ("1hour", None),
        (".5s", None),
        ("2.h", None),
    ],
)
def test_settings_take_falling_units(text: str, found: Fraction | None) -> None:
    assert seconds(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [("1m1h", Fraction(3660)), ("1.s", Fraction(1)), (".5ms2µs", Fraction(502, 10**6)), ("7ns", Fraction(7, 10**9))],
)
def test_go_takes_units_in_any_order(text: str, found: Fraction) -> None:
    assert seconds(text, go=True) == found
    assert seconds("1d", go=True) is None
