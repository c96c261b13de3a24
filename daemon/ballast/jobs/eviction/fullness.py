"""Where nodes are too loaded and no move can help: the others have less room than is too much."""

from collections.abc import Collection

import numpy as np

from ballast.base.text import named
from ballast.model.load_limits import limits
from ballast.planners.aims import Aims
from ballast.planning.moment import Moment

GIB = 2.0**30
UNITS = {"cpu": (1.0, "cores"), "memory": (GIB, "GiB")}


def too_full(moment: Moment, aims: Aims, hot: Collection[str]) -> str | None:
    """Which nodes are too loaded, and how many cores and bytes all other nodes lack to take what is too much of them.

    `hot` are the nodes that `relieve` looks at. None where the others have the room, or thresholds are relative: then
    some node is always the most loaded one.
    """
    if not hot or aims.deviation is not None or not len(moment.load):
        return None
    nodes, missing, of = moment.objects.nodes, [], 0.0
    loaded = np.array([node.name in hot for node in nodes], bool)
    others = ~loaded & np.array([node.schedulable for node in nodes], bool)
    high, ceiling = limits(aims.high, moment.resources), limits(aims.ceiling, moment.resources)
    for column, resource in enumerate(moment.resources):
        if resource not in UNITS or not np.isfinite(high[column]):
            continue
        whole = np.array([node.allocatable.get(resource, 0.0) for node in nodes])
        load = moment.load[:, column]
        # Of unknown load nothing is known to be free, and nothing too much.
        excess = float(np.nansum(np.maximum(load - high[column], 0.0)[loaded] * whole[loaded]))
        room = float(np.nansum(np.maximum(min(ceiling[column], high[column]) - load, 0.0)[others] * whole[others]))
        if excess > room:
            unit, name = UNITS[resource]
            missing.append(f"{(excess - room) / unit:.1f} {name}")
            of = max(of, (excess - room) / max(float(whole[whole > 0].mean()) * min(high[column], 1.0), 1e-9))
    if not missing:
        return None
    less = f"about {np.ceil(of):.0f} nodes like these" if of > 1 else "one node like these"
    names = named(sorted(hot))
    return f"{names}: too loaded, and the other nodes lack {' and '.join(missing)} to take what is too much: {less}"
