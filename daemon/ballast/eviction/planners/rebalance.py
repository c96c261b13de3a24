"""`rebalance`: evens out load between the nodes of a pool."""

from collections.abc import Iterator

import numpy as np

from ballast.eviction.planners.planner import BasePlanner, PlanInput, Spare, loads_in_words
from ballast.model.limits import limits
from ballast.model.sample import Bools, Floats
from ballast.placement.even_out import even_out
from ballast.placement.planners.simulated_placement import ROUNDING, Preferences, SimulatedPlacement
from ballast.placement.planners.step import Admit, PlannedMove


class Rebalance(BasePlanner):
    """The gain of a step is the fall of sum_k w_k Var_k within its pool.

    Where `consolidate` runs too, pods leave only nodes above the load to which it packs.
    """

    name = "rebalance"
    preferences = Preferences.KEPT
    by_the_hour = True

    def steps(
        self, cluster: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The move with the largest gain first; of many, those towards a target."""
        aims, layout = cluster.aims, cluster.layout
        if aims.packed:
            above: Bools = np.asarray((placement.load > limits(aims.ceiling, layout.resources) + ROUNDING).any(axis=1))
            movable &= above[layout.on]
        assert cluster.rehearse is not None
        return even_out(
            placement,
            movable,
            cluster.counted,
            admit,
            rehearse=cluster.rehearse,
            min_gain=aims.min_gain,
            limit=aims.max_moves,
            worth=cluster.worth,
        )

    def reason(self, cluster: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "n1 is at 85.0% cpu and 40.0% memory, n2 at 20.0% cpu and 30.0% memory"."""
        nodes, resources = cluster.layout.nodes, cluster.layout.resources
        source, target = (loads_in_words(load[row], resources) for row in (step.source, step.target))
        return f"{nodes[step.source].name} is at {source}, {nodes[step.target].name} at {target}"
