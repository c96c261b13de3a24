"""A model of the stock kube-scheduler: where it puts a pod, of the nodes that its filters leave.

NodeResourcesFit with LeastAllocated and NodeResourcesBalancedAllocation by requests of cpu and memory, weight 1 each
(kubernetes pkg/scheduler/framework/plugins/noderesources/least_allocated.go and balanced_allocation.go), and what the
printed profile adds with its own weight. Of equal nodes a number decides, where kube-scheduler takes one at random.
"""

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.layout import Layout
from ballast.publishing.scheduler_profiles import LABELS_WEIGHTS
from ballast.scoring.demand import DEFAULT_REQUESTS, units

LEAST = {name: units(name, amount) for name, amount in DEFAULT_REQUESTS.items()}
"""What a pod that asks for nothing counts as."""
PRIME = 2_654_435_761


def choose(
    base: Layout, free: Ints, asked: Ints, fits: Bools, number: int, preferred: Floats | None = None
) -> int | None:
    """The row of the node, of equal ones by the `number` of the pod; None where `fits` [node] has none.

    `preferred` [node] are points 0..100 of the first plugin of the labels profile.
    """
    rows = np.flatnonzero(fits)
    if not len(rows):
        return None
    columns = [(base.kinds.index(name), name) for name in ("cpu", "memory") if name in base.kinds]
    shares = []
    for column, name in columns:
        whole = np.maximum(base.total[rows, column], 1)
        shares.append((whole - free[rows, column] + max(int(asked[column]), LEAST.get(name, 0))) / whole)
    taken = np.clip(np.array(shares).reshape(len(columns), len(rows)), 0.0, 1.0)
    affinity, fit, balance = LABELS_WEIGHTS
    points = fit * np.floor(100 * (1 - taken)).mean(axis=0) if columns else np.zeros(len(rows))
    if len(columns) == 2:
        points = points + balance * np.floor(100 * (1 - taken.std(axis=0)))
    if preferred is not None:
        points = points + affinity * preferred[rows]
    best = rows[points >= points.max() - 1e-9]
    return int(best[number * PRIME % len(best)])
