"""What evicting a pod costs, beside an ordinary eviction: one of a pod of priority 0 among many replicas.

The marks are those that descheduler and koordinator sort victims by: priority, deletion cost, eviction cost, QoS class.
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from ballast.eviction.facts import Facts, WorkloadKey
from ballast.model.marks import DELETION_COST
from ballast.model.pod import ORDINARY_GRACE, Pod
from ballast.model.sample import Floats
from ballast.model.shape import ContainerShape, Shape

EVICTION_COST = "scheduling.koordinator.sh/eviction-cost"

ORDINARY_RESTART = 30.0
"""Seconds until Ready of a replacement that are ordinary; also those of a workload that was never measured."""

DEAREST = 20.0
"""Most ordinary evictions that one counts as."""

_NAMED = ("cpu", "memory")
_MOST_DOUBLINGS = 64


def prices(facts: Facts, pods: Iterable[Pod], restarts: Mapping[WorkloadKey, float]) -> Floats:
    """[pod]: its price, 1 for an ordinary one. `restarts` are seconds until replacements were Ready, by workload."""
    alike: dict[tuple[object, ...], float] = {}
    amounts: list[float] = []
    for pod in pods:
        notes = pod.annotations
        marks = tuple(notes.items()) if notes else None
        key = (pod.namespace, id(pod.owner), id(pod.shape), pod.priority, pod.grace, marks)
        price = alike.get(key)
        if price is None:
            price = alike[key] = price_of(facts, pod, restarts)
        amounts.append(price)
    return np.array(amounts, float)


def price_of(facts: Facts, pod: Pod, restarts: Mapping[WorkloadKey, float]) -> float:
    """Between 1 / DEAREST and DEAREST."""
    marked = pod.priority, _number(pod, DELETION_COST), _number(pod, EVICTION_COST)
    marks = 2.0 ** min(sum(map(_size, marked)) / 3, _MOST_DOUBLINGS)
    replicas = facts.replicas(pod) or 1
    key = facts.key(pod)
    seconds = restarts.get(key, ORDINARY_RESTART) if key is not None else ORDINARY_RESTART
    restart = (ORDINARY_RESTART + seconds) / (2 * ORDINARY_RESTART)
    # How long its load stays; most pods end long before they have to, so the root.
    ending = math.sqrt(max(1.0, pod.grace / ORDINARY_GRACE))
    price: float = marks * (1 + 1 / replicas) * _quality(pod.shape) * restart * ending
    return min(max(price, 1 / DEAREST), DEAREST)


def _size(value: int) -> float:
    """Decimal digits, with the sign: 1,000,000 is 6, -100 is -2."""
    return math.copysign(math.log10(1 + abs(value)), -1 if value < 0 else 1)


def _number(pod: Pod, key: str) -> int:
    try:
        return int(pod.annotations.get(key, "0"))
    except ValueError:
        return 0


def _quality(shape: Shape) -> float:
    """By QoS class: Guaranteed dearer, BestEffort cheaper."""
    containers = [*shape.containers, *shape.init_containers, *([shape.pod_level] if shape.pod_level else [])]
    if not any(
        container.requests.get(name) or container.limits.get(name) for container in containers for name in _NAMED
    ):
        return 0.8
    held = [shape.pod_level] if shape.pod_level and _held(shape.pod_level) else [*shape.containers]
    return 1.25 if all(map(_held, held)) else 1.0


def _held(container: ContainerShape) -> bool:
    """Whether it asks for exactly what it may use at most."""
    limits, requests = container.limits, container.requests
    return all(limits.get(name) and requests.get(name, limits[name]) == limits[name] for name in _NAMED)
