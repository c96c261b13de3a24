"""What a scheduler asks an extender, and what it is answered.

Source: kubernetes staging/src/k8s.io/kube-scheduler/extender/v1/types.go. These types have no JSON tags, so their keys
are Go's names; the pod and the nodes inside are ordinary objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from ballast.cluster import wire
from ballast.model.sample import Bools, Ints


class _Meta(msgspec.Struct, gc=False):
    name: str = ""


class _Node(msgspec.Struct, gc=False):
    metadata: _Meta


class _Nodes(msgspec.Struct, gc=False):
    items: list[_Node] | None = None


class _RawNodes(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


class PrioritizeArgs(msgspec.Struct, gc=False, rename="pascal"):
    """`nodes` without nodeCacheCapable, `node_names` with it."""

    pod: wire.Pod
    nodes: _Nodes | None = None
    node_names: list[str] | None = None

    def names(self) -> list[str]:
        if self.node_names is not None:
            return self.node_names
        items = self.nodes.items if self.nodes else None
        return [node.metadata.name for node in items or ()]


class FilterArgs(msgspec.Struct, gc=False, rename="pascal"):
    """As `PrioritizeArgs`; the nodes stay as they came, because they are sent back."""

    pod: wire.Pod
    nodes: _RawNodes | None = None
    node_names: list[str] | None = None

    def names(self) -> list[str]:
        if self.node_names is not None:
            return self.node_names
        return [_node.decode(raw).metadata.name for raw in self._raw()]

    def answer(self, names: Sequence[str], rejected: Mapping[str, str]) -> bytes:
        """The answer to `names`, without those in `rejected`: {name: why}.

        Rejections are unresolvable: a scheduler would otherwise evict pods to make room where none is missing.
        """
        passing: dict[str, object] = {}
        if self.node_names is not None or self.nodes is None:
            passing["NodeNames"] = [name for name in names if name not in rejected] if rejected else names
        else:
            kept = [raw for name, raw in zip(names, self._raw(), strict=True) if name not in rejected]
            passing["Nodes"] = {"metadata": {}, "items": kept}
        return msgspec.json.encode(
            {**passing, "FailedNodes": {}, "FailedAndUnresolvableNodes": rejected, "Error": ""},
        )

    def _raw(self) -> list[msgspec.Raw]:
        return (self.nodes.items if self.nodes else None) or []


prioritize_args = msgspec.json.Decoder(PrioritizeArgs)
filter_args = msgspec.json.Decoder(FilterArgs)
_node = msgspec.json.Decoder(_Node)


class Named:
    """The nodes of one request, and the answer to it but for the points.

    `known` says which of the names are known nodes, `rows` are theirs; `everybody`: each known node is there once.
    """

    def __init__(self, names: Sequence[str], found: Ints, hosts: Hosts) -> None:
        self.names = names
        self.known: Bools = found >= 0
        self.rows = found if self.known.all() else found[self.known]
        self.everybody = len(self.rows) == len(hosts.names) and bool(
            np.bincount(self.rows, minlength=len(hosts.names)).all()
        )
        if len(self.rows) == len(names) and len(names):
            pieces, lengths = hosts.heads.take(found).tolist(), hosts.lengths.take(found)
        else:
            pieces = list(map(_head, names))
            lengths = np.array(list(map(len, pieces)), np.int64)
        self._text = np.frombuffer(b"".join([*pieces, b"]"]), np.uint8)
        self._places = lengths.cumsum() - _AFTER

    def priorities(self, points: Ints, chosen: int | None = None) -> bytes:
        """`[{"Host": name, "Score": points}, …]`; the one at `chosen` gets 10, all others have one digit."""
        text = self._text.copy()
        text[self._places] = points + _ZERO
        if not len(text) > 1:
            return b"[]"
        text[0] = _OPEN
        if chosen is None:
            return text.tobytes()
        place = int(self._places[chosen])
        return text[:place].tobytes() + b"10" + text[place + 1 :].tobytes()


class Hosts:
    """The nodes that are known, by name."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self._rows = {name: row for row, name in enumerate(self.names)}
        self.heads = np.empty(len(self.names), object)
        self.heads[:] = list(map(_head, self.names))
        self.lengths = np.array(list(map(len, self.heads)), np.int64)
        self._last: Named | None = None

    def named(self, names: Sequence[str]) -> Named:
        """Quick for the names of the request before, in the same order."""
        last = self._last
        if last is None or last.names != names:
            last = self._last = Named(names, self.locate(names), self)
        return last

    def locate(self, names: Sequence[str]) -> Ints:
        """[name]: its row, -1 for a node that is not known."""
        try:
            return np.fromiter(map(self._rows.__getitem__, names), np.int64, len(names))
        except KeyError:
            return np.fromiter((self._rows.get(name, -1) for name in names), np.int64, len(names))


def _head(name: str) -> bytes:
    """One entry, with room for one digit; the first one's comma becomes the bracket."""
    return b',{"Host":%b,"Score":0}' % msgspec.json.encode(name)


_AFTER = len(b"0}")
_ZERO, _OPEN = b"0["
