"""What the extender keeps of one snapshot: the nodes by name, their load, and the strategies that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ballast.answers import api
from ballast.answers.views import NodeScore
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats
from ballast.placement.choice import Keys, keys
from ballast.placement.fleet_model import FleetModel
from ballast.placement.live_residual import LiveResidual
from ballast.scoring.blend import Blend
from ballast.scoring.load_aware import LoadAware
from ballast.scoring.protocol import Strategy
from ballast.scoring.scores import Scores
from ballast.serving.host_index import Hosts

REMEMBERED = 3600.0
"""Seconds for which the last load of a node that is not known any more still filters."""


@dataclass
class SnapshotState:
    """What belongs to one snapshot."""

    model: FleetModel
    hosts: Hosts
    keys: Keys
    """[node]: hashes of the names, which break ties."""

    known: Bools
    """[node]: whether its load is known."""

    load: Floats
    """[node]: the larger of cpu's and memory's mean, as a fraction; the last one where it is not known any more."""

    residual: LiveResidual
    sizes: Floats
    """[node]: allocatable cores."""

    lapsed_since: Mapping[str, float] = field(default_factory=dict)
    """By node whose load is not known any more: the time of the snapshot that showed that first."""

    strategies: dict[str, Strategy] = field(default_factory=dict)
    """By name, those that were asked for."""

    @classmethod
    def of(cls, model: FleetModel, residual: LiveResidual, known: Bools, before: SnapshotState | None) -> SnapshotState:
        """Reuses what `before` has of the same nodes."""
        if before is not None and model.follows:
            hosts, node_keys = before.hosts, before.keys
        else:
            hosts, node_keys = Hosts(model.names), keys(model.names)
        fleet = model.fleet
        cpu, memory = (np.where(load.known, load.mean / 100, np.nan) for load in (fleet.cpu, fleet.memory))
        load, lapsed = _with_last(model, np.asarray(np.fmax(cpu, memory)), before)
        sizes = np.array([node.allocatable.get("cpu", 1.0) for node in fleet.nodes])
        return cls(model, hosts, node_keys, known, load, residual, sizes, lapsed)

    def warm(self, name: str, strategy: Strategy) -> None:
        """Keeps a strategy, and fills its caches while no scheduler waits."""
        self.strategies[name] = strategy
        for part in _parts(name, strategy).values():
            if part.warms:
                part.score(self.model.fleet)

    def by_node(self, scores: Scores | None) -> dict[str, int | None]:
        """{node: its score 0..100, None where unknown}; without scores all are unknown."""
        if scores is None:
            return dict.fromkeys(self.model.names)
        unknown = scores.unknown | ~self.known
        pairs = zip(scores.scores.tolist(), unknown.tolist(), strict=True)
        return dict(zip(self.model.names, (None if hidden else score for score, hidden in pairs), strict=True))

    def by_node_exactly(self, scores: Scores | None) -> dict[str, float | None]:
        """As `by_node`, without rounding."""
        if scores is None:
            return dict.fromkeys(self.model.names)
        unknown = scores.unknown | ~self.known
        pairs = zip(scores.exact.tolist(), unknown.tolist(), strict=True)
        return dict(zip(self.model.names, (None if hidden else score for score, hidden in pairs), strict=True))

    def node_score(self, node: str, strategy: str, scores: Scores | None) -> NodeScore | None:
        """The score of one node and what it consists of; None for a node that is not in the snapshot."""
        row = self.model.rows.get(node)
        if row is None:
            return None
        if scores is None or scores.unknown[row] or not self.known[row]:
            return NodeScore(node, strategy, None, {})
        terms = {term: float(values[row]) for term, values in scores.terms.items() if np.isfinite(values[row])}
        return NodeScore(node, strategy, int(scores.scores[row]), terms)

    def explain(self, name: str, strategy: Strategy, pod: Pod) -> list[api.Scores]:
        """The scores for a pod with their terms: by a strategy and by each one that it blends."""
        documents = []
        for part, own in ({name: strategy} | _parts(name, strategy)).items():
            scores = own.explained(pod) if isinstance(own, LiveResidual) else own.score(self.model.fleet, pod)
            documents.append(scores.document(part, self.model.names))
        return documents

    def overloaded(self, threshold: float, names: Sequence[str]) -> dict[str, str]:
        """{node: why}; none when all of them are, for the pod has to go somewhere."""
        rows = self.hosts.locate(names)
        loads = np.full(len(rows), np.nan)
        loads[rows >= 0] = self.load[rows[rows >= 0]]
        over = loads > threshold
        if over.all():
            return {}
        return {
            names[position]: f"the load of {loads[position]:.2f} is above {threshold:.2f}"
            for position in np.flatnonzero(over).tolist()
        }


def _with_last(model: FleetModel, load: Floats, before: SnapshotState | None) -> tuple[Floats, Mapping[str, float]]:
    """[node] `load`, with the last known load of nodes that are unknown now: an unknown load makes no room."""
    lapsed = model.fleet.lapsed
    if before is None or lapsed is None or not lapsed.any():
        return load, {}
    load, since = load.copy(), {}
    for row in np.flatnonzero(lapsed & np.isnan(load)).tolist():
        name = model.names[row]
        first = before.lapsed_since.get(name, model.window_end)
        if name in before.model.rows and 0 <= model.window_end - first < REMEMBERED:
            load[row], since[name] = before.load[before.model.rows[name]], first
    return load, since


def _parts(name: str, strategy: Strategy) -> dict[str, Strategy]:
    """The strategies that a blend consists of; a strategy itself if it is no blend."""
    return (
        {part: own for part, own, _ in strategy.parts} if isinstance(strategy, Blend | LoadAware) else {name: strategy}
    )
