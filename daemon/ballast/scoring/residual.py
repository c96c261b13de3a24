"""The criterion of the dominant-residual method, over all nodes at once or kept up to date node by node.

Source: Knyazhev and Romanova, "A resource allocation method based on the dominant-residual method and redistribution on
Kubernetes" (DOI 10.58351/2949-2041.2026.35.6.034). With rho the shares of a node's resources in use once the pod is
there, m(b, a) how often profile b fits into the free amounts a, and H(a) the mean of g(m/C) over the profiles,

    L = lambda max(rho) + (1 - lambda) (H(before) - H(after)),      g(x) = min(x, 1) as published, or sqrt(x).

The root never saturates; it places more pods. A profile that asks for nothing loses nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Bools, Floats, Ints

# L is compared in steps of 1e-9, so that sums in another order choose the same node.
STEPS = 1e9
NOWHERE = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Criterion:
    """`profiles` are [profile, resource] amounts; `weights` [profile] sum to 1; `root` chooses sqrt for g."""

    profiles: Floats
    weights: Floats
    lambda_: float = 0.1
    c: float = 2.0
    root: bool = True

    def fitness(self, free: Floats) -> Floats:
        """H of free amounts [..., resource]."""
        asked = self.profiles > 0
        times = np.divide(
            free[..., None, :], self.profiles, out=np.full((*free.shape[:-1], *asked.shape), np.inf), where=asked
        )
        share = times.min(axis=-1, initial=np.inf) / self.c
        share = np.sqrt(share) if self.root else np.minimum(share, 1.0)
        return np.asarray(np.where(asked.any(axis=-1), share, 1.0) @ self.weights)

    def dominant(self, whole: Floats, free: Floats, request: Floats) -> Floats:
        """The largest share in use after the placement."""
        return np.asarray(
            np.divide(whole - free + request, whole, out=np.zeros_like(whole), where=whole > 0).max(
                axis=-1, initial=0.0
            )
        )

    def losses(self, whole: Floats, free: Floats, request: Floats, before: Floats) -> tuple[Floats, Floats, Floats]:
        """(L, max(rho), fall of H) where `request` fits; amounts are [..., resource], `before` is H(free)."""
        dominant = self.dominant(whole, free, request)
        loss = before - self.fitness(np.maximum(free - request, 0.0))
        return self.lambda_ * dominant + (1 - self.lambda_) * loss, dominant, loss


def fits(free: Floats, request: Floats) -> Bools:
    """Whether there is room; what is not requested may be overcommitted already."""
    return np.asarray(((request <= free) | (request <= 0)).all(axis=-1))


def steps(losses: Floats) -> Ints:
    """L as whole numbers of 1e-9."""
    return np.asarray(np.rint(losses * STEPS).astype(np.int64))


class Residuals:
    """L of every node for the requests that arrive, renewed for one node at a time when something changes there.

    `whole` and `free` are [node, resource] amounts. At most `limit` different requests are remembered.
    """

    def __init__(self, criterion: Criterion, whole: Floats, free: Floats, limit: int = 64) -> None:
        self._criterion = criterion
        self._whole = np.array(whole, float)
        self._free = np.array(free, float)
        self._fitness = criterion.fitness(self._free)
        self._limit = limit
        self._columns: dict[bytes, Ints] = {}
        self._requests = np.zeros((0, self._whole.shape[1]))

    def steps(self, request: Floats) -> Ints:
        """[node]: L in steps of 1e-9, NOWHERE where the request does not fit. Read it only until the next change."""
        key = np.ascontiguousarray(request, float).tobytes()
        found = self._columns.get(key)
        if found is None:
            if len(self._columns) >= self._limit:
                del self._columns[next(iter(self._columns))]
                self._requests = self._requests[1:]
            found = self._columns[key] = self._compute(self._whole, self._free, request, self._fitness)
            self._requests = np.vstack([self._requests, request])
        return found

    def place(self, row: int, request: Floats) -> None:
        """Takes the amounts from a node; `release` gives them back."""
        self._free[row] -= request
        self._renew(row)

    def release(self, row: int, request: Floats) -> None:
        self._free[row] += request
        self._renew(row)

    def _renew(self, row: int) -> None:
        self._fitness[row] = self._criterion.fitness(self._free[row])
        if self._columns:
            values = self._compute(self._whole[row], self._free[row], self._requests, self._fitness[row])
            for column, value in zip(self._columns.values(), values.tolist(), strict=True):
                column[row] = value

    def _compute(self, whole: Floats, free: Floats, request: Floats, before: Floats) -> Ints:
        whole, free, request = np.broadcast_arrays(whole, free, request)
        losses, _, _ = self._criterion.losses(whole, free, request, before)
        return np.where(fits(free, request), steps(losses), NOWHERE)
