"""Compares predicted changes of load with measured ones."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ballast.actuation.eviction.records import Loads, Running, StepRecord
from ballast.answers.evictions import Measured
from ballast.eviction.plan import Move
from ballast.model.node import Node
from ballast.model.node_state import ALWAYS_NEEDED
from ballast.model.snapshot import Snapshot
from ballast.placement.planners.load_spread import deviations

LEAST = 0.25
"""Share of the predicted change of loads below which a plan did not do what it said."""

FAINT = 0.01
"""Predicted changes of load that are smaller than this altogether cannot be told from chance."""


def predicted(move: Move, nodes: Mapping[str, Node]) -> dict[str, dict[str, float]]:
    """{node: {resource: change of load}} of one move."""
    changes: dict[str, dict[str, float]] = {}
    for name, sign in ((move.source, -1.0), (move.target, 1.0)):
        node = nodes.get(name) if name else None
        if node is not None:
            changes[node.name] = _on(node, move.used, sign)
    return changes


def known(used: Mapping[str, float]) -> dict[str, float]:
    """What can be written down: without what is unknown."""
    return {resource: amount for resource, amount in used.items() if math.isfinite(amount)}


def _on(node: Node, used: Mapping[str, float], sign: float = 1.0) -> dict[str, float]:
    """{resource: change of load} of what comes to a node."""
    return {
        resource: round(sign * amount / whole, 6)
        for resource, amount in used.items()
        if (whole := node.allocatable.get(resource, 0.0) if resource in ALWAYS_NEEDED else 1.0)
        and math.isfinite(amount)
    }


def together(steps: Iterable[StepRecord]) -> dict[str, dict[str, float]]:
    """The predicted changes of several steps, by node."""
    sums: dict[str, dict[str, float]] = {}
    for step in steps:
        _add(sums, step.load)
    return sums


def _add(sums: dict[str, dict[str, float]], changes: Loads, part: float = 1.0) -> None:
    for node, by_resource in changes.items():
        for resource, change in by_resource.items():
            before = sums.setdefault(node, {})
            before[resource] = before.get(resource, 0.0) + change * part


def loads_of(snapshot: Snapshot, nodes: Iterable[str]) -> dict[str, dict[str, float]]:
    """{node: {resource: load}}, without what is unknown."""
    mean = snapshot.primary.mean
    by_node: dict[str, dict[str, float]] = {}
    for name in nodes:
        row = snapshot.rows.get(name)
        if row is not None:
            values = zip(snapshot.resources, mean[:, row].tolist(), strict=True)
            by_node[name] = {resource: round(value, 6) for resource, value in values if math.isfinite(value)}
    return by_node


def mean_besides(snapshot: Snapshot, touched: Iterable[str]) -> dict[str, float]:
    """{resource: mean load} of the nodes that nothing was moved from or to."""
    rows = [row for name, row in snapshot.rows.items() if name not in set(touched)]
    means: dict[str, float] = {}
    for resource, values in zip(snapshot.resources, snapshot.primary.mean[:, rows], strict=True):
        known = values[np.isfinite(values)]
        if known.size:
            means[resource] = round(float(known.mean()), 6)
    return means


def spread(snapshot: Snapshot) -> dict[str, float]:
    """{resource: deviation of load} over schedulable nodes, as plans count it."""
    counted = np.array([node.schedulable for node in snapshot.nodes], bool)
    names = sorted(set(snapshot.pools))
    pool = np.array([names.index(pool) for pool in snapshot.pools] or [0] * len(snapshot.nodes), np.int64)
    values = deviations(snapshot.primary.mean.T, counted, pool).tolist()
    return {name: round(value, 6) for name, value in zip(snapshot.resources, values, strict=True) if value == value}


def measured(plan: Running, snapshot: Snapshot) -> dict[str, dict[str, float]]:
    """{node: {resource: change of load}} since the plan was made, less what changed everywhere else meanwhile."""
    now, besides = loads_of(snapshot, plan.loads), mean_besides(snapshot, plan.loads)
    drift = {name: value - plan.mean[name] for name, value in besides.items() if name in plan.mean}
    return {
        node: {
            resource: round(now[node][resource] - load - drift.get(resource, 0.0), 6)
            for resource, load in loads.items()
            if resource in now.get(node, {})
        }
        for node, loads in plan.loads.items()
    }


def share(expected: Loads, observed: Loads) -> float | None:
    """How much of the expected change was seen: 1 all of it, 0 nothing, below 0 the contrary; None if it is unknown.

    The projection of what was seen on what was expected.
    """
    dot = norm = 0.0
    for node, changes in expected.items():
        for resource, change in changes.items():
            actual = observed.get(node, {}).get(resource)
            if actual is not None:
                dot += change * actual
                norm += change * change
    return None if norm < FAINT**2 else dot / norm


@dataclass(frozen=True)
class EffectVerdict:
    """What a plan changed, as far as loads show it."""

    share: float | None
    """Of what was predicted; None where that cannot be told from chance."""
    measured: Measured
    ineffective: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """{(node, resource): why} of the sources whose load did not fall as was said."""

    @property
    def failed(self) -> bool:
        """Whether the plan did not do what it said."""
        return self.share is not None and self.share < LEAST


def judge(plan: Running, steps: Sequence[StepRecord], snapshot: Snapshot) -> EffectVerdict:
    """Compares what these steps were to change with what the snapshot shows."""
    changes = measured(plan, snapshot)
    part = share(together(steps), changes)
    why = dict(_ineffective(steps, changes))
    return EffectVerdict(part, Measured(load=changes, before=plan.before, after=spread(snapshot), share=part), why)


def _ineffective(steps: Sequence[StepRecord], changes: Loads) -> Iterator[tuple[tuple[str, str], str]]:
    """((node, resource), why) of the sources whose load did not fall as was said."""
    for node, expected in together(steps).items():
        if not any(step.source == node for step in steps) or not expected:
            continue
        resource = min(expected, key=lambda name: expected[name])
        part = share({node: {resource: expected[resource]}}, changes)
        if part is not None and part < LEAST:
            yield (
                (node, resource),
                f"moving pods off {node} changed its {resource} by {part:.0%} of what was predicted",
            )


def pending(
    plans: Sequence[Running], now: float, window: float, nodes: Mapping[str, Node] | None = None
) -> dict[str, dict[str, float]]:
    """{node: {resource: load}} that was moved but that a mean over `window` seconds does not show yet.

    A replacement that landed so many seconds ago is in that share of the window. It counts where it landed, if that is
    one of `nodes`, and before that on its target or the node that it prefers.
    """
    sums: dict[str, dict[str, float]] = {}
    for step in (step for plan in plans for step in plan.steps):
        if step.happened and step.landed_on != step.source:
            shown = min(1.0, max(0.0, now - step.landed_at) / window) if step.landed_at else 0.0
            _add(sums, moved(step, nodes or {}), 1.0 - shown)
    return sums


def moved(step: StepRecord, nodes: Mapping[str, Node]) -> Loads:
    """What left its source, and what came to where the replacement is or is to go."""
    where = step.landed_on or step.target or step.prefers
    by_node = {node: changes for node, changes in step.load.items() if node in (step.source, where)}
    if where and where not in by_node and where in nodes:
        by_node[where] = _on(nodes[where], step.used)
    return by_node
