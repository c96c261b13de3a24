"""The evictor in the test's own process against the real API server, so that a test may stop it anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ballast.actuation.eviction.evictor import Attempt, Evictor, EvictorOptions
from ballast.actuation.eviction.plan_follower import PlanFollower
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.eviction.trial import ReplacementTrial
from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.cluster.cache import Cache
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.events import Events
from ballast.cluster.state import StateStore
from ballast.cluster.workload_cache import WorkloadCache
from ballast.cluster.writer import Pace, Writer
from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import UNLIMITED, GateRules
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot, Window
from ballast.planners.eviction_plan import EvictionPlan, Kind, Move
from ballast_lab.harness.api import Api, Json
from ballast_lab.harness.waiting import eventually
from tests.worlds.evicting import FakeExtender

KINDS = ("deployments", "replicasets", "statefulsets", "poddisruptionbudgets", "namespaces", "resourcequotas")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
STATE = "/api/v1/namespaces/default/configmaps/ballast-state"
EASY = GateRules(
    limit_total=UNLIMITED,
    limit_node=UNLIMITED,
    limit_namespace=UNLIMITED,
    limit_workload=UNLIMITED,
    rates=(),
    cooldown=0.0,
    workload_window=0.0,
    max_unavailable=UNLIMITED,
    max_replacements=100,
    min_pod_age=0.0,
    min_node_age=0.0,
)


@dataclass(frozen=True)
class _Where:
    kubeconfig: Path
    context: str | None = None


class Actor:
    """One replica's evictor with caches of its own. `gone`: its process is killed before its next eviction."""

    def __init__(self, kubeconfig: Path, *, rules: GateRules = EASY, **options: Any) -> None:
        clock, self.metrics = SystemClock(), Metrics()
        self.clock, self.rules = clock, rules
        self.leading, self.blind = True, False
        self.api: KubeApi = connect(_Where(kubeconfig), self.metrics)
        self.cache = Cache(self.api, clock, self.metrics, pods=True)
        self.workloads = WorkloadCache(self.api, clock, self.metrics, KINDS, keep_annotation=lambda key: False)
        self.events = Events(self.api, clock, self.metrics, instance="test")
        self.writer = Writer(
            self.api,
            clock,
            self.metrics,
            pace=Pace(clock, 100, 100),
            modes={"eviction": "on"},
            paused=lambda part: None,
            leading=lambda: self.leading,
            events=self.events,
        )
        self.extender = FakeExtender(clock)  # type: ignore[arg-type]
        self.replacements = ReplacementReservations(self.extender, clock)
        self.evictor = Evictor(
            writer=self.writer,
            state=StateStore(self.api, self.writer, "default"),
            clock=clock,
            metrics=self.metrics,
            events=self.events,
            replacements=self.replacements,
            options=EvictorOptions(
                prefix="ballast.dev", window=2.0, trial=ReplacementTrial(self.api, self.writer, clock), **options
            ),
        )
        self.follower = PlanFollower(self.evictor, self.replacements, clock)

    def __enter__(self) -> Actor:
        self.cache.start()
        self.workloads.start()
        self.events.start()
        assert self.cache.wait_synced(20)
        assert self.workloads.wait_synced(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.stop()
        self.events.stop()
        self.workloads.stop()
        self.cache.stop()
        self.api.close()

    def killed_before(self, part_of_path: str, *, send_it: bool = False) -> None:
        """From now on no such request leaves, or its answer is not heard: the process dies."""
        send = self.api.request

        def request(method: str, path: str, **more: Any) -> bytes:
            dies = method != "GET" and part_of_path in path
            if dies and not send_it:
                raise Killed
            body = send(method, path, **more)
            if dies:
                raise Killed
            return body

        self.api.request = request  # type: ignore[method-assign]

    def pods(self, app: str) -> list[Pod]:
        found = [pod for pod in self.cache.pods() if pod.labels.get("app") == app and not pod.deleting]
        return sorted(found, key=lambda pod: pod.name)

    def find(self, name: str) -> Pod | None:
        return next((pod for pod in self.cache.pods() if f"{pod.namespace}/{pod.name}" == name), None)

    def gate(self, _: Pod | None = None) -> Gate:
        objects = ClusterObjects(
            nodes=self.cache.nodes(),
            pods=self.cache.pods(),
            workloads=self.workloads.workloads(),
            budgets=() if self.blind else self.workloads.budgets(),
            namespaces=self.workloads.namespaces(),
            quotas=self.workloads.quotas(),
        )
        facts = Facts(objects, now=self.clock.wall())
        return Gate(facts, self.rules, replace(self.evictor.history(), acting=True, leader=self.leading))

    def carry_out(
        self,
        *pods: Pod,
        to: str | None = None,
        kind: Kind = "rebalance",
        find: Callable[[str], Pod | None] | None = None,
    ) -> list[Attempt]:
        moves = tuple(
            Move(f"{pod.namespace}/{pod.name}", pod.node, to, 0.1, "a test wants it", pod.uid, {"memory": 2.0**30})
            for pod in pods
        )
        return self.evictor.carry_out(
            EvictionPlan(kind, moves, {}, {}, {}, ()), self.gate, find or self.find, self.snapshot()
        )

    def follow(self) -> str | None:
        return self.follower.follow_plans(self.cache.pods(), self.snapshot())

    def recent(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self.evictor.recorder.document({}, None).recent[0])
        return found

    def snapshot(self) -> Snapshot:
        return even(self.cache.nodes(), self.clock.wall())


class Killed(BaseException):
    """As if by SIGKILL."""


def even(nodes: tuple[Node, ...], time: float) -> Snapshot:
    values = np.full((1, len(nodes)), 0.5)
    known = np.ones_like(values, bool)
    window = Window("2s", 2.0, values, values * 0, values, known * 5, known.astype(float), known)
    return Snapshot(
        time, nodes, ("memory",), {"2s": window}, values, np.ones_like(values), NodeStates.of(known[0], ~known[0])
    )


def deployment(name: str, replicas: int, *, memory: str = "1Gi", cpu: str = "100m", **spec: Any) -> Json:
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}},
        },
    }


def budget(name: str, app: str, **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }


def running(api: Api, app: str, count: int) -> list[Json]:
    """The pods of an app once so many are Ready, none of them leaving."""

    def found() -> list[Json]:
        pods = [
            pod
            for pod in api.items(f"/api/v1/namespaces/default/pods?labelSelector=app={app}")
            if "deletionTimestamp" not in pod["metadata"] and is_ready(pod)
        ]
        return pods if len(pods) == count else []

    return eventually(f"{count} pods of {app} are Ready", found, every=0.2)


def is_ready(pod: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


def clear(api: Api) -> None:
    """Removes what the tests of evictions make; `sweep` removes the pods."""
    api.delete(DEPLOYMENTS, {"propagationPolicy": "Background"})
    api.delete(BUDGETS)
    forget(api, "default")


def forget(api: Api, namespace: str) -> None:
    """Removes what a Ballast remembers; with the state alone it would find that somebody set it back."""
    api.raw("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/ballast-state")
    api.raw("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/ballast")
