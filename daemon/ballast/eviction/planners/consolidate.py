"""`consolidate`: empties nodes that the others can do without, and hands them over."""

from collections.abc import Iterator

from ballast.eviction.planners.planner import BasePlanner, PlanInput, Spare, loads_in_words
from ballast.model.limits import limits
from ballast.model.sample import Bools, Floats
from ballast.placement.planners.consolidate import Emptying, consolidate
from ballast.placement.planners.simulated_placement import ROUNDING, SimulatedPlacement
from ballast.placement.planners.step import Admit, PlannedMove


class Consolidate(BasePlanner):
    """The gain of a step is its share of the node that is emptied."""

    name = "consolidate"
    whole_nodes = True
    spans_cycles = True

    def steps(
        self, cluster: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The nodes begun before first, then those with the fewest pods."""
        nodes, aims = cluster.whole_nodes, cluster.aims
        assert nodes is not None
        emptying = Emptying(
            begun=nodes.begun,
            may_empty=nodes.may_empty,
            stays=nodes.stays,
            later=nodes.later,
            never=nodes.never,
            most=aims.consolidate_nodes,
            reserve=aims.nodes_reserve,
            peak=nodes.peak,
            limit=aims.max_moves,
            patience=limits(aims.high, cluster.layout.resources) + ROUNDING,
        )
        return consolidate(placement, movable, emptying, nodes.together, nodes.hand_over)

    def reason(self, cluster: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "the other nodes can do without n3, which is at 12.0% cpu and 8.0% memory"."""
        node = cluster.layout.nodes[step.source].name
        at = loads_in_words(load[step.source], cluster.layout.resources)
        return f"the other nodes can do without {node}, which is at {at}"
