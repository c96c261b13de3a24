"""What a pod asks for, in the whole numbers that kube-scheduler and Trimaran count with: milli-cores, bytes, pieces."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ballast.model.shape import Amounts, Container, Shape, pod_level_resource
from ballast.scoring.rounding import half_away

# kubernetes pkg/scheduler/util/pod_resources.go: what a container without a request counts as in scores.
DEFAULT_REQUESTS = {"cpu": 0.1, "memory": 200.0 * 2**20}
CPU_AND_MEMORY = ("cpu", "memory")

Units = Mapping[str, int]


@dataclass(frozen=True)
class Demand:
    """`reserved` is what the scheduler sets aside, on a node and in filters.

    `arriving` and `placed` are what NodeResourcesFit counts in its scores (v1.36: an arriving pod's pod-level requests
    are ignored, those of a placed one are not), with defaults for containers without requests.
    `requested` and `limited` are cpu and memory as Trimaran adds them up (pkg/trimaran/resourcestats.go): sidecars as
    plain init containers, no pod-level resources; limits are at least the requests.
    """

    reserved: Units
    arriving: Units
    placed: Units
    requested: Units
    limited: Units


def demand(shape: Shape) -> Demand:
    requested = _trimaran(shape, [c.requests for c in shape.containers], [c.requests for c in shape.init_containers])
    limited = _trimaran(shape, [c.limits for c in shape.containers], [c.limits for c in shape.init_containers])
    missing = DEFAULT_REQUESTS
    if shape.pod_level and any(map(pod_level_resource, shape.pod_level.requests)):
        missing = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in shape.requests}
    return Demand(
        reserved=_whole(shape.requests),
        arriving=_whole(shape.total_requests(DEFAULT_REQUESTS, pod_level=False)),
        placed=_whole(shape.total_requests(missing)),
        requested=requested,
        limited={name: max(amount, requested[name]) for name, amount in limited.items()},
    )


def units(resource: str, amount: float) -> int:
    """Milli-cores for cpu, else bytes or pieces; parts count as a whole, as Quantity.MilliValue and Value round up."""
    return math.ceil(round(amount * 1000, 6)) if resource == "cpu" else math.ceil(amount)


def predicted(shape: Shape, resource: str, default: int, multiplier: float) -> int:
    """What a pod is expected to use: per container its limit, else its request times `multiplier`, else `default`.

    Source: scheduler-plugins pkg/trimaran/targetloadpacking/targetloadpacking.go, PredictUtilisation.
    """

    def use(container: Container) -> int:
        if resource in container.limits:
            return units(resource, container.limits[resource])
        if resource in container.requests:
            return int(half_away(units(resource, container.requests[resource]) * multiplier))
        return default

    return sum(map(use, shape.containers)) + units(resource, shape.overhead.get(resource, 0.0))


def _whole(amounts: Amounts) -> dict[str, int]:
    return {name: units(name, amount) for name, amount in amounts.items()}


def _trimaran(shape: Shape, containers: list[Amounts], init_containers: list[Amounts]) -> dict[str, int]:
    return {
        name: max(
            sum(units(name, amounts.get(name, 0.0)) for amounts in containers),
            max((units(name, amounts.get(name, 0.0)) for amounts in init_containers), default=0),
        )
        + units(name, shape.overhead.get(name, 0.0))
        for name in CPU_AND_MEMORY
    }


NOTHING = demand(Shape())
