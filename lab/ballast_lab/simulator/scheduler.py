"""A small scheduler: filters nodes by requests, node selector and taints; scores them by score label and free room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ballast.model.load_limits import quantity
from ballast.model.sample import Bools, Floats
from ballast_lab.simulator.kube.kinds import NODE, Kind
from ballast_lab.simulator.kube.store import Store, StoreEvent
from ballast_lab.simulator.objects import pod_requests
from ballast_lab.simulator.world import World

NAME = "default-scheduler"
SCORE_LABELS, STEPS = ("ballast.node-restriction.kubernetes.io/score", "ballast.dev/score"), 24
LABEL_WEIGHT, ROOM_WEIGHT, EXTENDER_WEIGHT = 1.0, 1.0, 30.0
"""Weights of the scores, each 0..100; that of the label and that of the extender, 0..10, are scaled up."""

Document = dict[str, Any]


class Scheduler:
    """Caches allocatable amounts, taints and labels of the nodes; the requests of their pods come from the world."""

    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self._generator = np.random.default_rng(world.seed + 1)
        count = len(world.node_names)
        self._allocatable: Floats = np.zeros((count, 3))
        self._scores: Floats = np.zeros(count)
        self._open: Bools = np.zeros(count, dtype=bool)
        self._labels: list[dict[str, str]] = [{}] * count
        self._taints: list[list[Document]] = [[]] * count
        self._loaded = False

    def follow(self, kind: Kind, change: StoreEvent) -> None:
        """A store listener that keeps the cache of nodes up to date."""
        if kind is NODE and self._loaded and change.new.name in self._world.rows:
            self._read(self._world.rows[change.new.name], None if change.type == "DELETED" else change.new.read())

    def fitting(self, pod: Document) -> list[str]:
        """The nodes that a pod fits on."""
        return [self._world.node_names[row] for row in np.flatnonzero(self._fits(pod)[0])]

    def place(self, pod: Document, extended: Mapping[str, int] | None = None) -> str | None:
        """The name of the best node for a pod, or None if it fits on none.

        `extended` has the extender's scores of the nodes that pass its filter; None without an extender.
        """
        fits, free = self._fits(pod)
        if extended is not None:
            fits &= np.array([name in extended for name in self._world.node_names])
        if not fits.any():
            return None
        points = np.array([(extended or {}).get(name, 0) for name in self._world.node_names], dtype=np.float64)
        total = LABEL_WEIGHT * (100 / STEPS) * self._scores + ROOM_WEIGHT * free + self._generator.random(len(free))
        total += EXTENDER_WEIGHT * 10 * points
        return self._world.node_names[int(np.argmax(np.where(fits, total, -np.inf)))]

    def _fits(self, pod: Document) -> tuple[Bools, Floats]:
        """[node]: whether the pod fits, and the share of cpu and memory in percent that would then be free."""
        if not self._loaded:
            self._load()
        cores, memory = pod_requests(pod)
        room = self._allocatable - self._world.allocated
        fits = self._open & (room >= np.array([cores, memory, 1.0])).all(axis=1)
        spec = pod["spec"]
        if selector := spec.get("nodeSelector"):
            fits &= np.array([selector.items() <= labels.items() for labels in self._labels])
        for row in np.flatnonzero(fits):
            if any(_repels(taint, spec.get("tolerations") or []) for taint in self._taints[row]):
                fits[row] = False
        with np.errstate(divide="ignore", invalid="ignore"):
            free = ((room - np.array([cores, memory, 1.0])) / self._allocatable)[:, :2].mean(axis=1) * 100
        return fits, free

    def _load(self) -> None:
        for name, row in self._world.rows.items():
            stored = self._store.get(NODE, "", name)
            self._read(row, stored.read() if stored is not None else None)
        self._loaded = True

    def _read(self, row: int, node: Document | None) -> None:
        self._open[row] = node is not None and not node["spec"].get("unschedulable") and _ready(node)
        if node is None:
            return
        allocatable = node["status"]["allocatable"]
        self._allocatable[row] = [quantity(allocatable[name]) for name in ("cpu", "memory", "pods")]
        self._labels[row] = labels = node["metadata"].get("labels") or {}
        score = next((labels[name] for name in SCORE_LABELS if name in labels), "")
        self._scores[row] = float(score) if score.isdigit() else 0.0
        taints = node["spec"].get("taints") or []
        self._taints[row] = [taint for taint in taints if taint["effect"] in ("NoSchedule", "NoExecute")]


def _ready(node: Document) -> bool:
    conditions = node["status"].get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _repels(taint: Document, tolerations: list[Document]) -> bool:
    return not any(
        toleration.get("effect") in (None, "", taint["effect"])
        and toleration.get("key") in (None, "", taint["key"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
        for toleration in tolerations
    )
