"""The documents of nodes, for `/api/v1/nodes` and the page. What is not known is null, never 0."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from ballast.answers.api import Load, Node, NodeDetail, Nodes, Published, State, Statistics
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot, Window


@dataclass(frozen=True)
class Verdicts:
    """The scores and classes of nodes."""

    scores: Mapping[str, int | None]
    """{node: 0..100}, None where the node is unknown."""

    classes: Mapping[str, str]
    """{node: low, normal or high}."""

    prefix: str
    """Prefix of the labels that Ballast writes."""


def listing(snapshot: Snapshot, verdicts: Verdicts, window: Window) -> bytes:
    """`answers.api.Nodes` as JSON: every node with its statistics over one window, as fractions of allocatable."""
    columns = {name: _column(window, row) for row, name in enumerate(snapshot.resources)}
    newest = _numbers(snapshot.newest.max(axis=0, initial=-np.inf, where=np.isfinite(snapshot.newest)), 3)
    nodes = [
        Node(*_summary(snapshot, verdicts, row), newest[row], {name: column[row] for name, column in columns.items()})
        for row in range(len(snapshot.nodes))
    ]
    return msgspec.json.encode(Nodes(snapshot.time, window.name, snapshot.resources, nodes))


def detail(snapshot: Snapshot, verdicts: Verdicts, row: int) -> NodeDetail:
    """One node over every window, with its newest samples, their sources, and its sizes."""
    node = snapshot.nodes[row]
    return NodeDetail(
        *_summary(snapshot, verdicts, row),
        time=snapshot.time,
        windows={
            window.name: {name: _statistics(window, index, row) for index, name in enumerate(snapshot.resources)}
            for window in snapshot.windows.values()
        },
        newest={
            name: _numbers(snapshot.newest[index, row : row + 1], 3)[0] for index, name in enumerate(snapshot.resources)
        },
        sources=snapshot.sources,
        capacity=node.capacity,
        allocatable=node.allocatable,
    )


def _summary(
    snapshot: Snapshot, verdicts: Verdicts, row: int
) -> tuple[
    str,
    str | None,
    State,
    tuple[str, ...],
    tuple[str, ...],
    bool,
    int | None,
    str | None,
    bool,
    str | None,
    bool,
    Published,
]:
    """The fields of `NodeSummary`, in order."""
    node = snapshot.nodes[row]
    known = bool(snapshot.known[row])
    # metrics-server tells of nodes by their names alone.
    matched_by, guessed = snapshot.matched_by.get(node.name, ("name", False))
    score, load = (node.labels.get(f"{verdicts.prefix}/{key}") for key in ("score", "load"))
    return (
        node.name,
        snapshot.pool(row) or None,
        snapshot.states[row].value,
        snapshot.lost(row),
        snapshot.missing(row),
        snapshot.starved(row),
        verdicts.scores.get(node.name) if known else None,
        verdicts.classes.get(node.name) if known else None,
        node.schedulable,
        matched_by if known else None,
        guessed and known,
        Published(score, load),
    )


def _column(window: Window, index: int) -> list[Load | None]:
    """[node]: mean, std and p95 of one resource, None where the window is not known."""
    known = window.known[index].tolist()
    series = [_numbers(values[index], 6) for values in (window.mean, window.std, window.p95)]
    return [Load(mean, std, p95) if is_known else None for is_known, mean, std, p95 in zip(known, *series, strict=True)]


def _statistics(window: Window, index: int, row: int) -> Statistics:
    known = bool(window.known[index, row])
    one = slice(row, row + 1)
    mean, std, p95 = (
        _numbers(values[index, one], 6)[0] if known else None for values in (window.mean, window.std, window.p95)
    )
    coverage = _numbers(window.coverage[index, one], 4)[0]
    return Statistics(mean, std, p95, known, int(window.count[index, row]), coverage)


def _numbers(values: Floats, digits: int) -> list[float | None]:
    """Rounded; None for what is not finite."""
    finite = np.isfinite(values)
    rounded = np.round(values, digits).tolist()
    return [value if known else None for value, known in zip(rounded, finite.tolist(), strict=True)]
