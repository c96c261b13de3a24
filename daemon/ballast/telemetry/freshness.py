"""How old a sample is: the newest time known for the same label value, else for the node."""

from __future__ import annotations

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.responses import SeriesTable


def sample_times(
    table: SeriesTable, rows: Ints, newest: SeriesTable, names: NodeNames, labels: tuple[str, ...]
) -> Floats:
    """[series, time] Unix times of the samples in `table`, NaN where it is unknown.

    `newest` is the answer of the freshness query, `labels` name the nodes in both. The same label value means the same
    exporter, so its newest time counts; otherwise the oldest time of all series of that node does.
    """
    known, times = newest_by_label(newest, labels)
    index = np.fromiter((known.get(node, -1) for node in table.named(labels)), dtype=np.int64, count=len(table))
    if not times.shape[0]:
        return np.full(table.values.shape, np.nan)
    found = np.where(index[:, None] >= 0, times[index], np.nan)
    lost = (index < 0) & (rows >= 0)
    if lost.any():
        found[lost] = _oldest_by_row(known, times, names)[rows[lost]]
    return found


def newest_by_label(newest: SeriesTable, named_by: tuple[str, ...] | None = None) -> tuple[dict[str, int], Floats]:
    """Label value → row of the second result, [row, time] Unix times."""
    nodes = newest.nodes if named_by is None else newest.named(named_by)
    labels = {node: number for number, node in enumerate(dict.fromkeys(nodes))}
    times = np.where(newest.present & ~newest.unreadable, newest.values, np.nan)
    if len(labels) == len(newest):
        return labels, times
    merged = np.full((len(labels), times.shape[1]), np.nan)
    np.fmax.at(merged, [labels[node] for node in nodes], times)
    return labels, merged


def _oldest_by_row(labels: dict[str, int], times: Floats, names: NodeNames) -> Floats:
    rows = names.rows(list(labels))
    oldest = np.full((len(names), times.shape[1]), np.nan)
    known = rows >= 0
    np.fmin.at(oldest, rows[known], times[known])
    return oldest
