"""`relieve`: moves pods off nodes that are too loaded, until they are not any more."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ballast.model.load_limits import Limit, lower
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.simulated_placement import ROUNDING, SimulatedPlacement
from ballast.planners.aims import Aims
from ballast.planners.plan_input import PlanInput
from ballast.planners.planner import BasePlanner, PlanningDemand, Spare
from ballast.planners.step import LOAD, Admit, PlannedMove, Worth, free
from ballast.planners.thresholds import Thresholds, hot

NEARLY = 0.85
"""Share of the relief by the best victim from which on another one relieves nearly as much."""


def relieve(  # noqa: PLR0913
    placement: SimulatedPlacement,
    movable: Bools,
    counted: Bools,
    admit: Admit,
    thresholds: Thresholds,
    *,
    min_gain: float = 0.0,
    limit: int | None = None,
    worth: Worth | None = None,
    overloaded: Bools | None = None,
) -> Iterator[PlannedMove]:
    """Yields steps, already made in `placement`; the node with the largest excess first.

    `limit` is for nodes that are not `overloaded` [node]. Overloaded ones lose at once what they have above the middle
    between the two thresholds.

    The victim is the pod that relieves most of what is too much there. Of those that relieve nearly as much it is the
    one that costs least, then the one that relieves most, of lowest priority, the smallest. Its target is the node
    whose load will be lowest. `gain` is the load that the hottest resource loses; its error is the pod's share of that
    of the node's load, and that of the pod's own use.
    """
    worth = worth or free(len(placement.on), *placement.load.shape)
    layout = placement.layout
    concerned = hot(placement.load, counted, thresholds)
    movable = movable & np.isfinite(layout.used).all(axis=1)
    urgent = np.zeros(len(concerned), bool) if overloaded is None else overloaded
    low = np.where(urgent[:, None], (thresholds.low + thresholds.high) / 2, thresholds.low)
    moves = 0
    while len(concerned):
        if limit is not None and moves >= limit:
            concerned &= urgent[:, None]
        excess = np.where(concerned, placement.load - low, 0.0)
        source = int(np.argmax(excess.max(axis=1)))
        if excess[source].max() <= ROUNDING:
            return
        resource = int(np.argmax(excess[source]))
        step = _best(placement, movable, source, resource, float(excess[source, resource]), min_gain, worth)
        if step is None:
            worth.unpaid(_unpaid(placement, movable, source, resource, worth))
            concerned[source] = False
            continue
        refused = admit(step.pod, step.target)
        if refused is not None:
            movable[refused] = False
            continue
        placement.move(step.pod, step.target)
        movable[step.pod] = False
        moves += not urgent[source]
        yield step


def _best(
    placement: SimulatedPlacement,
    movable: Bools,
    source: int,
    resource: int,
    excess: float,
    min_gain: float,
    worth: Worth,
) -> PlannedMove | None:
    layout = placement.layout
    pods = np.flatnonzero(movable & (placement.on == source))
    relief, error, pays = _pays(placement, pods, source, resource, worth)
    chosen = pays & (relief > 0) & (relief >= min_gain - ROUNDING)
    priorities = np.array([layout.pods[pod].priority for pod in pods.tolist()])
    useful = np.round(np.minimum(relief, excess) / ROUNDING)
    order = np.lexsort((pods, relief, priorities, -useful, _class(worth.price[pods]), _band(useful, chosen)))
    for place in order[chosen[order]].tolist():
        pod = int(pods[place])
        open_to = placement.open_to(pod)
        if open_to.any():
            load = np.where(open_to, (placement.load + placement.increments(pod)).max(axis=1), np.inf)
            numbers = {"load": float(placement.load[source, resource]), "resource": float(resource)}
            return PlannedMove(
                pod,
                source,
                int(np.argmin(load)),
                float(relief[place]),
                numbers,
                error=float(error[place]),
                cost=float(worth.price[pod] * LOAD),
            )
    return None


def _pays(
    placement: SimulatedPlacement, pods: Ints, source: int, resource: int, worth: Worth
) -> tuple[Floats, Floats, Bools]:
    """[pod]: the load it takes along, its error, and whether that pays."""
    layout = placement.layout
    whole = layout.whole[source, resource]
    relief = layout.used[pods, resource] / whole
    load = max(float(placement.load[source, resource]), ROUNDING)
    error = np.hypot(relief * worth.error[source, resource] / load, layout.doubt_of(pods)[:, resource] / whole)
    surplus = relief - worth.confidence * error - worth.price[pods] * LOAD
    return relief, error, np.asarray(surplus > -ROUNDING)


def _unpaid(placement: SimulatedPlacement, movable: Bools, source: int, resource: int, worth: Worth) -> Ints:
    pods = np.flatnonzero(movable & (placement.on == source))
    relief, _, pays = _pays(placement, pods, source, resource, worth)
    return pods[~pays & (relief > 0)]


def _band(useful: Floats, chosen: Bools) -> Floats:
    """[pod]: 0 for those that relieve at least NEARLY of what the best one does, 1 for NEARLY of that, and so on."""
    most = float(useful[chosen].max(initial=1.0))
    return np.asarray(np.floor(np.log(most / np.maximum(useful, 1.0)) / -np.log(NEARLY) + ROUNDING))


def _class(price: Floats) -> Floats:
    """[pod]: prices in steps of half of the next one, so that only real differences count."""
    return np.asarray(np.round(2 * np.log2(np.maximum(price, ROUNDING))))


class Relieve(BasePlanner):
    """The gain of a step is the load that the hottest resource of its source loses."""

    name = "relieve"
    needs_landing = False
    needs_confirmation = True
    by_the_hour = True

    def idle(self, demand: PlanningDemand) -> str | None:
        """Only hot nodes are relieved."""
        return None if demand.hot else "no node is too loaded"

    def considers(self, inputs: PlanInput) -> Bools:
        """Pods on hot nodes, also on nodes that are not schedulable."""
        return np.asarray(super().considers(inputs) & np.append(inputs.hot, False)[inputs.layout.on])

    def ceiling(self, aims: Aims) -> Limit:
        """A target must not become hot itself."""
        return aims.ceiling if aims.deviation is not None else lower(aims.ceiling, aims.high)

    def steps(
        self, inputs: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The node with the largest excess first."""
        aims = inputs.aims
        return relieve(
            placement,
            movable,
            inputs.counted,
            admit,
            inputs.thresholds,
            min_gain=aims.min_gain,
            limit=aims.max_moves,
            worth=inputs.worth,
            overloaded=inputs.overloaded,
        )

    def reason(self, inputs: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "n1 is at 85.0% of its cpu, above 80.0%"."""
        resource = int(step.numbers["resource"])
        now, high = load[step.source, resource], inputs.thresholds.high[step.source, resource]
        low = inputs.thresholds.low[step.source, resource]
        state = f"above {high:.1%}" if now > high else f"not yet down to {low:.1%}"
        source, of = inputs.layout.nodes[step.source].name, inputs.layout.resources[resource]
        return f"{source} is at {now:.1%} of its {of}, {state}"
