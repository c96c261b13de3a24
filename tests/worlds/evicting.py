"""A cluster in memory for the evictor: pods of one Deployment, an API server that evicts, and crashes on demand."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np

from ballast.actuation.eviction.evictor import Attempt, Evictor, EvictorOptions
from ballast.actuation.eviction.plan_follower import PlanFollower
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.base.errors import ClusterError, Conflict, NotFound
from ballast.base.metrics import Metrics
from ballast.cluster.state import StateStore
from ballast.eviction.facts import ClusterObjects, Facts
from ballast.eviction.gate import Gate
from ballast.eviction.gate_rules import UNLIMITED, GateRules
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.pod import Owner, Pod
from ballast.model.shape import ContainerShape, Shape, shape_of
from ballast.model.snapshot import Snapshot, Window
from ballast.model.workload import DisruptionBudget, Workload
from ballast.placement.reservations import Reservation
from ballast.planners.eviction_plan import EvictionPlan, Kind, Move
from tests.worlds.clock import FakeClock
from tests.worlds.kube_api import FakeApi
from tests.worlds.writing import writer_on

NOW = 1_700_000_000.0
GIB = 2.0**30
ONE = shape_of([ContainerShape({"cpu": 1.0, "memory": 4 * GIB})])
STATE = "/api/v1/namespaces/ballast/configmaps/ballast-state"
WINDOW = 900.0
NODES = tuple(f"n{number}" for number in range(6))
KEY = ("shop", "Deployment", "web")
FREE = GateRules(
    limit_total=UNLIMITED,
    limit_node=UNLIMITED,
    limit_namespace=UNLIMITED,
    limit_workload=UNLIMITED,
    rates=(),
    cooldown=0.0,
    workload_window=0.0,
    max_unavailable=UNLIMITED,
    max_replacements=100,
)


class Crash(BaseException):
    """The process is killed here."""


class EvictingApi(FakeApi):
    """`evicted` counts evictions by UID. `refuse` may raise for one; `crash_at` kills at that request, before it is
    served or (`late`) after."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(NOW)
        self.pods: dict[str, Pod] = {}
        self.evicted: Counter[str] = Counter()
        self.sent: list[Any] = []
        self.refuse: Callable[[Pod], ClusterError | None] = lambda pod: None
        self.before_eviction: Callable[[str, str, Any], None] = lambda *_: None
        self.on_evicted: Callable[[], Any] = lambda: None
        self.crash_at: int | None = None
        self.late = False
        self.count = 0
        self._number = 0

    def request(self, method: str, path: str, **more: Any) -> bytes:
        if method != "GET":
            self.count += 1
            if self.count == self.crash_at and not self.late:
                raise Crash
        answer = (
            self._evict(path, more["body"]) if path.endswith("/eviction") else super().request(method, path, **more)
        )
        if method != "GET" and self.count == self.crash_at and self.late:
            raise Crash
        return answer

    def _evict(self, path: str, body: Any) -> bytes:
        self.before_eviction("POST", path, body)
        self.sent.append(body)
        name = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        pod = self.pods.get(name)
        if pod is None:
            raise NotFound(f"{name} not found", status=404)
        if (error := self.refuse(pod)) is not None:
            raise error
        if pod.uid != body["deleteOptions"]["preconditions"]["uid"]:
            raise Conflict("the UID in the precondition does not match", status=409)
        self.evict_now(pod)
        return b"{}"

    def evict_now(self, pod: Pod) -> None:
        self.evicted[pod.uid] += 1
        self.on_evicted()
        self.pods[f"{pod.namespace}/{pod.name}"] = msgspec.structs.replace(pod, deleting=True)

    def add(self, node: str, workload: str = "web", **more: Any) -> Pod:
        self._number += 1
        name = f"{workload}-{self._number}"
        given: dict[str, Any] = {
            "uid": f"u-{name}",
            "node": node,
            "phase": "Running",
            "ready": True,
            "created": NOW - 86_400,
            "shape": ONE,
            "owner": Owner("ReplicaSet", f"{workload}-rs", f"u-{workload}-rs", True),
        }
        pod = Pod("shop", name, **(given | more))
        self.pods[f"shop/{name}"] = pod
        return pod

    def replace_evicted(self, node: str | None = None, *, ready: bool = True) -> list[Pod]:
        """What controllers, scheduler and kubelet do: evicted pods end, others come."""
        made = []
        for name, pod in list(self.pods.items()):
            if pod.deleting:
                del self.pods[name]
                workload = pod.owner.name.removesuffix("-rs") if pod.owner else "web"
                where = node if node is not None else "n5"
                bound = {"scheduled_at": self.clock.wall()} if where else {}
                made.append(self.add(where, workload, created=self.clock.wall(), ready=ready, **bound))
        return made

    def state(self) -> dict[str, str]:
        found = self.objects.get(STATE)
        return dict(found["data"]) if found else {}


