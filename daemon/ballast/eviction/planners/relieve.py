"""`relieve`: moves pods off hot nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ballast.eviction.planners.planner import Aims, Effect, PlanInput, PlanningDemand, Spare, bound
from ballast.model.limits import Limit, lower
from ballast.model.sample import Bools, Floats
from ballast.placement.planners.relieve import hot, relieve
from ballast.placement.planners.simulated_placement import SimulatedPlacement
from ballast.placement.planners.step import Admit, PlannedMove


class Relieve:
    """The gain of a step is the load that the hottest resource of its source loses."""

    name = "relieve"
    needs_landing = False
    needs_confirmation = True
    one_at_a_time = False
    effect = Effect.LOAD

    def idle(self, demand: PlanningDemand) -> str | None:
        """Only hot nodes are relieved."""
        return None if demand.hot else "no node is too loaded"

    def considers(self, given: PlanInput) -> Bools:
        """Pods on hot nodes, also on nodes that are not schedulable."""
        everywhere = np.ones(len(given.layout.nodes), bool)
        nodes = hot(given.layout.load, everywhere, given.thresholds).any(axis=1)
        return np.asarray(bound(given.layout) & np.append(nodes, False)[given.layout.on])

    def ceiling(self, aims: Aims) -> Limit:
        """A target must not become hot itself."""
        return aims.ceiling if aims.deviation is not None else lower(aims.ceiling, aims.high)

    def steps(
        self, given: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The node with the largest excess first."""
        aims = given.aims
        return relieve(
            placement,
            movable,
            given.counted,
            admit,
            given.thresholds,
            min_gain=aims.min_gain,
            limit=aims.max_moves,
            worth=given.worth,
        )

    def reason(self, given: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "n1 is at 85.0% of its cpu, above 80.0%"."""
        resource = int(step.numbers["resource"])
        now, high = load[step.source, resource], given.thresholds.high[step.source, resource]
        low = given.thresholds.low[step.source, resource]
        wanted = f"above {high:.1%}" if now > high else f"not yet down to {low:.1%}"
        source, of = given.layout.nodes[step.source].name, given.layout.resources[resource]
        return f"{source} is at {now:.1%} of its {of}, {wanted}"
