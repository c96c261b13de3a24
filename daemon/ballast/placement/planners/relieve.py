"""Moves off nodes that are too loaded, until they are not any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.model.limits import Limit, limits
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.planners.simulated_placement import ROUNDING, SimulatedPlacement
from ballast.placement.planners.step import LOAD, Admit, PlannedMove, Worth, free

NEARLY = 0.85
"""Share of the relief by the best victim from which on another one relieves nearly as much."""


@dataclass(frozen=True)
class Thresholds:
    """[node, resource]: load above `high` makes a node hot; it is relieved until it is at `low`."""

    high: Floats
    low: Floats

    @classmethod
    def absolute(cls, load: Floats, high: Limit, low: Limit, resources: Sequence[str]) -> Thresholds:
        """A resource without a high limit is never hot; one without a low limit is relieved down to the high one, or
        to the single low number."""
        most, least = limits(high, resources), limits(low, resources)
        if not isinstance(low, Mapping):
            least = np.minimum(most, low)
        return cls(np.broadcast_to(most, load.shape), np.broadcast_to(np.minimum(least, most), load.shape))

    @classmethod
    def deviation(cls, load: Floats, counted: Bools, pool: Ints, above: float) -> Thresholds:
        """Hot is what is more than `above` over the mean of its pool; relief ends half way back."""
        mean = np.full(load.shape, np.nan)
        for number in np.unique(pool):
            for resource in range(load.shape[1]):
                known = counted & (pool == number) & np.isfinite(load[:, resource])
                if known.any():
                    mean[pool == number, resource] = load[known, resource].mean()
        return cls(mean + above, mean + above / 2)


def hot(load: Floats, counted: Bools, thresholds: Thresholds) -> Bools:
    """[node, resource]: what is to be relieved."""
    return np.asarray((load > thresholds.high + ROUNDING) & counted[:, None])


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
