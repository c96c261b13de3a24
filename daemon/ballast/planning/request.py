"""Requests to the planning process and its responses: arrays and plain data, sent in small pieces."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO, Generic, TypeAlias, TypeVar

import msgspec
import numpy as np

from ballast.answers.views import Explanation
from ballast.eviction.gate_rules import UNLIMITED, EvictionLimit, GateRules
from ballast.model.pod import Pod
from ballast.placement.batch import BatchPlan, BatchRules
from ballast.placement.batch_balance import MeasuredLoad
from ballast.planners.aims import Aims
from ballast.planners.eviction_plan import EvictionPlan, Kind
from ballast.planning.moment import Moment

PIECE = 250
"""Objects that are handed over at once: fractions of a millisecond."""

T = TypeVar("T")


class PlansResponse(msgspec.Struct, frozen=True, tag="plans"):
    """Of `expected` pods, `measured` said what they use; `rejected` samples did not count.

    `problems` say which usage could not be read, and why. `megabytes` is the most memory that the process ever had.
    `barren` says on which nodes nothing starts.
    """

    plans: tuple[EvictionPlan, ...] = ()
    measured: int = 0
    expected: int = 0
    problems: dict[str, str] = {}
    rejected: dict[str, int] = {}
    megabytes: float = 0.0
    barren: str | None = None


class BatchResponse(msgspec.Struct, frozen=True, tag="batch"):
    """Where the pods of a batch should go."""

    plan: BatchPlan


class ExplanationResponse(msgspec.Struct, frozen=True, tag="explanation"):
    """None: there is no such pod."""

    explanation: Explanation | None


class FailureResponse(msgspec.Struct, frozen=True, tag="failure"):
    """A sentence: why there is no other response."""

    problem: str


Response: TypeAlias = PlansResponse | BatchResponse | ExplanationResponse | FailureResponse
R = TypeVar("R", PlansResponse, BatchResponse, ExplanationResponse)


@dataclass(frozen=True)
class Request(Generic[R]):
    """What the planning process is asked of a moment; `R` is the response to it."""

    moment: Moment


@dataclass(frozen=True)
class RequestedPlan:
    """A plan to make. `most` are the moves in it, where `aims` say nothing."""

    kind: Kind
    rules: GateRules = field(default_factory=GateRules)
    aims: Aims = field(default_factory=Aims)
    most: EvictionLimit = UNLIMITED


@dataclass(frozen=True)
class PlansRequest(Request[PlansResponse]):
    """Asks for plans of evictions: they are made in order until one has a step."""

    plans: tuple[RequestedPlan, ...]


@dataclass(frozen=True)
class BatchRequest(Request[BatchResponse]):
    """Asks where pods should go that are placed together."""

    uids: tuple[str, ...]
    rules: BatchRules
    measured: MeasuredLoad | None = None
    """In the order of the nodes; None where the load is not known now."""


@dataclass(frozen=True)
class ExplanationRequest(Request[ExplanationResponse]):
    """Asks what every check says about one pod, named namespace/name, and where it could go."""

    pod: str
    rules: GateRules
    aims: Aims


_responses: msgspec.msgpack.Decoder[Response] = msgspec.msgpack.Decoder(Response)
_rows = msgspec.msgpack.Decoder(list[list[Any]])
_FIELDS = Pod.__struct_fields__
_SHARED = tuple(map(_FIELDS.index, ("shape", "labels", "annotations", "owner", "template")))
"""Fields of which many pods have the very same object."""
_REPEATED = tuple(map(_FIELDS.index, ("namespace", "node", "phase", "scheduler_name")))
"""Strings that many pods have."""
_CLAIMED, _GATES = _FIELDS.index("claimed"), _FIELDS.index("gates")
_SEQUENCES = ("nodes", "workloads", "budgets", "autoscalers", "namespaces", "node_claims")
_ATTACHED = ("claims", "volumes", "classes", "csi_nodes", "slices")
_PODS, _BODY, _HEAD = "pods", "body", "head"


def send(request: Request[Any], write: Callable[[bytes], object], pause: Callable[[], object] = lambda: None) -> None:
    """In pieces, with a `pause` after each."""
    for piece in _pieces(request):
        write(pickle.dumps(piece, pickle.HIGHEST_PROTOCOL))
        pause()


def receive(stream: BinaryIO) -> Request[Any]:
    """Raises EOFError at the end of the stream."""
    items: dict[str, Any] = {name: [] for name in (*_SEQUENCES, *_ATTACHED, _PODS)}
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
            items[_PODS] += _pods(content[1], shared, strings)
        else:
            items[name] += content
    request: Request[Any] = content
    moment = request.moment
    listed = {name: items.pop(name) for name in _ATTACHED}
    attachments = moment.objects.attachments
    attached = {name: objects for name, objects in listed.items() if getattr(attachments, name) is not None}
    objects = replace(moment.objects, **items, attachments=replace(attachments, **attached))
    usage = None if moment.usage is None else replace(moment.usage, bodies=bodies)
    return replace(request, moment=replace(moment, objects=objects, usage=usage))


def encode(response: Response) -> bytes:
    return msgspec.msgpack.encode(response)


def decode(body: bytes) -> Response:
    """Raises msgspec.DecodeError."""
    return _responses.decode(body)


def _pieces(request: Request[Any]) -> Iterator[tuple[str, Any]]:
    """The objects of the moment and the answers about pods first, the request without them last."""
    moment = request.moment
    for name in _SEQUENCES:
        for piece in _cut(getattr(moment.objects, name)):
            yield name, list(piece)
    attachments = moment.objects.attachments
    for name in _ATTACHED:
        for piece in _cut(getattr(attachments, name) or ()):
            yield name, list(piece)
    numbers: dict[int, int] = {}
    for piece in _cut(moment.objects.pods):
        shared: list[Any] = []
        rows = [_row(pod, numbers, shared) for pod in piece]
        yield _PODS, (shared, msgspec.msgpack.encode(rows))
    usage = moment.usage
    if usage is not None:
        for resource, body in usage.bodies.items():
            yield _BODY, (resource, body)
        usage = replace(usage, bodies={})
    bare: dict[str, Any] = dict.fromkeys((*_SEQUENCES, _PODS), ())
    empty: dict[str, Any] = {name: () for name in _ATTACHED if getattr(attachments, name) is not None}
    objects = replace(moment.objects, **bare, attachments=replace(attachments, **empty))
    load = np.ascontiguousarray(moment.load)
    yield _HEAD, replace(request, moment=replace(moment, objects=objects, usage=usage, load=load))


def _cut(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), PIECE):
        yield items[start : start + PIECE]


def _row(pod: Pod, numbers: dict[int, int], shared: list[Any]) -> list[Any]:
    """The fields of a pod; values that pods share are indexes into `shared`, to which new ones are appended."""
    row = list(msgspec.structs.astuple(pod))
    for column in _SHARED:
        value = row[column]
        number = numbers.get(id(value))
        if number is None:
            number = numbers[id(value)] = len(numbers)
            shared.append(value)
        row[column] = number
    row[_CLAIMED] = dict(pod.claimed)
    return row


def _pods(rows: bytes, shared: Sequence[Any], strings: dict[str, str]) -> Iterator[Pod]:
    for row in _rows.decode(rows):
        for column in _SHARED:
            row[column] = shared[row[column]]
        for column in _REPEATED:
            row[column] = strings.setdefault(row[column], row[column])
        row[_GATES] = tuple(row[_GATES])
        yield Pod(*row)
