"""`redistribute`: makes room for waiting pods."""

from collections.abc import Iterator

import numpy as np

from ballast.base.text import named
from ballast.eviction.planners.planner import BasePlanner, Effect, PlanInput, PlanningDemand, Spare, pod_name
from ballast.model.sample import Bools, Floats
from ballast.placement.planners.redistribute import redistribute
from ballast.placement.planners.simulated_placement import SimulatedPlacement
from ballast.placement.planners.step import Admit, PlannedMove


class Redistribute(BasePlanner):
    """The gain of a step is the number of waiting pods that start."""

    name = "redistribute"
    one_at_a_time = True
    effect = Effect.STARTS

    def idle(self, demand: PlanningDemand) -> str | None:
        """Without waiting pods there is nothing to make room for."""
        return None if demand.waiting else "no pod waits"

    def considers(self, cluster: PlanInput) -> Bools:
        """All pods on nodes, but none unless a pod waits."""
        return super().considers(cluster) if cluster.pods.waiting.any() else np.zeros(len(cluster.layout.on), bool)

    def steps(
        self, cluster: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The eviction that lets most waiting pods start first."""
        aims = cluster.aims
        return redistribute(
            placement,
            movable,
            admit,
            arrivals=cluster.pods.arrivals if aims.priced else None,
            waiting=cluster.pods.waiting,
            limit=aims.max_moves,
            costly=spare,
            criterion=aims.criterion,
        )

    def reason(self, cluster: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "makes room on n1 for shop/web-3", with every node where a pod starts, and what it takes from later pods."""
        if not step.starts:
            waiting = pod_name(cluster.layout.pods[int(step.numbers["for"])])
            return f"makes way for the next eviction, which makes room for {waiting}"
        shown = named([pod_name(cluster.layout.pods[pod]) for pod in step.starts], 3)
        nodes = " and ".join(cluster.layout.nodes[row].name for row in dict.fromkeys(step.starts_on))
        price = step.numbers.get("price", 0.0)
        return f"makes room on {nodes} for {shown}" + (f"; takes that of {price:.1f} later pods" if price else "")
