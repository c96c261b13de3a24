"""Writes a world into an empty store: namespaces, nodes, controllers, budgets, and pods that run on nodes."""

from __future__ import annotations

import heapq
import random
import uuid
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from ballast.model.load_limits import quantity
from ballast_lab.simulator import objects
from ballast_lab.simulator.kube.kinds import BY_NAME, POD, Kind
from ballast_lab.simulator.kube.resources import stamp
from ballast_lab.simulator.kube.store import Store, Stored, selectable_fields, stored
from ballast_lab.simulator.objects import GeneratedWorkload
from ballast_lab.simulator.world import AGE, NAMESPACES, OWN_NAMESPACE, ZONES, PlacedPod, World

Document = dict[str, Any]

_HEX = "0123456789abcdef"
_PLACEHOLDERS = ("@name@", "@uid@", "@node@", "@ip@", "@version@")


def populate(world: World, store: Store) -> None:
    """Fills `store`, and gives the world's members and usage the same pods."""
    _Builder(world, store).build()


class _Builder:
    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self._random = random.Random(world.seed)  # noqa: S311
        self._created = stamp(world.start - AGE)
        self._found: dict[Kind, list[Stored]] = {}
        self._revision = store.revision
        self._room: list[list[float]] = []

    def build(self) -> None:
        self._namespaces()
        self._nodes()
        placed = [(workload, self._controllers(workload)) for workload in self._world.workloads]
        self._service_account()
        self._pods(placed)
        for kind, found in self._found.items():
            self._store.load(kind, found)

    def _add(self, name: str, document: Document) -> Document:
        if self._world.realistic:
            document = objects.realistic(document, "kube-controller-manager", self._created)
        kind = BY_NAME[name]
        self._revision += 1
        document["metadata"]["resourceVersion"] = str(self._revision)
        self._found.setdefault(kind, []).append(stored(kind, document, self._revision))
        return document

    def _namespaces(self) -> None:
        for name in ("default", "kube-node-lease", "kube-public", "kube-system", OWN_NAMESPACE, *NAMESPACES):
            labels = {"kubernetes.io/metadata.name": name}
            metadata = objects.metadata(name, self._uid(), self._created, labels=labels)
            spec, status = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
            self._add(
                "Namespace",
                {"kind": "Namespace", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status},
            )

    def _nodes(self) -> None:
        world, now = self._world, stamp(self._world.start)
        for index, (name, shape) in enumerate(zip(world.node_names, world.shapes, strict=True)):
            pool = "memory" if shape.name.startswith("memory") else "general"
            zone = ZONES[index % len(ZONES)]
            document = objects.node(name, self._uid(), self._created, index, shape, zone=zone, pool=pool, now=now)
            allocatable = self._add("Node", document)["status"]["allocatable"]
            self._room.append([quantity(allocatable["cpu"]), quantity(allocatable["memory"])])

    def _controllers(self, workload: GeneratedWorkload) -> Document:
        """Adds a workload's controllers; returns the one that owns its pods."""
        uid = self._uid()
        document = objects.controller(workload, workload.kind, workload.name, uid, self._created)
        self._add(workload.kind, document)
        pods_owner = document
        if workload.kind == "Deployment":
            digest = "".join(self._random.choices(_HEX, k=10))
            pods_owner = objects.controller(
                workload,
                "ReplicaSet",
                f"{workload.name}-{digest}",
                self._uid(),
                self._created,
                pod_labels={"pod-template-hash": digest},
                ownerReferences=objects.owner("Deployment", workload.name, uid),
                annotations={"deployment.kubernetes.io/revision": "1"},
            )
            self._add("ReplicaSet", pods_owner)
        if workload.budget and workload.replicas > 1:
            self._add("PodDisruptionBudget", objects.budget(workload, self._uid(), self._created))
        if workload.autoscaled:
            self._add("HorizontalPodAutoscaler", objects.autoscaler(workload, self._uid(), self._created))
        return pods_owner

    def _service_account(self) -> None:
        """Adds the service account of a daemon in this cluster."""
        metadata = objects.metadata("ballast", self._uid(), self._created, OWN_NAMESPACE)
        self._add("ServiceAccount", {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": metadata})

    def _pods(self, placed: list[tuple[GeneratedWorkload, Document]]) -> None:
        """Places DaemonSet pods first, one per node; then the others in random order.

        Each of these goes to the node with the largest free share of its scarcer resource, give or take some noise.
        """
        world = self._world
        rows: list[int] = []
        profiles: list[int] = []
        waiting: list[tuple[int, str]] = []
        renders = [self._render(workload, owner) for workload, owner in placed]
        pods = self._found.setdefault(POD, [])

        def put(number: int, name: str, row: int) -> None:
            workload = placed[number][0]
            self._room[row][0] -= workload.cpu / 1000
            self._room[row][1] -= workload.memory * 2**20
            pods.append(renders[number](name, row))
            profile = world.profile(workload)
            member = PlacedPod(row, True, profile, workload.cpu / 1000, workload.memory * 2.0**20)
            world.members[workload.namespace, name] = member
            world.allocated[row] += (member.cores, member.memory, 1.0)
            rows.append(row)
            profiles.append(profile)

        for number, (workload, owner) in enumerate(placed):
            base = owner["metadata"]["name"]
            if workload.kind == "DaemonSet":
                for row in range(len(world.node_names)):
                    put(number, f"{base}-{self._suffix()}", row)
            elif workload.kind == "StatefulSet":
                waiting += [(number, f"{base}-{ordinal}") for ordinal in range(workload.replicas)]
            else:
                waiting += [(number, f"{base}-{self._suffix()}") for _ in range(workload.replicas)]
        self._random.shuffle(waiting)
        initial = [list(room) for room in self._room]
        heaps = [[(self._random.random() * 0.1, row) for row in group] for group in self._groups(placed)]
        for heap in heaps:
            heapq.heapify(heap)
        for number, name in waiting:
            workload = placed[number][0]
            heap = heaps[-1 if world.greedy(workload.name) else 0]
            popped = []
            while heap:
                filled, row = heapq.heappop(heap)
                cores, memory = self._room[row]
                if cores >= workload.cpu / 1000 and memory >= workload.memory * 2**20:
                    put(number, name, row)
                    filled = 1 - min(self._room[row][0] / initial[row][0], self._room[row][1] / initial[row][1])
                    popped.append((filled + self._random.random() * 0.1, row))
                    break
                popped.append((filled, row))
            for entry in popped:
                heapq.heappush(heap, entry)
        world.usage.fill(np.array(rows, dtype=np.int64), np.array(profiles, dtype=np.int64))

    def _groups(self, placed: list[tuple[GeneratedWorkload, Document]]) -> list[range]:
        """Rows of nodes for modest workloads and, last, for greedy ones: as large a share as these request."""
        rows = len(self._room)
        asked = [(workload.cpu * workload.replicas, self._world.greedy(workload.name)) for workload, _ in placed]
        greedy = sum(cpu for cpu, is_greedy in asked if is_greedy)
        if not greedy:
            return [range(rows)]
        hot = max(1, min(rows - 1, round(rows * greedy / sum(cpu for cpu, _ in asked))))
        return [range(hot, rows), range(hot)]

    def _render(self, workload: GeneratedWorkload, owner: Document) -> Callable[[str, int], Stored]:
        """A function from (name, row of the node) to a stored pod.

        The template is encoded once; each pod replaces the placeholders in its bytes.
        """
        name, uid, node, ip, version = _PLACEHOLDERS
        labels = owner["spec"]["template"]["metadata"]["labels"]
        references = objects.owner(owner["kind"], owner["metadata"]["name"], owner["metadata"]["uid"])
        document = objects.running_pod(
            owner["spec"]["template"],
            name,
            uid,
            self._created,
            workload.namespace,
            node,
            ip,
            labels=labels,
            ownerReferences=references,
        )
        if self._world.realistic:
            document = objects.realistic(document, "kube-controller-manager", self._created)
        document["metadata"] |= {"resourceVersion": version, "generateName": f"{owner['metadata']['name']}-"}
        encoded = msgspec.json.encode(document)
        fields = selectable_fields(POD, document)
        names, addresses = self._world.node_names, self._world.addresses

        def render(pod_name: str, row: int) -> Stored:
            self._revision += 1
            pod_uid = self._uid()
            raw = encoded
            values = (pod_name, pod_uid, names[row], addresses[row], str(self._revision))
            for placeholder, value in zip(_PLACEHOLDERS, values, strict=True):
                raw = raw.replace(placeholder.encode(), value.encode())
            pod_fields = {**fields, "spec.nodeName": names[row]}
            return Stored(workload.namespace, pod_name, pod_uid, self._revision, labels, pod_fields, raw)

        return render

    def _uid(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _suffix(self) -> str:
        return "".join(self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
