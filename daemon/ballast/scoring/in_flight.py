"""Pods that are bound but do not show in the window yet, so that a burst does not pile up on one idle node."""

import math

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Ints
from ballast.scoring.demand import DEFAULT_REQUESTS, predicted, units
from ballast.scoring.fleet import Fleet

DEFAULT_CPU = 1000
MULTIPLIER = 1.5
DEFAULTS = {"cpu": DEFAULT_CPU, "memory": units("memory", DEFAULT_REQUESTS["memory"])}
"""What a container without request and limit is expected to use: milli-cores, bytes."""

# targetloadpacking.go, metricsAgentReportingIntervalSeconds: what Trimaran supposes the measurements to lag by.
REPORTING_SECONDS = 60


def bound_since(
    fleet: Fleet, start: float, resource: str, default: int | None = None, multiplier: float = MULTIPLIER
) -> Ints:
    """[node]: what unfinished pods bound after `start` (Unix seconds) are expected to use.

    That is the measured use of their siblings, else the limit, else the request times `multiplier`, else a default.
    """
    if default is None:
        default = DEFAULTS[resource]
    total = np.zeros(len(fleet.nodes), np.int64)
    for pod in fleet.pods:
        if pod.finished or pod.scheduled_at is None or math.floor(pod.scheduled_at) <= start:
            continue
        row = fleet.rows.get(pod.node)
        if row is not None:
            total[row] += _use(fleet, pod, resource, default, multiplier)
    return total


def since_window(
    fleet: Fleet, resource: str, default: int | None = None, multiplier: float = MULTIPLIER, *, lag: float = 0.0
) -> Ints:
    """[node]: what pods bound since the window ended are expected to use; see `bound_since`.

    Where `fleet.pods` are counted, those bound up to `lag` seconds before the end of the window count too.
    """
    if default is None:
        default = DEFAULTS[resource]
    if fleet.in_flight is not None:
        return fleet.in_flight.use(resource, default, multiplier)
    start = fleet.window_end - lag
    key = ("in flight", resource, default, multiplier, start)
    return fleet.once(key, lambda: bound_since(fleet, start, resource, default, multiplier))


def _use(fleet: Fleet, pod: Pod, resource: str, default: int, multiplier: float) -> int:
    measured = fleet.siblings.get(pod.owner.uid, {}).get(resource) if pod.owner else None
    if measured is not None:
        return units(resource, measured)
    return predicted(pod.shape, resource, default, multiplier)
