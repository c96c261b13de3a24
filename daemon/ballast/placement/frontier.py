"""Which of many requests fit somewhere: only vectors that no other dominates have to be compared."""

from __future__ import annotations

import numpy as np

from ballast.model.sample import Bools, Ints


def largest(vectors: Ints, layers: int = 1) -> Ints:
    """Rows that no other row is at least as large as, in everything; further `layers` after these are taken away."""
    left = np.arange(len(vectors))
    found: list[Ints] = []
    for _ in range(layers):
        kept: list[int] = []
        rest = left
        while len(rest):
            top = int(rest[np.argmax(vectors[rest].astype(float).sum(axis=1))])
            kept.append(top)
            rest = rest[~(vectors[rest] <= vectors[top]).all(axis=1)]
        found.append(np.array(kept, np.int64))
        left = left[~np.isin(left, found[-1])]
    return np.concatenate(found)


def smallest(vectors: Ints) -> Ints:
    """Rows that no other row is at most as large as."""
    return largest(-vectors)


def fit_elsewhere(requests: Ints, homes: Ints, free: Ints, rows: Ints) -> Bools:
    """[request]: whether one of `rows` other than its home has room; `free` is [node, kind], all requests are positive.

    Two layers, so that every home can be left out.
    """
    found = np.zeros(len(requests), bool)
    open_ = np.arange(len(requests))
    for row in rows[largest(free[rows], layers=2)].tolist():
        fits = (requests[open_] <= free[row]).all(axis=1) & (homes[open_] != row)
        found[open_[fits]] = True
        open_ = open_[~fits]
        if not len(open_):
            break
    return found
