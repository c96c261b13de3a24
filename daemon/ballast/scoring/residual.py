"""The criterion of the dominant-residual method, over all nodes at once or kept up to date node by node.

Source: Knyazhev and Romanova, "A resource allocation method based on the dominant-residual method and redistribution on
Kubernetes" (DOI 10.58351/2949-2041.2026.35.6.034). With rho the shares of a node's resources in use once the pod is
there, m(b, a) how often profile b fits into the free amounts a, and H(a) the mean of g(m/C) over the profiles,

    L = lambda max(rho) + (1 - lambda) (H(before) - H(after)),      g(x) = min(x, 1) as published, or sqrt(x).

The root never saturates; it places more pods. A profile that asks for nothing loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from ballast.model.sample import Bools, Floats, Ints

# L is compared in steps of 1e-9, so that sums in another order choose the same node.
STEPS = 1e9
LARGEST = 9e18
NOWHERE = np.iinfo(np.int64).max

TOGETHER = 64
"""The most rows that are renewed at once, so that the arrays stay small."""


@dataclass(frozen=True)
class Criterion:
    """`profiles` are [profile, resource] amounts; `weights` [profile] sum to 1; `root` chooses sqrt for g."""

    profiles: Floats
    weights: Floats
    lambda_: float = 0.1
    c: float = 2.0
    root: bool = True

    @cached_property
    def _asked(self) -> list[tuple[int, Ints, Floats]]:
        """Per resource: the profiles that ask for it, and how much."""
        found = [(resource, np.flatnonzero(column)) for resource, column in enumerate(self.profiles.T)]
        return [(resource, rows, self.profiles[rows, resource]) for resource, rows in found if len(rows)]

    @cached_property
    def _idle(self) -> Ints:
        """The profiles that ask for nothing."""
        return np.flatnonzero(~(self.profiles > 0).any(axis=1))

    def fitness(self, free: Floats) -> Floats:
        """H of free amounts [node, resource]."""
        times = np.full((len(free), len(self.profiles)), np.inf)
        for resource, rows, amounts in self._asked:
            share = free[:, resource, None] / amounts
            if len(rows) == len(self.profiles):
                np.minimum(times, share, out=times)
            else:
                times[:, rows] = np.minimum(times[:, rows], share)
        times /= self.c
        share = np.sqrt(times, out=times) if self.root else np.minimum(times, 1.0, out=times)
        if len(self._idle):
            share[:, self._idle] = 1.0
        return np.asarray(share @ self.weights)

    def losses(self, whole: Floats, free: Floats, request: Floats, before: Floats) -> tuple[Floats, Floats, Floats]:
        """(L, max(rho), fall of H) where `request` fits; amounts are [node, resource], `before` is H(free)."""
        after = free - request
        dominant = np.divide(whole - after, whole, out=np.zeros(after.shape), where=whole > 0).max(axis=1, initial=0.0)
        loss = before - self.fitness(np.maximum(after, 0.0))
        return self.lambda_ * dominant + (1 - self.lambda_) * loss, dominant, loss


def fits(free: Floats, request: Floats) -> Bools:
    """[node]: whether there is room; what is not requested may be overcommitted already."""
    return np.asarray(((request <= free) | (request <= 0)).all(axis=1))


def steps(losses: Floats) -> Ints:
    """L as whole numbers of 1e-9."""
    return np.asarray(np.rint(np.minimum(losses * STEPS, LARGEST)).astype(np.int64))


class Residuals:
    """L of every node for the requests that arrive, renewed for one node at a time when something changes there.

    `whole` and `free` are [node, resource] amounts. At most `limit` different requests, 2 or more, are remembered,
    and the first of them asks for nothing.
    """

    def __init__(self, criterion: Criterion, whole: Floats, free: Floats, limit: int = 64) -> None:
        self._criterion = criterion
        self._whole = np.array(whole, float)
        self._divisor = np.where(self._whole > 0, self._whole, np.inf)
        self._free = np.array(free, float)
        self._fitness = criterion.fitness(np.maximum(self._free, 0.0))
        self._table = np.empty((limit, len(self._whole)), np.int64)
        self._requests = np.zeros((limit, self._whole.shape[1]))
        self._least = np.full(self._requests.shape, -np.inf)
        self._slots: dict[bytes, int] = {}
        self.steps(self._requests[0])

    def steps(self, request: Floats) -> Ints:
        """[node]: L in steps of 1e-9, NOWHERE where the request does not fit. Read it only until the next change."""
        key = request.tobytes()
        slot = self._slots.get(key)
        if slot is None:
            # A full table gives the slot of the request that came first, but never that of request 0.
            slot = len(self._slots)
            if slot == len(self._table):
                oldest = next(islice(self._slots, 1, None))
                slot = self._slots.pop(oldest)
            self._slots[key] = slot
            self._requests[slot] = request
            self._least[slot] = np.where(request > 0, 0.0, -np.inf)
            losses, _, _ = self._criterion.losses(self._whole, self._free, request, self._fitness)
            self._table[slot] = np.where(fits(self._free, request), steps(losses), NOWHERE)
        found: Ints = self._table[slot]
        return found

    def place(self, row: int, request: Floats) -> None:
        """Takes the amounts from a node."""
        self.settle(np.array([row]), self._free[[row]] - request)

    def release(self, row: int, request: Floats) -> None:
        """Gives the amounts back to a node."""
        self.place(row, -request)

    def settle(self, rows: Ints, free: Floats) -> None:
        """Sets what is free at these rows, [row, resource], and renews their L."""
        self._free[rows] = free
        for start in range(0, len(rows), TOGETHER):
            self._renew(rows[start : start + TOGETHER])

    def _renew(self, rows: Ints) -> None:
        """Computes L again at these rows, for all remembered requests at once."""
        count = len(self._slots)
        # [row, request, resource]: what would be free with each request. H takes one list of amounts, so rows and
        # requests are flattened into it and taken apart again.
        left = self._free[rows, None] - self._requests[:count]
        room = np.maximum(left, 0.0).reshape(len(rows) * count, left.shape[2])
        fitness = self._criterion.fitness(room).reshape(len(rows), count)
        # Request 0 asks for nothing, so its column is H before placing, from which the fall of the others is taken.
        self._fitness[rows] = fitness[:, 0]
        shares = (self._whole[rows, None] - left) / self._divisor[rows, None]
        lambda_ = self._criterion.lambda_
        losses = lambda_ * shares.max(axis=2, initial=0.0) + (1 - lambda_) * (fitness[:, :1] - fitness)
        # `_least` is -inf for resources that are not requested: they may be overcommitted already.
        fitting = (left >= self._least[:count]).all(axis=2)
        self._table[:count, rows] = np.where(fitting, steps(losses), NOWHERE).T
