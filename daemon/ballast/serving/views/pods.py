"""Pods for the page: by part of their name, and by node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ballast.model.pod import Pod

FOUND = 20
"""Pods that a search gives."""


class Pods(Protocol):
    """The watch of pods."""

    def pods(self) -> Sequence[Pod]: ...

    def pods_on(self, node: str) -> Sequence[Pod]: ...


def found(cache: Pods, text: str) -> list[dict[str, Any]]:
    """`types.FoundPod`: the first ones by name whose namespace/name contains `text`, whatever its case."""
    wanted = text.lower()
    names = sorted(
        (f"{pod.namespace}/{pod.name}", pod.node)
        for pod in cache.pods()
        if wanted in f"{pod.namespace}/{pod.name}".lower() and not pod.finished
    )
    return [{"pod": name, "node": node or None} for name, node in names[:FOUND]]


def on_node(cache: Pods, node: str) -> list[dict[str, Any]]:
    """`types.PodOnNode`: those with the largest requests of cpu first."""
    there = [pod for pod in cache.pods_on(node) if not pod.finished]
    there.sort(key=lambda pod: (-pod.shape.requests.get("cpu", 0.0), pod.namespace, pod.name))
    return [
        {
            "pod": f"{pod.namespace}/{pod.name}",
            "owner": f"{pod.owner.kind}/{pod.owner.name}" if pod.owner else None,
            "phase": pod.phase,
            "ready": pod.ready,
            "created": pod.created,
            "requests": dict(pod.shape.requests),
        }
        for pod in there
    ]
