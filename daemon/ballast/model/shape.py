"""What the pods of one template ask for, whole and container by container."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

Amounts: TypeAlias = Mapping[str, float]

_NOTHING: dict[str, float] = {}


class ContainerShape(msgspec.Struct, frozen=True, gc=False):
    """Cores, bytes, counts. A `sidecar` is an init container that keeps running (restartPolicy Always)."""

    requests: Amounts = _NOTHING
    limits: Amounts = _NOTHING
    sidecar: bool = False


class Shape(msgspec.Struct, frozen=True, gc=False):
    """`requests` and `limits` are effective over containers, init containers, pod-level resources and overhead."""

    requests: Amounts = _NOTHING
    limits: Amounts = _NOTHING
    containers: tuple[ContainerShape, ...] = ()
    init_containers: tuple[ContainerShape, ...] = ()
    overhead: Amounts = _NOTHING
    pod_level: ContainerShape | None = None

    def total_requests(
        self, missing: Amounts = _NOTHING, *, pod_level: bool = True, overhead: bool = True
    ) -> dict[str, float]:
        """What the pod asks for, where `missing` stands in for what a container does not ask for.

        Source: component-helpers resource/helpers.go, PodRequests (without the status of in-place resizes).
        """

        def of(container: ContainerShape) -> Amounts:
            return {**missing, **container.requests} if missing else container.requests

        total = _aggregate(self, of, self.pod_level.requests if self.pod_level and pod_level else _NOTHING)
        if overhead:
            _add(total, self.overhead)
        return total

    def total_limits(self) -> dict[str, float]:
        """What the pod may use at most. Source: as `total_requests`, PodLimits."""
        total = _aggregate(self, lambda c: c.limits, self.pod_level.limits if self.pod_level else _NOTHING)
        _add(total, {name: amount for name, amount in self.overhead.items() if total.get(name)})
        return total


def shape_of(
    containers: Iterable[ContainerShape],
    init_containers: Iterable[ContainerShape] = (),
    overhead: Amounts = _NOTHING,
    pod_level: ContainerShape | None = None,
) -> Shape:
    """The shape with its effective requests and limits."""
    parts = Shape(
        containers=tuple(containers), init_containers=tuple(init_containers), overhead=overhead, pod_level=pod_level
    )
    if len(parts.containers) == 1 and not (parts.init_containers or overhead or pod_level):
        [only] = parts.containers
        return msgspec.structs.replace(parts, requests=only.requests, limits=only.limits)
    return msgspec.structs.replace(parts, requests=parts.total_requests(), limits=parts.total_limits())


def pod_level_resource(name: str) -> bool:
    """Whether a pod as a whole may ask for it."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _aggregate(shape: Shape, of: Callable[[ContainerShape], Amounts], pod_level: Amounts) -> dict[str, float]:
    total: dict[str, float] = {}
    for container in shape.containers:
        _add(total, of(container))
    sidecars: dict[str, float] = {}
    peak: dict[str, float] = {}
    for container in shape.init_containers:
        if container.sidecar:
            _add(total, of(container))
            _add(sidecars, of(container))
            _raise_to(peak, sidecars)
        else:
            needed = dict(of(container))
            _add(needed, sidecars)
            _raise_to(peak, needed)
    _raise_to(total, peak)
    total.update({name: amount for name, amount in pod_level.items() if pod_level_resource(name)})
    return total


def _add(total: dict[str, float], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0.0) + amount


def _raise_to(total: dict[str, float], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        total[name] = max(total.get(name, 0.0), amount)
