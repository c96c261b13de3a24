"""What annotations say about moving a pod: the nearest object that says anything wins, the unreadable excludes.

Nearest first: the pod, its ReplicaSet, its Deployment, its namespace.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from ballast.base.text import duration
from ballast.eviction.facts import Facts
from ballast.model.disruption import NAMESPACE, AnnotatedObject, by_operator, exclusion
from ballast.model.duration import seconds
from ballast.model.pod import Pod

EVICT, EVICT_LIFTS = "evict", "evict-lifts"
_NEVER = "2147483647"
_UNDISRUPTED = "karpenter.sh/do-not-disrupt"
_NEITHER = '"{}", which is neither "true" nor "false"'


def opted_in(facts: Facts, pod: Pod, prefix: str, operators: frozenset[str] = frozenset()) -> bool:
    """`operators` are keys that count on namespaces alone."""
    return _nearest(facts, pod, f"{prefix}/{EVICT}", operators) == "true"


def lifted(facts: Facts, pod: Pod, prefix: str, operators: frozenset[str] = frozenset()) -> frozenset[str]:
    """The checks that `evict-lifts` names on the nearest object that has it; `operators` as in `opted_in`."""
    return frozenset(_names(_nearest(facts, pod, f"{prefix}/{EVICT_LIFTS}", operators) or ""))


def _nearest(facts: Facts, pod: Pod, key: str, operators: frozenset[str]) -> str | None:
    values = (owner.annotations.get(key) for owner in _objects(facts, pod, operators))
    return next((value for value in values if value is not None), None)


def objection(facts: Facts, pod: Pod, prefix: str, operators: frozenset[str] = frozenset()) -> str | None:
    """Why the pod is to be left alone, or None; `operators` as in `opted_in`."""
    objects = list(_objects(facts, pod, operators))
    started = max(pod.created, pod.scheduled_at or 0.0)
    foreign = _foreign(pod.annotations, facts.now - started)
    return _excluded(objects, prefix, facts.now) or _not_to_evict(objects, prefix) or foreign


def strange(annotations: Mapping[str, str], prefix: str, *, pod: bool = False) -> str | None:
    """What is said by a value that means nothing, so that it excludes; or None. Words of others count on pods."""
    exclusive = exclusion([AnnotatedObject("object", "", annotations)], prefix, math.inf) if annotations else None
    if exclusive is not None and exclusive.unreadable:
        return exclusive.said
    value = annotations.get(f"{prefix}/{EVICT}", "true")
    if value not in ("true", "false"):
        return f"has {prefix}/{EVICT}: {_NEITHER.format(value)}"
    value = annotations.get(_UNDISRUPTED, "true") if pod else "true"
    return None if value in ("true", "false") or seconds(value, go=True) is not None else _undisrupted(annotations, 0.0)


def unknown_lifts(annotations: Mapping[str, str], prefix: str, known: Collection[str]) -> str | None:
    """What `evict-lifts` names that it cannot lift, or None."""
    strange = [name for name in _names(annotations.get(f"{prefix}/{EVICT_LIFTS}", "")) if name not in known]
    if not strange:
        return None
    text = ", ".join(f'"{name}"' for name in strange)
    return f"{prefix}/{EVICT_LIFTS} names {text}, which it cannot lift; it may name {', '.join(sorted(known))}"


def _names(value: str) -> list[str]:
    return [name for part in value.split(",") if (name := part.strip())]


def _excluded(objects: Iterable[AnnotatedObject], prefix: str, now: float) -> str | None:
    exclusive = exclusion(objects, prefix, now)
    return exclusive.reason if exclusive else None


def _not_to_evict(objects: Iterable[AnnotatedObject], prefix: str) -> str | None:
    for owner in objects:
        value = owner.annotations.get(f"{prefix}/{EVICT}")
        if value is not None:
            text = f'"{value}"' if value == "false" else _NEITHER.format(value)
            return None if value == "true" else f"{owner.title} has {prefix}/{EVICT}: {text}"
    return None


def _undisrupted(annotations: Mapping[str, str], age: float) -> str | None:
    """What Karpenter's annotation says of a pod that started `age` seconds ago; None once its time is over.

    It takes a duration since Karpenter 1.12; one that cannot be read means that the pod is to be left alone for good.
    """
    value = annotations.get(_UNDISRUPTED, "false")
    if value == "false":
        return None
    lasts = seconds(value, go=True)
    if lasts is not None:
        return f'has {_UNDISRUPTED}: "{value}", and started {duration(age)} ago' if age < lasts else None
    return f'has {_UNDISRUPTED}: "{value}"' + ("" if value == "true" else ", which is neither true nor a duration")


def _foreign(annotations: Mapping[str, str], age: float) -> str | None:
    if not annotations:
        return None
    if (undisrupted := _undisrupted(annotations, age)) is not None:
        return f"the pod {undisrupted}"
    if "descheduler.alpha.kubernetes.io/prefer-no-eviction" in annotations:
        return "the pod has descheduler.alpha.kubernetes.io/prefer-no-eviction"
    for key, vetoing in (
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        ("scheduling.koordinator.sh/eviction-cost", _NEVER),
    ):
        if annotations.get(key) == vetoing:
            return f'the pod has {key}: "{vetoing}"'
    return None


def _objects(facts: Facts, pod: Pod, operators: frozenset[str]) -> Iterable[AnnotatedObject]:
    objects = _annotated(facts, pod)
    return by_operator(objects, operators) if operators else objects


def _annotated(facts: Facts, pod: Pod) -> Iterator[AnnotatedObject]:
    yield AnnotatedObject("pod", "", pod.annotations)
    for workload in facts.chain(pod):
        yield AnnotatedObject(workload.kind, workload.name, workload.annotations)
    namespace = facts.namespaces.get(pod.namespace)
    if namespace is not None:
        yield AnnotatedObject(NAMESPACE, namespace.name, namespace.annotations)
