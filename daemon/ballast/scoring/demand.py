"""What a pod asks for, in the whole numbers that kube-scheduler and Trimaran count with: milli-cores, bytes, pieces."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ballast.model.shape import Amounts, ContainerShape, Shape, pod_level_resource
from ballast.scoring.scores import half_away

# kubernetes pkg/scheduler/util/pod_resources.go: what a container without a request counts as in scores.
DEFAULT_REQUESTS = {"cpu": 0.1, "memory": 200.0 * 2**20}
CPU_AND_MEMORY = ("cpu", "memory")

LARGEST = 2**53
"""Larger amounts count as this one: the API server accepts 2^63 - 1, and sums have to stay exact."""

REMEMBERED = 1000

Units = Mapping[str, int]


@dataclass(frozen=True)
class Demand:
    """What a shape requests, counted in five ways; each is computed when it is first read."""

    shape: Shape

    @cached_property
    def reserved(self) -> Units:
        """What the scheduler sets aside, on a node and in filters."""
        return _whole(self.shape.requests)

    @cached_property
    def arriving(self) -> Units:
        """What NodeResourcesFit scores an arriving pod by: defaults for containers without requests.

        In v1.36 it ignores the requests of the pod as a whole.
        """
        return _whole(self.shape.total_requests(DEFAULT_REQUESTS, pod_level=False))

    @cached_property
    def placed(self) -> Units:
        """What NodeResourcesFit counts for a pod that is on a node (framework/types.go, CalculateResource)."""
        missing: Amounts = DEFAULT_REQUESTS
        if self.shape.pod_level and any(map(pod_level_resource, self.shape.pod_level.requests)):
            missing = {name: amount for name, amount in DEFAULT_REQUESTS.items() if name not in self.shape.requests}
        return _whole(self.shape.total_requests(missing))

    @cached_property
    def requested(self) -> Units:
        """Cpu and memory as Trimaran adds them up (pkg/trimaran/resourcestats.go).

        Sidecars are plain init containers there, and pod-level resources play no part.
        """
        shape = self.shape
        return _trimaran(shape, [c.requests for c in shape.containers], [c.requests for c in shape.init_containers])

    @cached_property
    def limited(self) -> Units:
        """The limits, added up likewise; at least the requests."""
        shape = self.shape
        limits = _trimaran(shape, [c.limits for c in shape.containers], [c.limits for c in shape.init_containers])
        return {name: max(amount, self.requested[name]) for name, amount in limits.items()}


def demand(shape: Shape) -> Demand:
    """The demand of a shape. Pods of one template share their shape, so it is computed once for all of them."""
    recent = _recent.get(id(shape))
    if recent is None:
        if len(_recent) >= REMEMBERED:
            _recent.clear()
        recent = _recent[id(shape)] = Demand(shape)
    return recent


def units(resource: str, amount: float) -> int:
    """Milli-cores for cpu, else bytes or pieces; parts count as a whole, as Quantity.MilliValue and Value round up.

    From 0 to `LARGEST`.
    """
    exact = round(amount * 1000, 6) if resource == "cpu" else amount
    return math.ceil(min(max(exact, 0.0), LARGEST))


def predicted(shape: Shape, resource: str, default: int, multiplier: float) -> int:
    """What a pod is expected to use: per container its limit, else its request times `multiplier`, else `default`.

    Source: scheduler-plugins pkg/trimaran/targetloadpacking/targetloadpacking.go, PredictUtilisation.
    """

    def use(container: ContainerShape) -> int:
        if resource in container.limits:
            return units(resource, container.limits[resource])
        if resource in container.requests:
            return int(min(half_away(units(resource, container.requests[resource]) * multiplier), LARGEST))
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


# A cache and nothing else: `demand` answers the same without it. Shapes hold maps and cannot be hashed, so it goes by
# their id, which stays their own while the cached Demand holds the shape. Threads may at worst compute one twice.
_recent: dict[int, Demand] = {}
NOTHING = Demand(Shape())
