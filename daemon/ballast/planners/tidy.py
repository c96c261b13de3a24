"""`tidy`: removes failed pods, pods beyond a lifetime, and pods that restart again and again."""

from collections.abc import Iterator

import numpy as np

from ballast.model.sample import Bools, Floats
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.plan_input import PlanInput
from ballast.planners.planner import BasePlanner, Effect, PlanningDemand, Spare
from ballast.planners.step import Admit, PlannedMove

NOTHING_TO_REMOVE = "removes nothing: BALLAST_EVICTION__TIDY does not say what"


class Tidy(BasePlanner):
    """The gain of a step is 1. Where the replacement goes is the scheduler's business alone."""

    name = "tidy"
    needs_landing = False
    moves = False
    effect = Effect.NONE

    def idle(self, demand: PlanningDemand) -> str | None:
        """It removes what the setting names."""
        return None if demand.removes else NOTHING_TO_REMOVE

    def considers(self, inputs: PlanInput) -> Bools:
        """Pods that are to be removed."""
        return np.array([self._why(inputs, pod) is not None for pod in range(len(inputs.layout.pods))], bool)

    def steps(
        self, inputs: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """Failed pods first, then those with the most restarts, then the oldest."""
        pods, most = inputs.layout.pods, inputs.aims.max_moves
        rows = np.flatnonzero(movable).tolist()
        rows.sort(key=lambda row: (not pods[row].finished, -pods[row].restarts, pods[row].created, row))
        moves = 0
        for row in rows:
            if most is not None and moves >= most:
                return
            if not movable[row]:
                continue
            refused = admit(row, -1)
            if refused is not None:
                movable[refused] = False
                continue
            moves += 1
            yield PlannedMove(row, int(placement.on[row]), -1, 1.0)

    def reason(self, inputs: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "its containers have restarted 120 times"."""
        return self._why(inputs, step.pod) or ""

    def _why(self, inputs: PlanInput, pod: int) -> str | None:
        if inputs.layout.on[pod] < 0 or not inputs.layout.pods[pod].node:
            return None
        return inputs.aims.tidy.reason(inputs.layout.pods[pod], inputs.pods.now)
