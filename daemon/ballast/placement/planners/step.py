"""What planners hand back, and whom they ask before each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ballast.model.sample import Ints

Admit: TypeAlias = Callable[[int, int], Ints | None]
"""Asked for (pod, target) once a planner wants that move: None admits it, else these pods are out of the question."""


@dataclass(frozen=True)
class PlannedMove:
    """Pod and nodes by their rows in the layout; `starts` are waiting pods that can start on the nodes `starts_on`.

    `gain` is in the planner's own measure, `error` its standard error and `cost` the price of the eviction, both in the
    same measure; `numbers` are the figures behind it.
    """

    pod: int
    source: int
    target: int
    gain: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    starts: tuple[int, ...] = ()
    starts_on: tuple[int, ...] = ()
    error: float = 0.0
    cost: float = 0.0
