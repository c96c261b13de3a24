"""Which node a series is about. A label value is looked up, never guessed."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final

import numpy as np

from ballast.model.node import Node
from ballast.model.sample import Ints

UNMATCHED: Final = -1
AMBIGUOUS: Final = -2
NOT_SELECTED: Final = -3

SEPARATOR: Final = "\x1f"
"""Separates the values of several labels. Each of them may name the node."""

_NAME_ADDRESSES = frozenset(("Hostname", "InternalDNS"))
_EXTERNAL_ADDRESSES = frozenset(("ExternalIP", "ExternalDNS"))
_PORT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LONGEST_PORT_NAME = 15
_LONGEST_VALUE = 253 + len(":") + _LONGEST_PORT_NAME
"""Of a node's name with a port. What a pattern does with a longer one could take minutes."""


class NodeNames:
    """Finds the row of a node by what exporters call it.

    Tried in this order: the node label `identity`, the name, InternalIP, Hostname and InternalDNS, ExternalIP and
    ExternalDNS, a short host name for a node known by its FQDN, an FQDN for a node known by its short name; all of them
    with or without a `:port`, which is a number or a name. Of several values joined by SEPARATOR the first that names
    a node counts. A value of more than 269 characters names none.
    `rewrite` maps patterns (whole match) to replacements (`\\1` or `$1`) and is applied first. While `selecting`,
    `nodes` are not all there are: what fits none is NOT_SELECTED, and host names are not completed or cut, since they
    could be those of another node.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        selecting: bool = False,
        identity: str | None = None,
        rewrite: Mapping[str, str] | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        self._identity = identity
        self._rewrite = [
            (re.compile(pattern), re.sub(r"\$(\d+)", r"\\\1", text)) for pattern, text in (rewrite or {}).items()
        ]
        self._known: dict[str, int] = {}
        self._nobody: int = NOT_SELECTED if selecting else UNMATCHED
        self._levels = [_index(level) for level in _levels(self.nodes, identity)[: 4 if selecting else 6]]

    def __len__(self) -> int:
        return len(self.nodes)

    def following(self, nodes: tuple[Node, ...]) -> NodeNames | None:
        """The same look-ups over `nodes`, whatever else changed about them; None when one is called otherwise now."""
        if nodes is self.nodes:
            return self
        if len(nodes) != len(self.nodes):
            return None
        if any(
            new is not old and self._names_of(new) != self._names_of(old)
            for new, old in zip(nodes, self.nodes, strict=True)
        ):
            return None
        names = copy(self)
        names.nodes = nodes
        return names

    def row(self, value: str) -> int:
        """The row of the node, or UNMATCHED, AMBIGUOUS, NOT_SELECTED."""
        row = self._known.get(value)
        if row is None:
            if len(self._known) > 4 * len(self.nodes) + 10_000:
                self._known.clear()
            row = self._known[value] = self._find(value)
        return row

    def rows(self, values: Sequence[str]) -> Ints:
        """`row` of each value."""
        known = self._known
        return np.fromiter(
            (row if (row := known.get(value)) is not None else self.row(value) for value in values),
            dtype=np.int64,
            count=len(values),
        )

    def _names_of(self, node: Node) -> tuple[object, ...]:
        return node.name, node.addresses, node.labels.get(self._identity) if self._identity else None

    def _find(self, value: str) -> int:
        if SEPARATOR not in value:
            return self._find_one(value)
        rows = [self._find_one(name) for name in value.split(SEPARATOR)]
        return next((row for row in rows if row >= 0), max(rows))

    def _find_one(self, value: str) -> int:
        if len(value) > _LONGEST_VALUE:
            return self._nobody
        for pattern, replacement in self._rewrite:
            match = pattern.fullmatch(value)
            if match is not None:
                value = match.expand(replacement)
                break
        return self._look_up(_without_port(_canonical(value)))

    def _look_up(self, value: str) -> int:
        if not value:
            return UNMATCHED
        exact, guessed = self._levels[:4], self._levels[4:]
        for level in exact:
            if value in level:
                return level[value]
        if not guessed or _is_address(value):
            return self._nobody
        short_of_long, short = guessed
        host, dot, _ = value.partition(".")
        return (short if dot else short_of_long).get(host, self._nobody)


def _levels(nodes: Sequence[Node], identity: str | None) -> list[dict[str, set[int]]]:
    """Per level, key → the rows that answer to it."""
    levels: list[dict[str, set[int]]] = [defaultdict(set) for _ in range(6)]
    by_identity, by_name, by_address, by_external, short_of_long, short = levels
    for number, node in enumerate(nodes):
        if identity and (value := node.labels.get(identity)):
            by_identity[_canonical(value)].add(number)
        names = {_canonical(node.name)}
        by_name[_canonical(node.name)].add(number)
        for kind, address in node.addresses:
            if kind == "InternalIP":
                by_address[_canonical(address)].add(number)
            elif kind in _NAME_ADDRESSES:
                names.add(_canonical(address))
                by_address[_canonical(address)].add(number)
            elif kind in _EXTERNAL_ADDRESSES:
                by_external[_canonical(address)].add(number)
        for name in names:
            host, dot, _ = name.partition(".")
            if not _is_address(name):
                (short_of_long if dot else short)[host].add(number)
    return levels


def _index(level: Mapping[str, set[int]]) -> dict[str, int]:
    return {key: AMBIGUOUS if len(rows) > 1 else next(iter(rows)) for key, rows in level.items()}


def _canonical(value: str) -> str:
    value = value.strip().rstrip(".").lower()
    if value.count(":") > 1:
        try:
            return str(ipaddress.ip_address(value.strip("[]")))
        except ValueError:
            pass
    return value


def _without_port(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not _is_port(port) or (":" in host and not host.startswith("[")):
        return value
    return _canonical(host)


def _is_port(text: str) -> bool:
    """A number, or a port's name in a pod: Google Managed Prometheus calls exporters `node:portname`."""
    return text.isdigit() or (len(text) <= _LONGEST_PORT_NAME and _PORT_NAME.fullmatch(text) is not None)


def _is_address(value: str) -> bool:
    if ":" not in value and not value[:1].isdigit():
        return False
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True
