"""What a recording says beside use: the nodes, and which pod was where from when to when."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ballast.base.errors import BadFile
from ballast.cli import files
from ballast.cli.planning.gather import supporting_objects
from ballast.cluster.objects.decoding import annotation_filter
from ballast.eviction.facts import LISTED, ClusterObjects, WorkloadKey
from ballast.model.load_limits import quantity
from ballast.model.node import Node, Taint
from ballast.model.pod import Owner, Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.model.selector import parse
from ballast.model.shape import ContainerShape, Shape, shape_of
from ballast.model.workload import DisruptionBudget, Workload
from ballast_lab.rehearse import tables
from ballast_lab.rehearse.tables import Row

RESOURCES = ("cpu", "memory")
CLUSTER_FILE = "cluster.json"
MOST_PODS = 110.0
"""Pods that a node takes if nobody says how many: the kubelet's default."""


@dataclass(frozen=True)
class Unknown:
    """What the rehearsal cannot know, and the share of the whole that it concerns."""

    what: str
    share: float


@dataclass(frozen=True)
class Stay:
    """A pod on a node, from `start` until before `end` (Unix seconds); `ready` so many seconds after its start, NaN if
    that is unknown."""

    pod: Pod
    start: float
    end: float
    ready: float = math.nan


@dataclass(frozen=True)
class History:
    """`nodes` are sorted by name, `pods` by namespace, name and start; a pod that ran twice is there twice.

    Times are Unix seconds. `objects` has what is held constant: workloads, disruption budgets and the like.
    """

    nodes: tuple[Node, ...]
    appeared: Floats
    """[node]"""
    left: Floats
    """[node]"""
    pods: tuple[Pod, ...]
    start: Floats
    """[pod]"""
    end: Floats
    """[pod]"""
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    unknown: tuple[Unknown, ...] = ()
    restarts: Mapping[WorkloadKey, float] = field(default_factory=dict)
    """Seconds until pods of a workload were Ready: the median, where it is known."""

    @cached_property
    def rows(self) -> Mapping[str, int]:
        """Node name → row."""
        return {node.name: row for row, node in enumerate(self.nodes)}

    @cached_property
    def home(self) -> Ints:
        """[pod]: the row of its node."""
        return np.array([self.rows[pod.node] for pod in self.pods], np.int64)

    @cached_property
    def titles(self) -> Mapping[str, int]:
        """namespace/name → the number by which the use of a pod is read."""
        return {title: number for number, title in enumerate(dict.fromkeys(map(title_of, self.pods)))}

    @cached_property
    def number(self) -> Ints:
        """[pod]: the number of its title."""
        return np.array([self.titles[title_of(pod)] for pod in self.pods], np.int64)

    @cached_property
    def workload(self) -> Ints:
        """[pod]: a number that the pods of a workload share, -1 for those of none."""
        numbers: dict[WorkloadKey, int] = {}
        keys = [self.key(pod) for pod in self.pods]
        return np.array([-1 if key is None else numbers.setdefault(key, len(numbers)) for key in keys], np.int64)

    @cached_property
    def everywhere(self) -> Bools:
        """[pod]: whether it is of a DaemonSet, whose pods leave a node empty."""
        return np.array([pod.owner is not None and pod.owner.kind == "DaemonSet" for pod in self.pods], bool)

    @cached_property
    def owners(self) -> tuple[Ints, Ints]:
        """[pod]: the places of its owner and of what is above that among the workloads, -1 for none."""
        places = {workload.key: place for place, workload in enumerate(self.objects.workloads)}
        direct, above = [], []
        for pod in self.pods:
            own = None if pod.owner is None else (pod.namespace, pod.owner.kind, pod.owner.name)
            top = None if own is None else self.above(own)
            direct.append(-1 if own is None else places.get(own, -1))
            above.append(-1 if top is None or top == own else places.get(top, -1))
        return np.array(direct, np.int64), np.array(above, np.int64)

    def key(self, pod: Pod) -> WorkloadKey | None:
        """What scales the pod: the Deployment rather than its ReplicaSet."""
        return None if pod.owner is None else self.above((pod.namespace, pod.owner.kind, pod.owner.name))

    def above(self, key: WorkloadKey) -> WorkloadKey:
        """The topmost owner of a workload that is known, or itself."""
        workload = self._workloads.get(key)
        while workload is not None and workload.owner is not None and workload.owner.kind in LISTED:
            key = (key[0], workload.owner.kind, workload.owner.name)
            workload = self._workloads.get(key)
        return key

    @cached_property
    def _workloads(self) -> Mapping[WorkloadKey, Workload]:
        return {workload.key: workload for workload in self.objects.workloads}

    @cached_property
    def capacity(self) -> Floats:
        """[resource, node]: allocatable cores and bytes."""
        return np.array([[node.allocatable.get(name, 0.0) for node in self.nodes] for name in RESOURCES], float)

    def there(self, time: float) -> Bools:
        """[pod]: whether it ran at that time."""
        return np.asarray((self.start <= time) & (time < self.end))

    def present(self, time: float) -> Bools:
        """[node]: whether it was there at that time."""
        return np.asarray((self.appeared <= time) & (time < self.left))


