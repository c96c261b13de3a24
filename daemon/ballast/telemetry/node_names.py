"""Which node a series is about. A label value is looked up, never guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ballast.model.node import Node
from ballast.model.node_state import is_down
from ballast.model.sample import Ints
from ballast.settings import Settings
from ballast.telemetry.node_claims import AMBIGUOUS as AMBIGUOUS
from ballast.telemetry.node_claims import (
    GUESSED,
    AddressClaim,
    Contest,
    basis_of,
    canonical,
    claims_of,
    contest,
    is_address,
    is_machine,
    owner_of,
    standing,
)
from ballast.telemetry.origins import TARGET, Origins

UNMATCHED: Final = -1
NOT_SELECTED: Final = -3

SEPARATOR: Final = "\x1f"
"""Separates the values of several labels. Each of them may name the node."""

_PORT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_LONGEST_PORT_NAME = 15
_LONGEST_VALUE = 253 + len(":") + _LONGEST_PORT_NAME
"""Of a node's name with a port. What a pattern does with a longer one could take minutes."""


@dataclass(frozen=True)
class Naming:
    """How the settings say that series name nodes; see NodeNames."""

    selecting: bool = False
    identity: str | None = None
    rewrite: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> Naming:
        """What BALLAST_TELEMETRY__NODE_IDENTITY, NODE_REWRITE and BALLAST_CLUSTER__NODE_SELECTOR say."""
        telemetry = settings.telemetry
        return cls(settings.cluster.node_selector is not None, telemetry.node_identity, telemetry.node_rewrite or {})

    def over(self, nodes: Sequence[Node]) -> NodeNames:
        """The look-up of these nodes."""
        return NodeNames(nodes, selecting=self.selecting, identity=self.identity, rewrite=self.rewrite)


