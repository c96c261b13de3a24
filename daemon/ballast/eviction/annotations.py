"""What annotations say about moving a pod: the nearest object that says anything wins, the unreadable excludes.

Nearest first: the pod, its ReplicaSet, its Deployment, its namespace.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

from ballast.eviction.facts import Facts
from ballast.model.exclusion import exclusion
from ballast.model.pod import Pod

EVICT, EVICT_LIFTS = "evict", "evict-lifts"
_NEVER = "2147483647"
_NEITHER = '"{}", which is neither "true" nor "false"'


def opted_in(facts: Facts, pod: Pod, prefix: str) -> bool:
    for _, said in _objects(facts, pod):
        value = said.get(f"{prefix}/{EVICT}")
        if value is not None:
            return value == "true"
    return False


def lifted(facts: Facts, pod: Pod, prefix: str) -> frozenset[str]:
    """The checks that `evict-lifts` names on the nearest object that has it."""
    for _, said in _objects(facts, pod):
        value = said.get(f"{prefix}/{EVICT_LIFTS}")
        if value is not None:
            return frozenset(_names(value))
    return frozenset()


def objection(facts: Facts, pod: Pod, prefix: str) -> str | None:
    """Why the pod is to be left alone, or None."""
    return _excluded(facts, pod, prefix) or _not_to_evict(facts, pod, prefix) or _foreign(pod.annotations)


def strange(annotations: Mapping[str, str], prefix: str) -> str | None:
    """What is said by a value that means nothing, so that it excludes; or None."""
    found = exclusion([("it", annotations)], prefix, math.inf) if annotations else None
    if found is not None and found.unreadable:
        return found.reason.removeprefix("it ")
    value = annotations.get(f"{prefix}/{EVICT}", "true")
    return None if value in ("true", "false") else f"has {prefix}/{EVICT}: {_NEITHER.format(value)}"


def unknown_lifts(annotations: Mapping[str, str], prefix: str, known: Collection[str]) -> str | None:
    """What `evict-lifts` names that it cannot lift, or None."""
    strange = [name for name in _names(annotations.get(f"{prefix}/{EVICT_LIFTS}", "")) if name not in known]
    if not strange:
        return None
    told = ", ".join(f'"{name}"' for name in strange)
    return f"{prefix}/{EVICT_LIFTS} names {told}, which it cannot lift; it may name {', '.join(sorted(known))}"


def _names(value: str) -> list[str]:
    return [name for each in value.split(",") if (name := each.strip())]


def _excluded(facts: Facts, pod: Pod, prefix: str) -> str | None:
    found = exclusion(_objects(facts, pod), prefix, facts.now)
    return found.reason if found else None


def _not_to_evict(facts: Facts, pod: Pod, prefix: str) -> str | None:
    for what, said in _objects(facts, pod):
        value = said.get(f"{prefix}/{EVICT}")
        if value is not None:
            told = f'"{value}"' if value == "false" else _NEITHER.format(value)
            return None if value == "true" else f"{what} has {prefix}/{EVICT}: {told}"
    return None


def _foreign(annotations: Mapping[str, str]) -> str | None:
    if not annotations:
        return None
    if "descheduler.alpha.kubernetes.io/prefer-no-eviction" in annotations:
        return "the pod has descheduler.alpha.kubernetes.io/prefer-no-eviction"
    for key, wanted in (
        ("cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        ("karpenter.sh/do-not-disrupt", "true"),
        ("scheduling.koordinator.sh/eviction-cost", _NEVER),
    ):
        if annotations.get(key) == wanted:
            return f'the pod has {key}: "{wanted}"'
    return None


def _objects(facts: Facts, pod: Pod) -> Iterator[tuple[str, Mapping[str, str]]]:
    yield "the pod", pod.annotations
    for workload in facts.chain(pod):
        yield f"{workload.kind} {workload.name}", workload.annotations
    namespace = facts.namespaces.get(pod.namespace)
    if namespace is not None:
        yield f"namespace {namespace.name}", namespace.annotations
