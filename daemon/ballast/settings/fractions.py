"""Fractions of one: shares, loads, limits of load, weights. `0.2` and `20%` are the same."""

import re
from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from ballast.model.node_weights import LEAST, MOST, is_selector
from ballast.settings.lists import TEXT_OR_MAP, as_map
from ballast.settings.names import selector, subdomain

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


def _limit(value: object) -> float | dict[str, float]:
    if isinstance(value, Mapping) or (isinstance(value, str) and value.strip().startswith("{")):
        limits = {name: _load(item) for name, item in as_map(value).items()}
        if not limits:
            raise ValueError('expected at least one resource, such as {"cpu": 0.8, "disk": 0.9}')
        return limits
    return _load(value)


def _weights(value: object) -> dict[str, float]:
    weights = {
        name: _between(item, f"a weight between 0 and 1 for {name}", 1.0) for name, item in as_map(value).items()
    }
    if not any(weights.values()):
        raise ValueError('expected at least one weight above 0, such as {"cpu": 1, "memory": 1}')
    return weights


def _node_weights(value: object) -> dict[str, dict[str, float]]:
    weights: dict[str, dict[str, float]] = {}
    for key, item in as_map(value).items():
        name = key.strip()
        (selector if is_selector(name) else subdomain)(name)
        by_resource = {
            resource: _between(number, f"a weight above 0, at most {MOST:g}, for {resource} of {name}", MOST)
            for resource, number in as_map(item).items()
        }
        if not by_resource or min(by_resource.values()) < LEAST:
            raise ValueError(f'expected weights above 0 for {name}, such as {{"disk=ssd": {{"disk": 0.5}}}}')
        weights[name] = by_resource
    return weights


def _shares(value: object) -> dict[str, float]:
    shares = {name: _share(item) for name, item in as_map(value).items()}
    if sum(shares.values()) > 1:
        raise ValueError("expected shares that are together at most 1")
    return shares


_FRACTION = {"type": ["number", "string"], "description": "a fraction such as 0.2, or 20%"}
_LIMIT = {
    "type": ["number", "string", "object"],
    "description": "a fraction such as 0.8, or 80%, for cpu and memory; or one for each resource",
}
Share: TypeAlias = Annotated[float, BeforeValidator(_share), WithJsonSchema(_FRACTION)]
Load: TypeAlias = Annotated[float, BeforeValidator(_load), WithJsonSchema(_FRACTION)]
LoadLimit: TypeAlias = Annotated[float | Mapping[str, float], BeforeValidator(_limit), WithJsonSchema(_LIMIT)]
Shares: TypeAlias = Annotated[Mapping[str, float], BeforeValidator(_shares), WithJsonSchema(TEXT_OR_MAP)]
Weights: TypeAlias = Annotated[Mapping[str, float], BeforeValidator(_weights), WithJsonSchema(TEXT_OR_MAP)]
NodeWeights: TypeAlias = Annotated[
    Mapping[str, Mapping[str, float]], BeforeValidator(_node_weights), WithJsonSchema(TEXT_OR_MAP)
]
