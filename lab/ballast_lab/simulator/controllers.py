"""The control loops: replicas, autoscaler bounds, scheduling, kubelets, disruption budgets and garbage collection.

They run in the server's event loop. Only changes wake them, never a timer, so an idle world costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import Callable, Iterable, Mapping

from ballast_lab.simulator import autoscaling, disruption, replicas
from ballast_lab.simulator.autoscaling import AUTOSCALER
from ballast_lab.simulator.kube.api_errors import ApiError
from ballast_lab.simulator.kube.kinds import BUDGET, DEPLOYMENT, NODE, POD, REPLICA_SET, STATEFUL_SET, Kind
from ballast_lab.simulator.kube.resources import Document, ObjectApi
from ballast_lab.simulator.kube.store import StoreEvent
from ballast_lab.simulator.kube.subresources import bind
from ballast_lab.simulator.objects import running_status, set_ready
from ballast_lab.simulator.scheduler import NAME, Scheduler
from ballast_lab.simulator.world import World

TERMINATION = 1.0
"""Seconds of the world's clock that a pod takes to terminate."""

PAUSE = 0.01
"""Seconds between two rounds; changes within them are handled together."""

BATCH = 100
"""Pods scheduled before the event loop may serve requests again."""

Key = tuple[str, str]
Extender = Callable[[Document, list[str]], dict[str, int] | None]
"""Scores nodes for a pod, 0..10, as kube-scheduler's extenders do."""

OWNERS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET)


