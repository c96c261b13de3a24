"""The criterion of the dominant-residual method, over all nodes at once or kept up to date node by node.

Source: Knyazhev and Romanova, "A resource allocation method based on the dominant-residual method and redistribution on
Kubernetes" (DOI 10.58351/2949-2041.2026.35.6.034). With rho the shares of a node's resources in use once the pod is
there, m(b, a) how often profile b fits into the free amounts a, and H(a) the mean of g(m/C) over the profiles,

    L = lambda max(rho) + (1 - lambda) (H(before) - H(after)),      g(x) = min(x, 1) as published, or sqrt(x).

The root never saturates; it places more pods. A profile that asks for nothing loses nothing. Devices are no share of a
sum: m is rounded down for them, on each device where they are handed out in parts (devices/room.py).
"""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.scoring.devices import room as devices

# L is compared in steps of 1e-9, so that sums in another order choose the same node.
STEPS = 1e9
LARGEST = 9e18
ROUNDING = 1e-9
NOWHERE = np.iinfo(np.int64).max

TOGETHER = 64
"""The most rows that are renewed at once, so that the arrays stay small."""


@dataclass(frozen=True)
class Criterion:
    """`profiles` are [profile, column] amounts; `weights` [profile] sum to 1; `root` chooses sqrt for g.

    `pieces` are columns that count whole devices; the last `slots` columns are devices that are handed out in parts.
    `least_scarcity` is the least that `scarcity` says, above 0 where a profile asks for devices.
    """

    profiles: Floats
    weights: Floats
    lambda_: float = 0.1
    c: float = 2.0
    root: bool = True
    pieces: frozenset[int] = frozenset()
    slots: int = 0
    least_scarcity: float = 0.0

    @property
    def for_devices(self) -> bool:
        """Whether some profile asks for devices."""
        return self.least_scarcity > 0

    @cached_property
    def plain(self) -> int:
        """The number of columns before those of devices."""
        return int(self.profiles.shape[1]) - self.slots

    @cached_property
    def _asked(self) -> list[tuple[int, Ints, Floats]]:
        """Per resource: the profiles that ask for it, and how much."""
        columns = [(resource, np.flatnonzero(column)) for resource, column in enumerate(self.profiles.T[: self.plain])]
        return [(resource, rows, self.profiles[rows, resource]) for resource, rows in columns if len(rows)]

    @cached_property
    def _claims(self) -> tuple[Ints, Floats, Ints]:
        """The distinct (counts, amounts) of devices, and [profile] which of these, or the number of them if none."""
        counts, amounts = devices.split(self.profiles[:, self.plain :])
        rows = np.flatnonzero(counts)
        kinds, which = np.unique(np.stack([counts[rows], amounts[rows]], axis=1), axis=0, return_inverse=True)
        whose = np.full(len(counts), len(kinds))
        whose[rows] = which.reshape(-1)
        return kinds[:, 0].astype(np.int64), kinds[:, 1], whose

    @cached_property
    def _idle(self) -> Ints:
        """The profiles that ask for nothing."""
        return np.flatnonzero(~(self.profiles > 0).any(axis=1))

    def times(self, free: Floats) -> Floats:
        """[node, profile]: m, how often a profile fits into what is free; inf if it asks for nothing."""
        times = np.full((len(free), len(self.profiles)), np.inf)
        for resource, rows, amounts in self._asked:
            share = free[:, resource, None] / amounts
            if resource in self.pieces:
                np.floor(share + ROUNDING, out=share)
            if len(rows) == len(self.profiles):
                np.minimum(times, share, out=times)
            else:
                times[:, rows] = np.minimum(times[:, rows], share)
        if self.slots:
            counts, amounts, whose = self._claims
            room = np.full((len(free), len(counts) + 1), np.inf)
            room[:, :-1] = devices.times(free[:, None, self.plain :], counts, amounts)
            np.minimum(times, room.take(whose, axis=1), out=times)
        return times

    def fitness(self, free: Floats) -> Floats:
        """H of free amounts [node, column]."""
        times = self.times(free)
        times /= self.c
        share = np.sqrt(times, out=times) if self.root else np.minimum(times, 1.0, out=times)
        if len(self._idle):
            share[:, self._idle] = 1.0
        return np.asarray(share @ self.weights)

    def scarcity(self, free: Floats, shares: Floats, arrivals: float, departures: float = 0.0) -> float:
        """The chance that of so many expected arrivals those of some kind do not all fit into free amounts.

        `shares` [profile] sum to 1; the pods that leave meanwhile make room for as many. The arrivals of each kind are
        Poisson's; N of them fit, each kind taken alone:
        P = 1 - product over kinds of P(Poisson(arrivals * share) <= N + departures * share).
        """
        if arrivals <= 0:
            return self.least_scarcity
        alone = np.floor(self.times(np.maximum(free, 0.0)) + ROUNDING).sum(axis=0)
        rooms = np.floor(alone + departures * shares + ROUNDING)
        all_fit = math.prod(_at_most(room, arrivals * share) for room, share in zip(rooms, shares, strict=True))
        return max(1 - all_fit, self.least_scarcity)

    def after(self, free: Floats, request: Floats) -> tuple[Floats, Bools]:
        """(what is free with the request there, whether it fits); both [… , column], and may be broadcast.

        What is not requested may be overcommitted already.
        """
        left = free - request
        enough = (left >= 0) | (request <= 0)
        fitting = (enough[..., : self.plain] if self.slots else enough).all(axis=-1)
        if self.slots:
            counts, amounts = devices.split(request[..., self.plain :])
            left[..., self.plain :], there = devices.taken(free[..., self.plain :], counts, amounts)
            fitting &= there
        return left, np.asarray(fitting)

    def losses(self, whole: Floats, free: Floats, request: Floats, before: Floats) -> tuple[Floats, Floats, Floats]:
        """(L, max(rho), fall of H) where `request` fits; amounts are [node, column], `before` is H(free)."""
        after, _ = self.after(free, request)
        dominant = self.dominant(whole, after)
        loss = before - self.fitness(np.maximum(after, 0.0))
        return self.lambda_ * dominant + (1 - self.lambda_) * loss, dominant, loss

    def dominant(self, whole: Floats, after: Floats) -> Floats:
        """max(rho) of what is free once the pod is there [node, column]."""
        total = whole[..., : self.plain]
        used = total - after[..., : self.plain]
        return np.asarray(np.divide(used, total, out=np.zeros(used.shape), where=total > 0).max(axis=-1, initial=0.0))


