"""From wire objects to nodes and pods. What is larger than its budget is kept as an opaque object."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from sys import getrefcount
from typing import Generic, TypeVar

import msgspec
import structlog

from ballast.cluster.objects import node_signs, wire
from ballast.cluster.objects.object_budget import WEIGHED, ObjectBudget
from ballast.cluster.objects.templates import template_key, to_template
from ballast.model.devices import ANNOTATIONS as DEVICE_ANNOTATIONS
from ballast.model.load_limits import quantity
from ballast.model.marks import (
    DELETION_COST,
    EVICTION_UNDER_WAY,
    EVICTS_ITSELF,
    GANG_ANNOTATIONS,
    MIRROR,
    RESTARTED_FOR,
)
from ballast.model.node import Node, Taint
from ballast.model.pod import NO_DEVICES, ORDINARY_GRACE, Owner, Pod
from ballast.model.shape import ContainerShape, Shape, shape_of
from ballast.model.template import OPAQUE, PLAIN, Template, Toleration

T = TypeVar("T")

FOREIGN_OPT_OUTS = (
    "descheduler.alpha.kubernetes.io/prefer-no-eviction",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "karpenter.sh/do-not-disrupt",
    "scheduling.koordinator.sh/eviction-cost",
)
# Whether a pod comes from a file on its node, and which of its local volumes may be lost.
POD_NATURE = (MIRROR, "kubernetes.io/config.source", "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes")
SLICE = 25
"""Objects of a page that are read in one piece, in a quarter of a millisecond."""

LONGEST_GRACE = 86_400
"""Seconds for a pod to end that count at most."""

LARGEST_NODE = {"cpu": 100_000.0, "memory": 2.0**50, "pods": 100_000.0}
"""Cores, bytes and pods that a node is believed to have at most; machines of today have 1,920 cores and 32 TiB."""

LARGEST_AMOUNT = 2.0**60
"""The same for each other resource."""

MOST_GATES = 4
"""Scheduling gates that an opaque pod keeps."""

MOST_RESOURCES = 16
"""Kinds of resources that an opaque pod keeps of its requests and limits."""

# What the admission of these classes writes into the priority (pkg/apis/scheduling/types.go).
_SYSTEM = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_NOTHING: dict[str, float] = {}
_LONGEST_ERROR = 500
_FEW_NOTES = 8
_log = structlog.get_logger("cluster")


def annotation_filter(prefix: str, *, foreign: Iterable[str] = ()) -> Callable[[str], bool]:
    """Which annotations are kept: keys under `prefix`/, what evictions and devices go by, and keys in `foreign`."""
    own = f"{prefix}/"
    known = (*FOREIGN_OPT_OUTS, *POD_NATURE, *DEVICE_ANNOTATIONS, DELETION_COST, *GANG_ANNOTATIONS)
    others = frozenset((*known, EVICTS_ITSELF, EVICTION_UNDER_WAY, RESTARTED_FOR, *foreign))
    return lambda key: key.startswith(own) or key in others


def give_way() -> None:
    """Other threads have their turn; Python alone would leave it to them every 5 ms."""
    time.sleep(0)


class Reader(Generic[T]):
    """Decodes objects of one kind. An item that cannot be read is skipped and named in the log."""

    def __init__(
        self,
        kind: str,
        decode: Callable[[msgspec.Raw | bytes], T],
        between: Callable[[], object] = give_way,
        budget: ObjectBudget | None = None,
    ) -> None:
        """`between` is called before each of the pieces in which a page is read."""
        self.kind = kind
        self.decode = decode
        self.budget = budget or ObjectBudget()
        self._between = between
        self._page = msgspec.json.Decoder(wire.Page)

    def page(self, body: bytes) -> tuple[list[T], wire.ListMeta]:
        """The objects of one page. Raises msgspec.DecodeError when the body is no list."""
        page = self._page.decode(body)
        raws, items = page.items or (), []
        for start in range(0, len(raws), SLICE):
            self._between()
            items += [item for raw in raws[start : start + SLICE] if (item := self.read(raw)) is not None]
        return items, page.metadata

    def read(self, raw: msgspec.Raw | bytes) -> T | None:
        """One object, or None where it cannot be read."""
        try:
            return self.decode(raw)
        except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError) as error:
            _log.warning("an object cannot be read and is left out", kind=self.kind, error=str(error)[:_LONGEST_ERROR])
            return None


def node_reader(keep: Callable[[str], bool]) -> Reader[Node]:
    """Reads nodes with the annotations whose keys `keep` accepts."""
    decoder, shared = msgspec.json.Decoder(wire.Node), Shared()
    return Reader("nodes", lambda raw: to_node(decoder.decode(raw), shared, keep))


def pod_reader(
    keep: Callable[[str], bool], between: Callable[[], object] = give_way, *, whole: bool = True
) -> Reader[Pod]:
    """Reads pods with the annotations whose keys `keep` accepts; unless `whole` without labels, and with the templates
    of those alone that are on no node yet.

    A pod beyond the budget is opaque: what it requests and where it is, and the template OPAQUE.
    """
    shared, budget = Shared(), ObjectBudget()
    decoder, lean = msgspec.json.Decoder(wire.Pod), msgspec.json.Decoder(wire.LeanPod)

    def decode(raw: msgspec.Raw | bytes) -> Pod:
        pod_on_wire: wire.Pod | wire.LeanPod | None = None if whole else lean.decode(raw)
        if pod_on_wire is None or not pod_on_wire.spec.node_name:
            pod_on_wire = decoder.decode(raw)
        size, meta = memoryview(raw).nbytes, pod_on_wire.metadata
        if not whole:
            meta.labels = None
        if size > WEIGHED and not budget.holds(raw, pod_on_wire, keep):
            return to_opaque(pod_on_wire, shared)
        before = shared.misses
        pod = to_pod(pod_on_wire, shared, keep)
        # A pod whose values are all shared with others takes no memory of its own, so it need not be weighed.
        own = shared.misses > before or len(pod.annotations) > _FEW_NOTES or budget.noted(meta.namespace, meta.name)
        if size <= WEIGHED and own and not budget.holds(raw, pod_on_wire, keep):
            return to_opaque(pod_on_wire, shared)
        return pod

    return Reader("pods", decode, between, budget)


def to_node(node: wire.Node, shared: Shared, keep: Callable[[str], bool]) -> Node:
    """A node of the model."""
    meta, spec, status = node.metadata, node.spec, node.status
    ready = next((condition for condition in status.conditions or () if condition.type == "Ready"), None)
    ready_since = _unix(ready.last_transition_time) if ready else 0.0
    info = status.node_info or wire.NodeInfo()
    return Node(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=shared.strings(meta.labels),
        annotations=_kept(meta.annotations, shared, keep),
        capacity=shared.amounts(_amounts(status.capacity, shared, LARGEST_NODE)),
        allocatable=shared.amounts(_amounts(status.allocatable, shared, LARGEST_NODE)),
        addresses=tuple((shared.string(a.type), a.address) for a in status.addresses or ()),
        provider_id=spec.provider_id,
        taints=tuple(Taint(shared.string(t.key), shared.string(t.effect), t.value) for t in spec.taints or ()),
        unschedulable=bool(spec.unschedulable),
        ready=all(c.status == "True" for c in status.conditions or () if c.type == "Ready"),
        created=_unix(meta.creation_timestamp),
        deleting=meta.deletion_timestamp is not None,
        ready_since=ready_since,
        system=shared.string(node_signs.system_of(node)),
        version=shared.string(info.kubelet_version),
        os_image=shared.string(info.os_image),
        signs=tuple(map(shared.string, node_signs.signs_of(node, ready_since))),
        images=tuple(map(shared.string, node_signs.images_of(node))),
    )


def to_pod(pod: wire.Pod | wire.LeanPod, shared: Shared, keep: Callable[[str], bool]) -> Pod:
    """A pod of the model; one that was read lean has no labels and a plain template."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    conditions = {condition.type: condition for condition in status.conditions or ()}
    bound, ready = conditions.get("PodScheduled"), conditions.get("Ready")
    scheduled = bound if bound and bound.status == "True" else None
    refused = bound if bound and bound.status == "False" and bound.reason == "Unschedulable" else None
    whole = isinstance(pod, wire.Pod)
    return Pod(
        namespace=shared.string(meta.namespace),
        name=meta.name,
        uid=meta.uid,
        node=shared.string(spec.node_name),
        phase=shared.string(status.phase),
        shape=shared.shape(booked(spec, status), to_shape),
        labels=shared.labels(meta.labels) if whole else NO_STRINGS,
        annotations=_kept(meta.annotations, shared, keep),
        owner=shared.owner(meta.owner_references),
        scheduler_name=shared.string(spec.scheduler_name),
        priority=_SYSTEM.get(spec.priority_class_name, 0) if spec.priority is None else spec.priority,
        created=_unix(meta.creation_timestamp),
        scheduled_at=_unix(scheduled.last_transition_time) or None if scheduled else None,
        deleting=meta.deletion_timestamp is not None,
        template=shared.template(pod) if isinstance(pod, wire.Pod) else PLAIN,
        ready=ready.status == "True" if ready else status.phase == "Running",
        waiting_since=_unix(refused.last_transition_time) if refused else None,
        gates=tuple(shared.string(gate.name) for gate in spec.scheduling_gates or ()),
        claimed=NO_DEVICES,
        nominated=shared.string(status.nominated_node_name),
        restarts=sum(state.restart_count for state in _states(status)),
        grace=_grace(spec) if isinstance(spec, wire.PodSpec) else ORDINARY_GRACE,
    )


