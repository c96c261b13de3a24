"""A course as the daemon sees a cluster: what its watches show, and an API server that answers in the same process.

Objects are passed as they are; JSON is read and written only where the daemon itself does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import numpy as np

from ballast.base.errors import Conflict, NotFound, TooManyRequests
from ballast.model.attachments import Attachments, NodeClaim
from ballast.model.node import Node, Taint
from ballast.model.pod import Pod
from ballast.model.workload import Autoscaler, DisruptionBudget, Namespace, Workload
from ballast_lab.rehearse.course import Course
from ballast_lab.rehearse.played import PlayedClock

Schedule = Callable[[Course, int, str | None], int]
"""The row of the node to which the replacement of a pod, given by its row, goes; room is held for it on the named
one."""
CAUSE = "DisruptionBudget"
T = TypeVar("T")


def schedule(course: Course, row: int, held: str | None) -> int:
    """Where the printed profile puts the replacement: on the node where room is held for it, else as the stock
    scheduler scores. Where it fits nowhere else it starts again on its own node."""
    if held is not None:
        return course.history.rows[held]
    target = course.choose(row, course.present)
    return int(course.on[row]) if target is None else target


@dataclass(frozen=True)
class Landing:
    """One pod that was evicted, and the node of its replacement."""

    time: float
    pod: str
    source: str
    target: str
    workload: str


class PlayedCluster:
    """Its replacement is there as soon as a pod is evicted, and Ready as late as those of its workload were in
    history."""

    def __init__(self, course: Course, clock: PlayedClock, held: Callable[[Pod], str | None], place: Schedule) -> None:
        """`held` tells on which node room is held for the replacement of a pod, `place` is the scheduler."""
        self._course, self._clock, self._held, self._place = course, clock, held, place
        self._config_maps: dict[str, tuple[int, Mapping[str, str]]] = {}
        self._starting: dict[int, float] = {}
        """{row: when it is Ready}"""
        self._shown: dict[str, tuple[int, tuple[Any, ...]]] = {}
        self.landings: list[Landing] = []

    def nodes(self) -> tuple[Node, ...]:
        """Those that are there, by name."""
        course = self._course
        there = zip(course.nodes, course.present.tolist(), strict=True)
        return self._once("nodes", lambda: tuple(node for node, here in there if here))

    def node(self, name: str) -> Node | None:
        """The node of that name, or None."""
        row = self._course.history.rows.get(name)
        return self._course.nodes[row] if row is not None and self._course.present[row] else None

    def pods(self) -> tuple[Pod, ...]:
        """Those that run."""
        pods = self._course.pods
        return self._once("pods", lambda: tuple([pods[row] for row in self._course.running().tolist()]))

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """Those that run there."""
        course, row = self._course, self._course.history.rows.get(node, -1)
        return tuple(course.pods[each] for each in np.flatnonzero(course.there & (course.on == row)).tolist())

    def workloads(self) -> tuple[Workload, ...]:
        """With the replicas that run now: what history does not show as missing is not missing."""
        return self._once("workloads", lambda: tuple(self._counted()))

    def budgets(self) -> tuple[DisruptionBudget, ...]:
        """Each allows as many pods as in history, less those that are not Ready."""
        return self._once("budgets", lambda: tuple(map(self._left, self._course.history.objects.budgets)))

    def autoscalers(self) -> tuple[Autoscaler, ...]:
        """As in history, where they stay as they are."""
        return tuple(self._course.history.objects.autoscalers)

    def namespaces(self) -> tuple[Namespace, ...]:
        """Likewise."""
        return tuple(self._course.history.objects.namespaces)

    def attachments(self) -> Attachments:
        """Likewise."""
        return self._course.history.objects.attachments

    def node_claims(self) -> tuple[NodeClaim, ...]:
        """Likewise."""
        return tuple(self._course.history.objects.node_claims)

    def quotas(self) -> tuple[()]:
        """No recording has any."""
        return ()

    recommendations = scale_ups = quotas

    def problem(self, kind: str) -> None:
        """Every kind is seen."""

    def age(self, kind: str) -> float:
        """Seconds since it was seen last."""
        return 0.0

    def paused(self, part: str) -> None:
        """Nobody pauses anything."""

    def report(self, *_: object, **__: object) -> None:
        """Nobody looks at Events."""

    emit = report

    def settle(self) -> None:
        """Replacements become Ready in their time."""
        course, now = self._course, self._clock.wall()
        for row in [row for row, at in self._starting.items() if at <= now]:
            del self._starting[row]
            course.put(row, msgspec.structs.replace(course.pods[row], ready=True))

    def get(self, path: str, *, query: Mapping[str, object] | None = None, **_: object) -> bytes:
        """What the API server answers. Raises NotFound for all that no recording has."""
        return self.request("GET", path, query=query)

    def request(self, method: str, path: str, *, body: Any = None, **_: object) -> bytes:
        """Raises ClusterError as the API server's answer would."""
        parts = path.strip("/").split("/")
        if parts[:3] == ["api", "v1", "nodes"] and (node := self.node(parts[-1])) is not None:
            return self._node(node, body)
        if parts[:3] == ["api", "v1", "namespaces"] and "configmaps" in parts:
            return self._config_map(body["metadata"]["name"] if body else parts[-1], body)
        if parts[-1] == "eviction":
            self._evict(f"{parts[3]}/{parts[5]}", body["deleteOptions"]["preconditions"]["uid"])
            return b"{}"
        if method == "GET" and parts[-1] == "pods":
            # The recording knows no manifests, so no replacement can be tried beforehand.
            return b'{"items": []}'
        raise NotFound(f"{method} {path}: a recording has none", status=404)

    def _config_map(self, name: str, body: Any) -> bytes:
        if body is not None:
            self._config_maps[name] = self._config_maps.get(name, (0, {}))[0] + 1, body["data"]
        if name not in self._config_maps:
            raise NotFound(f"ConfigMap {name} is not there", status=404)
        version, data = self._config_maps[name]
        return msgspec.json.encode({"metadata": {"name": name, "resourceVersion": str(version)}, "data": data})

    def _node(self, node: Node, body: Any) -> bytes:
        """A patch changes labels and taints."""
        if body is not None:
            labels = {**node.labels, **(body.get("metadata", {}).get("labels") or {})}
            labels = {key: value for key, value in labels.items() if value is not None}
            taints = body.get("spec", {}).get("taints")
            kept = node.taints if taints is None else tuple(Taint(**taint) for taint in taints)
            node = msgspec.structs.replace(node, labels=labels, taints=kept)
            self._course.put_node(node)
        taints = [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in node.taints]
        taints = [{key: value for key, value in taint.items() if value} for taint in taints]
        return msgspec.json.encode(
            {"metadata": {"name": node.name, "resourceVersion": "1"}, "spec": {"taints": taints}}
        )

    def _evict(self, title: str, uid: str) -> None:
        course, history = self._course, self._course.history
        row = course.row_of(title)
        if row is None:
            raise NotFound(f"pod {title} is not there", status=404)
        pod = course.pods[row]
        if pod.uid != uid:
            raise Conflict(f"pod {title} has another UID", status=409)
        if any(budget.allowed <= 0 and _covers(budget, pod) for budget in self.budgets()):
            raise TooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", causes=(CAUSE,))
        key, now = history.key(pod), self._clock.wall()
        target = self._place(course, row, self._held(pod))
        course.move(row, target, at=now)
        seconds = history.restarts.get(key, 0.0) if key is not None else 0.0
        if seconds > 0:
            self._starting[row] = now + seconds
            course.put(row, msgspec.structs.replace(course.pods[row], ready=False))
        workload = "/".join(key) if key is not None else title
        self.landings.append(Landing(now, title, pod.node, history.nodes[target].name, workload))

    def _counted(self) -> Iterator[Workload]:
        history, there = self._course.history, self._course.there
        counts = np.zeros((2, len(history.objects.workloads) + 1), np.int64)
        late = np.array([row for row in self._starting if there[row]], np.int64)
        for owners in history.owners:
            np.add.at(counts[0], owners[there], 1)
            np.add.at(counts[1], owners[late], 1)
        for workload, count, missing in zip(history.objects.workloads, *counts.tolist(), strict=False):
            known = {"replicas": count, "ready": count - missing}
            yield msgspec.structs.replace(workload, **known) if count else workload

    def _left(self, budget: DisruptionBudget) -> DisruptionBudget:
        there = (self._course.pods[row] for row in self._starting if self._course.there[row])
        missing = sum(_covers(budget, pod) for pod in there)
        return msgspec.structs.replace(budget, allowed=budget.allowed - missing) if missing else budget

    def _once(self, what: str, make: Callable[[], tuple[T, ...]]) -> tuple[T, ...]:
        """The same objects while nothing changes."""
        version, shown = self._shown.get(what, (-1, ()))
        if version != self._course.version:
            shown = make()
            self._shown[what] = self._course.version, shown
        return shown


def _covers(budget: DisruptionBudget, pod: Pod) -> bool:
    return budget.namespace == pod.namespace and budget.selector is not None and budget.selector.matches(pod.labels)
