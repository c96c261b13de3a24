"""The requests of a scheduler to an extender, and the answers.

Source: kubernetes staging/src/k8s.io/kube-scheduler/extender/v1/types.go. These types have no JSON tags, so their keys
are Go's names; the pod and the nodes inside are ordinary objects.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ballast.base.errors import BallastError
from ballast.cluster.objects import wire
from ballast.serving.host_index import Names, compact

MOST_NAMES = 250_000
"""Names in a request. No cluster has more nodes, and more would exhaust the memory."""

MOST_NODES = 50_000
"""Whole nodes in a request. Real ones have some kilobytes each, so that fewer fit into a body."""

MAX_POD = 2 * 1024 * 1024
"""Bytes of the pod in a request; etcd stores at most 1.5 MiB of one object."""

MAX_NAME = 253
"""Characters of a name or a label's value, as Kubernetes allows."""

MAX_KEY = MAX_NAME + 1 + 63
"""Characters of a key with its prefix."""

MAX_QUANTITY = 64
"""Characters of a quantity."""

MAX_CONTAINERS = 500
"""Containers of a pod, init containers included."""

MAX_RESOURCES = 100
"""Kinds of resources that a pod asks for or is limited in."""

_NULL = b"null"
_NAMES_FOLLOW = b'"NodeNames":['


class TooManyNames(BallastError):
    """More than `MOST_NAMES`, or than `MOST_NODES`."""


class FieldTooLarge(BallastError):
    """A field of the pod, or a node's name, is larger than Kubernetes or this server allows."""


class _NodeName(msgspec.Struct, gc=False):
    name: str = ""


class _NamedNode(msgspec.Struct, gc=False):
    metadata: _NodeName


class _NodeItems(msgspec.Struct, gc=False):
    items: list[_NamedNode] | None = None


