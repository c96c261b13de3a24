"""How unevenly load is spread: the population variance of each resource within the pools."""

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.model.snapshot import Snapshot


def deviations(load: Floats, counted: Bools, pool: Ints) -> Floats:
    """[resource]: the deviation over counted nodes of known load, NaN without any.

    Statistics stay inside a pool; of several pools it is the root of their mean variance, weighted by nodes.
    """
    deviation = np.full(load.shape[1], np.nan)
    for resource in range(load.shape[1]):
        known = counted & np.isfinite(load[:, resource])
        if known.any():
            squares = sum(
                float(np.square(values - values.mean()).sum())
                for number in np.unique(pool[known])
                for values in (load[known & (pool == number), resource],)
            )
            deviation[resource] = np.sqrt(squares / np.count_nonzero(known))
    return deviation


def spread(snapshot: Snapshot) -> dict[str, float]:
    """{resource: deviation of load} over schedulable nodes, as plans count it."""
    counted = np.array([node.schedulable for node in snapshot.nodes], bool)
    names = sorted(set(snapshot.pools))
    pool = np.array([names.index(pool) for pool in snapshot.pools] or [0] * len(snapshot.nodes), np.int64)
    values = deviations(snapshot.primary.mean.T, counted, pool).tolist()
    return {name: round(value, 6) for name, value in zip(snapshot.resources, values, strict=True) if value == value}
