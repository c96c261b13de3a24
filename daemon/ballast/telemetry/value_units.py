"""What values look like that are no ratios, and what to do about it."""

import numpy as np

from ballast.model.sample import Floats

SETTING = "BALLAST_TELEMETRY__RESOURCES"
_PERCENT = 105.0
_AMOUNT = 1000.0
_ROUNDING = 1.02
_MANY_CORES = 48.0


def not_ratios(resource: str, values: Floats, capacity: Floats) -> str:
    """What the values look like and what to do about it.

    `values` and `capacity` are [series]: cores, bytes of memory or bytes per second of the link; NaN where unknown.
    """
    finite = np.isfinite(values)
    highest = float(values[finite].max(initial=0.0))
    known = finite & np.isfinite(capacity) & (capacity > 0)
    within = bool(known.any()) and bool(np.all(values[known] <= _ROUNDING * capacity[known]))
    if resource == "cpu" and within and highest <= _AMOUNT:
        if float(capacity[known].min()) >= _MANY_CORES and highest <= _PERCENT:
            return (
                "look like cores or percent; check what the query gives, and make it a share of the node's cores in "
                f"{SETTING}"
            )
        return (
            "look like cores (none is above the cores of its node); divide by the cores of each node in "
            f'{SETTING}, such as (<query>) / on (node) kube_node_status_capacity{{resource="cpu"}}'
        )
    if resource == "cpu" and highest > _PERCENT:
        return f"look like thousandths of cores or smaller; divide by the cores of each node in {SETTING}"
    if resource == "memory" and highest > _AMOUNT:
        return (
            "look like bytes; divide by the memory of each node in "
            f'{SETTING}, such as (<query>) / on (node) kube_node_status_capacity{{resource="memory"}}'
        )
    if resource == "network" and highest > _AMOUNT:
        return f"look like bytes per second; divide by the speed of the link in {SETTING}"
    if highest > _PERCENT:
        return f"are in another unit (up to {highest:.3g}); make them a share of what the node has in {SETTING}"
    return f"look like percent; divide by 100 in {SETTING}"
