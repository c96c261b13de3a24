"""Limits of load and weights of resources, as the settings give them."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from ballast.model.node_state import ALWAYS_NEEDED
from ballast.model.sample import Floats

Limit: TypeAlias = float | Mapping[str, float]
"""One number for cpu and memory, or a number for each resource that it counts for. Loads are fractions."""

Weights: TypeAlias = Mapping[str, float]
"""By resource, 0..1."""

EQUAL: Weights = dict.fromkeys(ALWAYS_NEEDED, 1.0)


def by_resource(limit: Limit) -> Mapping[str, float]:
    """The resources that a limit counts for."""
    return limit if isinstance(limit, Mapping) else dict.fromkeys(ALWAYS_NEEDED, limit)


def limits(limit: Limit, resources: Sequence[str]) -> Floats:
    """[resource], inf where there is no limit."""
    limits_by_name = by_resource(limit)
    return np.array([limits_by_name.get(name, np.inf) for name in resources], float)


def lower(one: Limit, other: Limit) -> Limit:
    """The smaller one for each resource that either counts for."""
    if not isinstance(one, Mapping) and not isinstance(other, Mapping):
        return min(one, other)
    first, second = by_resource(one), by_resource(other)
    return {name: min(first.get(name, np.inf), second.get(name, np.inf)) for name in {**first, **second}}


def shares(weights: Weights, resources: Sequence[str]) -> Floats:
    """[resource]: weights that sum to 1; the same for all where none of these resources has one."""
    weight = np.array([weights.get(name, 0.0) for name in resources], float)
    return weight / weight.sum() if weight.sum() > 0 else np.full(len(weight), 1 / max(1, len(weight)))


def named(*given: Limit | Weights | None) -> tuple[str, ...]:
    """The resources that count in any of them, cpu and memory first."""
    names = {name for limit in given if limit is not None for name, value in by_resource(limit).items() if value > 0}
    return tuple(sorted(names, key=lambda name: (name not in ALWAYS_NEEDED, name)))


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
