"""The names of everything Ballast writes on a node."""

from __future__ import annotations

from dataclasses import dataclass

TAINT_EFFECT = "PreferNoSchedule"


@dataclass(frozen=True)
class NodeKeys:
    """Labels `score` ("0".."10") and `load`, annotation `window`, taint `overloaded`, under one prefix."""

    score: str
    load: str
    window: str
    taint: str

    @classmethod
    def of(cls, prefix: str) -> NodeKeys:
        """The names under a prefix such as `ballast.dev`."""
        return cls(f"{prefix}/score", f"{prefix}/load", f"{prefix}/window", f"{prefix}/overloaded")