class Controllers:
    """All controllers, the scheduler and the kubelets; `start` runs them in an event loop.

    Pods are Ready as soon as they run, or `ready_in` seconds of the world's clock later, at the next `make_ready`.
    """

    def __init__(self, resources: ObjectApi, world: World) -> None:
        self._resources = resources
        self._store = resources.store
        self._world = world
        self._scheduler = Scheduler(world, resources.store)
        self.extender: Extender | None = None
        self.ready_in = 0.0
        self._starting: dict[Key, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._event: asyncio.Event | None = None
        self._changes: list[tuple[Kind, StoreEvent]] = []
        self._waiting: dict[Key, None] = {}
        self._terminating: set[tuple[Key, str]] = set()
        self._store.listeners += [self._scheduler.follow, self._on_change]

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Runs the controllers as a task of this loop."""
        self._loop = loop
        self._event = asyncio.Event()
        self._task = loop.create_task(self._run())
        self._wake()

    def stop(self) -> None:
        """Cancels the task."""
        if self._task is not None:
            self._task.cancel()

    def _on_change(self, kind: Kind, change: StoreEvent) -> None:
        if kind in OWNERS or kind in (POD, NODE, BUDGET, AUTOSCALER):
            self._changes.append((kind, change))
            if len(self._changes) == 1:
                self._wake()

    def _wake(self) -> None:
        if self._loop is not None and self._event is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._event.set)

    async def _run(self) -> None:
        assert self._event is not None
        while True:
            await self._event.wait()
            self._event.clear()
            with self._store.lock:
                changes, self._changes = self._changes, []
            with contextlib.suppress(ApiError):
                self._reconcile(changes)
            await asyncio.sleep(PAUSE)
            for start in range(0, len(waiting := list(self._waiting)), BATCH):
                for key in waiting[start : start + BATCH]:
                    self._schedule(key, await self._asked(key))
                await asyncio.sleep(0)

    def _reconcile(self, changes: Iterable[tuple[Kind, StoreEvent]]) -> None:
        pod_labels: dict[str, dict[tuple[tuple[str, str], ...], None]] = {}
        deployments: dict[Key, None] = {}
        sets: dict[tuple[Kind, Key], None] = {}
        budgets: dict[Key, None] = {}
        autoscalers: dict[Key, None] = {}
        for kind, change in changes:
            key = change.new.namespace, change.new.name
            deleted = change.type == "DELETED"
            if kind in OWNERS:
                autoscalers |= dict.fromkeys(autoscaling.autoscalers_of(self._store, kind, *key))
            if deleted and kind in OWNERS:
                replicas.delete_dependents(self._resources, kind, change.new)
            elif kind is DEPLOYMENT:
                deployments[key] = None
            elif kind in (REPLICA_SET, STATEFUL_SET):
                sets[kind, key] = None
            elif kind is BUDGET and not deleted:
                budgets[key] = None
            elif kind is AUTOSCALER and not deleted:
                autoscalers[key] = None
            elif kind is POD:
                pod_labels.setdefault(key[0], {})[tuple(sorted(change.new.labels.items()))] = None
                self._sync_pod(key)
        for namespace, distinct in pod_labels.items():
            labels = [dict(items) for items in distinct]
            sets |= dict.fromkeys(replicas.sets_of(self._store, namespace, labels))
            budgets |= dict.fromkeys(disruption.budgets_of(self._store, namespace, labels))
        for key in autoscalers:
            autoscaling.reconcile(self._resources, *key)
        for key in deployments:
            replicas.roll_out(self._resources, *key)
        for kind, key in sets:
            replicas.reconcile(self._resources, kind, *key)
        for key in budgets:
            disruption.update_status(self._resources, *key)

    def _sync_pod(self, key: Key) -> None:
        """Does the kubelet's work for a bound pod, and queues a pod without a node for scheduling."""
        stored = self._store.get(POD, *key)
        if stored is None:
            self._waiting.pop(key, None)
            return
        phase, node = stored.fields["status.phase"], stored.fields["spec.nodeName"]
        if not node:
            if phase == "Pending" and stored.fields["spec.schedulerName"] == NAME:
                self._waiting[key] = None
            return
        self._waiting.pop(key, None)
        pod = stored.read()
        if "deletionTimestamp" in pod["metadata"]:
            self._terminate(key, stored.uid)
        elif phase == "Pending":
            self._run_pod(key, pod)

    def _run_pod(self, key: Key, pod: Document) -> None:
        row = self._world.rows.get(pod["spec"]["nodeName"])
        address = self._world.addresses[row] if row is not None else "10.255.255.254"
        status = running_status(pod, self._resources.now(), address)
        if self.ready_in:
            self._starting[key] = self._world.clock.wall() + self.ready_in
            set_ready(status, "False")
        with contextlib.suppress(ApiError):
            self._resources.update(POD, *key, lambda current: {**current, "status": status}, subresource="status")

    def make_ready(self) -> None:
        """Pods that have run for `ready_in` become Ready."""
        now = self._world.clock.wall()
        for key in [key for key, at in self._starting.items() if at <= now]:
            del self._starting[key]
            with contextlib.suppress(ApiError):
                self._resources.update(POD, *key, _with_ready, subresource="status")

    def _terminate(self, key: Key, uid: str) -> None:
        if (key, uid) in self._terminating or self._loop is None:
            return
        self._terminating.add((key, uid))

        def remove() -> None:
            self._terminating.discard((key, uid))
            with self._store.lock:
                stored = self._store.get(POD, *key)
                if stored is not None and stored.uid == uid:
                    self._store.remove(POD, stored)

        self._loop.call_later(TERMINATION / self._world.clock.speed, remove)

    async def _asked(self, key: Key) -> dict[str, int] | None:
        """The extender's scores for a waiting pod; None without an extender or its answer."""
        stored = self._store.get(POD, *key)
        if self.extender is None or stored is None:
            return None
        pod = stored.read()
        names = self._scheduler.fitting(pod)
        return await asyncio.to_thread(self.extender, pod, names) if names else None

    def _schedule(self, key: Key, extended: Mapping[str, int] | None = None) -> None:
        stored = self._store.get(POD, *key)
        if stored is None or stored.fields["spec.nodeName"]:
            self._waiting.pop(key, None)
            return
        pod = stored.read()
        if "deletionTimestamp" in pod["metadata"] or pod["spec"].get("schedulingGates"):
            return
        node = self._scheduler.place(pod, extended)
        with contextlib.suppress(ApiError):
            if node is None:
                self._mark_unschedulable(key, pod)
            else:
                bind(self._resources, *key, node)
                self._waiting.pop(key, None)

    def _mark_unschedulable(self, key: Key, pod: Document) -> None:
        conditions = pod["status"].get("conditions") or []
        if any(item["type"] == "PodScheduled" and item["reason"] == "Unschedulable" for item in conditions):
            return
        conditions = [item for item in conditions if item["type"] != "PodScheduled"]
        unschedulable = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": f"0/{len(self._world.node_names)} nodes are available: none fits the pod's requests.",
            "lastTransitionTime": self._resources.now(),
        }
        status = {**pod["status"], "conditions": [*conditions, unschedulable]}
        self._resources.update(POD, *key, lambda current: {**current, "status": status}, subresource="status")


def _with_ready(pod: Document) -> Document:
    status = copy.deepcopy(pod["status"])
    set_ready(status, "True")
    return {**pod, "status": status}
