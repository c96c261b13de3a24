"""Where a pool is being upgraded node by node: which nodes are still of the older version, and soon to be drained."""

import re
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from ballast.eviction.facts import CONTROL_PLANE, leaving
from ballast.model.node import Node
from ballast.model.sample import Bools, Ints

JUST = 3600.0
"""Seconds after which a node of the newer version no longer tells that an upgrade goes on."""

_NUMBERS = 8
"""Numbers of a version that are compared."""


class UpgradeFront(NamedTuple):
    """`older` and `pools` are [node]: nodes of an older version, and all nodes of their pools."""

    older: Bools
    pools: Bools
    text: str | None = None
    """ "an upgrade is under way: 2 of 6 nodes are new"; None without one."""


def upgrade_front(nodes: Sequence[Node], pool: Ints, now: float) -> UpgradeFront:
    """`pool` [node] numbers the pools.

    An upgrade is under way while a node of an older version is being removed or is cordoned, or a node of the newest
    one came or was restarted in the last hour: between two nodes none is cordoned.
    """
    older, pools, new, whole = np.zeros(len(nodes), bool), np.zeros(len(nodes), bool), 0, 0
    # Control planes are upgraded first and of their own, often hours before the others.
    workers = np.array([not any(role in node.labels for role in CONTROL_PLANE) for node in nodes], bool)
    for number in np.unique(pool).tolist():
        rows = np.flatnonzero((pool == number) & workers)
        behind = _behind([nodes[row] for row in rows.tolist()])
        if not behind.any() or not any(
            _tells(nodes[row], bool(late), now) for row, late in zip(rows.tolist(), behind, strict=True)
        ):
            continue
        older[rows], pools[rows] = behind, True
        new, whole = new + int((~behind).sum()), whole + len(rows)
    text = f"an upgrade is under way: {new} of {whole} nodes are new" if whole else None
    return UpgradeFront(older, pools, text)


def _tells(node: Node, behind: bool, now: float) -> bool:
    return leaving(node) if behind else node.ready and now - max(node.created, node.ready_since) < JUST


def _behind(nodes: Sequence[Node]) -> Bools:
    """[node]: those of another kubelet than the newest, else of another image than the youngest node's. Who does not
    say what it has is not behind."""
    versions = {node.version for node in nodes if node.version}
    if len(versions) > 1:
        newest: Hashable = max(map(_numbers, versions))
        return np.array([bool(node.version) and _numbers(node.version) != newest for node in nodes], bool)
    images = {node.os_image for node in nodes if node.os_image}
    ages = {node.created for node in nodes}
    if len(images) < 2 or len(ages) < 2:
        return np.zeros(len(nodes), bool)
    youngest = max((node for node in nodes if node.os_image), key=lambda node: (node.created, node.name)).os_image
    return np.array([node.os_image not in ("", youngest) for node in nodes], bool)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d{1,9}", version)[:_NUMBERS])