class FakeExtender:
    """An extender that holds reservations and was asked lately, or not."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.held: dict[str, Reservation] = {}
        self.asked_at: dict[str, float] = {"default-scheduler": clock.monotonic()}
        self.full: set[str] = set()

    def asked(self, scheduler_name: str) -> float | None:
        at = self.asked_at.get(scheduler_name)
        return None if at is None else self.clock.monotonic() - at

    def hold(self, reservation: Reservation) -> None:
        self.held[reservation.name] = reservation

    def extend(self, name: str, until: float) -> None:
        if name in self.held:
            self.held[name] = replace(self.held[name], until=until)

    def release(self, name: str) -> None:
        self.held.pop(name, None)

    def active(self) -> tuple[Reservation, ...]:
        return tuple(self.held.values())

    def fits(self, node: str, shape: Shape) -> bool | None:
        return node not in self.full

    @property
    def unheld(self) -> bool:
        return False


@dataclass
class Told:
    """Events that were told."""

    all: list[tuple[str, str, str]] = field(default_factory=list)

    def emit(self, target: Any, reason: str, message: str, *, part: str, warning: bool = False) -> None:
        self.all.append((str(target), reason, message))


@dataclass
class Replica:
    """One process: its evictor, with what it cannot know of others."""

    server: EvictingApi
    leading: bool = True
    paused: str | None = None
    rules: GateRules = field(default_factory=GateRules)
    loads: dict[str, float] = field(default_factory=lambda: dict.fromkeys(NODES, 0.5))
    budgets: tuple[DisruptionBudget, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    starts_within: float = 0.0
    use: float | None = 1.0
    """What replacements use of what was predicted; None where nothing tells."""

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.extender = FakeExtender(self.server.clock)
        self.told = Told()
        rights = {"paused": lambda part: self.paused, "leading": lambda: self.leading}
        writer = self.writer = writer_on(
            self.server, self.server.clock, self.metrics, modes={"eviction": "on"}, **rights
        )
        self.replacements = ReplacementReservations(self.extender, self.server.clock)
        self.evictor = Evictor(
            writer=writer,
            state=StateStore(self.server, writer, "ballast"),  # type: ignore[arg-type]
            clock=self.server.clock,
            metrics=self.metrics,
            events=self.told,  # type: ignore[arg-type]
            replacements=self.replacements,
            options=EvictorOptions(prefix="ballast.dev", window=WINDOW, **self.options),
        )
        self.follower = PlanFollower(self.evictor, self.replacements, self.server.clock, self._used)

    def snapshot(self) -> Snapshot:
        return snapshot(self.loads, self.server.clock.wall())

    def gate(self, _: Pod | None = None, **known: Any) -> Gate:
        pods = tuple(self.server.pods.values())
        names = sorted({pod.owner.name.removesuffix("-rs") for pod in pods if pod.owner})
        workloads = []
        for name in names:
            replicas = sum(pod.owner is not None and pod.owner.name == f"{name}-rs" for pod in pods)
            workloads += [
                Workload("Deployment", "shop", name, f"u-{name}", replicas=replicas, starts_within=self.starts_within),
                Workload(
                    "ReplicaSet",
                    "shop",
                    f"{name}-rs",
                    f"u-{name}-rs",
                    replicas=replicas,
                    owner=Owner("Deployment", name, f"u-{name}", True),
                ),
            ]
        facts = Facts(ClusterObjects(nodes(), pods, workloads, self.budgets), now=self.server.clock.wall())
        history = replace(self.evictor.history(), acting=True, leader=self.leading, paused=self.paused, **known)
        return Gate(facts, self.rules, history)

    def carry_out(self, *pods: Pod, to: str | None = "n5", kind: Kind = "rebalance", **more: Any) -> list[Attempt]:
        return self.evictor.carry_out(
            plan(*pods, to=to, kind=kind, **more), self.gate, self.server.pods.get, self.snapshot()
        )

    def follow(self, seconds: float = 30.0) -> str | None:
        self.server.clock.advance(seconds)
        return self.follower.follow_plans(tuple(self.server.pods.values()), self.snapshot())

    def _used(self, names: Sequence[str]) -> Mapping[str, Mapping[str, float]]:
        return {} if self.use is None else {name: {"cpu": self.use, "memory": self.use * 4 * GIB} for name in names}

    def recent(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = msgspec.to_builtins(self.evictor.recorder.document({}, None).recent)
        return found


def nodes() -> tuple[Node, ...]:
    amounts = {"cpu": 10.0, "memory": 40 * GIB, "pods": 110.0}
    return tuple(Node(name, f"u-{name}", capacity=amounts, allocatable=amounts, created=NOW - 86_400) for name in NODES)


def plan(
    *pods: Pod,
    to: str | None = "n5",
    kind: Kind = "rebalance",
    starts: tuple[Pod, ...] = (),
    gain: float = 0.1,
    aim: str = "",
) -> EvictionPlan:
    moves = tuple(
        Move(
            f"{pod.namespace}/{pod.name}",
            pod.node,
            to,
            gain,
            f"{pod.node} is too full",
            pod.uid,
            {"cpu": 1.0, "memory": 4 * GIB},
            tuple(each.uid for each in starts),
            aim=aim,
        )
        for pod in pods
    )
    placed = tuple(f"{each.namespace}/{each.name}" for _ in pods for each in starts)
    return EvictionPlan(kind, moves, {"cpu": 0.2}, {"cpu": 0.1}, {}, placed)


def snapshot(loads: Mapping[str, float], time: float) -> Snapshot:
    values = np.array([[loads[name] for name in NODES]] * 2, float)
    known = np.isfinite(values)
    window = Window("15m", WINDOW, values, values * 0, values, known * 60, known.astype(float), known)
    return Snapshot(
        time,
        nodes(),
        ("cpu", "memory"),
        {"15m": window},
        values,
        np.ones_like(values),
        NodeStates.of(known[0], ~known[0], 2),
    )


def plans(server: EvictingApi) -> list[Any]:
    found: list[Any] = json.loads(server.state().get("eviction.plan", "[]"))
    return found
