"""The nodes and pods of the cluster, kept current by watches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from ballast.clock import Clock
from ballast.cluster.client import KubeApi
from ballast.cluster.objects.decoding import annotation_filter, give_way, node_reader, pod_reader
from ballast.cluster.watch import Collection, Reflector, Sink, stop_all
from ballast.metrics import Metrics
from ballast.model.node import Node
from ballast.model.pod import Pod


class Cache:
    """Readers may be any thread; what they get is immutable. The server applies the label selector `node_selector`."""

    def __init__(
        self,
        api: KubeApi,
        clock: Clock,
        metrics: Metrics,
        *,
        pods: bool,
        node_selector: str | None = None,
        keep_annotation: Callable[[str], bool] | None = None,
        whole: bool = True,
    ) -> None:
        """Without `whole` pods have no labels and no templates, as publishing and the extender need neither."""
        keep = keep_annotation or annotation_filter("ballast.dev")
        self._clock = clock
        self._nodes = _Nodes()
        self._pods = _Pods()
        self._pod_sinks = _Sinks([self._pods])
        self._between: Callable[[], object] = give_way
        selector: dict[str, str | int] = {"labelSelector": node_selector} if node_selector else {}
        self._watches: dict[str, Reflector[Node] | Reflector[Pod]] = {
            "nodes": Reflector(
                api, clock, metrics, self._nodes, node_reader(keep), Collection("/api/v1/nodes", selector)
            )
        }
        if pods:
            reader = pod_reader(keep, lambda: self._between(), whole=whole)
            self._watches["pods"] = Reflector(api, clock, metrics, self._pod_sinks, reader, Collection("/api/v1/pods"))

    def follow_pods(self, sink: Sink[Pod], between: Callable[[], object]) -> None:
        """Before `start`. `sink` gets the pods too, in the thread of their watch, once the cache has them; `between` is
        called between the pieces in which a list of pods is decoded."""
        self._pod_sinks.sinks.append(sink)
        self._between = between

    def start(self) -> None:
        """Starts the watches, each in its own thread."""
        for watch in self._watches.values():
            watch.start()

    def stop(self) -> None:
        """Ends the watches."""
        stop_all(self._watches.values())

    @property
    def alive(self) -> bool:
        """Whether all watch threads still run."""
        return all(watch.alive for watch in self._watches.values())

    @property
    def beats(self) -> dict[str, float | None]:
        """When each watch last began to list or watch (monotonic), by kind."""
        return {kind: watch.beat for kind, watch in self._watches.items()}

    @property
    def synced(self) -> bool:
        """Whether every kind has been listed once."""
        return all(watch.synced for watch in self._watches.values())

    def listed(self, kind: str) -> bool:
        """Whether `nodes` or `pods` have been listed once."""
        return self._watches[kind].synced

    def wait_synced(self, timeout: float, *kinds: str) -> bool:
        """Waits up to `timeout` seconds for these kinds, or for all; returns whether they have been listed."""
        deadline = self._clock.monotonic() + timeout
        return all(
            self._watches[kind].wait_synced(max(0.0, deadline - self._clock.monotonic()))
            for kind in kinds or self._watches
        )

    def nodes(self) -> tuple[Node, ...]:
        """The selected nodes by name; the same tuple until one of them changes."""
        return self._nodes.sorted()

    def node(self, name: str) -> Node | None:
        """The selected node of that name, or None."""
        return self._nodes.get(name)

    def pods(self) -> tuple[Pod, ...]:
        """All pods in no particular order; empty when pods are not watched."""
        return self._pods.all()

    def pods_on(self, node: str) -> tuple[Pod, ...]:
        """The pods bound to a node, in no particular order."""
        return self._pods.on(node)

    def age(self, kind: str) -> float:
        """Seconds since the server last sent anything about `nodes` or `pods`; a quiet healthy watch stays below 90."""
        return self._watches[kind].age

    def opaque(self) -> Mapping[str, Mapping[str, int]]:
        """How many objects of each kind and namespace are too large to be kept whole."""
        return {kind: watch.opaque for kind, watch in self._watches.items()}

    def problem(self, kind: str) -> str | None:
        """Why a kind cannot be listed or watched now, e.g. a missing RBAC rule; retries go on."""
        return self._watches[kind].problem


class _Sinks:
    """One after the other."""

    def __init__(self, sinks: list[Sink[Pod]]) -> None:
        self.sinks = sinks

    def replace(self, items: list[Pod]) -> None:
        for sink in self.sinks:
            sink.replace(items)

    def put(self, item: Pod) -> None:
        for sink in self.sinks:
            sink.put(item)

    def remove(self, item: Pod) -> None:
        for sink in self.sinks:
            sink.remove(item)


class _Nodes:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_name: dict[str, Node] = {}
        self._sorted: tuple[Node, ...] | None = ()

    def replace(self, items: list[Node]) -> None:
        with self._lock:
            self._by_name = {node.name: node for node in items}
            self._sorted = None

    def put(self, item: Node) -> None:
        with self._lock:
            self._by_name[item.name] = item
            self._sorted = None

    def remove(self, item: Node) -> None:
        with self._lock:
            self._by_name.pop(item.name, None)
            self._sorted = None

    def get(self, name: str) -> Node | None:
        with self._lock:
            return self._by_name.get(name)

    def sorted(self) -> tuple[Node, ...]:
        with self._lock:
            if self._sorted is None:
                self._sorted = tuple(self._by_name[name] for name in sorted(self._by_name))
            return self._sorted


class _Pods:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_uid: dict[str, Pod] = {}
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._all: tuple[Pod, ...] | None = ()

    def replace(self, items: list[Pod]) -> None:
        by_uid = {pod.uid: pod for pod in items}
        by_node: dict[str, dict[str, Pod]] = {}
        for pod in by_uid.values():
            by_node.setdefault(pod.node, {})[pod.uid] = pod
        with self._lock:
            self._by_uid, self._by_node, self._all = by_uid, by_node, None

    def put(self, item: Pod) -> None:
        with self._lock:
            self._forget(item.uid)
            self._by_uid[item.uid] = item
            self._by_node.setdefault(item.node, {})[item.uid] = item

    def remove(self, item: Pod) -> None:
        with self._lock:
            self._forget(item.uid)

    def all(self) -> tuple[Pod, ...]:
        with self._lock:
            if self._all is None:
                self._all = tuple(self._by_uid.values())
            return self._all

    def on(self, node: str) -> tuple[Pod, ...]:
        with self._lock:
            return tuple(self._by_node.get(node, {}).values())

    def _forget(self, uid: str) -> None:
        self._all = None
        old = self._by_uid.pop(uid, None)
        if old is not None:
            there = self._by_node[old.node]
            del there[uid]
            if not there:
                del self._by_node[old.node]
