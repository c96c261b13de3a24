"""From wire objects to nodes and pods; equal strings, label sets, owners and shapes are held once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Generic, TypeVar

import msgspec
import structlog

from ballast.cluster import wire
from ballast.cluster.templates import template_key, to_template
from ballast.model.devices import ANNOTATIONS as DEVICE_ANNOTATIONS
from ballast.model.node import Node, Taint
from ballast.model.pod import Owner, Pod
from ballast.model.quantity import quantity
from ballast.model.shape import Container, Shape, shape_of
from ballast.model.template import PLAIN, Template

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

FOREIGN_OPT_OUTS = (
    "descheduler.alpha.kubernetes.io/prefer-no-eviction",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "karpenter.sh/do-not-disrupt",
    "scheduling.koordinator.sh/eviction-cost",
)
# Whether a pod comes from a file on its node, and which of its local volumes may be lost.
POD_NATURE = (
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.source",
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
)
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
SLICE = 25
"""Objects of a page that are read in one piece, in a quarter of a millisecond."""

_STRINGS = 50_000
_OTHERS = 10_000
# What the admission of these classes writes into the priority (pkg/apis/scheduling/types.go).
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NOTHING: dict[str, float] = {}
_NO_STRINGS: dict[str, str] = {}
_log = structlog.get_logger("cluster")


def annotation_filter(prefix: str, *, foreign: Iterable[str] = ()) -> Callable[[str], bool]:
    """Which annotations are kept: keys under `prefix`/, what evictions and devices go by, and keys in `foreign`."""
    own = f"{prefix}/"
    others = frozenset((*FOREIGN_OPT_OUTS, *POD_NATURE, *DEVICE_ANNOTATIONS, DELETION_COST, *foreign))
    return lambda key: key.startswith(own) or key in others


class Shared:
    """One copy of equal values. A pool that is full is forgotten; what was handed out stays as it is."""

    def __init__(self) -> None:
        self._strings: dict[str, str] = {}
        self._mappings: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._shapes: dict[object, Shape] = {}
        self._templates: dict[object, Template] = {}
        self._owners: dict[tuple[str, str, str, bool], Owner] = {}

    def string(self, value: str) -> str:
        """The one copy of a string."""
        return _room(self._strings, _STRINGS).setdefault(value, value)

    def strings(self, values: Mapping[str, str] | None) -> Mapping[str, str]:
        """Equal keys and values are held once, the mapping itself is new: for sets no other object has."""
        return {self.string(key): self.string(value) for key, value in values.items()} if values else _NO_STRINGS

    def labels(self, values: Mapping[str, str] | None) -> Mapping[str, str]:
        """Equal mappings are held once."""
        if not values:
            return _NO_STRINGS
        key = tuple(values.items())
        found = self._mappings.get(key)
        if found is None:
            found = self.strings(values)
            _room(self._mappings, _OTHERS)[tuple(found.items())] = found
        return found

    def shape(self, spec: wire.PodSpec) -> Shape:
        """The one copy of a pod's shape."""
        key = _shape_key(spec)
        found = self._shapes.get(key)
        if found is None:
            found = _room(self._shapes, _OTHERS)[key] = to_shape(spec)
        return found

    def template(self, pod: wire.Pod) -> Template:
        """The one copy of a pod's template; PLAIN where it says nothing."""
        key = template_key(pod)
        if key is None:
            return PLAIN
        found = self._templates.get(key)
        if found is None:
            found = _room(self._templates, _OTHERS)[key] = to_template(pod)
        return found

    def owner(self, references: list[wire.Owner] | None) -> Owner | None:
        """The controller among the owners, else the first one."""
        if not references:
            return None
        chosen = next((reference for reference in references if reference.controller), references[0])
        key = (chosen.kind, chosen.name, chosen.uid, bool(chosen.controller))
        found = self._owners.get(key)
        if found is None:
            found = _room(self._owners, _OTHERS)[key] = Owner(*key)
        return found


def give_way() -> None:
    """Other threads have their turn; Python alone would leave it to them every 5 ms."""
    time.sleep(0)


class Reader(Generic[T]):
    """Decodes objects of one kind. An item that cannot be read is skipped and named in the log."""

    def __init__(
        self, kind: str, decode: Callable[[msgspec.Raw | bytes], T], between: Callable[[], object] = give_way
    ) -> None:
        """`between` is called before each of the pieces in which a page is read."""
        self.kind = kind
        self.decode = decode
        self._between = between
        self._page = msgspec.json.Decoder(wire.Page)

    def page(self, body: bytes) -> tuple[list[T], wire.ListMeta]:
        """The objects of one page. Raises msgspec.DecodeError when the body is no list."""
        page = self._page.decode(body)
        raws, found = page.items or (), []
        for start in range(0, len(raws), SLICE):
            self._between()
            found += [item for raw in raws[start : start + SLICE] if (item := self.read(raw)) is not None]
        return found, page.metadata

    def read(self, raw: msgspec.Raw | bytes) -> T | None:
        """One object, or None where it cannot be read."""
        try:
            return self.decode(raw)
        except msgspec.DecodeError as error:
            _log.warning("an object cannot be read and is left out", kind=self.kind, error=str(error))
            return None


