"""Which nodes replacements should rather not go to, where a taint is all that can tell the scheduler."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ballast.eviction.plan import Plan
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot

OPEN = 0.2
"""Share of a pool's nodes that stay open, the least loaded ones: too few would take all pods that come meanwhile."""

MOST = 50
"""Nodes that are tainted for one plan beside those that pods leave: each is a write, and one more to give it back."""


def loaded(plan: Plan, snapshot: Snapshot, pending: Mapping[str, Mapping[str, float]]) -> list[str]:
    """The most loaded first, by the mean over resources of the load above the pool's mean. Never a node that the plan
    counts on, nor one that takes no pods, or whose load is unknown.

    `pending` {node: {resource: change}} is what the window does not show yet. Pools that no step leaves stay open.
    """
    load = snapshot.primary.mean.T.copy()
    for name, changes in pending.items():
        for resource, change in changes.items():
            row, column = snapshot.rows.get(name), snapshot.resource(resource)
            if row is not None and column is not None:
                load[row, column] += change
    sources = {snapshot.pool(row) for step in plan.steps if (row := snapshot.rows.get(step.source)) is not None}
    above: dict[str, float] = {}
    for pool in sources:
        rows = [
            row
            for row, node in enumerate(snapshot.nodes)
            if snapshot.pool(row) == pool and node.schedulable and np.isfinite(load[row]).any()
        ]
        over = _mean(load[rows] - _mean(load[rows], axis=0), axis=1)
        shut = max(0, len(rows) - max(1, round(OPEN * len(rows))))
        order = np.argsort(-over, kind="stable")[:shut].tolist()
        above |= {snapshot.nodes[rows[place]].name: float(over[place]) for place in order}
    aims = {step.aim for step in plan.steps}
    return sorted((name for name in above if name not in aims), key=lambda name: (-above[name], name))[:MOST]


def _mean(values: Floats, axis: int) -> Floats:
    """Over what is known; 0 of nothing."""
    known = np.isfinite(values)
    total: Floats = np.where(known, values, 0.0).sum(axis=axis) / np.maximum(known.sum(axis=axis), 1)
    return total
