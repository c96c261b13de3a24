"""From which load on nodes are hot, and how far they are relieved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.model.load_limits import Limit, limits
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.simulated_placement import ROUNDING


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
