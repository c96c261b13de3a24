"""Takes back what evictions left on nodes."""

from __future__ import annotations

from collections.abc import Iterable

from ballast.actuation.eviction.leaving import LEAVING, LOADED
from ballast.actuation.eviction.requests import PART
from ballast.actuation.eviction.surge import Surges
from ballast.base.clock import Clock
from ballast.cluster.client import KubeApi
from ballast.cluster.node_writes import Taints, node_metadata, replace_taints, with_taint
from ballast.cluster.state import StateStore
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.eviction.emptying import EMPTY
from ballast.model.node import Node


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


def give_back_replicas(api: KubeApi, writer: Writer, state: StateStore, clock: Clock) -> tuple[int, int]:
    """Takes back the replicas that were added so that pods could move: how many were, and how many still are there.

    Raises ClusterError when `ballast-state` cannot be read.
    """
    surges = Surges(api, writer, state, clock)
    surges.resume()
    added = len(surges.workloads)
    surges.give_back()
    return added, len(surges.workloads)