def _grace(spec: wire.PodSpec) -> int:
    seconds = spec.termination_grace_period_seconds
    return ORDINARY_GRACE if seconds is None else min(max(0, seconds), LONGEST_GRACE)


def to_opaque(pod: wire.Pod | wire.LeanPod, shared: Shared) -> Pod:
    """A pod of which only its place, its owner and its total requests are kept."""
    spec = pod.spec
    total = to_shape(booked(spec, pod.status))
    whole = ContainerShape(_few(total.requests), _few(total.limits))
    opaque = to_pod(
        wire.LeanPod(
            metadata=wire.reduced(pod.metadata),
            spec=wire.LeanPodSpec(
                node_name=spec.node_name,
                scheduler_name=spec.scheduler_name if wire.short(spec.scheduler_name) else "",
                priority=spec.priority,
                priority_class_name=spec.priority_class_name,
                scheduling_gates=[g for g in spec.scheduling_gates or () if wire.short(g.name)][:MOST_GATES],
            ),
            status=pod.status,
        ),
        shared,
        lambda key: False,
    )
    return msgspec.structs.replace(opaque, shape=shape_of([whole]), template=OPAQUE)


def _few(amounts: Mapping[str, float]) -> dict[str, float]:
    """Those of cpu and memory, and of the first others."""
    first = sorted(amounts, key=lambda name: (name not in ("cpu", "memory"), name))
    return {name: amounts[name] for name in first[:MOST_RESOURCES] if wire.short(name)}


