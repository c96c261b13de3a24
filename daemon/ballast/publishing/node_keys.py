"""The names of everything Ballast writes on a node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ballast.model.node import Node

TAINT_EFFECT = "PreferNoSchedule"


@dataclass(frozen=True)
class NodeKeys:
    """Labels `score` ("0".."10") and `load`, annotation `window`, taints `overloaded` and `load`, under one prefix."""

    score: str
    load: str
    window: str
    taint: str

    @classmethod
    def of(cls, prefix: str) -> NodeKeys:
        """The names under a prefix such as `ballast.dev`."""
        return cls(f"{prefix}/score", f"{prefix}/load", f"{prefix}/window", f"{prefix}/overloaded")

    def others(self, nodes: Iterable[Node]) -> dict[str, list[str]]:
        """Prefix → nodes with another Ballast's scores; both its labels, as a stranger's `score` counts for nothing."""
        found: dict[str, list[str]] = {}
        for node in nodes:
            for key in node.labels:
                if key.endswith("/score") and key != self.score:
                    prefix = key.rpartition("/")[0]
                    if f"{prefix}/load" in node.labels:
                        found.setdefault(prefix, []).append(node.name)
        return dict(sorted(found.items()))