def title_of(pod: Pod) -> str:
    """namespace/name."""
    return f"{pod.namespace}/{pod.name}"


def arrange(
    nodes: Iterable[tuple[Node, float, float]],
    stays: Iterable[Stay],
    objects: ClusterObjects | None = None,
    unknown: Sequence[Unknown] = (),
) -> History:
    """A history; stays on nodes that are not listed are left out. Raises BadFile where nothing is left."""
    ordered = sorted(nodes, key=lambda entry: entry[0].name)
    names = {node.name for node, _, _ in ordered}
    if len(names) != len(ordered):
        twice = next(name for name, count in Counter(node.name for node, _, _ in ordered).items() if count > 1)
        raise BadFile(f"the node {twice} is listed twice. List each node once.")
    if not ordered:
        raise BadFile("there are no nodes. Record again, or give --cluster FILE.")
    every = sorted(stays, key=lambda stay: (stay.pod.namespace, stay.pod.name, stay.start))
    kept = [
        stay
        for stay in _one_after_the_other(every)
        if stay.pod.node in names and not stay.pod.finished and stay.end > stay.start
    ]
    elsewhere = sum(bool(stay.pod.node) and stay.pod.node not in names for stay in every)
    if elsewhere:
        unknown = (*unknown, Unknown("pods on nodes that are not listed: they are left out", elsewhere / len(every)))
    listed = objects or ClusterObjects()
    missing = _workloads_of(kept, {workload.key for workload in listed.workloads})
    history = History(
        tuple(node for node, _, _ in ordered),
        np.array([start for _, start, _ in ordered], float),
        np.array([end for _, _, end in ordered], float),
        tuple(stay.pod for stay in kept),
        np.array([stay.start for stay in kept], float),
        np.array([stay.end for stay in kept], float),
        replace(listed, nodes=(), pods=(), workloads=(*listed.workloads, *missing)),
        tuple(unknown),
    )
    return replace(history, restarts=_restarts(history, kept))


def _restarts(history: History, stays: Iterable[Stay]) -> Mapping[WorkloadKey, float]:
    seconds: dict[WorkloadKey, list[float]] = {}
    for stay in stays:
        key = history.key(stay.pod)
        if key is not None and stay.ready >= 0:
            seconds.setdefault(key, []).append(stay.ready)
    return {key: float(np.median(times)) for key, times in seconds.items()}


def _one_after_the_other(stays: Sequence[Stay]) -> Iterator[Stay]:
    """A pod of a name ends before another of that name starts."""
    for stay, following in pairwise((*stays, None)):
        assert stay is not None
        if following is not None and title_of(following.pod) == title_of(stay.pod):
            yield replace(stay, end=min(stay.end, following.start))
        else:
            yield stay


