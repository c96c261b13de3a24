"""Moves off nodes that are too loaded, until they are not any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.model.limits import Limit, limits
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.planners.simulated_placement import ROUNDING, SimulatedPlacement
from ballast.placement.planners.step import Admit, Step


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


def relieve(
    standing: SimulatedPlacement,
    movable: Bools,
    counted: Bools,
    admit: Admit,
    thresholds: Thresholds,
    *,
    min_gain: float = 0.0,
    limit: int | None = None,
) -> Iterator[Step]:
    """Yields steps, already made in `standing`; the node with the largest excess first.

    The victim is the pod that relieves most of what is too much there; of equals the one of lowest priority, then the
    smallest. Its target is the node whose load will be lowest. `gain` is the load that the hottest resource loses.
    """
    layout = standing.layout
    concerned = hot(standing.load, counted, thresholds)
    movable = movable & np.isfinite(layout.used).all(axis=1)
    made = 0
    while limit is None or made < limit:
        excess = np.where(concerned, standing.load - np.where(concerned, thresholds.low, 0.0), 0.0)
        source = int(np.argmax(excess.max(axis=1))) if len(excess) else 0
        if not len(excess) or excess[source].max() <= ROUNDING:
            return
        resource = int(np.argmax(excess[source]))
        step = _best(standing, movable, source, resource, float(excess[source, resource]), min_gain)
        if step is None:
            concerned[source] = False
            continue
        refused = admit(step.pod, step.target)
        if refused is not None:
            movable[refused] = False
            continue
        standing.move(step.pod, step.target)
        movable[step.pod] = False
        made += 1
        yield step


def _best(
    standing: SimulatedPlacement, movable: Bools, source: int, resource: int, excess: float, min_gain: float
) -> Step | None:
    layout = standing.layout
    pods = np.flatnonzero(movable & (standing.on == source))
    relief = layout.used[pods, resource] / layout.whole[source, resource]
    chosen = (relief > 0) & (relief >= min_gain - ROUNDING)
    priorities = np.array([layout.pods[pod].priority for pod in pods.tolist()], np.int64)
    useful = np.round(np.minimum(relief, excess) / ROUNDING)
    order = np.lexsort((pods, relief, priorities, -useful))
    rows = np.flatnonzero(standing.targets & (standing.load <= standing.ceiling).all(axis=1))
    for place in order[chosen[order]].tolist() if len(rows) else ():
        pod = int(pods[place])
        open_to = standing.open_among(pod, rows)
        if open_to.any():
            load = np.where(open_to, (standing.load[rows] + standing.increments(pod)[rows]).max(axis=1), np.inf)
            numbers = {"load": float(standing.load[source, resource]), "resource": float(resource)}
            return Step(pod, source, int(rows[np.argmin(load)]), float(relief[place]), numbers)
    return None
