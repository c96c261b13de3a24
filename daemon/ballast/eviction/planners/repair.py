"""`repair`: moves pods that are not where they ask to be."""

from collections.abc import Iterator

from ballast.eviction.planners.planner import BasePlanner, PlanInput, Spare
from ballast.model.sample import Bools, Floats
from ballast.placement.planners.repair import repair
from ballast.placement.planners.simulated_placement import Preferences, SimulatedPlacement
from ballast.placement.planners.step import Admit, PlannedMove

_REASONS = {
    "node affinity": "{node} is none of the nodes it asks for",
    "taints": "it does not tolerate the taints of {node}",
    "host ports": "another pod on {node} has its host port",
    "anti-affinity": "a pod near {node} and it keep apart",
    "affinity": "no pod that it wants near is near {node}",
    "spread": "too many pods like it are near {node}",
    "duplicate": "{node} has another pod of its workload, and {target} has none",
    "preferred spread": "too many pods like it are near {node} for a spread that it prefers",
    "preferred node affinity": "it prefers {target} to {node}",
}


class Repair(BasePlanner):
    """The gain of a step is what it fixes: 1 for each constraint and for a duplicate, a preference by its weight."""

    name = "repair"
    preferences = Preferences.IGNORED  # It weighs them itself.

    def steps(
        self, cluster: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The pod with most wrong first."""
        came = cluster.came() if cluster.came is not None else None
        return repair(placement, movable, cluster.pods.workload, admit, limit=cluster.aims.max_moves, came=came)

    def reason(self, cluster: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "n1 is none of the nodes it asks for; it does not tolerate the taints of n1"."""
        nodes = cluster.layout.nodes
        names = {"node": nodes[step.source].name, "target": nodes[step.target].name}
        return "; ".join(text.format(**names) for name, text in _REASONS.items() if name in step.numbers)