def _workloads_of(stays: Sequence[Stay], known: set[WorkloadKey]) -> list[Workload]:
    """The workloads that pods name and nobody lists."""
    workloads: dict[WorkloadKey, Workload] = {}
    for stay in stays:
        owner, pod = stay.pod.owner, stay.pod
        if owner is not None and owner.kind in LISTED and (pod.namespace, owner.kind, owner.name) not in known:
            key: WorkloadKey = (pod.namespace, owner.kind, owner.name)
            workloads.setdefault(key, Workload(owner.kind, pod.namespace, owner.name, owner.uid))
    return list(workloads.values())


def read_history(folder: Path, cluster: object = None, source: str = "") -> History:
    """The history of a recording. `cluster` is a list as kubectl prints it, which wins over the recording's own.

    Raises BadFile for what cannot be read, and where neither the recording nor `cluster` lists nodes and pods.
    """
    if cluster is None and (folder / CLUSTER_FILE).is_file():
        source = str(folder / CLUSTER_FILE)
        cluster = files.read_document(folder / CLUSTER_FILE, "--recording")
    listed = None if cluster is None else files.cluster(cluster, source)
    node_file, pod_file = tables.find(folder, "nodes"), tables.find(folder, "pods")
    unknown: list[Unknown] = []
    objects = ClusterObjects()
    if listed is not None:
        objects = _objects(listed, source)
    elif budgets := tables.find(folder, "budgets"):
        objects = replace(objects, budgets=tuple(_budget(row, budgets) for row in tables.rows(budgets, _BUDGET)))
    else:
        unknown.append(Unknown("disruption budgets: the recording has none, so none of them held a pod back", 1.0))
    if node_file is not None:
        nodes = [_node(row, node_file) for row in tables.rows(node_file, ("node", *RESOURCES))]
        nodes = _detailed(nodes, listed)
    elif listed is not None:
        nodes = [(node, node.created, math.inf) for node in listed.nodes]
        unknown.append(Unknown("nodes that came and went: those of the cluster file count all the time", 1.0))
    else:
        raise BadFile(f"{folder} has neither nodes.csv, nodes.parquet nor {CLUSTER_FILE}. Give --cluster FILE.")
    if pod_file is not None:
        stays = _stays(pod_file, listed)
    elif listed is not None:
        stays = [Stay(pod, pod.created, math.inf) for pod in listed.pods if pod.node]
        unknown.append(Unknown("pods that came and went: those of the cluster file count all the time", 1.0))
    else:
        raise BadFile(f"{folder} has neither pods.csv, pods.parquet nor {CLUSTER_FILE}. Give --cluster FILE.")
    return arrange(nodes, stays, objects, unknown)


_BUDGET = ("namespace", "name", "selector", "allowed")


def _objects(listed: files.ClusterFile, source: str) -> ClusterObjects:
    behind = supporting_objects(listed, source, annotation_filter("ballast.dev"))
    return ClusterObjects(
        workloads=behind.workloads,
        budgets=behind.budgets,
        autoscalers=behind.autoscalers,
        namespaces=behind.namespaces,
        attachments=behind.attachments,
        node_claims=behind.node_claims,
    )


def _budget(row: Row, path: Path) -> DisruptionBudget:
    try:
        selector = parse(str(row["selector"])) if row["selector"] else None
        return DisruptionBudget(str(row["namespace"]), str(row["name"]), selector, int(float(row["allowed"] or 0)))
    except (ValueError, OverflowError) as error:
        raise BadFile(f"{path}: budget {row.get('name')}: {error}.") from None


def _node(row: Row, path: Path) -> tuple[Node, float, float]:
    name = str(row["node"])
    try:
        whole = {resource: quantity(row[resource] or "") for resource in RESOURCES}
        whole["pods"] = _number(row, "pods", MOST_PODS)
        capacity = {resource: _number(row, f"{resource}_capacity", whole[resource]) for resource in RESOURCES}
        start, end = _number(row, "start", 0.0), _number(row, "end", math.inf)
        taints = tuple(Taint(**taint) for taint in _decoded(row.get("taints"), []))
    except (TypeError, ValueError) as error:
        raise BadFile(f"{path}: node {name}: {error}.") from None
    labels = _labels(row.get("labels"), path)
    node = Node(name, uid=name, labels=labels, capacity={**whole, **capacity}, allocatable=whole, taints=taints)
    return msgspec.structs.replace(node, created=max(start, 0.0)), start, end