class NodeNames:
    """Finds the row of a node by what exporters call it.

    Tried in this order: the name, the node label `identity`, what the node lists (InternalIP, Hostname, InternalDNS,
    ExternalIP, ExternalDNS), its providerID, a short host name for a node known by its FQDN, an FQDN for a node known
    by its short name; all of them with or without a `:port`, which is a number or a name. `observe` takes back such a
    guess, and adds what is known of the pods behind the values. What several nodes claim belongs to the
    strongest claim (`node_claims`). Of several values joined by SEPARATOR the first that names a node counts. A value
    of more than 269 characters names none.
    `rewrite` maps patterns (whole match) to replacements (`\\1` or `$1`) and is applied first. While `selecting`,
    `nodes` are not all there are: what fits none is NOT_SELECTED, and host names are not completed or cut, since they
    could be those of another node. `before` are the look-ups of the cycle before: who was measured under an address
    then keeps it.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        selecting: bool = False,
        identity: str | None = None,
        rewrite: Mapping[str, str] | None = None,
        before: NodeNames | None = None,
    ) -> None:
        self.nodes = tuple(nodes)
        self._selecting, self._identity = selecting, identity
        self._rewrite = [
            (re.compile(pattern), re.sub(r"\$(\d+)", r"\\\1", text)) for pattern, text in (rewrite or {}).items()
        ]
        self._patterns = rewrite
        self._known: dict[str, int] = {}
        self._seen: set[str] = set()
        """Keys under which series have been looked up."""
        self._observed: dict[str, Origins] = before._observed if before else {}
        """By metric, shared by all that follow."""
        self._named: dict[str, tuple[int, str]] = {}
        self._held, self._refused = before._remembered() if before else ({}, {})
        self._nobody: int = NOT_SELECTED if selecting else UNMATCHED
        self._index: dict[str, int] = {}
        rivals: dict[str, set[int]] = {}
        for row, node in enumerate(self.nodes):
            for key, _ in claims_of(node, identity, guessing=not selecting):
                if (other := self._index.setdefault(key, row)) != row:
                    rivals.setdefault(key, {other}).add(row)
        self._settle(rivals)

    def __len__(self) -> int:
        return len(self.nodes)

    def following(self, nodes: tuple[Node, ...]) -> NodeNames:
        """The look-ups over `nodes`: the same ones where none of them is called otherwise now."""
        if nodes is self.nodes:
            return self
        if len(nodes) == len(self.nodes) and all(
            new is old or self._told_by(row, new) == self._told_by(row, old)
            for row, (new, old) in enumerate(zip(nodes, self.nodes, strict=True))
        ):
            names = copy(self)
            names.nodes = nodes
            return names
        return NodeNames(nodes, selecting=self._selecting, identity=self._identity, rewrite=self._patterns, before=self)

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

    def observe(self, metric: str, origins: Origins) -> None:
        """From now on what the raw series of a metric show beside their names counts too."""
        if self._observed.get(metric, Origins()) != origins:
            self._observed[metric] = origins
            self._known.clear()

    def named(self, value: str) -> tuple[int, str]:
        """The row of the node by its name alone, as `row` has it, and by which claim, one of MATCHED_BY.

        That is empty where the value names none, "ambiguous" where it names several.
        """
        found = self._named.get(value)
        if found is None:
            if len(self._named) > 4 * len(self.nodes) + 10_000:
                self._named.clear()
            keys = [self._key(name) for name in value.split(SEPARATOR)]
            rows = [self._nobody if key is None else self._index[key] for key in keys]
            row, key = max(zip(rows, keys, strict=True), key=lambda each: each[0] >= 0)
            how = "ambiguous" if row == AMBIGUOUS else ""
            if row >= 0 and key is not None:
                how = basis_of(self.nodes[row], key, self._identity, guessing=not self._selecting)
            found = self._named[value] = row, how
        return found

    def matched_by(self, value: str) -> tuple[str, bool]:
        """How a value that has a row finds it, one of MATCHED_BY or TARGET, and whether that is a guess."""
        row, how = self.named(value)
        if row < 0 or any(value in origins.doubted for origins in self._observed.values()):
            return TARGET, False
        confirmed = any(value in origins.confirmed for origins in self._observed.values())
        return how, how == GUESSED and not confirmed

    def contests(self) -> tuple[Contest, ...]:
        """What series are called by and several living nodes claim, by key."""
        found = (
            contest(key, self._contested[key], self.nodes, self._index[key])
            for key in sorted(self._contested.keys() & self._seen)
        )
        return tuple(each for each in found if each is not None)

    def _settle(self, rivals: dict[str, set[int]]) -> None:
        """Decides about each key that several nodes claim."""
        for key, row in self._index.items():
            # "w1.evil" that one node lists is a claim to node w1 as well: its name is the better one.
            host, dot, rest = key.partition(".")
            # An address is no FQDN, whatever node is called by a number.
            if rest and (other := self._index.get(host + dot, row)) != row and not is_address(key):
                rivals.setdefault(key, {row}).add(other)
        # The whole list of a node once, however many keys it claims.
        standings = {
            row: standing(self.nodes[row], self._identity, guessing=not self._selecting)
            for row in set[int]().union(*rivals.values())
        }
        self._rivals = frozenset(standings)
        self._contested: dict[str, dict[int, AddressClaim]] = {}
        for key, rows in rivals.items():
            part = key.partition(".")[0] + "."
            claims = {
                row: claim for row in rows if (claim := standings[row].get(key) or standings[row].get(part)) is not None
            }
            self._contested[key] = claims
            self._index[key] = owner_of(claims, self.nodes, self._held.get(key, ""))

    def _remembered(self) -> tuple[dict[str, str], dict[tuple[str, str], str]]:
        """Key → the node that was measured under it first; (key, node) → the node that had it when its claim failed.

        Both last while their node claims the key. Who claims what is not his gains nothing by waiting until the owner
        is down or gone: a claim that failed never becomes the first, unless the owner lives and took the address off
        its list, as floating ones do. One that no series confirmed is none either: else a list of the whole subnet
        would hold the addresses of nodes to come.
        """
        names = [node.name for node in self.nodes]
        row_of = {name: row for row, name in enumerate(names)}

        def stands(key: str, name: str) -> bool:
            row = row_of.get(name)
            return row is not None and row in self._contested.get(key, (self._index.get(key),))

        refused = {
            (key, name): owner
            for (key, name), owner in self._refused.items()
            if stands(key, name) and (owner not in row_of or stands(key, owner))
        }
        for key, claims in self._contested.items():
            if (owner := self._index[key]) >= 0:
                refused.update({(key, names[row]): names[owner] for row in claims if row != owner})
        held = {
            key: names[row] for key in self._seen if (row := self._index[key]) >= 0 and (key, names[row]) not in refused
        }
        return held | {key: name for key, name in self._held.items() if stands(key, name)}, refused

    def _told_by(self, row: int, node: Node) -> tuple[object, ...]:
        """What look-ups depend on; whether a node lives only where another claims the same."""
        told = node.name, node.addresses, node.labels.get(self._identity) if self._identity else None
        return (*told, is_down(node), is_machine(node), node.created) if row in self._rivals else told

    def _find(self, value: str) -> int:
        if any(value in origins.doubted for origins in self._observed.values()):
            return self._nobody
        rows = [self._find_one(name) for name in value.split(SEPARATOR)]
        row = next((row for row in rows if row >= 0), max(rows))
        if row in (UNMATCHED, NOT_SELECTED) and value:
            places = {place for origins in self._observed.values() if (place := origins.targets.get(value))}
            row = self._index.get(canonical(places.pop()), row) if len(places) == 1 else row
        return row

    def _find_one(self, value: str) -> int:
        key = self._key(value)
        if key is None:
            return self._nobody if value else UNMATCHED
        self._seen.add(key)
        return self._index[key]

    def _key(self, value: str) -> str | None:
        """What in the index this value is, if anything."""
        if len(value) > _LONGEST_VALUE:
            return None
        for pattern, replacement in self._rewrite:
            match = pattern.fullmatch(value)
            if match is not None:
                value = match.expand(replacement)
                break
        value = _without_port(canonical(value))
        host, dot, _ = value.partition(".")
        guesses = () if is_address(value) else (host + dot,)
        return next((key for key in (value, *guesses) if key in self._index and key), None)


def _without_port(value: str) -> str:
    host, colon, port = value.rpartition(":")
    if not colon or not _is_port(port) or (":" in host and not host.startswith("[")):
        return value
    return canonical(host)


def _is_port(text: str) -> bool:
    """A number, or a port's name in a pod: Google Managed Prometheus calls exporters `node:portname`."""
    return text.isdigit() or (len(text) <= _LONGEST_PORT_NAME and _PORT_NAME.fullmatch(text) is not None)
