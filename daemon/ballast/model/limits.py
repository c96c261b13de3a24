"""Limits of load and weights of resources, as the settings give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    found = by_resource(limit)
    return np.array([found.get(name, np.inf) for name in resources], float)


def lower(one: Limit, other: Limit) -> Limit:
    """The smaller one for each resource that either counts for."""
    if not isinstance(one, Mapping) and not isinstance(other, Mapping):
        return min(one, other)
    first, second = by_resource(one), by_resource(other)
    return {name: min(first.get(name, np.inf), second.get(name, np.inf)) for name in {**first, **second}}


def shares(weights: Weights, resources: Sequence[str]) -> Floats:
    """[resource]: weights that sum to 1; the same for all where none of these resources has one."""
    found = np.array([weights.get(name, 0.0) for name in resources], float)
    return found / found.sum() if found.sum() > 0 else np.full(len(found), 1 / max(1, len(found)))


def named(*given: Limit | Weights | None) -> tuple[str, ...]:
    """The resources that count in any of them, cpu and memory first."""
    found = {name for each in given if each is not None for name, value in by_resource(each).items() if value > 0}
    return tuple(sorted(found, key=lambda name: (name not in ALWAYS_NEEDED, name)))
