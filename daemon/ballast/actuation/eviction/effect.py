"""Compares predicted changes of load with measured ones."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET

from ballast.actuation.eviction.records import Loads, Running, StepRecord
from ballast.actuation.eviction.replacement_use import Uses
from ballast.answers.evictions import Measured
from ballast.model.node import Node
from ballast.model.node_state import AMOUNTS
from ballast.model.snapshot import Snapshot
from ballast.placement.load_spread import spread
from ballast.planners.eviction_plan import Move

HALF = 0.5
"""Share of the predicted fall of load: a plan did not do what it said if the whole interval is below."""

LEAST_ERROR = 0.03
"""How far a share is open at least: uses are samples of meters."""

FIRST_MINUTE = 0.06
"""Part of the window that samples hardly show, as they are rates: there a pod may go on as before, and then change."""

STUDENT = (
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622,
    2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009,
)  # fmt: skip
"""The 97.5 % quantile of Student's distribution, on both sides an interval of 95 %, by degrees of freedom from 1."""


def predicted(move: Move, nodes: Mapping[str, Node]) -> Loads:
    """{node: {resource: change of load}} of one move."""
    return between(nodes.get(move.source), nodes.get(move.target) if move.target else None, move.used)


def between(source: Node | None, target: Node | None, used: Mapping[str, float], *, back: bool = False) -> Loads:
    """{node: {resource: change of load}} of what leaves one node for the other, or is put `back`."""
    signs = ((source, 1.0 if back else -1.0), (target, -1.0 if back else 1.0))
    return {node.name: _on(node, used, sign) for node, sign in signs if node is not None}


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


class Interval(NamedTuple):
    """A value and its bounds."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class EffectVerdict:
    """What a plan moved, as far as the use of its replacements shows it."""

    share: Interval | None
    """Of the fall that was predicted for the sources; None where no replacement was measured."""
    measured: Measured
    shares: Mapping[str, Interval] = field(default_factory=dict)
    """By UID of the evicted pod."""
    ineffective: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """{(node, resource): why} of the sources from which less was moved than was said."""

    @property
    def failed(self) -> bool:
        """Whether the plan did not do what it said."""
        return self.share is not None and self.share.high < HALF

    def of(self, step: StepRecord) -> Measured:
        """What was measured, with the share of this step alone."""
        return _with_share(self.measured, self.shares.get(step.uid))


class _Parts(NamedTuple):
    """Of some changes of load: Σ predicted · seen, Σ predicted², and the variance of the first."""

    seen: float
    predicted: float
    variance: float

    def share(self, freedom: int) -> Interval:
        value = self.seen / self.predicted
        quantile = STUDENT[min(freedom, len(STUDENT)) - 1] if freedom else math.inf
        half = quantile * math.sqrt(self.variance) / self.predicted if freedom else value
        half = max(half, LEAST_ERROR * value) + FIRST_MINUTE * abs(1 - value)
        return Interval(*(round(part, 4) for part in (value, max(0.0, value - half), value + half)))


def judge(
    plan: Running, steps: Sequence[StepRecord], snapshot: Snapshot, used: Callable[[StepRecord], Sequence[Uses]]
) -> EffectVerdict:
    """Compares what these steps were to take off their sources with what their replacements use: `used` are samples."""
    whole = Measured(load=measured(plan, snapshot), before=plan.before, after=spread(snapshot), share=None)
    seen = {step.uid: (parts, len(used(step)) - 1) for step in steps if (parts := _parts(step, used(step))) is not None}
    shares = {uid: parts.share(freedom) for uid, (parts, freedom) in seen.items()}
    share = _together(seen.values())
    why = {}
    for node, changes in _falls(steps).items():
        own = _together(seen[step.uid] for step in steps if step.source == node and step.uid in seen)
        if own is not None and own.high < HALF:
            resource = min(changes, key=lambda name: changes[name])
            why[node, resource] = f"what replaced pods of {node} uses {in_words(own)}"
    return EffectVerdict(share, _with_share(whole, share), shares, why)


def _parts(step: StepRecord, samples: Sequence[Uses]) -> _Parts | None:
    """What one step moved; None where its replacement was not measured."""
    seen = predicted = variance = 0.0
    for resource, change in step.load.get(step.source, {}).items():
        values = [uses[resource] for uses in samples if resource in uses]
        if change < 0 < step.used.get(resource, 0.0) and values:
            ratios = np.array(values) / step.used[resource]
            seen += change * change * float(ratios.mean())
            predicted += change * change
            variance += change**4 * (float(ratios.var(ddof=1)) / len(values) if len(values) > 1 else 0.0)
    return _Parts(seen, predicted, variance) if predicted else None


def _together(found: Iterable[tuple[_Parts, int]]) -> Interval | None:
    """The share of several steps."""
    known = list(found)
    if not known:
        return None
    parts = _Parts(*(sum(each) for each in zip(*(parts for parts, _ in known), strict=True)))
    return parts.share(min(freedom for _, freedom in known))


def _with_share(result: Measured, share: Interval | None) -> Measured:
    if share is None:
        return msgspec.structs.replace(result, share=None, low=UNSET, high=UNSET)
    return msgspec.structs.replace(result, share=share.value, low=share.low, high=share.high)


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
