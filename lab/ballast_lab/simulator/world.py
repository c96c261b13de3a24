"""A generated cluster: nodes of several sizes, workloads of varying load, and their pods. The seed determines it.

`population.populate` writes it into a store; `follow` updates the usage when pods start, move or end.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ballast.base.clock import Clock, SystemClock
from ballast.model.sample import Floats
from ballast_lab.simulator import objects
from ballast_lab.simulator.kube.kinds import POD, Kind
from ballast_lab.simulator.kube.store import Stored, StoreEvent
from ballast_lab.simulator.objects import GeneratedWorkload, NodeShape, pod_requests
from ballast_lab.simulator.usage import Usage, UsageProfile

SCENES = ("breathing", "calm", "burst", "power", "hotspot")
SHAPES = (
    NodeShape("general-4", 4, 16, 1.25e9),
    NodeShape("general-8", 8, 32, 1.25e9),
    NodeShape("general-16", 16, 64, 3.125e9),
    NodeShape("memory-8", 8, 64, 1.25e9),
)
PODS_PER_NODE = 15
ZONES = ("north-a", "north-b", "north-c")
NAMESPACES = ("shop", "search", "media", "payments", "analytics", "mail")
ROLES = ("api", "web", "worker", "cache", "index", "gateway", "queue", "render", "sync", "batch")
AGE = 7 * 86_400.0
OWN_NAMESPACE = "ballast"
GREEDY = "render"
GREEDY_SHARE, MODEST_SHARE = 1.6, 0.45
"""How greedy workloads of the scene hotspot are named, and the share of their requests that they and others use."""


@dataclass(frozen=True)
class PlacedPod:
    """A pod as the world counts it."""

    node: int
    """Row of its node; -1 without one."""

    running: bool
    """Whether it uses resources yet."""

    profile: int
    """Index of its workload's usage profile."""

    cores: float
    """Requested cores."""

    memory: float
    """Requested bytes."""


