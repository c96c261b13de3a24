"""Chooses loaded nodes for a taint that keeps replacements away, where no scheduler asks the extender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.records import StepRecord
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot

OPEN = 0.1
"""Share of a pool's nodes that stay open, the least loaded ones: too few would take all pods that come meanwhile."""

MOST = 50
"""Nodes that are tainted beside those that pods leave: each is a write, and one more to give it back."""


def loaded(steps: Sequence[StepRecord], snapshot: Snapshot, pending: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Those that the replacement of the last of `steps` is to avoid, the most loaded first, by the mean over resources
    of the load above the pool's mean, as the steps before it leave the loads. Never a node that the plan counts on now,
    one that takes no pods, or one of unknown load; nor of other pools.

    `pending` {node: {resource: change}} is what the window does not show yet.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    row = snapshot.rows.get(steps[-1].source)
    if row is None:
        return []
    pool, load = snapshot.pool(row), snapshot.primary.mean.T.copy()
    for changes in (pending, *(effect.moved(step, nodes) for step in steps[:-1])):
        _add(load, changes, snapshot)
    rows = [
        row
        for row, node in enumerate(snapshot.nodes)
        if snapshot.pool(row) == pool and node.schedulable and np.isfinite(load[row]).any()
    ]
    over = _mean(load[rows] - _mean(load[rows], axis=0), axis=1)
    shut = max(0, len(rows) - max(1, round(OPEN * len(rows))))
    order = np.argsort(-over, kind="stable")[:shut].tolist()
    names = (snapshot.nodes[rows[place]].name for place in order)
    return [name for name in names if name != steps[-1].prefers][:MOST]


def _add(load: Floats, changes: Mapping[str, Mapping[str, float]], snapshot: Snapshot) -> None:
    for name, change in changes.items():
        row = snapshot.rows.get(name)
        for resource, value in change.items():
            column = snapshot.resource(resource)
            if row is not None and column is not None:
                load[row, column] += value


def _mean(values: Floats, axis: int) -> Floats:
    """Over what is known; 0 of nothing."""
    known = np.isfinite(values)
    total: Floats = np.where(known, values, 0.0).sum(axis=axis) / np.maximum(known.sum(axis=axis), 1)
    return total
