"""`consolidate`: empties nodes that the others can do without, and hands them over."""

from __future__ import annotations

from collections.abc import Iterator

from ballast.eviction.planners.planner import Aims, Effect, PlanInput, PlanningDemand, Spare, bound
from ballast.model.limits import Limit, limits
from ballast.model.sample import Bools, Floats
from ballast.placement.planners.consolidate import Emptying, consolidate
from ballast.placement.planners.simulated_placement import ROUNDING, SimulatedPlacement
from ballast.placement.planners.step import Admit, Step


class Consolidate:
    """The gain of a step is its share of the node that is emptied."""

    name = "consolidate"
    needs_landing = True
    needs_confirmation = False
    one_at_a_time = False
    effect = Effect.LOAD

    def idle(self, demand: PlanningDemand) -> str | None:
        """Nodes may be given back at any time."""
        return None

    def considers(self, given: PlanInput) -> Bools:
        """All pods on nodes."""
        return bound(given.layout)

    def ceiling(self, aims: Aims) -> Limit:
        """As for every move."""
        return aims.ceiling

    def steps(
        self, given: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[Step]:
        """The nodes begun before first, then those with the fewest pods."""
        nodes, aims = given.whole_nodes, given.aims
        assert nodes is not None
        emptying = Emptying(
            begun=nodes.begun,
            may_empty=nodes.may_empty,
            stays=nodes.stays,
            later=nodes.later,
            most=aims.consolidate_nodes,
            reserve=aims.nodes_reserve,
            peak=nodes.peak,
            limit=aims.max_moves,
            patience=limits(aims.high, given.layout.resources) + ROUNDING,
        )
        return consolidate(placement, movable, emptying, nodes.together, nodes.hand_over)

    def reason(self, given: PlanInput, step: Step, load: Floats) -> str:
        """ "the other nodes can do without n3, which is at 12.0% cpu and 8.0% memory"."""
        node = given.layout.nodes[step.source].name
        shares = zip(load[step.source].tolist(), given.layout.resources, strict=True)
        at = " and ".join(f"{share:.1%} {name}" for share, name in shares if share == share)
        return f"the other nodes can do without {node}, which is at {at}"
