"""The marks of evictions on nodes: taints of nodes that pods leave or are to avoid, and of nodes to be emptied."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.records import StepRecord
from ballast.actuation.eviction.requests import PART
from ballast.cluster.client import KubeApi
from ballast.cluster.node_writes import Taints, node_metadata, replace_taints, with_taint
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.eviction.feasibility import EMPTY, ends_with_its_node, handed_over
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Floats
from ballast.model.snapshot import Snapshot

LEAVING = "leaving"
"""Name, under Ballast's prefix, of the taint of nodes that pods leave."""

LOADED = "loaded"
"""Name of the taint of other nodes that are not to take replacements."""

PATIENCE = 5.0
"""Seconds in which a taint is set or given up: the eviction waits for it."""

ROUND = 60.0
"""Seconds after which loaded nodes are given back at the latest: new pods avoid them too."""


OPEN = 0.1
"""Share of a pool's nodes that stay open, the least loaded ones: too few would take all pods that come meanwhile."""

MOST = 50
"""Nodes that are tainted beside those that pods leave: each is a write, and one more to give it back."""


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
        outcome = self._set_taints(node, leaving=True, part=PART)
        if not outcome.done:
            return f"{node} could not be tainted: {outcome.reason}"
        self._shut.discard(node)
        self._give_back(self._shut - {*self._avoided})
        for name in self._avoided:
            if name in self._left or name in self._shut:
                continue
            self._shut.add(name)
            if not self._set_taints(name, loaded=True, part=PART).done:
                break
        return None

    def settle(self, needed: Collection[str], nodes: Iterable[Node], now: float = 0.0) -> None:
        """Takes the taints from every node that carries one and is not among the `needed` ones; from loaded nodes when
        no pod is waited for, or after a while."""
        avoided = set(self._avoided) if needed and now < self._since + ROUND else set[str]()
        keys = {node.name: {taint.key for taint in node.taints} for node in nodes}
        left = self._left | {name for name, carried in keys.items() if self._leaving in carried}
        shut = self._shut | {name for name, carried in keys.items() if self._loaded in carried}
        self._give_back((left | (shut - avoided)) - set(needed))

    def _give_back(self, names: Collection[str]) -> None:
        for name in sorted(names):
            if self._set_taints(name, part=None).result in (Result.DONE, Result.GONE):
                self._left.discard(name)
                self._shut.discard(name)

    def _set_taints(self, node: str, *, part: str | None, leaving: bool = False, loaded: bool = False) -> WriteOutcome:
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


def loaded(steps: Sequence[StepRecord], snapshot: Snapshot, pending: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Those that the replacement of the last of `steps` is to avoid, the most loaded first, by the mean over resources
    of the load above the pool's mean, as the steps before it leave the loads. Never a node that the plan counts on now,
    one that takes no pods, or one of unknown load; nor of other pools.

    `pending` {node: {resource: change}} is what the window does not show yet.
    """
    nodes = {node.name: node for node in snapshot.nodes}
    row = snapshot.rows.get(steps[-1].source)
    if row is None:
        return []
    pool, load = snapshot.pool(row), snapshot.primary.mean.T.copy()
    for changes in (pending, *(effect.moved(step, nodes) for step in steps[:-1])):
        _add(load, changes, snapshot)
    rows = [
        row
        for row, node in enumerate(snapshot.nodes)
        if snapshot.pool(row) == pool and node.schedulable and np.isfinite(load[row]).any()
    ]
    over = _mean(load[rows] - _mean(load[rows], axis=0), axis=1)
    shut = max(0, len(rows) - max(1, round(OPEN * len(rows))))
    order = np.argsort(-over, kind="stable")[:shut].tolist()
    names = (snapshot.nodes[rows[place]].name for place in order)
    return [name for name in names if name != steps[-1].prefers][:MOST]


def _add(load: Floats, changes: Mapping[str, Mapping[str, float]], snapshot: Snapshot) -> None:
    for name, change in changes.items():
        row = snapshot.rows.get(name)
        for resource, value in change.items():
            column = snapshot.resource(resource)
            if row is not None and column is not None:
                load[row, column] += value


def _mean(values: Floats, axis: int) -> Floats:
    """Over what is known; 0 of nothing."""
    known = np.isfinite(values)
    total: Floats = np.where(known, values, 0.0).sum(axis=axis) / np.maximum(known.sum(axis=axis), 1)
    return total


class EmptyNodes:
    """The taint says that a node is to be empty, the label that it is. Both stay until the node is given back.

    PreferNoSchedule: pods that fit nowhere else still start there, also while no Ballast runs.
    """

    def __init__(self, api: KubeApi, writer: Writer, prefix: str) -> None:
        self._api, self._writer = api, writer
        self._prefix, self._key = prefix, f"{prefix}/{EMPTY}"

    def mark(
        self, needed: Collection[str], nodes: Iterable[Node], pods_on: Callable[[str], Iterable[Pod]]
    ) -> str | None:
        """Marks the `needed` nodes, gives the others back; the first problem, or None."""
        problems: list[WriteOutcome] = []
        for node in nodes:
            keep, empty = node.name in needed, False
            if keep:
                empty = all(ends_with_its_node(pod) or pod.finished for pod in pods_on(node.name))
            if keep or handed_over(node, self._prefix):
                problems += [outcome for outcome in self._changes(node, keep, empty) if not outcome.done]
        return f"{problems[0].write.target}: {problems[0].reason}" if problems else None

    def _changes(self, node: Node, keep: bool, empty: bool) -> Iterable[WriteOutcome]:
        """The taint first, the label last; the other way round where the node is given back."""
        why = "the other nodes can do without it" if keep else "it is needed again"
        labelled = self._key in node.labels
        if labelled and not empty:
            yield self._label(node, None, why)
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
            yield self._label(node, "true", why)

    def _label(self, node: Node, value: str | None, why: str) -> WriteOutcome:
        write = node_metadata(node.name, {self._key: value}, {}, part=PART, reason=why)
        return self._writer.submit(replace(write, event="MarkEmpty"))


def carries(node: Node, prefix: str) -> bool:
    """Whether a node has a label or taint of evictions."""
    return f"{prefix}/{EMPTY}" in node.labels or bool(_taints(node, prefix))


def unmark(api: KubeApi, writer: Writer, nodes: Iterable[Node], prefix: str, *, reason: str) -> list[WriteOutcome]:
    """Removes label and taints of evictions. Ends where the writer refuses; that outcome is the last."""
    outcomes: list[WriteOutcome] = []
    for node in nodes:
        if outcomes and outcomes[-1].result is Result.REFUSED:
            break
        if f"{prefix}/{EMPTY}" in node.labels:
            gone: dict[str, str | None] = {f"{prefix}/{EMPTY}": None}
            outcomes.append(writer.submit(node_metadata(node.name, gone, {}, part=PART, reason=reason)))
        if _taints(node, prefix):
            outcomes.append(
                replace_taints(api, writer, node.name, lambda old: _without(old, prefix), part=PART, reason=reason)
            )
    return outcomes


def _taints(node: Node, prefix: str) -> set[str]:
    return {taint.key for taint in node.taints} & {f"{prefix}/{name}" for name in (EMPTY, LEAVING, LOADED)}


def _without(taints: Taints, prefix: str) -> Taints:
    for name in (EMPTY, LEAVING, LOADED):
        taints = with_taint(taints, f"{prefix}/{name}", False)
    return taints
