"""Snapshots and pods for the tests of placement."""

from collections.abc import Sequence

import numpy as np

from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.pod import Pod
from ballast.model.shape import ContainerShape, Shape, shape_of
from ballast.model.snapshot import Snapshot, Window

TIME = 1_700_000_000.0
GIB = 2.0**30
NAN = float("nan")
MEASURED = ("cpu", "memory", "network", "disk")
"""What the nodes of these snapshots measure, so that a strategy may read any of it."""


def shape(cpu: float, memory: float = 1.0, **others: float) -> Shape:
    """Cores, GiB, and amounts of anything else."""
    return shape_of([ContainerShape({"cpu": cpu, "memory": memory * GIB, **others})])


SMALL, LARGE, EMPTY = shape(0.5), shape(4.0, 8.0), shape_of([ContainerShape()])


def pod(uid: str, node: str = "", asks: Shape = SMALL, *, phase: str = "Running", bound: float = TIME - 600) -> Pod:
    return Pod(
        "default",
        uid,
        uid,
        node=node,
        phase=phase if node else "Pending",
        shape=asks,
        created=bound,
        scheduled_at=bound if node else None,
    )


def snapshot(
    loads: Sequence[float], *, time: float = TIME, names: Sequence[str] | None = None, cpu: float = 16.0
) -> Snapshot:
    """Nodes n0, n1, … of 16 cores and 64 GiB with these loads of each resource; NaN is not known."""
    means = np.array([loads] * len(MEASURED), float)
    known = np.isfinite(means)
    window = Window(
        "15m", 900.0, means, np.where(known, 0.05, NAN), means, np.where(known, 60, 0), known.astype(float), known
    )
    allocatable = {"cpu": cpu, "memory": 64 * GIB, "pods": 110.0}
    nodes = tuple(
        Node(name, capacity=allocatable, allocatable=allocatable)
        for name in (names or [f"n{i}" for i in range(len(loads))])
    )
    return Snapshot(
        time,
        nodes,
        MEASURED,
        {"15m": window},
        np.where(known, time - 5, NAN),
        np.ones_like(means),
        NodeStates.of(known[0]),
    )
