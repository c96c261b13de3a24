"""What all answers of the HTTP API have in common."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Meta, Struct

NAMESPACED = Meta(description="namespace/name")
UNIX = Meta(description="Unix time")

Loads = Mapping[str, Mapping[str, float]]
"""{node: {resource: load or change of load}}, fractions of allocatable."""

Numbers = Mapping[str, float | None]
"""By name; None where a number is not known."""


class Answer(Struct, forbid_unknown_fields=True):
    """An object with these keys and no others."""
