"""Names of the strategies."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator


def _strategy(name: str) -> str:
    from ballast.scoring.strategy import names  # numpy is slow to import, and most commands need no strategy

    if name not in names():
        raise ValueError(f"expected one of {', '.join(names())}")
    return name


Strategy: TypeAlias = Annotated[str, AfterValidator(_strategy)]
"""The name of a strategy for labels, metrics or the extender."""
