"""Taints nodes that replacements left, and loaded nodes, to keep replacements away where no scheduler is steered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ballast.actuation.eviction.requests import PART
from ballast.cluster.client import KubeApi
from ballast.cluster.node_writes import Taints, replace_taints, with_taint
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.model.node import Node

LEAVING, LOADED = "leaving", "loaded"
"""Names of the taints under Ballast's prefix: of the node that a pod leaves, and of others that are not to take it."""

PATIENCE = 5.0
"""Seconds in which a taint is set or given up: the eviction waits for it."""

ROUND = 60.0
"""Seconds after which loaded nodes are given back at the latest: new pods avoid them too."""


class LeavingTaints:
    """Puts the taints on nodes before an eviction, and takes them away when nothing waits for a replacement any more.

    What is wanted follows from the evictions that are written down, so a new leader knows it too; it gives back loaded
    nodes at once. Giving a taint back is no action: neither a pause nor the end of the daemon holds it up.
    """

    def __init__(self, api: KubeApi, writer: Writer, prefix: str, *, sets: bool) -> None:
        """Without `sets` it only takes away what was left."""
        self._api, self._writer = api, writer
        self._leaving, self._loaded = f"{prefix}/{LEAVING}", f"{prefix}/{LOADED}"
        self.sets = sets
        self._left, self._shut = set[str](), set[str]()
        self._avoided: tuple[str, ...] = ()
        self._since = 0.0

    def avoid(self, nodes: Sequence[str], now: float) -> None:
        """The loaded nodes from now on; they are tainted, and the others opened, with the next node that a pod
        leaves."""
        self._avoided, self._since = tuple(nodes), now

    def put(self, node: str) -> str | None:
        """Why the taint could not be set, or None. That a loaded node stays open does not matter."""
        if not self.sets:
            return None
        self._left.add(node)
        outcome = self._changed(node, leaving=True, part=PART)
        if not outcome.done:
            return f"{node} could not be tainted: {outcome.reason}"
        self._shut.discard(node)
        self._give_back(self._shut - {*self._avoided})
        for name in self._avoided:
            if name in self._left or name in self._shut:
                continue
            self._shut.add(name)
            if not self._changed(name, loaded=True, part=PART).done:
                break
        return None

    def settle(self, wanted: Collection[str], nodes: Iterable[Node], now: float = 0.0) -> None:
        """Takes the taints from every node that carries one and is not among the `wanted` ones; from loaded nodes when
        no pod is waited for, or after a while."""
        avoided = set(self._avoided) if wanted and now < self._since + ROUND else set[str]()
        keys = {node.name: {taint.key for taint in node.taints} for node in nodes}
        left = self._left | {name for name, carried in keys.items() if self._leaving in carried}
        shut = self._shut | {name for name, carried in keys.items() if self._loaded in carried}
        self._give_back((left | (shut - avoided)) - set(wanted))

    def _give_back(self, names: Collection[str]) -> None:
        for name in sorted(names):
            if self._changed(name, part=None).result in (Result.DONE, Result.GONE):
                self._left.discard(name)
                self._shut.discard(name)

    def _changed(self, node: str, *, part: str | None, leaving: bool = False, loaded: bool = False) -> WriteOutcome:
        def change(taints: Taints) -> Taints:
            return with_taint(with_taint(taints, self._leaving, leaving), self._loaded, loaded)

        return replace_taints(
            self._api,
            self._writer,
            node,
            change,
            part=part,
            reason="a replacement is to land elsewhere" if leaving or loaded else "no replacement is waited for",
            deadline=self._writer.within(PATIENCE),
        )
