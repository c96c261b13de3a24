"""When samples were taken, as the answer of a freshness query says, and which replica of Prometheus has the newest."""

from dataclasses import replace

import numpy as np

from ballast.model.sample import Floats, Ints
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.responses import SeriesTable


def sample_times(
    table: SeriesTable, rows: Ints, newest: SeriesTable, names: NodeNames, labels: tuple[str, ...]
) -> Floats:
    """[series, time] Unix times of the samples in `table`, NaN where it is unknown.

    `newest` is the answer of the freshness query, `labels` name the nodes in both. The same label value means the same
    exporter, so its newest time counts, or that of the same replica of Prometheus; otherwise the oldest time of all
    series of that node does.
    """
    known, times = newest_by_label(newest, labels)
    index = np.fromiter((known.get(node, -1) for node in table.named(labels)), dtype=np.int64, count=len(table))
    if not times.shape[0]:
        return np.full(table.values.shape, np.nan)
    own_times = np.where(index[:, None] >= 0, times[index], np.nan)
    lost = (index < 0) & (rows >= 0)
    if lost.any():
        own_times[lost] = _oldest_by_row(known, times, names)[rows[lost]]
    if table.replicas:
        ages = _times_by_replica(newest, labels)
        for row, key in enumerate(zip(table.named(labels), table.replicas, strict=True)):
            own_times[row] = ages.get(key, own_times[row])
    return own_times


def newest_by_label(newest: SeriesTable, named_by: tuple[str, ...] | None = None) -> tuple[dict[str, int], Floats]:
    """Label value → row of the second result, [row, time] Unix times."""
    nodes = newest.nodes if named_by is None else newest.named(named_by)
    labels = {node: number for number, node in enumerate(dict.fromkeys(nodes))}
    times = times_of(newest)
    if len(labels) == len(newest):
        return labels, times
    merged = np.full((len(labels), times.shape[1]), np.nan)
    np.fmax.at(merged, [labels[node] for node in nodes], times)
    return labels, merged


def times_of(newest: SeriesTable) -> Floats:
    """[series, time] Unix times as this answer of a freshness query has them, NaN where it has none."""
    return np.where(newest.present & ~newest.unreadable, newest.values, np.nan)


def _times_by_replica(newest: SeriesTable, labels: tuple[str, ...]) -> dict[tuple[str, str], Floats]:
    """(label value, replica) → [time]."""
    ages: dict[tuple[str, str], Floats] = {}
    for node, replica, own in zip(newest.named(labels), newest.replicas, times_of(newest), strict=False):
        ages[node, replica] = np.fmax(ages[node, replica], own) if (node, replica) in ages else own
    return ages


def newest_replicas(table: SeriesTable, newest: SeriesTable, labels: tuple[str, ...], largest: float) -> SeriesTable:
    """`table` with one series per label value: that of the replica of Prometheus with the newest sample.

    A replica that died gives its last values for five minutes more. Values that no window takes, such as NaN or one
    above `largest`, give way to those of other replicas; of equally new ones the largest counts. `newest` is the answer
    of the freshness query.
    """
    if not table.replicas:
        return table
    ages = _times_by_replica(newest, labels)
    groups: dict[str, list[int]] = {}
    for row, node in enumerate(table.named(labels)):
        if (node, table.replicas[row]) in ages:
            groups.setdefault(node, []).append(row)
    accepted = table.present & ~table.unreadable & (table.values >= 0) & (table.values <= largest)
    present = table.present.copy()
    for node, rows in groups.items():
        if len(rows) > 1:
            times = np.array([ages[node, table.replicas[row]] for row in rows])
            age = np.where(accepted[rows], np.nan_to_num(times, nan=-np.inf), -np.inf)
            value = np.where(accepted[rows] & (age == age.max(axis=0)), table.values[rows], -1.0)
            present[rows] &= np.arange(len(rows))[:, None] == np.argmax(value, axis=0)
    return replace(table, present=present)


def _oldest_by_row(labels: dict[str, int], times: Floats, names: NodeNames) -> Floats:
    rows = names.rows(list(labels))
    oldest = np.full((len(names), times.shape[1]), np.nan)
    known = rows >= 0
    np.fmin.at(oldest, rows[known], times[known])
    return oldest
