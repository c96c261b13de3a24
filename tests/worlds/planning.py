"""Small clusters for planners: nodes with sizes, pods with requests and use."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.shape import ContainerShape, shape_of
from ballast.placement.layout import Layout, layout
from ballast.placement.simulated_placement import SimulatedPlacement

RESOURCES = ("cpu", "memory")


def a_node(name: str, cpu: float = 10, memory: float = 10, pods: float = 100, **more: Any) -> Node:
    return Node(name, allocatable={"cpu": cpu, "memory": memory, "pods": pods}, **more)


def a_pod(name: str, cpu: float = 0, memory: float = 0, on: str = "", waiting: float | None = None, **more: Any) -> Pod:
    requests = {key: float(value) for key, value in (("cpu", cpu), ("memory", memory)) if value}
    phase = more.pop("phase", "Running" if on else "Pending")
    return Pod(
        more.pop("namespace", "a"),
        name,
        node=on,
        phase=phase,
        shape=shape_of([ContainerShape(requests)]),
        waiting_since=waiting,
        **more,
    )


def load_by_requests(nodes: Sequence[Node], pods: Sequence[Pod]) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.array(
        [
            [
                sum(pod.shape.requests.get(name, 0.0) for pod in pods if pod.node == node.name) / node.allocatable[name]
                for name in RESOURCES
            ]
            for node in nodes
        ]
    )


def a_layout(nodes: Sequence[Node], pods: Sequence[Pod], **more: Any) -> Layout:
    """Nodes are as loaded as their pods' requests say, unless `load` is given."""
    load = more.pop("load", None)
    return layout(nodes, pods, RESOURCES, load_by_requests(nodes, pods) if load is None else load, **more)


def standing_of(arranged: Layout, ceiling: float = 10.0, **more: Any) -> SimulatedPlacement:
    return SimulatedPlacement(arranged, targets=np.ones(len(arranged.nodes), bool), ceiling=ceiling, **more)


def everybody(arranged: Layout) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.ones(len(arranged.pods), bool)


def every_node(arranged: Layout) -> np.ndarray[Any, np.dtype[np.bool_]]:
    return np.ones(len(arranged.nodes), bool)