class _RawNodes(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


class _PrioritizeArgs(msgspec.Struct, gc=False, rename="pascal"):
    pod: msgspec.Raw
    nodes: _NodeItems | None = None
    node_names: msgspec.Raw = msgspec.Raw(_NULL)

    def names(self) -> list[str]:
        items = self.nodes.items if self.nodes else None
        return [node.metadata.name for node in items or ()]


class _PodAlone(msgspec.Struct, gc=False, rename="pascal"):
    pod: wire.Pod


class _WholeNodes(msgspec.Struct, gc=False, rename="pascal"):
    nodes: _RawNodes | None = None


class FilterArgs:
    """A request to filter nodes. Nodes stay undecoded, because they are sent back unchanged."""

    def __init__(self, pod: wire.Pod, args: _PrioritizeArgs, whole: Sequence[msgspec.Raw]) -> None:
        self.pod = pod
        self._args = args
        self._raw = whole

    def names(self) -> list[str]:
        """The names of the nodes. Raises msgspec.DecodeError for anything but names, TooManyNames, FieldTooLarge."""
        listed = _listed(self._args.node_names)
        return _short(self._args.names()) if listed is None else listed

    def answer(self, names: Sequence[str], rejected: Mapping[str, str]) -> bytes:
        """The answer to `names`, without those in `rejected`: {name: why}.

        Rejections are unresolvable: a scheduler would otherwise evict pods to make room where none is missing.
        """
        passing: dict[str, object] = {}
        if bytes(self._args.node_names) != _NULL or self._args.nodes is None:
            passing["NodeNames"] = [name for name in names if name not in rejected] if rejected else names
        else:
            kept = [raw for name, raw in zip(names, self._raw, strict=True) if name not in rejected]
            passing["Nodes"] = {"metadata": {}, "items": kept}
        return msgspec.json.encode({**passing, "FailedNodes": {}, "FailedAndUnresolvableNodes": rejected, "Error": ""})


def prioritize_args(body: bytes) -> tuple[wire.Pod, Names | list[str]]:
    """The pod and the names of a request for scores.

    Go writes the names last. The body is then split there: the names are indexed without being decoded, and the pod is
    decoded without the names. Any other body is decoded as a whole. Raises msgspec.DecodeError, TooManyNames,
    FieldTooLarge.
    """
    start = body.find(_NAMES_FOLLOW)
    if start > 0 and body.endswith(b"]}"):
        names = compact(_counted(body[start + len(_NAMES_FOLLOW) - 1 : -1]))
        if names is not None:
            with suppress(msgspec.DecodeError):
                pod = _pod_before(body[:start] + b'"Nodes":null}')
                if names.longest > MAX_NAME:
                    raise FieldTooLarge(_TOO_LONG.format("a name in NodeNames", names.longest, MAX_NAME))
                return pod, names
    args = _with_names(body)
    listed = _listed(args.node_names)
    return _pod(args.pod), _short(args.names()) if listed is None else listed


def filter_args(body: bytes) -> FilterArgs:
    """A request to filter nodes. Raises msgspec.DecodeError, TooManyNames, FieldTooLarge."""
    args = _with_names(body)
    whole = _whole_nodes.decode(body).nodes if args.nodes else None
    return FilterArgs(_pod(args.pod), args, (whole.items if whole else None) or ())


def _with_names(body: bytes) -> _PrioritizeArgs:
    """Decodes of nodes the names alone; what is no node ends it at once.

    They are counted before, and also after that, for their keys may be escaped.
    """
    if body.count(b'"metadata"') > 2 * MOST_NODES:
        raise TooManyNames(_TOO_MANY)
    args = _prioritize_args.decode(body)
    if args.nodes is not None and len(args.nodes.items or ()) > MOST_NODES:
        raise TooManyNames(_TOO_MANY)
    return args


def pod_bytes(body: bytes) -> int:
    """The size of the pod where the names follow it, else of the body."""
    start = body.find(_NAMES_FOLLOW)
    return start if start > 0 else len(body)


def _pod_before(args: bytes) -> wire.Pod:
    """Of arguments without names: decoded in one step unless they are too large."""
    return _pod(_prioritize_args.decode(args).pod) if len(args) > MAX_POD else _checked(_pod_alone.decode(args).pod)


def _pod(raw: msgspec.Raw) -> wire.Pod:
    size = len(bytes(raw))
    if size > MAX_POD:
        raise FieldTooLarge(f"The pod has {size:,} bytes; a pod has at most {MAX_POD:,}.")
    return _checked(_pods.decode(raw))


def _checked(pod: wire.Pod) -> wire.Pod:
    """A pod whose fields are no larger than those of a pod that Kubernetes accepts."""
    meta, spec = pod.metadata, pod.spec
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    if len(containers) > MAX_CONTAINERS:
        raise FieldTooLarge(f"The pod has {len(containers):,} containers; at most {MAX_CONTAINERS} are read.")
    names = [meta.name, meta.namespace, meta.uid, spec.node_name, spec.scheduler_name, spec.priority_class_name]
    for owner in meta.owner_references or ():
        names += owner.kind, owner.name, owner.uid
    _within("a name", MAX_NAME, names)
    for labels in (meta.labels, spec.node_selector):
        if labels:
            _within("a label", MAX_KEY, labels)
            _within("a label's value", MAX_NAME, labels.values())
    stated, kinds = list[Mapping[str, Any]](), set[str]()
    for one in (spec.resources, *[container.resources for container in containers]):
        if one:
            stated += [amounts for amounts in (one.requests, one.limits) if amounts]
    for amounts in stated:
        kinds.update(amounts)
    if len(kinds) > MAX_RESOURCES:
        raise FieldTooLarge(f"The pod asks for {len(kinds):,} kinds of resources; at most {MAX_RESOURCES} are read.")
    for amounts in (*stated, spec.overhead or {}):
        _within("a resource", MAX_KEY, amounts)
        _within("a quantity", MAX_QUANTITY, [text for text in amounts.values() if isinstance(text, str)])
    return pod


def _within(what: str, limit: int, texts: Iterable[str]) -> None:
    longest = max(map(len, texts), default=0)
    if longest > limit:
        raise FieldTooLarge(_TOO_LONG.format(what, longest, limit))


def _short(names: list[str]) -> list[str]:
    _within("the name of a node", MAX_NAME, names)
    return names


def _listed(raw: msgspec.Raw) -> list[str] | None:
    names: list[str] | None = _names.decode(_counted(raw))
    return None if names is None else _short(names)


def _counted(raw: msgspec.Raw | bytes) -> bytes:
    names = bytes(raw)
    if len(names) > 2 * MOST_NAMES and names.count(b'"') > 2 * MOST_NAMES:
        raise TooManyNames(f"There are more than {MOST_NAMES:,} names in NodeNames.")
    return names


_TOO_MANY = f"There are more than {MOST_NODES:,} nodes in Nodes; names alone (nodeCacheCapable: true) are shorter."
_TOO_LONG = "The request has {} of {:,} characters; at most {} are allowed."
_prioritize_args = msgspec.json.Decoder(_PrioritizeArgs)
_whole_nodes = msgspec.json.Decoder(_WholeNodes)
_pods = msgspec.json.Decoder(wire.Pod)
_pod_alone = msgspec.json.Decoder(_PodAlone)
_names = msgspec.json.Decoder(list[str] | None)
