"""Durations as text: numbers with units, such as `1h30m`."""

import re
from fractions import Fraction

DAY = 86_400.0
"""Seconds."""

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
PATTERN = r"^\s*([0-9.]+|([0-9.]+(ms|[dhms]))+)?\s*$"
"""What every duration looks like, also for RE2; numbers alone are seconds, nothing is unset."""

_OWN = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|[dhms])")
_GO = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|[hms])")


def seconds(text: str, *, go: bool = False) -> Fraction | None:
    """The exact number of seconds; None if `text` is not one or more numbers, each with a unit.

    The units are d, h, m, s and ms, each at most once, the larger first; with `go` they are those of Go's
    time.ParseDuration, in any order. Text of more than 300 characters is no duration: each fits a float.
    """
    parts = (_GO if go else _OWN).findall(text[:301])
    units = [unit for _, unit in parts]
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    if not go and units != sorted(set(units), key=list(_SECONDS).index):
        return None
    return sum((Fraction(f"0{number}") * _SECONDS[unit] for number, unit in parts), Fraction(0))
