"""Cluster files as kubectl prints them, with workloads behind the pods."""

from collections.abc import Mapping, Sequence
from typing import Any

Json = dict[str, Any]
NOW = 1_700_000_000
LONG_AGO = "2023-11-14T12:00:00Z"


def node(name: str, cpu: str = "10", memory: str = "10Gi", *, ready: bool = True, **more: Any) -> Json:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "creationTimestamp": LONG_AGO, **more.pop("metadata", {})},
        "spec": more.pop("spec", {}),
        "status": {
            "capacity": amounts,
            "allocatable": more.pop("allocatable", amounts),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def pod(name: str, cpu: str, memory: str = "0", on: str = "", owner: str = "web", **more: Any) -> Json:
    """Without `on` it waits: the scheduler found no node for it."""
    conditions = [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}]
    if not on:
        since = more.pop("since", LONG_AGO)
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": since}
        conditions = [refused]
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"u-{name}",
            "labels": {"app": owner},
            "creationTimestamp": LONG_AGO,
            "ownerReferences": [{"kind": "ReplicaSet", "name": f"{owner}-1", "uid": f"rs-{owner}", "controller": True}],
            **more.pop("metadata", {}),
        },
        "spec": {
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}],
            **({"nodeName": on} if on else {}),
            **more.pop("spec", {}),
        },
        "status": {"phase": "Running" if on else "Pending", "conditions": conditions},
    }


def workload(name: str, replicas: int) -> list[Json]:
    settled = {"replicas": replicas, "updatedReplicas": replicas, "observedGeneration": 1}
    owner = [{"kind": "Deployment", "name": name, "uid": f"d-{name}", "controller": True}]
    return [
        {
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "shop", "uid": f"d-{name}", "generation": 1},
            "spec": {"replicas": replicas},
            "status": settled,
        },
        {
            "kind": "ReplicaSet",
            "metadata": {"name": f"{name}-1", "namespace": "shop", "uid": f"rs-{name}", "ownerReferences": owner},
            "spec": {"replicas": replicas},
        },
    ]


def budget(name: str, app: str, allowed: int, **metadata: Any) -> Json:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop", "generation": 1, **metadata},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }


def listed(*items: Json | Sequence[Json]) -> Json:
    flat = [each for item in items for each in ([item] if isinstance(item, dict) else item)]
    return {"apiVersion": "v1", "kind": "List", "items": [*flat, {"kind": "Namespace", "metadata": {"name": "shop"}}]}


def watcher(loads: Mapping[str, tuple[float, float] | float]) -> Json:
    """Percent of capacity: cpu and memory, or cpu alone."""
    entries = {name: [load, None] if isinstance(load, int | float) else list(load) for name, load in loads.items()}
    return {
        "timestamp": NOW,
        "window": {"duration": "15m", "start": NOW - 900, "end": NOW},
        "source": "Prometheus",
        "data": {
            "NodeMetricsMap": {
                name: {
                    "metrics": [
                        {"type": kind, "operator": "AVG", "value": value}
                        for kind, value in zip(("CPU", "Memory"), values, strict=True)
                        if value is not None
                    ]
                }
                for name, values in entries.items()
            }
        },
    }


def pod_metrics(use: Mapping[str, tuple[str, str]]) -> Json:
    return {
        "kind": "PodMetricsList",
        "items": [
            {
                "metadata": {"name": name, "namespace": "shop"},
                "containers": [{"name": "c", "usage": {"cpu": cpu, "memory": memory}}],
            }
            for name, (cpu, memory) in use.items()
        ],
    }
