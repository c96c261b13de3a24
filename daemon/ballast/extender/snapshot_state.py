"""What the extender keeps of one snapshot: the nodes by name, their load, and the strategies that were asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats
from ballast.placement.choice import Keys, keys
from ballast.placement.fleet_model import FleetModel
from ballast.placement.live_residual import LiveResidual
from ballast.scoring.blend import Blend
from ballast.scoring.protocol import Strategy
from ballast.scoring.scores import Scores
from ballast.serving.host_index import Hosts


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
    """[node]: the larger of cpu's and memory's mean, as a fraction; NaN where neither is known."""

    residual: LiveResidual
    strategies: dict[str, Strategy] = field(default_factory=dict)
    """By name, those that were asked for."""

    @classmethod
    def of(cls, model: FleetModel, residual: LiveResidual, known: Bools, before: SnapshotState | None) -> SnapshotState:
        """What does not change with the same nodes is taken from the state `before`."""
        if before is not None and model.follows:
            hosts, node_keys = before.hosts, before.keys
        else:
            hosts, node_keys = Hosts(model.names), keys(model.names)
        fleet = model.fleet
        cpu, memory = (np.where(load.known, load.mean / 100, np.nan) for load in (fleet.cpu, fleet.memory))
        return cls(model, hosts, node_keys, known, np.asarray(np.fmax(cpu, memory)), residual)

    def warm(self, name: str, made: Strategy) -> None:
        """Keeps a strategy, and fills its caches while no scheduler waits."""
        self.strategies[name] = made
        for part in _parts(name, made).values():
            if part.warms:
                part.score(self.model.fleet)

    def by_node(self, scores: Scores) -> dict[str, int | None]:
        """{node: its score 0..100, None where unknown}."""
        unknown = scores.unknown | ~self.known
        pairs = zip(scores.scores.tolist(), unknown.tolist(), strict=True)
        return dict(zip(self.model.names, (None if hidden else score for score, hidden in pairs), strict=True))

    def explained(self, name: str, made: Strategy, pod: Pod) -> list[dict[str, Any]]:
        """The scores for a pod with their terms: by a strategy and by each one that it blends."""
        found = {}
        for each, one in ({name: made} | _parts(name, made)).items():
            found[each] = one.explained(pod) if isinstance(one, LiveResidual) else one.score(self.model.fleet, pod)
        return [scores.document(each, self.model.names) for each, scores in found.items()]

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


def _parts(name: str, made: Strategy) -> dict[str, Strategy]:
    """The strategies that a blend consists of; a strategy itself if it is no blend."""
    return {part: each for part, each, _ in made.parts} if isinstance(made, Blend) else {name: made}
