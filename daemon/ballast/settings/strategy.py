"""Names of the strategies."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator

STRATEGIES = (
    "load-variation",
    "target-load",
    "low-risk",
    "peaks",
    "least-allocated",
    "most-allocated",
    "requested-to-capacity",
    "balanced",
    "dynamic",
    "dominant-residual",
    "blend",
)


def _strategy(name: str) -> str:
    if name not in STRATEGIES:
        raise ValueError(f"expected one of {', '.join(STRATEGIES)}")
    return name


Strategy: TypeAlias = Annotated[str, AfterValidator(_strategy)]
