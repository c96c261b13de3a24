"""Which node is chosen, and the points of every node.

A scheduler adds an extender's points, 0..10, to those of its own plugins and breaks ties at random. So that the
decision is known the moment it is made, one node alone gets 10 and the others at most 9.
"""

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ballast.model.sample import Floats, Ints

OTHERS = 9
NEUTRAL = 5
EQUAL = 1e-6
"""Scores closer than this are equal; below it lies the noise of sums in another order."""

NEARLY = 1.0
"""Scores closer than this to the best are good enough to keep pods of one owner apart."""

GOLDEN = (5**0.5 - 1) / 2

Keys = NDArray[np.uint64]


def keys(names: Iterable[str]) -> Keys:
    """[node]: what a name adds to the breaking of ties."""
    return np.array([_hash(name) for name in names], np.uint64)


def choose(scores: Floats, keys: Keys, uid: str) -> int:
    """The position of the node that gets 10, for at least one score of 0..100.

    Among equal best nodes, a hash of the pod's UID and the node's name decides: always the same node for one pod,
    each node equally often over many.
    """
    best = np.flatnonzero(scores >= scores.max() - EQUAL)
    return int(best[0] if len(best) == 1 else best[np.argmax(_mixed(keys[best] ^ np.uint64(_hash(uid))))])


def apart(scores: Floats, siblings: Ints) -> Floats:
    """The scores, -inf for nodes other than those with the fewest `siblings` [node] among the nearly best ones."""
    near = scores >= scores.max() - NEARLY
    return np.where(near & (siblings == siblings[near].min()), scores, -np.inf)


def spread(weights: Floats, number: int) -> int:
    """The position of the node that gets the decision of this number: each node its share of the weights, evenly.

    The multiples of the golden ratio, taken without their whole part, fill any interval evenly (Weyl's sequence).
    """
    bounds = np.cumsum(np.maximum(weights, 0.0))
    if not bounds[-1] > 0:
        return number % len(weights)
    return int(np.searchsorted(bounds, (number * GOLDEN % 1.0) * bounds[-1], side="right"))


def worth(scores: Floats) -> Ints:
    """The points of nodes that are not chosen, 0..9."""
    return (scores * (OTHERS / 100) + 0.5).astype(np.int64)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest(), "big")


def _mixed(values: Keys) -> Keys:
    """The finalizer of splitmix64 (Steele, Lea, Flood 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