def _detailed(
    nodes: Sequence[tuple[Node, float, float]], listed: files.ClusterFile | None
) -> list[tuple[Node, float, float]]:
    """The nodes with labels, taints and amounts of the cluster file where it knows them."""
    known = {} if listed is None else {node.name: node for node in listed.nodes}
    return [
        (msgspec.structs.replace(known.get(node.name, node), created=node.created), start, end)
        for node, start, end in nodes
    ]


def _stays(path: Path, listed: files.ClusterFile | None) -> list[Stay]:
    """Where pods were. What the table does not say of a pod comes from the cluster file: from the pod of that name,
    else from one of its workload."""
    by_name = {title_of(pod): pod for pod in listed.pods} if listed is not None else {}
    by_owner = {
        (pod.namespace, pod.owner.kind, pod.owner.name): pod for pod in by_name.values() if pod.owner is not None
    }
    shared = _Shared()
    return [_stay(row, path, by_name, by_owner, shared) for row in tables.rows(path, ("namespace", "pod", "node"))]


class _Shared:
    """Shapes and owners that many pods have."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[float, float], Shape] = {}
        self._owners: dict[tuple[str, str, str], Owner] = {}
        self._labels: dict[str, Mapping[str, str]] = {}

    def shape(self, cpu: float, memory: float) -> Shape:
        amounts = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
        return self._shapes.setdefault((cpu, memory), shape_of([ContainerShape(amounts)]))

    def owner(self, namespace: str, kind: str, name: str) -> Owner:
        new = Owner(kind, name, f"{namespace}/{kind}/{name}", controller=True)
        return self._owners.setdefault((namespace, kind, name), new)

    def labels(self, text: object, path: Path) -> Mapping[str, str]:
        return self._labels.setdefault(str(text or ""), _labels(text, path))


def _stay(
    row: Row, path: Path, by_name: Mapping[str, Pod], by_owner: Mapping[tuple[str, str, str], Pod], shared: _Shared
) -> Stay:
    namespace, name = str(row["namespace"]), str(row["pod"])
    kind, workload = str(row.get("kind") or ""), str(row.get("workload") or "")
    try:
        start, end = _number(row, "start", 0.0), _number(row, "end", math.inf)
        shape = shared.shape(quantity(row.get("cpu") or 0), quantity(row.get("memory") or 0))
        ready = _number(row, "ready", math.nan)
        priority = int(_number(row, "priority", 0.0))
    except (TypeError, ValueError, OverflowError) as error:
        raise BadFile(f"{path}: pod {namespace}/{name}: {error}.") from None
    own = by_name.get(f"{namespace}/{name}")
    like = own or by_owner.get((namespace, kind, workload))
    uid = f"{namespace}/{name}@{start:.0f}"
    place = {"uid": uid, "node": str(row["node"] or ""), "phase": "Running", "ready": True, "created": start}
    if like is not None:
        return Stay(
            msgspec.structs.replace(like, namespace=namespace, name=name, deleting=False, **place), start, end, ready
        )
    pod = Pod(
        namespace,
        name,
        shape=shape,
        labels=shared.labels(row.get("labels"), path),
        owner=shared.owner(namespace, kind, workload) if kind and workload else None,
        priority=priority,
        **place,  # type: ignore[arg-type]
    )
    return Stay(pod, start, end, ready)


def _number(row: Row, name: str, missing: float) -> float:
    value = row.get(name)
    return missing if value in (None, "") else float(str(value))


def _decoded(value: Any, missing: Any) -> Any:
    return missing if value in (None, "") else json.loads(value) if isinstance(value, str) else value


def _labels(value: object, path: Path) -> dict[str, str]:
    try:
        return {str(key): str(text) for key, text in _decoded(value, {}).items()}
    except (ValueError, AttributeError) as error:
        raise BadFile(f"{path}: labels {value!r}: give a JSON object; {error}.") from None