def _at_most(count: float, mean: float) -> float:
    """P(Poisson(mean) <= count)."""
    if count > mean + 10 * math.sqrt(mean) + 10:
        return 1.0
    numbers = np.arange(count + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(numbers[1:]))])
    return min(1.0, float(np.exp(numbers * math.log(mean) - mean - logs).sum())) if mean > 0 else 1.0


def fits(free: Floats, request: Floats) -> Bools:
    """[node]: whether there is room; what is not requested may be overcommitted already."""
    return np.asarray(((request <= free) | (request <= 0)).all(axis=1))


def steps(losses: Floats) -> Ints:
    """L as whole numbers of 1e-9."""
    return np.asarray(np.rint(np.minimum(losses * STEPS, LARGEST)).astype(np.int64))


class Residuals:
    """L of every node for the requests that arrive, renewed for one node at a time when something changes there.

    `whole` and `free` are [node, column] amounts. At most `limit` different requests, 2 or more, are remembered,
    and the first of them asks for nothing.
    """

    def __init__(self, criterion: Criterion, whole: Floats, free: Floats, limit: int = 64) -> None:
        self._criterion = criterion
        self._whole = np.array(whole, float)
        self._free = np.array(free, float)
        self._fitness = criterion.fitness(np.maximum(self._free, 0.0))
        self._table = np.empty((limit, len(self._whole)), np.int64)
        self._requests = np.zeros((limit, self._whole.shape[1]))
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
            losses, _, _ = self._criterion.losses(self._whole, self._free, request, self._fitness)
            _, fitting = self._criterion.after(self._free, request)
            self._table[slot] = np.where(fitting, steps(losses), NOWHERE)
        residuals: Ints = self._table[slot]
        return residuals

    def place(self, row: int, request: Floats) -> None:
        """Takes the amounts from a node, devices where they fit best."""
        free = self._free[[row]]
        self.settle(
            np.array([row]), self._criterion.after(free, request)[0] if self._criterion.slots else free - request
        )

    def release(self, row: int, request: Floats) -> None:
        """Gives the amounts back to a node; devices, of which nobody says which, by `settle` alone."""
        self.settle(np.array([row]), self._free[[row]] + request)

    def settle(self, rows: Ints, free: Floats) -> None:
        """Sets what is free at these rows, [row, column], and renews their L."""
        self._free[rows] = free
        for start in range(0, len(rows), TOGETHER):
            self._renew(rows[start : start + TOGETHER])

    def _renew(self, rows: Ints) -> None:
        """Computes L again at these rows, for all remembered requests at once."""
        count, criterion = len(self._slots), self._criterion
        # [row, request, column]: what would be free with each request; H is taken where it fits.
        left, fitting = criterion.after(self._free[rows, None], self._requests[:count])
        if fitting.all():
            fitness = criterion.fitness(np.maximum(left, 0.0).reshape(fitting.size, -1)).reshape(fitting.shape)
        else:
            fitness = np.zeros(fitting.shape)
            fitness[fitting] = criterion.fitness(np.maximum(left[fitting], 0.0))
        # Request 0 asks for nothing, so its column is H before placing, from which the fall of the others is taken.
        self._fitness[rows] = fitness[:, 0]
        losses = (1 - criterion.lambda_) * (fitness[:, :1] - fitness)
        if criterion.lambda_:
            losses += criterion.lambda_ * criterion.dominant(self._whole[rows, None], left)
        self._table[:count, rows] = np.where(fitting, steps(losses), NOWHERE).T
