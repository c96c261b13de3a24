"""Requests to the planning process and its responses: arrays and plain data, sent in small pieces."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, TypeVar

import msgspec
import numpy as np

from ballast.eviction.facts import ClusterObjects
from ballast.eviction.history import NOTHING_YET, History
from ballast.eviction.plan import Aims, EvictionPlan, Kind
from ballast.eviction.rules import UNLIMITED, EvictionLimit, GateRules
from ballast.model.limits import EQUAL, Limit, Weights
from ballast.model.pod import Pod
from ballast.model.sample import Floats
from ballast.placement.batch import BatchPlan, BatchRules
from ballast.placement.batch_balance import MeasuredLoad
from ballast.telemetry.pods import PodAnswers

PIECE = 250
"""Objects that are handed over at once: fractions of a millisecond."""

T = TypeVar("T")


@dataclass(frozen=True)
class RequestedPlan:
    """A plan to make. `most` are the moves in it, where `aims` say nothing."""

    kind: Kind
    rules: GateRules = field(default_factory=GateRules)
    aims: Aims = field(default_factory=Aims)
    most: EvictionLimit = UNLIMITED


@dataclass(frozen=True)
class RequestedBatch:
    """The pods to place together, by UID."""

    uids: tuple[str, ...]
    rules: BatchRules
    measured: MeasuredLoad | None = None
    """In the order of the nodes; None where the load is not known now."""


@dataclass(frozen=True)
class RequestedExplanation:
    """The pod to explain, namespace/name; `ceiling` is the load that a target may reach."""

    pod: str
    rules: GateRules
    ceiling: Limit


@dataclass(frozen=True)
class PlanRequest:
    """Everything planning needs of one moment. `load` is [node, resource] in the order of the nodes, NaN where unknown.

    The `wanted` plans are made in their order until one has a step.
    """

    now: float
    resources: tuple[str, ...]
    load: Floats
    wanted: tuple[RequestedPlan, ...]
    objects: ClusterObjects = field(default_factory=ClusterObjects)
    history: History = NOTHING_YET
    pool_label: str | None = None
    weights: Weights = field(default_factory=lambda: EQUAL)
    peak: Floats | None = None
    """[node, resource] as `load`: the p95 of the day, NaN where unknown; None where nobody asks."""
    silent: int | None = None
    """Nodes of unknown load that were measured before; None: all of unknown load."""
    usage: PodAnswers | None = None
    error: Floats | None = None
    """As `load`: the standard errors of the loads."""
    batch: RequestedBatch | None = None
    """Asks for the placement of a batch instead of plans of moves."""
    explained: RequestedExplanation | None = None
    """Asks what the checks say about one pod instead."""


class PlanResponse(msgspec.Struct, frozen=True):
    """`plans` that were made, or the plan of the `batch`, or the `explanation` of a pod (None: there is no such pod).

    Of `expected` pods, `measured` said what they use; `rejected` samples did not count. `problem` is a sentence when
    there is no plan; `megabytes` the most memory that the worker ever had.
    """

    plans: tuple[EvictionPlan, ...] = ()
    batch: BatchPlan | None = None
    explanation: dict[str, Any] | None = None
    measured: int = 0
    expected: int = 0
    problems: dict[str, str] = {}
    rejected: dict[str, int] = {}
    warnings: tuple[str, ...] = ()
    problem: str | None = None
    megabytes: float = 0.0


_answers = msgspec.msgpack.Decoder(PlanResponse)
_rows = msgspec.msgpack.Decoder(list[tuple[Any, ...]])
_SEQUENCES = ("nodes", "workloads", "budgets", "autoscalers", "namespaces", "node_claims")
_ATTACHED = ("claims", "volumes", "classes", "csi_nodes", "slices")
_PODS, _BODY, _HEAD = "pods", "body", "head"


def send(request: PlanRequest, write: Callable[[bytes], object], pause: Callable[[], object] = lambda: None) -> None:
    """In pieces, with a `pause` after each."""
    for piece in _pieces(request):
        write(pickle.dumps(piece, pickle.HIGHEST_PROTOCOL))
        pause()


def receive(stream: BinaryIO) -> PlanRequest:
    """Raises EOFError at the end of the stream."""
    found: dict[str, list[Any]] = {name: [] for name in (*_SEQUENCES, *_ATTACHED, _PODS)}
    bodies: dict[str, bytes] = {}
    shared: list[Any] = []
    strings: dict[str, str] = {}
    while True:
        name, content = pickle.load(stream)  # noqa: S301 - from the daemon alone
        if name == _HEAD:
            break
        if name == _BODY:
            bodies[content[0]] = content[1]
        elif name == _PODS:
            shared += content[0]
            found[_PODS] += _pods(content[1], shared, strings)
        else:
            found[name] += content
    known = {name: found.pop(name) for name in _ATTACHED}
    attachments = content.objects.attachments
    attached = {name: items for name, items in known.items() if getattr(attachments, name) is not None}
    objects = replace(content.objects, **found, attachments=replace(attachments, **attached))
    request: PlanRequest = replace(content, objects=objects)
    return request if request.usage is None else replace(request, usage=replace(request.usage, bodies=bodies))


def encode(answer: PlanResponse) -> bytes:
    return msgspec.msgpack.encode(answer)


def decode(body: bytes) -> PlanResponse:
    """Raises msgspec.DecodeError."""
    return _answers.decode(body)


def _pieces(request: PlanRequest) -> Iterator[tuple[str, Any]]:
    for name in _SEQUENCES:
        for piece in _cut(getattr(request.objects, name)):
            yield name, list(piece)
    attachments = request.objects.attachments
    for name in _ATTACHED:
        for piece in _cut(getattr(attachments, name) or ()):
            yield name, list(piece)
    numbers: dict[int, int] = {}
    for piece in _cut(request.objects.pods):
        shared: list[Any] = []
        rows = [_row(pod, numbers, shared) for pod in piece]
        yield _PODS, (shared, msgspec.msgpack.encode(rows))
    usage = request.usage
    if usage is not None:
        for resource, body in usage.bodies.items():
            yield _BODY, (resource, body)
        usage = replace(usage, bodies={})
    bare: dict[str, Any] = dict.fromkeys((*_SEQUENCES, _PODS), ())
    empty: dict[str, Any] = {name: () for name in _ATTACHED if getattr(attachments, name) is not None}
    objects = replace(request.objects, **bare, attachments=replace(attachments, **empty))
    yield _HEAD, replace(request, usage=usage, load=np.ascontiguousarray(request.load), objects=objects)


def _cut(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), PIECE):
        yield items[start : start + PIECE]


def _row(pod: Pod, numbers: dict[int, int], shared: list[Any]) -> tuple[Any, ...]:
    """A pod as a row; values shared between pods are indexes into `shared`, to which new ones are appended."""

    def place(value: object) -> int:
        number = numbers.get(id(value))
        if number is None:
            number = numbers[id(value)] = len(numbers)
            shared.append(value)
        return number

    return (
        pod.namespace,
        pod.name,
        pod.uid,
        pod.node,
        pod.phase,
        place(pod.shape),
        place(pod.labels),
        place(pod.annotations),
        place(pod.owner),
        pod.scheduler_name,
        pod.priority,
        pod.created,
        pod.scheduled_at,
        pod.deleting,
        place(pod.template),
        pod.ready,
        pod.waiting_since,
        pod.gates,
        pod.nominated,
        dict(pod.claimed),
    )


def _pods(rows: bytes, shared: Sequence[Any], strings: dict[str, str]) -> Iterator[Pod]:
    one = strings.setdefault
    for namespace, name, uid, node, phase, shape, labels, notes, owner, scheduler, *rest in _rows.decode(rows):
        priority, created, scheduled_at, deleting, template, ready, waiting_since, gates, nominated, claimed = rest
        yield Pod(
            one(namespace, namespace),
            name,
            uid,
            one(node, node),
            one(phase, phase),
            shared[shape],
            shared[labels],
            shared[notes],
            shared[owner],
            one(scheduler, scheduler),
            priority,
            created,
            scheduled_at,
            deleting,
            shared[template],
            ready,
            waiting_since,
            tuple(gates),
            nominated=nominated,
            claimed=claimed,
        )
