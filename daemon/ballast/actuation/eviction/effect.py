"""Compares predicted changes of load with measured ones."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ballast.actuation.eviction import causal
from ballast.actuation.eviction.causal import Interval
from ballast.actuation.eviction.records import Loads, Running, StepRecord
from ballast.answers.evictions import Measured
from ballast.model.node import Node
from ballast.model.node_state import AMOUNTS
from ballast.model.snapshot import Snapshot
from ballast.placement.load_spread import spread
from ballast.planners.eviction_plan import Move

HALF = 0.5
"""Share of the predicted fall of load: a plan did not do what it said if the whole interval is below."""

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
        if (whole := node.allocatable.get(resource, 0.0) if resource in AMOUNTS else 1.0) and math.isfinite(amount)
    }


def together(steps: Iterable[StepRecord]) -> dict[str, dict[str, float]]:
    """The predicted changes of several steps, by node."""
    return sum_of(step.load for step in steps)


def sum_of(changes: Iterable[Loads]) -> dict[str, dict[str, float]]:
    """{node: {resource: change of load}} of several such."""
    sums: dict[str, dict[str, float]] = {}
    for change in changes:
        _add(sums, change)
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


@dataclass(frozen=True)
class EffectVerdict:
    """What a plan changed, as far as loads show it."""

    share: Interval | None
    """Of the fall that was predicted for the sources; None where that cannot be told from chance."""
    measured: Measured
    ineffective: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """{(node, resource): why} of the sources whose load did not fall as was said."""
    failed_alone: bool = False
    """Whether it failed too by the sources that no other plan under way has touched: pods that come or go there
    meanwhile cannot be told from what it did."""

    @property
    def failed(self) -> bool:
        """Whether the plan did not do what it said."""
        return self.share is not None and self.share.high < HALF


def judge(
    plan: Running, steps: Sequence[StepRecord], snapshot: Snapshot, touched: Collection[str] = ()
) -> EffectVerdict:
    """Compares what these steps were to take off their sources with what the snapshot shows.

    Nodes that other plans have `touched` say nothing of what happens where nobody does anything.
    """
    load = measured(plan, snapshot)
    expected = _falls(steps)
    others = [name for name in plan.parts if name not in expected and name not in touched]
    before = {name: plan.parts[name] for name in (*expected, *others) if name in plan.parts}
    after = causal.parts(snapshot, before)
    passed, middle = snapshot.time - plan.time, causal.ages(snapshot)

    def seen(part: Loads, beside: Mapping[str, Mapping[str, tuple[float, ...]]] = before) -> Interval | None:
        norm = sum(change * change for changes in part.values() for change in changes.values())
        return causal.share(part, beside, after, passed, middle) if norm >= FAINT**2 else None

    found = seen(expected)
    alone = _falls([step for step in steps if step.source not in touched])
    by_alone = seen(alone, {name: own for name, own in before.items() if name in alone or name not in expected})
    why = {}
    for node, changes in expected.items():
        resource = min(changes, key=lambda name: changes[name])
        own = seen({node: {resource: changes[resource]}})
        if own is not None and own.high < HALF:
            why[node, resource] = f"moving pods off {node} changed its {resource} by {in_words(own)}"
    result = Measured(load=load, before=plan.before, after=spread(snapshot), share=None)
    if found is not None:
        value, low, high = (round(part, 4) for part in found)
        result = msgspec.structs.replace(result, share=value, low=low, high=high)
    return EffectVerdict(found, result, why, by_alone is not None and by_alone.high < HALF)


def relief(steps: Sequence[StepRecord], share: float | None) -> tuple[float, float] | None:
    """The load that moves were to take off their nodes, by the resource that was to fall most on each, and what they
    took off: that share of it. None where the effect is unknown, or none was predicted."""
    predicted = -sum(min(changes.values()) for changes in _falls(steps).values())
    return (predicted, predicted * share) if share is not None and predicted > 0 else None


def in_words(share: Interval) -> str:
    """ "87% of what was predicted (between 60% and 110%)"."""
    return f"{share.value:.0%} of what was predicted (between {share.low:.0%} and {share.high:.0%})"


def _falls(steps: Sequence[StepRecord]) -> dict[str, dict[str, float]]:
    """{source: {resource: predicted fall of load}}, of what falls."""
    sources = {step.source for step in steps}
    falls = {
        node: {resource: change for resource, change in changes.items() if change < 0}
        for node, changes in together(steps).items()
        if node in sources
    }
    return {node: changes for node, changes in falls.items() if changes}


def pending(
    plans: Sequence[Running], now: float, window: float, nodes: Mapping[str, Node] | None = None
) -> dict[str, dict[str, float]]:
    """{node: {resource: load}} that was moved but that a mean over `window` seconds does not show yet.

    A replacement that landed so many seconds ago is in that share of the window. It counts where it landed, if that is
    one of `nodes`, and before that on its target or the node that it prefers. The source loses the pod when it is gone,
    which may be later: until then its whole fall is to come.
    """
    sums: dict[str, dict[str, float]] = {}
    for step in (step for plan in plans for step in plan.steps):
        if step.happened and step.landed_on != step.source:
            for node, changes in moved(step, nodes or {}).items():
                since = step.gone_at if node == step.source else step.landed_at
                shown = min(1.0, max(0.0, now - since) / window) if since else 0.0
                _add(sums, {node: changes}, 1.0 - shown)
    return sums


def moved(step: StepRecord, nodes: Mapping[str, Node]) -> Loads:
    """What left its source, and what came to where the replacement is or is to go."""
    where = step.landed_on or step.target or step.prefers
    by_node = {node: changes for node, changes in step.load.items() if node in (step.source, where)}
    if where and where not in by_node and where in nodes:
        by_node[where] = _on(nodes[where], step.used)
    return by_node
