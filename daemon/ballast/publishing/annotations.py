"""The `window` annotation: what the score was computed from, small and stable."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from ballast.model.snapshot import Snapshot


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
