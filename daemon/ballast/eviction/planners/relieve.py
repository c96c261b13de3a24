"""`relieve`: moves pods off hot nodes."""

from collections.abc import Iterator

import numpy as np

from ballast.eviction.planners.planner import Aims, BasePlanner, PlanInput, PlanningDemand, Spare
from ballast.model.limits import Limit, lower
from ballast.model.sample import Bools, Floats
from ballast.placement.planners.relieve import relieve
from ballast.placement.planners.simulated_placement import SimulatedPlacement
from ballast.placement.planners.step import Admit, PlannedMove


class Relieve(BasePlanner):
    """The gain of a step is the load that the hottest resource of its source loses."""

    name = "relieve"
    needs_landing = False
    needs_confirmation = True
    by_the_hour = True

    def idle(self, demand: PlanningDemand) -> str | None:
        """Only hot nodes are relieved."""
        return None if demand.hot else "no node is too loaded"

    def considers(self, cluster: PlanInput) -> Bools:
        """Pods on hot nodes, also on nodes that are not schedulable."""
        return np.asarray(super().considers(cluster) & np.append(cluster.hot, False)[cluster.layout.on])

    def ceiling(self, aims: Aims) -> Limit:
        """A target must not become hot itself."""
        return aims.ceiling if aims.deviation is not None else lower(aims.ceiling, aims.high)

    def steps(
        self, cluster: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The node with the largest excess first."""
        aims = cluster.aims
        return relieve(
            placement,
            movable,
            cluster.counted,
            admit,
            cluster.thresholds,
            min_gain=aims.min_gain,
            limit=aims.max_moves,
            worth=cluster.worth,
            overloaded=cluster.overloaded,
        )

    def reason(self, cluster: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "n1 is at 85.0% of its cpu, above 80.0%"."""
        resource = int(step.numbers["resource"])
        now, high = load[step.source, resource], cluster.thresholds.high[step.source, resource]
        low = cluster.thresholds.low[step.source, resource]
        state = f"above {high:.1%}" if now > high else f"not yet down to {low:.1%}"
        source, of = cluster.layout.nodes[step.source].name, cluster.layout.resources[resource]
        return f"{source} is at {now:.1%} of its {of}, {state}"
