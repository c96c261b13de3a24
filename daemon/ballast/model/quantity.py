"""Kubernetes quantities as numbers: "100m" of cpu is 0.1 cores, "1Gi" of memory 1,073,741,824 bytes."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache

_SUFFIXES = {
    suffix: Decimal(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
}
_SUFFIXES |= {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([KMGTPE]i|[numkMGTPE]?))", re.ASCII)


# Multiplier and divisor of a whole number with a suffix that is exact in integers.
_WHOLE = {suffix: (int(size), 1) if size >= 1 else (1, int(1 / size)) for suffix, size in _SUFFIXES.items()}
_LETTERS = "numkKMGTPEi"
_DIGITS = 18

LONGEST = 64
"""Characters of a quantity that is cached."""


def quantity(text: str | int | float) -> float:
    """The nearest float to a quantity, in its base unit (cores, bytes, counts).

    Raises ValueError where the API server would refuse the text. Source: apimachinery pkg/api/resource/quantity.go.
    """
    return _quantity(text) if not isinstance(text, str) or len(text) <= LONGEST else _quantity.__wrapped__(text)


@lru_cache(maxsize=16384)
def _quantity(text: str | int | float) -> float:
    if not isinstance(text, str):
        return float(str(text))
    digits = text.rstrip(_LETTERS)
    if len(digits) <= _DIGITS and digits.isascii() and digits.isdigit() and (whole := _WHOLE.get(text[len(digits) :])):
        return int(digits) * whole[0] / whole[1]
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a Kubernetes quantity such as 100m, 1.5 or 2Gi")
    number, exponent, suffix = match.groups()
    try:
        return float(Decimal(number + exponent) if exponent else Decimal(number) * _SUFFIXES[suffix or ""])
    except ArithmeticError as error:
        raise ValueError(f"{text[:LONGEST]!r} is beyond the numbers that can be computed with") from error
