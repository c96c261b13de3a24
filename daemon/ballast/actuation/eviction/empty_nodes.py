"""Marks nodes that are being emptied or are empty, and gives them back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from ballast.actuation.eviction.requests import PART
from ballast.cluster.client import KubeApi
from ballast.cluster.node_writes import node_metadata, replace_taints, with_taint
from ballast.cluster.write import WriteOutcome
from ballast.cluster.writer import Writer
from ballast.eviction.emptying import EMPTY, ends_with_its_node, handed_over
from ballast.model.node import Node
from ballast.model.pod import Pod


class EmptyNodes:
    """The taint says that a node is to be empty, the label that it is. Both stay until the node is given back.

    PreferNoSchedule: pods that fit nowhere else still start there, also while no Ballast runs.
    """

    def __init__(self, api: KubeApi, writer: Writer, prefix: str) -> None:
        self._api, self._writer = api, writer
        self._prefix, self._key = prefix, f"{prefix}/{EMPTY}"

    def mark(
        self, wanted: Collection[str], nodes: Iterable[Node], pods_on: Callable[[str], Iterable[Pod]]
    ) -> str | None:
        """Marks the `wanted` nodes, gives the others back; the first problem, or None."""
        problems: list[WriteOutcome] = []
        for node in nodes:
            keep, empty = node.name in wanted, False
            if keep:
                empty = all(ends_with_its_node(pod) or pod.finished for pod in pods_on(node.name))
            if keep or handed_over(node, self._prefix):
                problems += [each for each in self._changed(node, keep, empty) if not each.done]
        return f"{problems[0].write.target}: {problems[0].reason}" if problems else None

    def _changed(self, node: Node, keep: bool, empty: bool) -> Iterable[WriteOutcome]:
        """The taint first, the label last; the other way round where the node is given back."""
        why = "the other nodes can do without it" if keep else "it is needed again"
        labelled = self._key in node.labels
        if labelled and not empty:
            yield self._labelled(node, None, why)
        if keep != any(taint.key == self._key for taint in node.taints):
            yield replace_taints(
                self._api,
                self._writer,
                node.name,
                lambda taints: with_taint(taints, self._key, keep),
                part=PART,
                reason=why,
            )
        if empty and not labelled:
            yield self._labelled(node, "true", why)

    def _labelled(self, node: Node, value: str | None, why: str) -> WriteOutcome:
        write = node_metadata(node.name, {self._key: value}, {}, part=PART, reason=why)
        return self._writer.submit(replace(write, event="MarkEmpty"))
