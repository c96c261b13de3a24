"""Taints that keep replacements off the nodes they left, where the scheduler cannot be asked to."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ballast.actuation.eviction.requests import PART
from ballast.cluster.client import KubeApi
from ballast.cluster.node_writes import replace_taints, with_taint
from ballast.cluster.write import Result
from ballast.cluster.writer import Writer
from ballast.model.node import Node

LEAVING = "leaving"
"""Name of the taint under Ballast's prefix."""

PATIENCE = 5.0
"""Seconds in which a taint is set or given up: the eviction waits for it."""


class LeavingTaints:
    """Puts the taint on a node before an eviction, and takes it away when nothing waits for a replacement any more.

    What is wanted follows from the evictions that are written down, so a new leader knows it too. Giving a taint back
    is no action: neither a pause nor the end of the daemon holds it up.
    """

    def __init__(self, api: KubeApi, writer: Writer, prefix: str, *, sets: bool) -> None:
        """Without `sets` it only takes away what was left."""
        self._api, self._writer = api, writer
        self._key = f"{prefix}/{LEAVING}"
        self._sets, self._put = sets, set[str]()

    def put(self, node: str) -> str | None:
        """Why the taint could not be set, or None."""
        if not self._sets:
            return None
        self._put.add(node)
        outcome = replace_taints(
            self._api,
            self._writer,
            node,
            lambda taints: with_taint(taints, self._key, True),
            part=PART,
            reason="a replacement is to land elsewhere",
            deadline=self._writer.within(PATIENCE),
        )
        return None if outcome.done else f"{node} could not be tainted: {outcome.reason}"

    def settle(self, wanted: Collection[str], nodes: Iterable[Node]) -> None:
        """Takes the taint from every node that carries it and is not among the `wanted` ones."""
        carry = {node.name for node in nodes if any(taint.key == self._key for taint in node.taints)}
        for name in sorted((carry | self._put) - set(wanted)):
            outcome = replace_taints(
                self._api,
                self._writer,
                name,
                lambda taints: with_taint(taints, self._key, False),
                part=None,
                reason="no replacement is waited for",
                deadline=self._writer.within(PATIENCE),
            )
            if outcome.result in (Result.DONE, Result.GONE):
                self._put.discard(name)
