"""Targets worth comparing pod by pod, and a bound for all the others."""

from __future__ import annotations

import numpy as np

from ballast.model.sample import Floats, Ints

_WHOLE = 256
_GROUPS = 4
_EACH = 64
_AGE = 32
# Larger products are spread over threads by the linear algebra library; for these here that costs more than it gains.
_ONE_THREAD = 250_000


def weighted(values: Floats, weights: Floats) -> Floats:
    """[row]: the weighted sum of each row."""
    return np.asarray(np.einsum("rk,k->r", values, weights))


class Shortlist:
    """What a pod costs on a target: (2 b (x_j - mu) + b^2 - (b - a)^2 / n) w, with b = used / whole there.

    The list holds, of groups of nodes of similar size, those with the lowest load of each resource. The others are
    bounded by the best of each term over their group, so a listed target that costs less than this bound is the best of
    all. Rows are places in a pool, `targets` are ascending.
    """

    def __init__(self, targets: Ints, inverse: Floats, w: Floats, n: Ints) -> None:
        self.targets = targets
        self.listed: Ints = targets
        self._inverse, self._w, self._n = inverse, w, n
        self._by_size = targets[np.argsort(inverse[targets].sum(axis=1), kind="stable")]
        sizes = [len(group) for group in np.array_split(self._by_size, _GROUPS) if len(group)]
        self._starts = np.cumsum([0, *sizes])[:-1]
        self._steady = self._steady_terms(np.arange(len(inverse)))
        self._least_steady = self._lowest(self._steady[:, self._by_size].T)
        self._far = np.zeros(len(targets), bool)
        self._age = _AGE
        self._stale = True

    def renew(self, left: int) -> None:
        """Loads have changed; `left` is the only node that may have become better."""
        self._stale = True
        self._age += 1
        position = np.flatnonzero(self._by_size == left)
        if len(position) and self._far[position[0]]:
            self._far[position[0]] = False
            self.listed = np.sort(np.append(self.listed, left))

    def prepare(self, x: Floats, mean: Floats) -> None:
        """Has to be called before anything is asked."""
        if not self._stale or not len(self.targets):
            return
        self._stale = False
        self._linear = 2 * (x - mean) * self._inverse * self._w
        ordered = self._linear[self._by_size]
        if self._age >= _AGE and len(self.targets) > _WHOLE:
            self._age = 0
            self._choose(ordered)
        self._bounds = np.concatenate([self._lowest(ordered), self._least_steady], axis=1).T
        # Listed targets do not count for the bound of the others. A group without others becomes infinite.
        ordered[~self._far] = np.inf
        self._outer = np.concatenate([self._lowest(ordered), self._least_steady], axis=1).T
        self._terms = self._of(self.listed)

    def costs(self, used: Floats, home: Floats) -> Floats:
        """[pod, listed]; `home` is 1 / whole of the pod's own node."""
        return self._product(used, home, self._terms)

    def all_costs(self, used: Floats, home: Floats) -> Floats:
        """[pod, target]"""
        return self._product(used, home, self._of(self.targets))

    def least(self, used: Floats, home: Floats) -> Floats:
        """[pod]: what no target costs less than."""
        return np.asarray(self._product(used, home, self._bounds).min(axis=1))

    def least_outside(self, used: Floats, home: Floats) -> Floats:
        """[pod]: likewise for targets that are not listed; infinite when all are."""
        if not self._far.any():
            return np.full(len(used), np.inf)
        outer = self._outer[:, np.isfinite(self._outer).all(axis=0)]
        return np.asarray(self._product(used, home, outer).min(axis=1))

    def _choose(self, ordered: Floats) -> None:
        self._far[:] = True
        ends = [*self._starts[1:].tolist(), len(ordered)]
        for start, end in zip(self._starts.tolist(), ends, strict=True):
            for k in range(ordered.shape[1]):
                part = ordered[start:end, k]
                self._far[start + np.argsort(part, kind="stable")[:_EACH]] = False
        self.listed = np.sort(self._by_size[~self._far])

    def _of(self, places: Ints) -> Floats:
        """[term, place]: factors of used, used^2 and used^2 / whole of the own node."""
        return np.concatenate([self._linear[places].T, self._steady[:, places]])

    def _steady_terms(self, places: Ints) -> Floats:
        inverse = self._inverse[places]
        square = np.square(inverse) * (1 - 1 / self._n) * self._w
        return np.concatenate([square, 2 * inverse / self._n * self._w], axis=1).T

    def _lowest(self, ordered: Floats) -> Floats:
        """[group, term]"""
        return np.minimum.reduceat(ordered, self._starts, axis=0) if len(ordered) else ordered

    def _product(self, used: Floats, home: Floats, terms: Floats) -> Floats:
        square = np.square(used)
        same = weighted(square * np.square(home), self._w / self._n)
        factors = np.concatenate([used, square, square * home], axis=1)
        cost: Floats = np.empty((len(used), terms.shape[1]))
        rows = max(1, _ONE_THREAD // max(1, terms.size))
        for start in range(0, len(used), rows):
            np.matmul(factors[start : start + rows], terms, out=cost[start : start + rows])
        return np.subtract(cost, same[:, None], out=cost)