def to_shape(spec: wire.LeanPodSpec) -> Shape:
    """The requests and limits of a pod spec."""
    return shape_of(
        map(_container, spec.containers or ()),
        map(_container, spec.init_containers or ()),
        _amounts(spec.overhead) or _NOTHING,
        _pod_level(spec.resources),
    )


def _container(container: wire.Container) -> ContainerShape:
    resources = container.resources or wire.ResourceRequirements()
    return ContainerShape(
        _amounts(resources.requests) or _NOTHING,
        _amounts(resources.limits) or _NOTHING,
        container.restart_policy == "Always",
    )


def _pod_level(resources: wire.ResourceRequirements | None) -> ContainerShape | None:
    if resources is None:
        return None
    return ContainerShape(_amounts(resources.requests), _amounts(resources.limits))


def _amounts(
    quantities: wire.Quantities | None, shared: Shared | None = None, most: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Numbers of quantities; what cannot be read, or exceeds `most`, is left out: it is unknown rather than 0."""
    amounts: dict[str, float] = {}
    for name, text in (quantities or {}).items():
        try:
            amount = quantity(text)
        except ValueError:
            _log.warning("a quantity cannot be read", resource=name, value=text)
            continue
        if most and not 0 <= amount <= most.get(name, LARGEST_AMOUNT):
            _log.warning("a node claims an amount that no machine has", resource=name, value=text)
            continue
        amounts[shared.string(name) if shared else name] = amount
    return amounts


def _kept(annotations: Mapping[str, str] | None, shared: Shared, keep: Callable[[str], bool]) -> Mapping[str, str]:
    if not annotations:
        return NO_STRINGS
    return {shared.string(key): value for key, value in annotations.items() if keep(key)} or NO_STRINGS


def _unix(time: datetime | None) -> float:
    return time.timestamp() if time else 0.0


S = TypeVar("S", bound=wire.LeanPodSpec)


def booked(spec: S, status: wire.PodStatus) -> S:
    """The spec with the requests that count; the same one where nothing is being resized."""
    resizing = {state.name: state for state in _states(status) if state.allocated_resources or state.resources}
    if not (resizing or status.allocated_resources or status.resources):
        return spec
    whole = _resources(spec.resources, status.allocated_resources, status.resources, refused=_refused(status))
    if not resizing and whole is spec.resources:
        return spec
    containers = _count_resizes(spec.containers or (), resizing, status)
    init_containers = _count_resizes(spec.init_containers or (), resizing, status, sidecars=True)
    if containers is None and init_containers is None and whole is spec.resources:
        return spec
    return msgspec.structs.replace(
        spec,
        containers=containers or spec.containers,
        init_containers=init_containers or spec.init_containers,
        resources=whole,
    )


def _states(status: wire.PodStatus) -> tuple[wire.ContainerStatus, ...]:
    return (*(status.container_statuses or ()), *(status.init_container_statuses or ()))


def _refused(status: wire.PodStatus) -> bool:
    """Whether the node can never resize the pod, so that it keeps what it has."""
    return any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in status.conditions or ()
    )


def _count_resizes(
    containers: Sequence[wire.Container],
    given: dict[str, wire.ContainerStatus],
    status: wire.PodStatus,
    *,
    sidecars: bool = False,
) -> list[wire.Container] | None:
    """None where all count with what they ask for."""
    counted, changed = [], False
    for container in containers:
        of = given.get(container.name)
        if of is not None and (not sidecars or container.restart_policy == "Always"):
            resources = _resources(container.resources, of.allocated_resources, of.resources, refused=_refused(status))
            if resources is not container.resources:
                changed = True
                container = msgspec.structs.replace(container, resources=resources)
        counted.append(container)
    return counted if changed else None


def _resources(
    asked: wire.ResourceRequirements | None,
    allocated: wire.Quantities | None,
    actuated: wire.ResourceRequirements | None,
    *,
    refused: bool,
) -> wire.ResourceRequirements | None:
    desired = (asked.requests if asked else None) or {}
    has = (actuated.requests if actuated else None) or {}
    known = [amounts for amounts in (allocated, has) if amounts]
    if not known or all(amounts == desired for amounts in known):
        return asked
    return wire.ResourceRequirements(_most(known if refused else [desired, *known]), asked.limits if asked else None)


def _most(amounts: Iterable[wire.Quantities]) -> wire.Quantities:
    largest: wire.Quantities = {}
    for quantities in amounts:
        for name, text in quantities.items():
            try:
                if name not in largest or quantity(text) > quantity(largest[name]):
                    largest[name] = text
            except ValueError:
                continue
    return largest


_encode = msgspec.json.Encoder().encode
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

POOL_BYTES = 8 * 2**20
"""Of the keys of one pool. A pool that is full is forgotten; what was handed out stays as it is."""

LEAST = 1_000
"""Values of a pool before it looks for those that nobody else holds."""

LONGEST = 1024
"""Characters of a string that is shared."""

_STRINGS = 50_000
_OTHERS = 10_000
_EACH = 56
NO_STRINGS: dict[str, str] = {}


class Pool(Generic[K, V]):
    """Values by what they are made of.

    Each time it has grown by a quarter, it drops the values that nobody else holds any more, by CPython's reference
    counts: those of objects that are gone. So its size follows the cluster, however many pods come and go.
    """

    def __init__(self, most: int, *, by_itself: bool = False) -> None:
        """`by_itself`: a value is its own key, so the pool refers to it twice."""
        self.held: dict[K, V] = {}
        self._most = most
        self._own = _HELD_ONCE + by_itself
        self._sweep_at = LEAST
        self._bytes = 0

    def add(self, key: K, value: V) -> V:
        """Keeps the value of a key that was not held."""
        if len(self.held) >= self._sweep_at:
            self._drop_unused()
        self._bytes += size(key)
        if len(self.held) >= self._most or self._bytes > POOL_BYTES:
            self.held.clear()
            self._bytes = size(key)
        self.held[key] = value
        return value

    def _drop_unused(self) -> None:
        counts = zip(self.held, _reference_counts(self.held), strict=True)
        for key in [key for key, count in counts if count <= self._own]:
            del self.held[key]
            self._bytes -= size(key)
        self._sweep_at = max(LEAST, len(self.held) * 5 // 4)


def pool_of_shapes() -> Pool[bytes, Shape]:
    """Of pods, by what they say of resources."""
    return Pool(_OTHERS)


def _reference_counts(held: Mapping[K, V]) -> list[int]:
    """Of each value; the counting itself adds a few, always as many."""
    return list(map(getrefcount, held.values()))


_HELD_ONCE = _reference_counts({None: object()})[0]


class Shared:
    """The pools of one reader, which may be asked by one thread."""

    def __init__(self, shapes: Pool[bytes, Shape] | None = None) -> None:
        """`shapes` are those of another reader of the same thread."""
        self.misses = 0
        """How many label sets, shapes, templates and owners were not held yet."""
        self._strings: Pool[str, str] = Pool(_STRINGS, by_itself=True)
        self._mappings: Pool[tuple[tuple[str, str], ...], Mapping[str, str]] = Pool(_OTHERS)
        self._amounts: Pool[tuple[tuple[str, float], ...], Mapping[str, float]] = Pool(_OTHERS)
        self._shapes: Pool[bytes, Shape] = shapes or pool_of_shapes()
        self._templates: Pool[Hashable, Template] = Pool(_OTHERS)
        self._owners: Pool[tuple[str, str, str, bool, str], Owner] = Pool(_OTHERS)

    def string(self, value: str) -> str:
        """The one copy of a string."""
        held = self._strings.held.get(value)
        if held is None:
            return value if len(value) > LONGEST else self._strings.add(value, value)
        return held

    def strings(self, values: Mapping[str, str] | None) -> Mapping[str, str]:
        """Equal keys and values are held once, the mapping itself is new: for sets no other object has."""
        return {self.string(key): self.string(value) for key, value in values.items()} if values else NO_STRINGS

    def labels(self, values: Mapping[str, str] | None) -> Mapping[str, str]:
        """Equal mappings are held once."""
        if not values:
            return NO_STRINGS
        key = tuple(values.items())
        held = self._mappings.held.get(key)
        if held is None:
            self.misses += 1
            copy = self.strings(values)
            held = self._mappings.add(tuple(copy.items()), copy)
        return held

    def amounts(self, values: Mapping[str, float]) -> Mapping[str, float]:
        """Equal mappings are held once: many nodes are of one kind."""
        key = tuple(values.items())
        held = self._amounts.held.get(key)
        return self._amounts.add(key, values) if held is None else held

    def shape(self, spec: wire.LeanPodSpec, build: Callable[[wire.LeanPodSpec], Shape]) -> Shape:
        """The one copy of a pod's shape."""
        key = _shape_key(spec)
        held = self._shapes.held.get(key)
        if held is None:
            self.misses += 1
            held = self._shapes.add(key, build(spec))
        return held

    def template(self, pod: wire.Pod) -> Template:
        """The one copy of a pod's template; PLAIN where it says nothing."""
        key = template_key(pod)
        if key is None:
            return PLAIN
        held = self._templates.held.get(key)
        if held is None:
            self.misses += 1
            held = self._templates.add(key, to_template(pod))
        return held

    def owner(self, references: list[wire.OwnerReference] | None) -> Owner | None:
        """The controller among the owners, else the first one."""
        if not references:
            return None
        chosen = next((reference for reference in references if reference.controller), references[0])
        key = (chosen.kind, chosen.name, chosen.uid, bool(chosen.controller), chosen.api_version)
        held = self._owners.held.get(key)
        if held is None:
            self.misses += 1
            held = self._owners.add(key, Owner(*key))
        return held


def size(value: object) -> int:
    """About how many bytes a key takes."""
    if isinstance(value, str | bytes):
        return _EACH + len(value)
    if isinstance(value, tuple):
        return _EACH + sum(map(size, value))
    if isinstance(value, Toleration):
        return _EACH + sum(map(size, (value.key, value.operator, value.value, value.effect)))
    return _EACH


def _shape_key(spec: wire.LeanPodSpec) -> bytes:
    containers = [(container.restart_policy, container.resources) for container in spec.containers or ()]
    init_containers = [(container.restart_policy, container.resources) for container in spec.init_containers or ()]
    return _encode((containers, init_containers, spec.resources, spec.overhead))
