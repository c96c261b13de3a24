"""From wire objects to nodes and pods. What is larger than its budget is kept as an opaque object."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Generic, TypeVar

import msgspec
import structlog

from ballast.cluster.objects import wire
from ballast.cluster.objects.object_budget import WEIGHED, ObjectBudget
from ballast.cluster.objects.resizes import booked
from ballast.cluster.objects.shared_values import NO_STRINGS
from ballast.cluster.objects.shared_values import Shared as Shared
from ballast.model.devices import ANNOTATIONS as DEVICE_ANNOTATIONS
from ballast.model.marks import DELETION_COST, EVICTION_UNDER_WAY, EVICTS_ITSELF, GANG_ANNOTATIONS, MIRROR
from ballast.model.node import Node, Taint
from ballast.model.pod import Pod
from ballast.model.quantity import quantity
from ballast.model.shape import ContainerShape, Shape, shape_of
from ballast.model.template import OPAQUE, PLAIN

T = TypeVar("T")

FOREIGN_OPT_OUTS = (
    "descheduler.alpha.kubernetes.io/prefer-no-eviction",
    "cluster-autoscaler.kubernetes.io/safe-to-evict",
    "karpenter.sh/do-not-disrupt",
    "scheduling.koordinator.sh/eviction-cost",
)
# Whether a pod comes from a file on its node, and which of its local volumes may be lost.
POD_NATURE = (
    MIRROR,
    "kubernetes.io/config.source",
    "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes",
)
SLICE = 25
"""Objects of a page that are read in one piece, in a quarter of a millisecond."""

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
    others = frozenset((*known, EVICTS_ITSELF, EVICTION_UNDER_WAY, *foreign))
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
        raws, found = page.items or (), []
        for start in range(0, len(raws), SLICE):
            self._between()
            found += [item for raw in raws[start : start + SLICE] if (item := self.read(raw)) is not None]
        return found, page.metadata

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
    """Reads pods with the annotations whose keys `keep` accepts; without labels and templates unless `whole`.

    A pod beyond the budget is opaque: what it requests and where it is, and the template OPAQUE.
    """
    shared, budget = Shared(), ObjectBudget()
    decoder: msgspec.json.Decoder[wire.Pod | wire.LeanPod] = msgspec.json.Decoder(wire.Pod if whole else wire.LeanPod)

    def decode(raw: msgspec.Raw | bytes) -> Pod:
        found = decoder.decode(raw)
        size, meta = memoryview(raw).nbytes, found.metadata
        if not whole:
            meta.labels = None
        if size > WEIGHED and not budget.holds(raw, found, keep):
            return to_opaque(found, shared)
        before = shared.misses
        pod = to_pod(found, shared, keep)
        # A pod whose values are all shared with others takes no memory of its own: weighing it would be in vain.
        own = shared.misses > before or len(pod.annotations) > _FEW_NOTES or budget.noted(meta.namespace, meta.name)
        if size <= WEIGHED and own and not budget.holds(raw, found, keep):
            return to_opaque(found, shared)
        return pod

    return Reader("pods", decode, between, budget)


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
        nominated=shared.string(status.nominated_node_name),
    )


def to_opaque(pod: wire.Pod | wire.LeanPod, shared: Shared) -> Pod:
    """A pod of which no more is kept than its place, its owner and what it requests in all."""
    spec = pod.spec
    total = to_shape(booked(spec, pod.status))
    whole = ContainerShape(_few(total.requests), _few(total.limits))
    found = to_pod(
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
    return msgspec.structs.replace(found, shape=shape_of([whole]), template=OPAQUE)


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


def _amounts(quantities: wire.Quantities | None, shared: Shared | None = None) -> dict[str, float]:
    """Numbers of quantities; what cannot be read is left out, which makes it unknown rather than 0."""
    amounts: dict[str, float] = {}
    for name, text in (quantities or {}).items():
        try:
            amounts[shared.string(name) if shared else name] = quantity(text)
        except ValueError:
            _log.warning("a quantity cannot be read", resource=name, value=text)
    return amounts


def _kept(annotations: Mapping[str, str] | None, shared: Shared, keep: Callable[[str], bool]) -> Mapping[str, str]:
    if not annotations:
        return NO_STRINGS
    return {shared.string(key): value for key, value in annotations.items() if keep(key)} or NO_STRINGS


def _unix(time: datetime | None) -> float:
    return time.timestamp() if time else 0.0
