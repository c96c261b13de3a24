"""Where one pod could go: why not to each node, counted as kube-scheduler's FitError does, and the best target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from ballast.answers.views import BestTarget, PendingPod, Targets
from ballast.eviction.checks.limits import scarcity
from ballast.eviction.facts import Facts
from ballast.eviction.feasibility import BEHIND, standing_of, unusable
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import GateRules
from ballast.eviction.price import prices
from ballast.eviction.upgrade_front import upgrade_front
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Ints
from ballast.placement.layout import Layout
from ballast.placement.node_constraints import lacks
from ballast.placement.simulated_placement import Preferences, SimulatedPlacement
from ballast.planners.aims import Aims
from ballast.planners.steepest_moves import steepest_moves
from ballast.planners.step import EVEN, Worth


def targets_of(arranged: Layout, gate: Gate, pod: int, aims: Aims) -> Targets:
    """Of a pod on a node: the nodes that can take it, and the move that `rebalance` would make of it."""
    placement = standing_of(arranged, gate.facts, gate.rules, aims.ceiling)
    open_to = placement.open_to(pod)
    home = int(arranged.on[pod])
    behind = upgrade_front(arranged.nodes, arranged.pool, gate.facts.now).older
    why_not = Counter(
        _why_not(placement, pod, row, behind, gate.facts, gate.rules)
        for row in np.flatnonzero(~open_to).tolist()
        if row != home
    )
    return Targets(int(open_to.sum()), dict(why_not.most_common()), _best(arranged, gate, pod, aims))


def as_tried(pods: Sequence[Pod], name: str) -> tuple[list[Pod], bool]:
    """The pods, of which `name` (namespace/name) counts as tried by the scheduler; whether gates hold it.

    Layouts have only pods that are on a node or were tried, and one behind a gate is none of them.
    """
    rows = [row for row, pod in enumerate(pods) if not pod.node and f"{pod.namespace}/{pod.name}" == name]
    tried = list(pods)
    for row in rows:
        if not (tried[row].finished or tried[row].deleting):
            tried[row] = msgspec.structs.replace(tried[row], gates=(), waiting_since=tried[row].created)
    return tried, any(pods[row].gated for row in rows)


def pending_of(arranged: Layout, gate: Gate, pod: int, *, gated: bool) -> PendingPod:
    """Of a pod on no node: why no node takes it, by requests and constraints."""
    placement = standing_of(arranged, gate.facts, gate.rules, np.inf)
    reasons = (_scheduler_why_not(placement, pod, row) for row in range(len(arranged.nodes)))
    counts = Counter(reason for reason in reasons if reason)
    return PendingPod(dict(counts.most_common()), gated)


def _best(arranged: Layout, gate: Gate, pod: int, aims: Aims) -> BestTarget | None:
    counted = np.array([node.schedulable for node in arranged.nodes], bool)
    price = np.zeros(len(arranged.pods))
    if aims.price:
        one = prices(gate.facts, [arranged.pods[pod]], gate.history.restarts)[0]
        price[pod] = aims.price * scarcity(gate.facts, gate.rules, gate.history) * one
    movable: Bools = np.arange(len(arranged.pods)) == pod
    for confidence in (aims.confidence, 0.0):
        placement = standing_of(arranged, gate.facts, gate.rules, aims.ceiling)
        placement.preferences = Preferences.KEPT
        worth = Worth(np.zeros(len(arranged.pods)), arranged.error, confidence)
        move = next(steepest_moves(placement, movable.copy(), counted, _admit, limit=1, worth=worth), None)
        if move is not None:
            pool = counted & (arranged.pool == arranged.pool[move.source])
            nodes = np.isfinite(arranged.load[pool]).sum(axis=0).max(initial=1)
            cost = float(price[pod]) * EVEN / max(1, int(nodes))
            pays = move.gain - aims.confidence * move.error > cost and move.gain >= aims.min_gain
            return BestTarget(arranged.nodes[move.target].name, move.gain, move.error, cost, bool(pays))
    return None


def _admit(pod: int, target: int) -> Ints | None:
    return None


def _why_not(placement: SimulatedPlacement, pod: int, row: int, behind: Bools, facts: Facts, rules: GateRules) -> str:
    """The first thing that keeps the pod off a node."""
    layout, node = placement.layout, placement.layout.nodes[row]
    if layout.pool[row] != layout.pool[layout.on[pod]]:
        return "another pool"
    reason = (
        unusable(node, facts, rules)
        or (BEHIND if behind[row] else "")
        or ("" if layout.known[row] else "load unknown")
        or lacks(layout.pods[pod].template, node)
        or _scheduler_why_not(placement, pod, row)
    )
    if reason:
        return reason
    if not (placement.load[row] + placement.increment(pod, row) <= placement.ceiling).all():
        return "load would be above TARGET_HIGH"
    return "has a pod of its workload"


def _scheduler_why_not(placement: SimulatedPlacement, pod: int, row: int) -> str:
    """In kube-scheduler's words (framework/plugins, noderesources/fit.go); empty where it could run there."""
    layout = placement.layout
    if not layout.nodes[row].ready:
        return "not Ready"
    if not placement.sites.allowed(layout.pods[pod].template)[row]:
        return "node selector, affinity or taints"
    needs = layout.asked[pod]
    short = np.flatnonzero((placement.free[row] < needs) & (needs > 0)).tolist()
    if short:
        kind = layout.kinds[short[0]]
        return "Too many pods" if kind == "pods" else f"Insufficient {kind}"
    if not placement.runs_on(pod, row):
        return "pod affinity, spread, ports, volumes or devices"
    return ""
