"""What is remembered of each node from cycle to cycle. A node is its name and UID: an old name may be a new node."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ballast.model.node import Node
from ballast.model.node_state import is_down
from ballast.model.sample import Bools, Floats

_REMEMBERED = 3600.0

NodeKey: TypeAlias = tuple[str, str]
"""Name and UID."""


def node_keys(nodes: Sequence[Node]) -> tuple[NodeKey, ...]:
    """The keys of nodes, in their order."""
    return tuple([(node.name, node.uid) for node in nodes])


class NodeLives:
    """Arrays over the nodes last looked at, [node]. Times are those of a monotonic clock, but for `born`."""

    def __init__(self) -> None:
        self.keys: tuple[NodeKey, ...] = ()
        self.born: Floats = np.empty(0)
        """Unix time of the creation, -inf where Kubernetes does not say."""
        self.first_seen: Floats = np.empty(0)
        self.last_down: Floats = np.empty(0)
        """-inf for a node that never was."""
        self.was_known: Bools = np.empty(0, bool)
        """Known in some cycle since it was first seen, or last down."""
        self.heir: Bools = np.empty(0, bool)
        """Its name or address was that of another node before, whose counters may be in its first samples."""
        self._holders: dict[str, tuple[str, float]] = {}
        self._nodes: tuple[Node, ...] = ()
        self._down: Bools = np.empty(0, bool)

    def observe(self, nodes: tuple[Node, ...], now: float) -> None:
        """The nodes of a cycle at monotonic time `now`; the same tuple as before says that nothing changed."""
        if nodes is not self._nodes:
            keys = node_keys(nodes)
            if keys != self.keys:
                self._follow(keys, now)
                self._inherit(nodes, now)
                self.born = np.array([node.created or -np.inf for node in nodes], float)
            self._down = np.array([is_down(node) for node in nodes], bool)
            self._nodes = nodes
        self.last_down[self._down] = now
        self.was_known[self._down] = False

    def learn(self, known: Bools) -> None:
        """What the cycle found."""
        self.was_known |= known

    def _inherit(self, nodes: tuple[Node, ...], now: float) -> None:
        """Whoever held a name or an address is remembered for an hour."""
        self._holders = {held: one for held, one in self._holders.items() if now - one[1] < _REMEMBERED}
        for row, node in enumerate(nodes):
            here = (node.uid, now)
            for held in (node.name, *(address for _, address in node.addresses)):
                holder, _ = self._holders.get(held, here)
                self.heir[row] |= holder != node.uid
                self._holders[held] = here

    def _follow(self, keys: tuple[NodeKey, ...], now: float) -> None:
        rows = {key: row for row, key in enumerate(self.keys)}
        old = np.array([rows.get(key, -1) for key in keys], np.int64)
        self.first_seen = np.append(self.first_seen, now)[old]
        self.last_down = np.append(self.last_down, -np.inf)[old]
        self.was_known = np.append(self.was_known, False)[old]
        self.heir = np.append(self.heir, False)[old]
        self.keys = keys