class World:
    """The nodes, workloads and usage of one generated cluster.

    `pods` defaults to 15 per node; `realistic` gives objects their size in real clusters (about 7 kB). Scenes:
    `breathing` (load rises and falls, one node goes dark after a minute, one exporter sends NaN), `calm` (constant
    load, no faults), `burst` (as breathing, and a large deployment arrives after half a minute), `power` (load rises
    and falls, and the power feed shows a solar day of two minutes), `hotspot` (some workloads use far more than they
    request, and their pods share few nodes). Raises ValueError for an unknown scene or no nodes.
    """

    def __init__(
        self,
        nodes: int = 200,
        seed: int = 1,
        clock: Clock | None = None,
        *,
        pods: int | None = None,
        scene: str = "breathing",
        realistic: bool = False,
    ) -> None:
        if scene not in SCENES:
            raise ValueError(f"scene {scene!r} is none of {', '.join(SCENES)}")
        if nodes < 1:
            raise ValueError(f"a world needs at least one node, not {nodes}")
        self.clock: Clock = clock or SystemClock()
        self.seed, self.scene, self.realistic = seed, scene, realistic
        self.start = self.clock.wall()
        self.lock = threading.RLock()
        self._generator = np.random.default_rng(seed)
        self.node_names = [f"node-{index:0{max(3, len(str(nodes - 1)))}d}" for index in range(nodes)]
        self.rows = {name: row for row, name in enumerate(self.node_names)}
        self.addresses = [objects.node_address(index) for index in range(nodes)]
        picks = self._generator.choice(len(SHAPES), size=nodes, p=(0.3, 0.4, 0.15, 0.15))
        self.shapes = [SHAPES[pick] for pick in picks]
        self.usage = Usage(
            self._generator,
            np.array([float(shape.cores) for shape in self.shapes]),
            np.array([float(shape.gib * objects.GIB) for shape in self.shapes]),
            np.array([shape.link for shape in self.shapes]),
            breathing=scene != "calm",
        )
        self.workloads = self._make_workloads(pods if pods is not None else PODS_PER_NODE * nodes)
        self._profiles: dict[tuple[str, str], int] = {}
        self.members: dict[tuple[str, str], PlacedPod] = {}
        self.allocated: Floats = np.zeros((nodes, 3))

    def ratio(self, resource: str, times: Floats | Sequence[float]) -> Floats:
        """[node, time]: `Usage.ratio`, rounded to 4 decimals; `times` are Unix times."""
        with self.lock:
            return np.round(self.usage.ratio(resource, np.asarray(times, dtype=np.float64)), 4)

    @property
    def dark_node(self) -> str:
        """The node that goes dark in scenes with faults."""
        return self.node_names[len(self.node_names) // 3]

    @property
    def nan_node(self) -> str:
        """The node whose exporter sends NaN in scenes with faults."""
        return self.node_names[len(self.node_names) * 2 // 3]

    def pod_usage(self, time: float) -> list[tuple[tuple[str, str], int, float, float]]:
        """((namespace, name), row of the node, cores, bytes) of every running pod at a Unix time."""
        with self.lock:
            keys = [key for key, member in self.members.items() if member.running]
            cpu, memory = (
                self.use_of_pods(resource, keys, np.array([time]))[:, 0].tolist() for resource in ("cpu", "memory")
            )
            return [(key, self.members[key].node, *use) for key, *use in zip(keys, cpu, memory, strict=True)]

    def use_of_pods(self, resource: str, keys: Sequence[tuple[str, str]], times: Floats) -> Floats:
        """[pod, time]: what each of these pods uses, in the units of UsageProfile."""
        each = self.usage.per_pod(resource, times)
        return each[[self.members[key].profile for key in keys]]

    def follow(self, kind: Kind, change: StoreEvent) -> None:
        """A store listener: updates the allocated and used amounts when a pod is bound, starts or ends."""
        if kind is not POD:
            return
        key = change.new.namespace, change.new.name
        with self.lock:
            before = self.members.pop(key, None)
            after = None if change.type == "DELETED" else self._member(change.new, before)
            if before is not None:
                self._count(before, -1)
            if after is not None:
                self.members[key] = after
                self._count(after, 1)

    def _member(self, pod: Stored, before: PlacedPod | None) -> PlacedPod:
        phase = pod.fields["status.phase"]
        node = self.rows.get(pod.fields["spec.nodeName"], -1) if phase not in ("Succeeded", "Failed") else -1
        running = node >= 0 and phase == "Running"
        if before is not None:
            return replace(before, node=node, running=running)
        cores, memory = pod_requests(pod.read())
        return PlacedPod(node, running, self._profile_of(pod, cores, memory), cores, memory)

    def _count(self, member: PlacedPod, sign: int) -> None:
        if member.node >= 0:
            self.allocated[member.node] += sign * np.array([member.cores, member.memory, 1.0])
        if member.running:
            self.usage.move(self.clock.wall(), member.node, member.profile, sign)

    def greedy(self, name: str) -> bool:
        """Whether the pods of a workload use far more than they request."""
        return self.scene == "hotspot" and name.startswith(GREEDY)

    def profile(self, workload: GeneratedWorkload) -> int:
        """The index of the usage profile of a workload's pods, drawn once from the seed and the workload's name."""
        key = workload.namespace, workload.name
        if key not in self._profiles:
            draw = np.random.default_rng([self.seed, *f"{workload.namespace}/{workload.name}".encode()])
            share = float(np.clip(draw.lognormal(-0.35, 0.5), 0.15, 2.2))
            if self.scene == "hotspot":
                share = GREEDY_SHARE if self.greedy(workload.name) else MODEST_SHARE
            made = UsageProfile(
                cpu=workload.cpu / 1000 * share,
                memory=workload.memory * 2**20 * float(draw.uniform(0.4, 1.1)),
                disk=float(draw.uniform(0.0, 0.02)),
                network=float(draw.uniform(1e5, 8e6)),
                day=float(draw.uniform(0.05, 0.4)),
                wave=float(draw.uniform(0.05, 0.35)),
                period=float(draw.uniform(240.0, 1500.0)),
                phase=float(draw.uniform(0.0, 2 * np.pi)),
            )
            self._profiles[key] = self.usage.add(made)
        return self._profiles[key]

    def _profile_of(self, pod: Stored, cores: float, memory: float) -> int:
        name = pod.labels.get("app", pod.name)
        workload = GeneratedWorkload(
            "Pod", pod.namespace, name, 1, int((cores or 0.1) * 1000), int((memory or 2**27) / 2**20)
        )
        return self.profile(workload)

    def _make_workloads(self, pods: int) -> list[GeneratedWorkload]:
        """Deployments and StatefulSets that request 62 % of the cores and 55 % of the memory, and a DaemonSet."""
        nodes = len(self.node_names)
        agent = GeneratedWorkload("DaemonSet", "kube-system", "node-agent", nodes, 50, 96, limited=False)
        left = pods - nodes
        if left < 1:
            return [agent] if pods >= nodes else []
        size = max(4, round(left / max(8, min(400, left / 40))))
        budget_cpu = 0.62 * 1000 * float(self.usage.cores.sum()) / left
        budget_memory = 0.55 * float(self.usage.memory.sum()) / 2**20 / left
        workloads = [agent]
        while left > 0:
            number = len(workloads) - 1
            role, namespace = ROLES[number % len(ROLES)], NAMESPACES[number // len(ROLES) % len(NAMESPACES)]
            cycle = number // (len(ROLES) * len(NAMESPACES))
            replicas = min(left, max(2, int(self._generator.integers(size // 2, size + size // 2 + 1))))
            spread = float(np.clip(self._generator.lognormal(0.0, 0.45), 0.4, 2.2))
            workloads.append(
                GeneratedWorkload(
                    "StatefulSet" if role in ("index", "queue") else "Deployment",
                    namespace,
                    role if not cycle else f"{role}-{cycle + 1}",
                    replicas,
                    max(10, round(budget_cpu * spread / 10) * 10),
                    max(32, round(budget_memory * float(self._generator.uniform(0.6, 1.4)) / 16) * 16),
                    limited=role != "batch",
                    budget=role in ("api", "gateway", "queue", "cache"),
                    autoscaled=role in ("api", "web"),
                )
            )
            left -= replicas
        return workloads