def node_reader(keep: Callable[[str], bool]) -> Reader[Node]:
    """Reads nodes with the annotations whose keys `keep` accepts."""
    decoder, shared = msgspec.json.Decoder(wire.Node), Shared()
    return Reader("nodes", lambda raw: to_node(decoder.decode(raw), shared, keep))


def pod_reader(keep: Callable[[str], bool], between: Callable[[], object] = give_way) -> Reader[Pod]:
    """Reads pods with the annotations whose keys `keep` accepts."""
    decoder, shared = msgspec.json.Decoder(wire.Pod), Shared()
    return Reader("pods", lambda raw: to_pod(decoder.decode(raw), shared, keep), between)


def to_node(node: wire.Node, shared: Shared, keep: Callable[[str], bool]) -> Node:
    """A node of the model."""
    meta, spec, status = node.metadata, node.spec, node.status
    return Node(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=shared.strings(meta.labels),
        annotations=_kept(meta.annotations, shared, keep),
        capacity=_amounts(status.capacity, shared),
        allocatable=_amounts(status.allocatable, shared),
        addresses=tuple((shared.string(a.type), a.address) for a in status.addresses or ()),
        taints=tuple(Taint(shared.string(t.key), shared.string(t.effect), t.value) for t in spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        ready=all(c.status == "True" for c in status.conditions or () if c.type == "Ready"),
        created=_unix(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
    )


def to_pod(pod: wire.Pod, shared: Shared, keep: Callable[[str], bool]) -> Pod:
    """A pod of the model."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    conditions = {condition.type: condition for condition in status.conditions or ()}
    bound, ready = conditions.get("PodScheduled"), conditions.get("Ready")
    scheduled = bound if bound and bound.status == "True" else None
    refused = bound if bound and bound.status == "False" and bound.reason == "Unschedulable" else None
    return Pod(
        namespace=shared.string(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        node=shared.string(spec.node_name),
        phase=shared.string(status.phase),
        shape=shared.shape(spec),
        labels=shared.labels(meta.labels),
        annotations=_kept(meta.annotations, shared, keep),
        owner=shared.owner(meta.owner_references),
        scheduler_name=shared.string(spec.scheduler_name),
        priority=_SYSTEM.get(spec.priority_class_name, 0) if spec.priority is None else spec.priority,
        created=_unix(meta.creation_timestamp),
        scheduled_at=_unix(scheduled.last_transition_time) or None if scheduled else None,
        deleting=meta.deletion_timestamp is not None,
        template=shared.template(pod),
        ready=ready.status == "True" if ready else status.phase == "Running",
        waiting_since=_unix(refused.last_transition_time) if refused else None,
        gates=tuple(shared.string(gate.name) for gate in spec.scheduling_gates or ()),
    )


def to_shape(spec: wire.PodSpec) -> Shape:
    """The requests and limits of a pod spec."""
    return shape_of(
        map(_container, spec.containers or ()),
        map(_container, spec.init_containers or ()),
        _amounts(spec.overhead) or _NOTHING,
        _pod_level(spec.resources),
    )


def _container(container: wire.Container) -> Container:
    resources = container.resources or wire.Resources()
    return Container(
        _amounts(resources.requests) or _NOTHING,
        _amounts(resources.limits) or _NOTHING,
        container.restart_policy == "Always",
    )


def _pod_level(resources: wire.Resources | None) -> Container | None:
    if resources is None:
        return None
    return Container(_amounts(resources.requests), _amounts(resources.limits))


def _amounts(quantities: wire.Quantities | None, shared: Shared | None = None) -> dict[str, float]:
    """Numbers of quantities; what cannot be read is left out, which makes it unknown rather than 0."""
    amounts: dict[str, float] = {}
    for name, text in (quantities or {}).items():
        try:
            amounts[shared.string(name) if shared else name] = quantity(text)
        except ValueError:
            _log.warning("a quantity cannot be read", resource=name, value=text)
    return amounts


def _room(pool: dict[K, V], limit: int) -> dict[K, V]:
    if len(pool) >= limit:
        pool.clear()
    return pool


def _kept(annotations: Mapping[str, str] | None, shared: Shared, keep: Callable[[str], bool]) -> Mapping[str, str]:
    if not annotations:
        return _NO_STRINGS
    return {shared.string(key): value for key, value in annotations.items() if keep(key)} or _NO_STRINGS


def _unix(time: datetime | None) -> float:
    return time.timestamp() if time else 0.0


def _shape_key(spec: wire.PodSpec) -> object:
    return (
        tuple(map(_container_key, spec.containers or ())),
        tuple(map(_container_key, spec.init_containers or ())),
        _resources_key(spec.resources),
        tuple((spec.overhead or {}).items()),
    )


def _container_key(container: wire.Container) -> object:
    return (container.restart_policy, _resources_key(container.resources))


def _resources_key(resources: wire.Resources | None) -> object:
    if resources is None:
        return None
    return (tuple((resources.requests or {}).items()), tuple((resources.limits or {}).items()))
