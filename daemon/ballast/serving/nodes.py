"""Nodes as JSON, for `/api/v1/nodes` and the page. What is not known is null, never 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot, Window


@dataclass(frozen=True)
class Verdicts:
    """What Ballast makes of nodes: `scores` 0..100 or None, `classes` low, normal, high; `prefix` of their labels."""

    scores: Mapping[str, int | None]
    classes: Mapping[str, str]
    prefix: str


def listing(snapshot: Snapshot, verdicts: Verdicts, window: Window) -> bytes:
    """All nodes by name, with their statistics over one window; loads are fractions of allocatable."""
    columns = {name: _column(window, row) for row, name in enumerate(snapshot.resources)}
    newest = _numbers(snapshot.newest.max(axis=0, initial=-np.inf, where=np.isfinite(snapshot.newest)), 3)
    nodes = [
        _identity(snapshot, verdicts, row)
        | {"newest": newest[row], "load": {name: column[row] for name, column in columns.items()}}
        for row in range(len(snapshot.nodes))
    ]
    return msgspec.json.encode(
        {"time": snapshot.time, "window": window.name, "resources": snapshot.resources, "nodes": nodes}
    )


def detail(snapshot: Snapshot, verdicts: Verdicts, row: int) -> dict[str, Any]:
    """One node over every window, with what Ballast knows about its samples and sizes."""
    node = snapshot.nodes[row]
    return _identity(snapshot, verdicts, row) | {
        "time": snapshot.time,
        "windows": {
            window.name: {name: _cell(window, index, row) for index, name in enumerate(snapshot.resources)}
            for window in snapshot.windows.values()
        },
        "newest": {
            name: _numbers(snapshot.newest[index, row : row + 1], 3)[0] for index, name in enumerate(snapshot.resources)
        },
        "sources": snapshot.sources,
        "capacity": node.capacity,
        "allocatable": node.allocatable,
    }


def state(snapshot: Snapshot, row: int) -> str:
    """`known`, `young` (not known yet) or `silent`."""
    if snapshot.known[row]:
        return "known"
    return "young" if snapshot.young[row] else "silent"


def _identity(snapshot: Snapshot, verdicts: Verdicts, row: int) -> dict[str, Any]:
    node = snapshot.nodes[row]
    known = bool(snapshot.known[row])
    published = {key: node.labels.get(f"{verdicts.prefix}/{key}") for key in ("score", "load")}
    return {
        "name": node.name,
        "pool": snapshot.pool(row) or None,
        "state": state(snapshot, row),
        "score": verdicts.scores.get(node.name) if known else None,
        "class": verdicts.classes.get(node.name) if known else None,
        "schedulable": node.schedulable,
        "published": published,
    }


def _column(window: Window, index: int) -> list[dict[str, float | None] | None]:
    """[node]: mean, std and p95 of one resource, None where the window is not known."""
    known = window.known[index].tolist()
    series = [_numbers(values[index], 6) for values in (window.mean, window.std, window.p95)]
    return [
        {"mean": mean, "std": std, "p95": p95} if is_known else None
        for is_known, mean, std, p95 in zip(known, *series, strict=True)
    ]


def _cell(window: Window, index: int, row: int) -> dict[str, Any]:
    known = bool(window.known[index, row])
    one = slice(row, row + 1)
    statistics = {
        name: _numbers(values[index, one], 6)[0] if known else None
        for name, values in (("mean", window.mean), ("std", window.std), ("p95", window.p95))
    }
    return statistics | {
        "known": known,
        "samples": int(window.count[index, row]),
        "coverage": _numbers(window.coverage[index, one], 4)[0],
    }


def _numbers(values: Floats, digits: int) -> list[float | None]:
    finite = np.isfinite(values)
    rounded = np.round(values, digits).tolist()
    return [value if known else None for value, known in zip(rounded, finite.tolist(), strict=True)]
