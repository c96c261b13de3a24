"""Ballast's moves and the consolidation of cluster-autoscaler or Karpenter, hour by hour in one simulated cluster.

cluster-autoscaler (cluster-autoscaler/FAQ.md): a node below half of its requests whose pods fit elsewhere becomes a
candidate, and goes once it was one for `UNNEEDED` hours in a row; a new node comes for a pod that finds no room.
Karpenter (docs, concepts/disruption): a node on which no pod came or went for a while is `Consolidatable`, and goes
where its pods fit elsewhere. Both remove one node an hour, that with the fewest pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.model.attachments import NodeClaim
from ballast.model.node import Node, Taint
from ballast.placement.layout import layout
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import Kind, make_plan
from ballast_lab.bench.consolidation import CORES, DAY, GIB, HIGH, RESOURCES, RULES, App, Week, pods_of, workloads_of
from ballast_lab.bench.rows import Row, all_equal

AUTOSCALERS = ("cluster-autoscaler", "Karpenter")
CANDIDATE = "DeletionCandidateOfClusterAutoscaler"
UNNEEDED, HALF, MOVES = 2, 0.5, 5


@dataclass
class Beside:
    """`fights` are moves to a node that the autoscaler was about to remove; `spread` the mean σ of the load."""

    node_hours: int = 0
    removed: int = 0
    moved: int = 0
    drained: int = 0
    fights: int = 0
    hot: int = 0
    spread: float = 0.0


class Fleet(Week):
    """Nodes come and go; `candidates` are those that the autoscaler would remove, with the hours for which."""

    def __init__(self, autoscaler: str, nodes: int, apps: int, seed: int) -> None:
        super().__init__(nodes, apps, seed)
        self.autoscaler, self.candidates = autoscaler, dict[str, int]()
        self._before: dict[str, frozenset[str]] = {}
        self._made = nodes

    def start(self, app: App, asked: Counter[str], without: str = "") -> None:
        """A pod that finds no room gets a new node; candidates come last (PreferNoSchedule)."""
        if not any(asked[name] + app.asks <= CORES for name in self.names if name != without):
            self.names.append(f"n{self._made:03d}")
            self._made += 1
        self.given_away = set(self.candidates)
        super().start(app, asked, without)

    def renew(self) -> None:
        """Which nodes the autoscaler would remove now."""
        asked, pods, chosen = self.requests(), self.by_node(), dict[str, int]()
        free = {name: CORES - asked[name] for name in self.names}
        for name in sorted(self.names, key=lambda each: (each not in self.candidates, len(pods[each]), each)):
            still = self.autoscaler == "cluster-autoscaler" or self._before.get(name) == pods[name]
            if still and asked[name] < HALF * CORES:
                left = self._without(name, free)
                if left is not None:
                    free, chosen[name] = left, self.candidates.get(name, 0) + 1
        self.candidates = chosen

    def remove(self) -> int | None:
        """The pods of the node that is removed now, which start elsewhere; None where none is."""
        least = UNNEEDED if self.autoscaler == "cluster-autoscaler" else 1
        asked, pods = self.requests(), self.by_node()
        free = {name: CORES - asked[name] for name in self.names if name not in self.candidates}
        ready = [name for name, hours in self.candidates.items() if hours > least and self._without(name, free)]
        if not ready:
            return None
        name = min(ready, key=lambda each: (len(pods[each]), each))
        for pod in sorted(pods[name]):
            self.start(self.pods.pop(pod)[0], asked, without=name)
        self.names.remove(name)
        del self.candidates[name]
        return len(pods[name])

    def settle(self) -> None:
        """What was there at the end of the hour."""
        self._before = self.by_node()

    def by_node(self) -> dict[str, frozenset[str]]:
        """The names of pods by node."""
        found: dict[str, set[str]] = {name: set() for name in self.names}
        for pod, (_, node, _) in self.pods.items():
            found[node].add(pod)
        return {name: frozenset(pods) for name, pods in found.items()}

    def _without(self, name: str, free: Mapping[str, float]) -> dict[str, float] | None:
        """The room that is left on the others where this node goes; None where its pods do not fit there."""
        left = {other: room for other, room in free.items() if other != name}
        for asks in sorted((app.asks for app, node, _ in self.pods.values() if node == name), reverse=True):
            target = next((other for other, room in left.items() if room >= asks), None)
            if target is None:
                return None
            left[target] -= asks
        return left


def run(autoscaler: str, kind: Kind | None, *, nodes: int, apps: int, days: int, seed: int = 1) -> Beside:
    """The autoscaler beside plans of one kind, at most `MOVES` an hour; beside nothing where it is None."""
    fleet, found = Fleet(autoscaler, nodes, apps, seed), Beside()
    for hour in range(days * DAY):
        fleet.scale(hour)
        fleet.renew()
        if kind is not None:
            _moved(fleet, kind, found)
        drained = fleet.remove()
        found.removed += drained is not None
        found.drained += drained or 0
        fleet.settle()
        found.node_hours += len(fleet.names)
        found.hot += int((fleet.loads() > HIGH).sum())
        found.spread += float(fleet.loads().std()) / (days * DAY)
    return found


def _moved(fleet: Fleet, kind: Kind, found: Beside) -> None:
    taint = (Taint(CANDIDATE, "PreferNoSchedule"),)
    tainted = set(fleet.candidates) if fleet.autoscaler == "cluster-autoscaler" else set()
    whole = {"cpu": CORES, "memory": CORES * GIB, "pods": 110.0}
    nodes = tuple(
        Node(name, allocatable=whole, created=1.0, taints=taint if name in tainted else ()) for name in fleet.names
    )
    claims = tuple(
        NodeClaim(f"claim-{name}", name, "Consolidatable" if name in fleet.candidates else "", ready=True)
        for name in (fleet.names if fleet.autoscaler == "Karpenter" else ())
    )
    objects = ClusterObjects(nodes, tuple(pods_of(fleet)), tuple(workloads_of(fleet)), node_claims=claims)
    usage = {f"shop/{name}": {"cpu": use, "memory": use * GIB} for name, (_, _, use) in fleet.pods.items()}
    load = np.repeat(fleet.loads()[:, None], len(RESOURCES), axis=1)
    arranged = layout(objects.nodes, objects.pods, RESOURCES, load, usage)
    plan = make_plan(kind, arranged, Gate(Facts(objects, now=1e9), RULES), Aims(max_moves=MOVES, no_peak=True))
    for step in plan.steps:
        assert step.target is not None
        name = step.pod.partition("/")[2]
        app, _, use = fleet.pods[name]
        fleet.pods[name] = (app, step.target, use)
        found.fights += step.target in fleet.candidates
    found.moved += len(plan.steps)


def measure(
    nodes: int = 40, apps: int = 20, days: int = 3, kinds: Sequence[Kind] = ("rebalance", "consolidate")
) -> list[Row]:
    rows: list[Row] = []
    for autoscaler in AUTOSCALERS:
        alone = run(autoscaler, None, nodes=nodes, apps=apps, days=days)
        for kind in kinds:
            both = run(autoscaler, kind, nodes=nodes, apps=apps, days=days)
            more = both.node_hours / alone.node_hours - 1
            rows.append(
                {
                    "what": f"{kind} beside the consolidation of {autoscaler}",
                    "at": f"{nodes} nodes at first, {apps} workloads, {days} days with a daily curve, "
                    f"at most {MOVES} moves an hour",
                    "reach": "no move to a node that is about to go",
                    "measured": f"{both.fights} such moves of {both.moved}; {more:+.1%} node-hours; mean σ of the load "
                    f"{alone.spread:.3f} -> {both.spread:.3f}; pods drained {alone.drained} -> {both.drained}",
                    "verdict": all_equal([both.fights], 0),
                }
            )
    return rows


QUICK = {"nodes": 16, "apps": 8, "days": 1}

if __name__ == "__main__":
    for row in measure():
        print(row)
