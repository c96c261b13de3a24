"""Nodes that no source ever measured, and the setting that leaves them out or measures them."""

from __future__ import annotations

from collections.abc import Sequence

from ballast.base.text import named
from ballast.model.node import Node
from ballast.model.node_state import NodeState
from ballast.model.snapshot import Snapshot

NAMED = 5
TELLING = ("kubernetes.io/os", "eks.amazonaws.com/compute-type", "type", "kubernetes.io/arch")
"""Labels that are tried first; others may be the same by chance."""

HOSTNAME = "kubernetes.io/hostname"
OS = "kubernetes.io/os"


def unmeasured(snapshot: Snapshot, selector: str | None) -> str | None:
    """What to do about them, in a sentence with a line to copy; None where there are none.

    `selector` is the one that is set.
    """
    states = snapshot.states
    rows = states.are(NodeState.UNMEASURED)
    if not rows.any():
        return None
    nodes = [node for node, silent in zip(snapshot.nodes, rows.tolist(), strict=True) if silent]
    others = [node for node, silent in zip(snapshot.nodes, rows.tolist(), strict=True) if not silent]
    both = ",".join(filter(None, (selector, leaving_out(nodes, others))))
    text = (
        f"{named([node.name for node in nodes], NAMED)} never gave a sample, while others do; they count for nothing. "
        f"To leave them out, set BALLAST_CLUSTER__NODE_SELECTOR='{both}'"
    )
    if all(node.labels.get(OS) == "windows" for node in nodes):
        return f"{text}; to measure them, BALLAST_PROMETHEUS__PRESET=node-exporter,windows-exporter"
    return f"{text}; to measure them, install the exporter there, or add its preset to BALLAST_PROMETHEUS__PRESET"


def leaving_out(nodes: Sequence[Node], others: Sequence[Node]) -> str:
    """A label selector that all `others` meet and none of `nodes`."""
    keys = {key for node in (*nodes, *others) for key in node.labels} - {HOSTNAME}
    ordered = [key for key in TELLING if key in keys] + sorted(keys - set(TELLING))
    for key in ordered:
        found, kept = ({node.labels.get(key) for node in group} for group in (nodes, others))
        if len(kept) == 1 and not kept & found and None not in kept:
            return f"{key}={kept.pop()}"
        if len(found) == 1 and not kept & found and None not in found:
            return f"{key}!={found.pop()}"
    return f"{HOSTNAME} notin ({','.join(sorted(node.labels.get(HOSTNAME, node.name) for node in nodes))})"
