"""Which of many requests fit somewhere: only vectors that no other dominates have to be compared."""

from typing import TypeAlias

import numpy as np

from ballast.model.sample import Bools, Floats, Ints

Amounts: TypeAlias = Ints | Floats


def largest(vectors: Amounts, layers: int = 1) -> Ints:
    """Rows that no other row is at least as large as, in everything; further `layers` after these are taken away."""
    left = np.arange(len(vectors))
    frontier: list[Ints] = []
    for _ in range(layers):
        kept: list[int] = []
        rest = left
        while len(rest):
            # The row with the largest sum is dominated by no other row, and removes all that it dominates.
            top = int(rest[np.argmax(vectors[rest].astype(float).sum(axis=1))])
            kept.append(top)
            rest = rest[~(vectors[rest] <= vectors[top]).all(axis=1)]
        frontier.append(np.array(kept, np.int64))
        left = left[~np.isin(left, frontier[-1])]
    return np.concatenate(frontier)


def smallest(vectors: Amounts) -> Ints:
    """Rows that no other row is at most as large as."""
    return largest(-vectors)


def fit_elsewhere(requests: Amounts, homes: Ints, free: Amounts, rows: Ints) -> Bools:
    """[request]: whether one of `rows` other than its home has room; `free` is [node, kind], all requests are positive.

    Two layers, so that every home can be left out. Each row is compared only with the requests that are small enough in
    the kind it has least of.
    """
    fitting = np.zeros(len(requests), bool)
    most = free[rows].max(axis=0, initial=-1)
    left = np.flatnonzero(np.logical_and.reduce([requests[:, kind] <= most[kind] for kind in range(len(most))]))
    orders = [left[np.argsort(requests[left, kind], kind="stable")] for kind in range(len(most))]
    amounts = [requests[order, kind] for kind, order in enumerate(orders)]
    for row in rows[largest(free[rows], layers=2)].tolist():
        ranks = [int(np.searchsorted(column, free[row, kind], "right")) for kind, column in enumerate(amounts)]
        scarce = min(range(len(ranks)), key=ranks.__getitem__)
        small = orders[scarce][: ranks[scarce]]
        small = small[~fitting[small]]
        fits = (requests[small] <= free[row]).all(axis=1) & (homes[small] != row)
        fitting[small[fits]] = True
    return fitting
