"""The values of one source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class GivenValue:
    """A value as it was written, and its origin."""

    value: object
    origin: str


@dataclass
class Layer:
    """The values of one source by (part, field), with its problems and warnings."""

    values: dict[tuple[str, str], GivenValue] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def give(self, part: str, field: str, value: object, origin: str) -> None:
        """Sets the value of one field."""
        self.values[part, field] = GivenValue(value, origin)


def nested(values: Mapping[tuple[str, str], GivenValue]) -> dict[str, dict[str, Any]]:
    """`{part: {field: value}}`, the form the models take."""
    tree: dict[str, dict[str, Any]] = {}
    for (part, name), given in values.items():
        tree.setdefault(part, {})[name] = given.value
    return tree
