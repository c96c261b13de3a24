"""One place settings come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class GivenValue:
    """A value as it was written, and where."""

    value: object
    origin: str


@dataclass
class Layer:
    """What one origin says, by (part, field), with what is wrong in it."""

    values: dict[tuple[str, str], GivenValue] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def give(self, part: str, field: str, value: object, origin: str) -> None:
        self.values[part, field] = GivenValue(value, origin)


def nested(values: Mapping[tuple[str, str], GivenValue]) -> dict[str, dict[str, Any]]:
    """`{part: {field: value}}`, the form the models take."""
    tree: dict[str, dict[str, Any]] = {}
    for (part, name), given in values.items():
        tree.setdefault(part, {})[name] = given.value
    return tree
