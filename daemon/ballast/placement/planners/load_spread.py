"""How unevenly load is spread: the population variance of each resource within the pools."""

import numpy as np

from ballast.model.sample import Bools, Floats, Ints


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
