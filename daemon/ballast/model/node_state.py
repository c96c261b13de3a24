"""What the silence of a node means: known, young, down, unmeasured or silent; or disputed, where two sources differ.

A node that Kubernetes itself calls down or that has just been created is silent for a reason, and one that never had a
sample needs other settings. Only what was measured and is not any more says that the picture of the cluster has holes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from ballast.model.node import Node
from ballast.model.sample import Bools, Floats

ALWAYS_NEEDED = ("cpu", "memory")
AMOUNTS = (*ALWAYS_NEEDED, "pods")
"""Resources of which nodes have amounts; of others there are ratios alone."""
"""Resources of every node, wherever they are configured. Others may be missing: not each node has a GPU."""


class NodeState(StrEnum):
    """Exactly one holds for each selected node."""

    KNOWN = "known"
    """Each needed resource has a window."""
    YOUNG = "young"
    """Not known yet: the node, or this daemon, has not lived for a window."""
    DOWN = "down"
    """Kubernetes calls it not Ready, or it is being deleted."""
    UNMEASURED = "unmeasured"
    """It never had a sample of what it needs, while others have."""
    SILENT = "silent"
    """Measured, and not sufficiently any more."""
    DISPUTED = "disputed"
    """Measured, but two sources differ, or it claims what is another's: what is told of it may be wrong."""


_CODES = {state: number for number, state in enumerate(NodeState)}
_STATES = tuple(NodeState)


@dataclass(frozen=True)
class NodeStates:
    """The states of the nodes of one snapshot."""

    codes: np.ndarray[tuple[int], np.dtype[np.int8]]
    """[node]: place in `NodeState`."""
    lost: Bools
    """[resource, node]: what a silent node needs and has no window of."""
    lapsed: Bools
    """[node]: not known, but it was, or it is silent: what it scores must not rise."""
    missing: Bools
    """[resource, node]: what an unmeasured node needs and never had."""
    starved: Bools | None = None
    """[node]: known, but it waits for its hypervisor, its disks or its memory; None where no node does."""

    @classmethod
    def of(cls, known: Bools, young: Bools | None = None, resources: int = 1) -> NodeStates:
        """States of nodes that are known, young or else silent, and have lost everything if so."""
        young = np.zeros(len(known), bool) if young is None else young
        codes = np.where(known, _CODES[NodeState.KNOWN], np.where(young, _CODES[NodeState.YOUNG], _SILENT))
        silent = codes == _SILENT
        lost = np.broadcast_to(silent, (resources, len(known)))
        return cls(codes.astype(np.int8), lost, silent, np.zeros_like(lost))

    def __getitem__(self, row: int) -> NodeState:
        """The state of one node."""
        return _STATES[int(self.codes[row])]

    def are(self, state: NodeState) -> Bools:
        """[node]: whether it is in this state."""
        return np.asarray(self.codes == _CODES[state])

    @cached_property
    def counts(self) -> Mapping[NodeState, int]:
        """How many nodes are in each state, zeros included."""
        counts = np.bincount(self.codes, minlength=len(_STATES)).tolist()
        return dict(zip(_STATES, counts, strict=True))

    @property
    def known(self) -> Bools:
        """[node]."""
        return self.are(NodeState.KNOWN)

    @property
    def trusted(self) -> NodeStates:
        """Without the starved nodes among the known ones: their load says nothing about room for more."""
        if self.starved is None:
            return self
        codes = np.where(self.starved, _CODES[NodeState.UNMEASURED], self.codes).astype(np.int8)
        return replace(self, codes=codes, lapsed=self.lapsed | self.starved, starved=None)

    def dispute(self, disputed: Bools) -> NodeStates:
        """The same, but known nodes among `disputed` [node] are not known: what they score must not rise."""
        doubtful = self.known & disputed
        codes = np.where(doubtful, _CODES[NodeState.DISPUTED], self.codes).astype(np.int8)
        return replace(self, codes=codes, lapsed=self.lapsed | doubtful)

    @property
    def silent_share(self) -> float:
        """The silent among the nodes that are known or silent; what freezes publishing."""
        return silent_share(self.counts[NodeState.KNOWN], self.counts[NodeState.SILENT])


