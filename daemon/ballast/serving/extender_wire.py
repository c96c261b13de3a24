"""The requests of a scheduler to an extender, and the answers.

Source: kubernetes staging/src/k8s.io/kube-scheduler/extender/v1/types.go. These types have no JSON tags, so their keys
are Go's names; the pod and the nodes inside are ordinary objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from ballast.cluster import wire
from ballast.errors import BallastError
from ballast.serving.host_index import Names, compact

MOST_NAMES = 250_000
"""Names in a request. No cluster has more nodes, and more would exhaust the memory."""

_NULL = b"null"
_NAMES_FOLLOW = b'"NodeNames":['


class TooManyNames(BallastError):
    """More than `MOST_NAMES`."""


class _Meta(msgspec.Struct, gc=False):
    name: str = ""


class _Node(msgspec.Struct, gc=False):
    metadata: _Meta


class _Nodes(msgspec.Struct, gc=False):
    items: list[_Node] | None = None


class _RawNodes(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


class PrioritizeArgs(msgspec.Struct, gc=False, rename="pascal"):
    """A request for scores: `nodes` without nodeCacheCapable, `node_names` with it."""

    pod: wire.Pod
    nodes: _Nodes | None = None
    node_names: msgspec.Raw = msgspec.Raw(_NULL)

    def names(self) -> list[str]:
        """The names of the nodes. Raises msgspec.DecodeError for anything but names, TooManyNames."""
        found: list[str] | None = _names.decode(_counted(self.node_names))
        if found is not None:
            return found
        items = self.nodes.items if self.nodes else None
        return [node.metadata.name for node in items or ()]


class FilterArgs(msgspec.Struct, gc=False, rename="pascal"):
    """A request to filter nodes. Nodes stay undecoded, because they are sent back unchanged."""

    pod: wire.Pod
    nodes: _RawNodes | None = None
    node_names: msgspec.Raw = msgspec.Raw(_NULL)

    def names(self) -> list[str]:
        """The names of the nodes. Raises msgspec.DecodeError for anything but names, TooManyNames."""
        found = _names.decode(_counted(self.node_names))
        return [_node.decode(raw).metadata.name for raw in self._raw()] if found is None else found

    def answer(self, names: Sequence[str], rejected: Mapping[str, str]) -> bytes:
        """The answer to `names`, without those in `rejected`: {name: why}.

        Rejections are unresolvable: a scheduler would otherwise evict pods to make room where none is missing.
        """
        passing: dict[str, object] = {}
        if bytes(self.node_names) != _NULL or self.nodes is None:
            passing["NodeNames"] = [name for name in names if name not in rejected] if rejected else names
        else:
            kept = [raw for name, raw in zip(names, self._raw(), strict=True) if name not in rejected]
            passing["Nodes"] = {"metadata": {}, "items": kept}
        return msgspec.json.encode(
            {**passing, "FailedNodes": {}, "FailedAndUnresolvableNodes": rejected, "Error": ""},
        )

    def _raw(self) -> list[msgspec.Raw]:
        return (self.nodes.items if self.nodes else None) or []


def prioritize_args(body: bytes) -> tuple[wire.Pod, Names | list[str]]:
    """The pod and the names of a `PrioritizeArgs`.

    Go writes the names last. The body is then split there: the names are indexed without being decoded, and the pod is
    decoded without the names. Any other body is decoded as a whole. Raises msgspec.DecodeError, TooManyNames.
    """
    start = body.find(_NAMES_FOLLOW)
    if start > 0 and body.endswith(b"]}"):
        names = compact(_counted(body[start + len(_NAMES_FOLLOW) - 1 : -1]))
        with suppress(msgspec.DecodeError):
            pod = _prioritize_args.decode(body[:start] + b'"Nodes":null}').pod
            if names is not None:
                return pod, names
    args = _prioritize_args.decode(body)
    return args.pod, args.names()


def _counted(raw: msgspec.Raw | bytes) -> bytes:
    names = bytes(raw)
    if len(names) > 2 * MOST_NAMES and names.count(b'"') > 2 * MOST_NAMES:
        raise TooManyNames(f"There are more than {MOST_NAMES:,} names in NodeNames.")
    return names


_prioritize_args = msgspec.json.Decoder(PrioritizeArgs)
filter_args = msgspec.json.Decoder(FilterArgs)
_node = msgspec.json.Decoder(_Node)
_names = msgspec.json.Decoder(list[str] | None)
