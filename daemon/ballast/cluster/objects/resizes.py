"""What a pod is counted with while it is resized in place: the most of what it asks for, was given and has.

Source: component-helpers resource/helpers.go, determineEffectiveRequests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import msgspec

from ballast.cluster.objects import wire
from ballast.model.quantity import quantity

S = TypeVar("S", bound=wire.LeanPodSpec)


def booked(spec: S, status: wire.PodStatus) -> S:
    """The spec with the requests that count; the same one where nothing is being resized."""
    states = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    given = {each.name: each for each in states if each.allocated_resources or each.resources}
    if not (given or status.allocated_resources or status.resources):
        return spec
    whole = _resources(spec.resources, status.allocated_resources, status.resources, refused=_refused(status))
    if not given and whole is spec.resources:
        return spec
    containers = _counted(spec.containers or (), given, status)
    init_containers = _counted(spec.init_containers or (), given, status, sidecars=True)
    if containers is None and init_containers is None and whole is spec.resources:
        return spec
    return msgspec.structs.replace(
        spec,
        containers=containers or spec.containers,
        init_containers=init_containers or spec.init_containers,
        resources=whole,
    )


def _refused(status: wire.PodStatus) -> bool:
    """Whether the node can never resize the pod, so that it keeps what it has."""
    return any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in status.conditions or ())


def _counted(
    containers: Sequence[wire.Container],
    given: dict[str, wire.ContainerStatus],
    status: wire.PodStatus,
    *,
    sidecars: bool = False,
) -> list[wire.Container] | None:
    """None where all count with what they ask for."""
    found, changed = [], False
    for container in containers:
        of = given.get(container.name)
        if of is not None and (not sidecars or container.restart_policy == "Always"):
            resources = _resources(container.resources, of.allocated_resources, of.resources, refused=_refused(status))
            if resources is not container.resources:
                changed = True
                container = msgspec.structs.replace(container, resources=resources)
        found.append(container)
    return found if changed else None


def _resources(
    asked: wire.ResourceRequirements | None,
    allocated: wire.Quantities | None,
    actuated: wire.ResourceRequirements | None,
    *,
    refused: bool,
) -> wire.ResourceRequirements | None:
    wanted = (asked.requests if asked else None) or {}
    has = (actuated.requests if actuated else None) or {}
    known = [each for each in (allocated, has) if each]
    if not known or all(each == wanted for each in known):
        return asked
    return wire.ResourceRequirements(_most(known if refused else [wanted, *known]), asked.limits if asked else None)


def _most(amounts: Iterable[wire.Quantities]) -> wire.Quantities:
    found: wire.Quantities = {}
    for each in amounts:
        for name, text in each.items():
            try:
                if name not in found or quantity(text) > quantity(found[name]):
                    found[name] = text
            except ValueError:
                continue
    return found