_SILENT = _CODES[NodeState.SILENT]


def silent_share(known: int, silent: int) -> float:
    """silent / (known + silent), 0 without either."""
    return silent / (known + silent) if silent else 0.0


def is_down(node: Node) -> bool:
    """Whether Kubernetes calls it not Ready, or is deleting it."""
    return not node.ready or node.deleting


def explained(node: Node, now: float, window: float) -> bool:
    """Whether Kubernetes itself says why there are no samples: the node is down, or was created within a window."""
    return is_down(node) or (node.created > 0 and now - node.created < window)


@dataclass(frozen=True)
class NodeEvidence:
    """What is known about the samples of the nodes at one moment. Times are Unix seconds."""

    at: float
    windowed: Bools
    """[resource, node]: whether the primary window suffices."""
    newest: Floats
    """[resource, node]: the time of the newest raw sample, NaN without any."""
    seen_for: Floats
    """[node]: seconds since this daemon first saw its UID."""
    back_for: Floats
    """[node]: seconds since Kubernetes last called it down, inf if it never did."""
    was_known: Bools
    """[node]: whether it was known before, under this UID, and has not been down since."""


def node_states(
    nodes: Sequence[Node],
    resources: Sequence[str],
    weights: Mapping[str, float],
    evidence: NodeEvidence,
    *,
    window: float,
    max_age: Floats,
    forget_after: float,
) -> NodeStates:
    """The states of `nodes`. `weights` are those of scoring; `max_age` is [resource]; the others are seconds.

    cpu and memory are needed where they are among `resources`. So is any other resource of weight above 0 of which the
    node has had a sample within `forget_after`. A node is young for a `window` after its creation. So is one that this
    daemon first saw, or that came back from being down, so recently, while each needed resource gets samples; exporters
    of the latter may take two `max_age` to answer again. A node that was never known and never had a needed resource,
    while others have it, is unmeasured: nothing was lost there.
    """
    needed = _needed(resources, weights, evidence, forget_after)
    known = np.asarray((evidence.windowed | ~needed).all(axis=0) & needed.any(axis=0))
    down = np.array([is_down(node) for node in nodes], bool)
    created = np.array([node.created for node in nodes], float)
    fresh = np.nan_to_num(evidence.newest, nan=-np.inf) >= evidence.at - max_age[:, None]
    filling = np.asarray((fresh | ~needed).all(axis=0) & needed.any(axis=0))
    begins = ~evidence.was_known & (filling | (created <= 0)) & (evidence.seen_for < window)
    returns = (evidence.back_for < window) & (filling | (evidence.back_for < 2 * max_age.max(initial=0.0)))
    young = ((created > 0) & (evidence.at - created < window)) | begins | (~evidence.was_known & returns)
    had = np.isfinite(evidence.newest)
    missing = needed & ~had & had.any(axis=1, keepdims=True) & ~evidence.was_known
    unmeasured = missing.any(axis=0)

    codes = np.full(len(nodes), _SILENT, np.int8)
    codes[unmeasured] = _CODES[NodeState.UNMEASURED]
    codes[young] = _CODES[NodeState.YOUNG]
    codes[known] = _CODES[NodeState.KNOWN]
    codes[down] = _CODES[NodeState.DOWN]
    silent = codes == _SILENT
    return NodeStates(
        codes,
        lost=needed & ~evidence.windowed & silent,
        lapsed=silent | (evidence.was_known & (codes != _CODES[NodeState.KNOWN])),
        missing=missing & (codes == _CODES[NodeState.UNMEASURED]),
    )


def _needed(
    resources: Sequence[str], weights: Mapping[str, float], evidence: NodeEvidence, forget_after: float
) -> Bools:
    """[resource, node]."""
    had = np.nan_to_num(evidence.newest, nan=-np.inf) >= evidence.at - forget_after
    always = np.array([name in ALWAYS_NEEDED for name in resources], bool)
    weighed = np.array([weights.get(name, 0.0) > 0 for name in resources], bool)
    if not (always | weighed).any():
        weighed = np.ones(len(resources), bool)
    return np.asarray(always[:, None] | (weighed[:, None] & had))
