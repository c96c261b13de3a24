"""What Ballast writes on a node: the names of all labels, annotations and taints, and the annotation `window`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from ballast.model.node import Node
from ballast.model.snapshot import Snapshot

TAINT_EFFECT = "PreferNoSchedule"

GUARDED = "ballast.node-restriction.kubernetes.io"
"""A prefix of labels that the admission plugin NodeRestriction keeps from kubelets."""

_RESTRICTED = "node-restriction.kubernetes.io"


@dataclass(frozen=True)
class NodeKeys:
    """Labels `score` ("0".."24") and `load`, annotation `window`, taints `overloaded` and `load`."""

    score: str
    load: str
    window: str
    taint: str
    load_taint: str

    @classmethod
    def of(cls, prefix: str, labels: str | None = None) -> NodeKeys:
        """The names under a prefix such as `ballast.dev`, the labels under another where `labels` is given."""
        mine = labels or prefix
        return cls(f"{mine}/score", f"{mine}/load", f"{prefix}/window", f"{prefix}/overloaded", f"{prefix}/load")

    @property
    def guarded(self) -> bool:
        """Whether NodeRestriction keeps the labels from kubelets."""
        prefix = self.score.rpartition("/")[0]
        return prefix == _RESTRICTED or prefix.endswith(f".{_RESTRICTED}")

    @property
    def former(self) -> tuple[str, ...]:
        """Our labels from before they got a prefix of their own; a scheduler that still reads them reads old scores."""
        prefix = self.window.rpartition("/")[0]
        return tuple(key for key in (f"{prefix}/score", f"{prefix}/load") if key not in (self.score, self.load))

    def others(self, nodes: Iterable[Node]) -> dict[str, list[str]]:
        """Prefix → nodes with another Ballast's scores; both its labels, as a stranger's `score` counts for nothing."""
        by_prefix: dict[str, list[str]] = {}
        for node in nodes:
            for key in node.labels:
                if key.endswith("/score") and key != self.score:
                    prefix = key.rpartition("/")[0]
                    if f"{prefix}/load" in node.labels:
                        by_prefix.setdefault(prefix, []).append(node.name)
        return dict(sorted(by_prefix.items()))


def window_annotation(snapshot: Snapshot, row: int, identity: str = "") -> str:
    """The primary window of one node: loads with 4 decimals, keys sorted, no spaces, known resources only.

    `by` is the `identity` of the Ballast that wrote it.
    """
    window = snapshot.primary
    seconds = window.seconds
    document: dict[str, object] = {
        "v": 1,
        "end": stamp(snapshot.time),
        "length": int(seconds) if seconds == int(seconds) else seconds,
    }
    if identity:
        document["by"] = identity
    for index, resource in enumerate(snapshot.resources):
        if window.known[index, row]:
            document[resource] = {
                "mean": round(float(window.mean[index, row]), 4),
                "std": round(float(window.std[index, row]), 4),
                "n": int(window.count[index, row]),
                "cov": round(float(window.coverage[index, row]), 4),
            }
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def window_end(annotation: str) -> float | None:
    """The Unix time an annotation's window ended, or None if it cannot be read."""
    try:
        return datetime.fromisoformat(json.loads(annotation)["end"]).timestamp()
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def stamp(time: float) -> str:
    """RFC 3339 in UTC, to the second unless the time has a fraction."""
    moment = datetime.fromtimestamp(time, UTC)
    return moment.isoformat(timespec="milliseconds" if time % 1 else "seconds").replace("+00:00", "Z")
