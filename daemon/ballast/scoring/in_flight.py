"""Pods that are bound but do not show in the window yet, so that a burst does not pile up on one idle node."""

from __future__ import annotations

import math

import numpy as np

from ballast.model.pod import Pod
from ballast.model.sample import Ints
from ballast.scoring.demand import DEFAULT_REQUESTS, predicted, units
from ballast.scoring.fleet import Fleet
from ballast.scoring.keys import StrategyKeys

MODES = ("off", "upstream", "full")
DEFAULT_CPU = 1000
MULTIPLIER = 1.5

# targetloadpacking.go, metricsAgentReportingIntervalSeconds: what Trimaran supposes the measurements to lag by.
REPORTING_SECONDS = 60


def mode(keys: StrategyKeys) -> str:
    """`off` counts none, `upstream` what TargetLoadPacking counts, `full` those bound since the window ended."""
    return keys.choice("in_flight", "off", MODES)


def bound_since(
    fleet: Fleet, start: float, resource: str, default: int | None = None, multiplier: float = MULTIPLIER
) -> Ints:
    """[node]: what unfinished pods bound after `start` (Unix seconds) are expected to use.

    That is the measured use of their siblings, else the limit, else the request times `multiplier`, else a default.
    """
    if default is None:
        default = DEFAULT_CPU if resource == "cpu" else units(resource, DEFAULT_REQUESTS[resource])
    total = np.zeros(len(fleet.nodes), np.int64)
    for pod in fleet.pods:
        if pod.finished or pod.scheduled_at is None or math.floor(pod.scheduled_at) <= start:
            continue
        row = fleet.rows.get(pod.node)
        if row is not None:
            total[row] += _use(fleet, pod, resource, default, multiplier)
    return total


def since_window(fleet: Fleet, mode: str, resource: str) -> Ints:
    """[node]: what `full` adds to the load of a resource; nothing in the other modes."""
    if mode != "full":
        return fleet.once("nothing", lambda: np.zeros(len(fleet.nodes), np.int64))
    return fleet.once(("in flight", resource), lambda: bound_since(fleet, fleet.window_end, resource))


def _use(fleet: Fleet, pod: Pod, resource: str, default: int, multiplier: float) -> int:
    measured = fleet.siblings.get(pod.owner.uid, {}).get(resource) if pod.owner else None
    if measured is not None:
        return units(resource, measured)
    return predicted(pod.shape, resource, default, multiplier)
