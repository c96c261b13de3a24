"""Shares and loads: fractions, which may be written as percentages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ballast.settings.values.collection import TEXT_OR_MAP, as_map

_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")


def _between(value: object, allowed: str, highest: float) -> float:
    text = str(value).strip()
    percent = _PERCENT.fullmatch(text)
    try:
        if isinstance(value, bool):
            raise ValueError
        number = float(percent[1]) / 100 if percent else float(text)
    except ValueError:
        raise ValueError(f"expected {allowed}") from None
    if 0 <= number <= highest:
        return number
    hint = f" (did you mean {number / 100:g}, or {number:g}%?)" if 1 < number <= 100 and not percent else ""
    raise ValueError(f"expected {allowed}{hint}")


def _share(value: object) -> float:
    return _between(value, "a fraction between 0 and 1 (0.2 and 20% are the same)", 1.0)


def _load(value: object) -> float:
    return _between(value, "a load as a fraction of allocatable such as 0.8 (the same as 80%), between 0 and 2", 2.0)


_SCHEMA = WithJsonSchema({"type": ["number", "string"], "description": "a fraction such as 0.2, or 20%"})


def _limit(value: object) -> float | dict[str, float]:
    if isinstance(value, Mapping) or (isinstance(value, str) and value.strip().startswith("{")):
        found = {name: _load(each) for name, each in as_map(value).items()}
        if not found:
            raise ValueError('expected at least one resource, such as {"cpu": 0.8, "disk": 0.9}')
        return found
    return _load(value)


def _weights(value: object) -> dict[str, float]:
    found = {name: _between(each, f"a weight between 0 and 1 for {name}", 1.0) for name, each in as_map(value).items()}
    if not any(found.values()):
        raise ValueError('expected at least one weight above 0, such as {"cpu": 1, "memory": 1}')
    return found


def _shares(value: object) -> dict[str, float]:
    found = {name: _share(each) for name, each in as_map(value).items()}
    if sum(found.values()) > 1:
        raise ValueError("expected shares that are together at most 1")
    return found


Share: TypeAlias = Annotated[float, BeforeValidator(_share), _SCHEMA]
Load: TypeAlias = Annotated[float, BeforeValidator(_load), _SCHEMA]

LoadLimit: TypeAlias = Annotated[
    float | Mapping[str, float],
    BeforeValidator(_limit),
    WithJsonSchema(
        {
            "type": ["number", "string", "object"],
            "description": "a fraction such as 0.8, or 80%, for cpu and memory; or one for each resource",
        }
    ),
]
Shares: TypeAlias = Annotated[Mapping[str, float], BeforeValidator(_shares), TEXT_OR_MAP]
Weights: TypeAlias = Annotated[Mapping[str, float], BeforeValidator(_weights), TEXT_OR_MAP]
