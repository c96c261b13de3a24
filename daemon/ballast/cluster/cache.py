"""The nodes and pods of the cluster, kept current by watches."""

import threading
from collections.abc import Callable
from typing import Any

from ballast.base.clock import Clock
from ballast.base.metrics import Metrics
from ballast.cluster.client import KubeApi
from ballast.cluster.objects.decoding import annotation_filter, give_way, node_reader, pod_reader
from ballast.cluster.watch import Collection, Reflector, Sink, WatchGroup
from ballast.model.node import Node
from ballast.model.pod import Pod


class Cache(WatchGroup):
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
        self._nodes = _HeldNodes()
        self._pods = _HeldPods()
        self._pod_sinks = _Sinks([self._pods])
        self._between: Callable[[], object] = give_way
        selector: dict[str, str | int] = {"labelSelector": node_selector} if node_selector else {}
        watches: dict[str, Reflector[Any]] = {
            "nodes": Reflector(
                api, clock, metrics, self._nodes, node_reader(keep), Collection("/api/v1/nodes", selector)
            )
        }
        if pods:
            reader = pod_reader(keep, lambda: self._between(), whole=whole)
            watches["pods"] = Reflector(api, clock, metrics, self._pod_sinks, reader, Collection("/api/v1/pods"))
        super().__init__(clock, watches)

    def follow_pods(self, sink: Sink[Pod], between: Callable[[], object]) -> None:
        """Before `start`. `sink` gets the pods too, in the thread of their watch, once the cache has them; `between` is
        called between the pieces in which a list of pods is decoded."""
        self._pod_sinks.sinks.append(sink)
        self._between = between

    def follow_nodes(self, changed: Callable[[Node], object]) -> None:
        """Before `start`. `changed` gets each node that was added or changed, in the thread of their watch."""
        self._nodes.changed = changed

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


class _HeldNodes:
    def __init__(self) -> None:
        self.changed: Callable[[Node], object] = lambda node: None
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
        self.changed(item)

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


class _HeldPods:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_uid: dict[str, Pod] = {}
        self._by_node: dict[str, list[Pod]] = {}
        self._unbound: dict[str, Pod] = {}
        self._all: tuple[Pod, ...] | None = ()

    def replace(self, items: list[Pod]) -> None:
        by_uid = {pod.uid: pod for pod in items}
        by_node: dict[str, list[Pod]] = {}
        for pod in by_uid.values():
            by_node.setdefault(pod.node, []).append(pod)
        unbound = {pod.uid: pod for pod in by_node.pop("", ())}
        with self._lock:
            self._by_uid, self._by_node, self._unbound, self._all = by_uid, by_node, unbound, None

    def put(self, item: Pod) -> None:
        with self._lock:
            self._forget(item.uid)
            self._by_uid[item.uid] = item
            if item.node:
                self._by_node.setdefault(item.node, []).append(item)
            else:
                self._unbound[item.uid] = item

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
            return tuple(self._by_node.get(node, ()) if node else self._unbound.values())

    def _forget(self, uid: str) -> None:
        self._all = None
        old = self._by_uid.pop(uid, None)
        if old is None:
            return
        if not old.node:
            del self._unbound[uid]
            return
        # A list: of the few pods of a node, mappings by UID are five times as large.
        there = [pod for pod in self._by_node.pop(old.node) if pod is not old]
        if there:
            self._by_node[old.node] = there
