"""Moves that even out load: each step is the single move with the largest fall of sum_k w_k Var_k, found exactly.

With x the load of nodes, mu its mean over n nodes, a and b what the pod adds to the load of source i and target j, a
move lowers the variance of one resource by

    (2 a (x_i - mu) - a^2 - 2 b (x_j - mu) - b^2 + (b - a)^2 / n) / n.

So the best targets of pods come from a product of two small matrices. Each source keeps its best offer, and an upper
bound of what any later offer can gain. A step changes two nodes; only sources whose bound may be the largest are
evaluated again. A bound stays safe because of three inequalities, each at the line that relies on it:

* a source's best gain is an upper bound until its own load falls (`make` renews the source and the target);
* a mean that moves by d changes a gain by at most 2 w d a, with a the largest pod (`make`);
* a node that lost load gains others at most the vertex of a parabola in the pod's size (`_lower_targets`).
"""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.step import EVEN, Admit, PlannedMove, Worth, free

# Gains this close, in units of load squared per node, count as equal; then names decide.
_TIE = 1e-12
# A mean that moves by less has not moved.
_STILL = 1e-14
_TOGETHER = 8
# Pods of a node that are compared first, those with the largest imaginable gain; more only if another could be as good.
_PROMISING = 8
_NOWHERE = -np.inf

_Found: TypeAlias = tuple[PlannedMove | None, float]
"""The move if it gains enough, and a surplus that no move exceeds."""


def steepest_moves(
    placement: SimulatedPlacement,
    movable: Bools,
    counted: Bools,
    admit: Admit,
    *,
    min_gain: float = 0.0,
    limit: int | None = None,
    worth: Worth | None = None,
) -> Iterator[PlannedMove]:
    """Yields steps, already made in `placement`, until no move gains `min_gain` and pays, or `limit` is reached.

    `movable` [pod] may be moved, each once; `counted` [node] make up the variance. Pools do not mix; a gain is the
    fall within the pool. What a move gains beyond its price and its uncertainty decides which is the best.
    """
    worth = worth or free(len(placement.on), *placement.load.shape)
    numbers = np.unique(placement.layout.pool)
    rows = (np.flatnonzero(placement.layout.pool == number) for number in numbers)
    pools = [_PoolBalance(placement, pool_rows, movable, counted, min_gain, worth) for pool_rows in rows]
    moves = 0
    while limit is None or moves < limit:
        offers = [(pool, *offer) for pool in pools if (offer := pool.best()) is not None]
        # Nothing gains enough any more: say which moves gain something but cost more.
        if not offers:
            for balance in pools:
                worth.unpaid(balance.unpaid())
            return
        # Pools do not share nodes, so the best of each pool can be compared. Of equal ones the first pod by name wins.
        highest = max(surplus for _, surplus, _ in offers)
        pool, _, step = min(
            (offer for offer in offers if offer[1] >= highest - offer[0].tie), key=lambda offer: offer[2].pod
        )
        refused = admit(step.pod, step.target)
        if refused is not None:
            for balance in pools:
                balance.drop(refused)
            continue
        moves += 1
        pool.make(step)
        yield step


class _PoolBalance:
    """The nodes of one pool; `rows` are theirs in the layout, everything else is by place in `rows`."""

    def __init__(
        self, placement: SimulatedPlacement, rows: Ints, movable: Bools, counted: Bools, min_gain: float, worth: Worth
    ) -> None:
        layout = placement.layout
        self._placement, self._rows = placement, rows
        # The variance is taken over the nodes whose load is known; others count as at the mean, so they add nothing.
        self._known: Bools = np.asarray(np.isfinite(layout.load[rows]) & counted[rows, None])
        self._n = np.maximum(self._known.sum(axis=0), 1)
        self._w = layout.weights / self._n
        self.tie = _TIE / float(self._n.max(initial=1))
        self._floor = max(min_gain - self.tie, self.tie)
        # What a move has to beat: the tie below which gains are equal, its standard errors, and the price of its pod.
        factor = self._factor = layout.factor[rows]
        self._confidence = worth.confidence
        self._error, self._margin = worth.error[rows] * factor, worth.margin[rows] * factor
        self._cost: Floats = worth.price * (EVEN / float(self._n.max(initial=1)))
        self._beyond: Floats = np.maximum(self._cost - min_gain, 0.0)
        whole = layout.whole[rows]
        self._inverse: Floats = np.divide(factor, whole, out=np.zeros_like(whole), where=whole > 0)
        # A node takes part if every resource that it has is measured. Of those the allowed ones are targets.
        usable: Bools = np.asarray((self._known | ~layout.there[rows]).all(axis=1) & (whole > 0).all(axis=1))
        self._place = np.full(len(layout.nodes), -1)
        self._place[rows] = np.arange(len(rows))
        self._read()
        targets = np.flatnonzero(usable & placement.targets[rows])
        self._shortlist = Shortlist(targets, self._inverse, self._w, self._n)
        measured = np.isfinite(layout.used).all(axis=1)
        self._pods = self._candidates(
            np.flatnonzero(np.logical_and.reduce([movable, measured, placement.on >= 0])), usable
        )
        self._empty = np.array([not len(pods) for pods in self._pods], bool)
        self._candidate = np.zeros(len(placement.on), bool)
        self._candidate[np.concatenate(self._pods)] = True
        # Per source: the upper bound, whether the offer behind it is exact now, the offer, and the target it aims at.
        self._bound = np.full(len(rows), _NOWHERE)
        self._fresh = np.zeros(len(rows), bool)
        self._offers: dict[int, tuple[float, PlannedMove]] = {}
        self._aims = np.full(len(rows), -1)
        self._largest = np.zeros(len(layout.resources))
        if len(targets):
            self._begin()

    def _candidates(self, pods: Ints, usable: Bools) -> list[Ints]:
        places = self._place[self._placement.on[pods]]
        kept = (places >= 0) & usable[places]
        pods, places = pods[kept], places[kept]
        order = np.argsort(places, kind="stable")
        cuts = np.searchsorted(places[order], np.arange(1, len(self._rows)))
        return np.split(pods[order], cuts)

    def _begin(self) -> None:
        """Bounds from the best imaginable target."""
        pods = np.concatenate(self._pods)
        filled = np.flatnonzero(~self._empty)
        if len(filled):
            sizes = np.array([len(self._pods[place]) for place in filled])
            self._largest = self._placement.layout.used[pods].max(axis=0) * self._inverse.max(axis=0)
            gains = self._imaginable(pods, np.repeat(filled, sizes))
            self._bound[filled] = np.maximum.reduceat(gains, np.cumsum(sizes) - sizes)

    def best(self) -> tuple[float, PlannedMove] | None:
        """The move with the largest surplus, and that; None when none gains enough."""
        while True:
            highest = self._bound.max()
            if highest <= self._floor:
                return None
            # The highest bounds are exact offers: no other source can gain more.
            top = np.flatnonzero(self._bound >= highest - self.tie)
            if self._fresh[top].all():
                surplus, step = min((self._offers[place] for place in top.tolist()), key=lambda offer: offer[1].pod)
                # Where its siblings are now may have closed the target or opened a better one.
                if self._placement.fits(step.pod, step.target):
                    return surplus, step
                self._fresh[self._place[step.source]] = False
                continue
            # Evaluate the stale sources with the highest bounds, some at once, since one product serves them all.
            stale = np.where(self._fresh, _NOWHERE, self._bound)
            old = np.argpartition(stale, -_TOGETHER)[-_TOGETHER:] if len(stale) > _TOGETHER else np.arange(len(stale))
            self._evaluate(np.sort(old[stale[old] > self._floor]).tolist())

    def drop(self, pods: Ints) -> None:
        places = self._place[self._placement.on[pods]]
        gone = np.zeros(len(self._placement.on), bool)
        gone[pods] = True
        self._candidate[pods] = False
        for place in np.unique(places[places >= 0]).tolist():
            kept = self._pods[place][~gone[self._pods[place]]]
            if len(kept) != len(self._pods[place]):
                self._keep(place, kept)
                self._fresh[place] = False

    def make(self, step: PlannedMove) -> None:
        source, target = int(self._place[step.source]), int(self._place[step.target])
        before = self._mean
        self._placement.move(step.pod, step.target)
        self._candidate[step.pod] = False
        self._keep(source, self._pods[source][self._pods[source] != step.pod])
        self._read()
        self._shortlist.renew(source)
        # Pools of nodes with different sizes: the move changes the mean too. A gain is linear in the mean with slope
        # 2 w a, and a is at most that of the largest pod, so raising every bound by this keeps it an upper bound.
        shift = np.abs(self._mean - before)
        if (shift > _STILL).any():
            self._bound += float((2 * self._w * shift * self._largest).sum())
            self._fresh[:] = False
        # Who aimed at the target finds it fuller: its gain can only have fallen, so only the offer is stale.
        self._fresh[self._aims == step.target] = False
        # The source is emptier: as a target it may be better than any before.
        self._lower_targets(source)
        # The loads of both nodes changed, so their own bounds are computed anew from the best imaginable target.
        for place in {source, target}:
            self._bound[place] = self._ceiling(place)
            self._fresh[place] = False
        # Siblings: of the source `_lower_targets` bounds what it may gain them, the target's own bound is new, and an
        # offer that is closed to them is found out when it is the best.
        self._reconsider(self._placement.affected(step.pod, step.source))

    def _reconsider(self, pods: Ints) -> None:
        """Nodes may have opened or closed for these pods."""
        pods = pods[self._candidate[pods]]
        if not len(pods):
            return
        places = self._place[self._placement.on[pods]]
        chosen = [self._offers[place][1].pod if self._aims[place] >= 0 else -1 for place in places.tolist()]
        gains = self._imaginable(pods, places)
        self._fresh[places[(gains > self._bound[places] - self.tie) | (pods == chosen)]] = False
        np.maximum.at(self._bound, places, gains)

    def _keep(self, place: int, pods: Ints) -> None:
        self._pods[place] = pods
        if not len(pods):
            self._empty[place] = True
            self._bound[place] = _NOWHERE

    def _read(self) -> None:
        load = self._placement.load[self._rows] * self._factor
        self._mean: Floats = np.where(self._known, load, 0.0).sum(axis=0) / self._n
        self._x = np.where(self._known, load, self._mean)

    def _ceiling(self, place: int) -> float:
        pods = self._pods[place]
        return float(self._imaginable(pods, np.full(len(pods), place)).max(initial=_NOWHERE))

    def _imaginable(self, pods: Ints, places: Ints) -> Floats:
        """[pod]: an upper bound of its gain."""
        self._shortlist.prepare(self._x + self._margin, self._mean)
        used, home = self._placement.layout.used[pods], self._inverse[places]
        return self._here(pods, places) - self._shortlist.least(used, home)

    def _here(self, pods: Ints, places: Ints) -> Floats:
        """[pod]: what leaving is worth beyond its price, (2 a (x_i - mu) - a^2) w - p."""
        added = self._placement.layout.used[pods] * self._inverse[places]
        x = self._x[places] - self._margin[places]
        return weighted(added * (2 * (x - self._mean) - added), self._w) - self._beyond[pods]

    def _evaluate(self, places: list[int]) -> None:
        """The best feasible move away from each of these nodes."""
        self._shortlist.prepare(self._x + self._margin, self._mean)
        parts = [self._pods[place] for place in places]
        pods = np.concatenate(parts)
        owners = np.repeat(places, [len(part) for part in parts])
        used, home = self._placement.layout.used[pods], self._inverse[owners]
        here = self._here(pods, owners)
        # `hopes` bounds a pod's gain over all targets, `others` over those that are not listed.
        hopes = here - self._shortlist.least(used, home)
        others = here - self._shortlist.least_outside(used, home)
        ends = np.cumsum([len(part) for part in parts]).tolist()
        cuts = [slice(end - len(part), end) for end, part in zip(ends, parts, strict=True)]
        first = [cut.start + _highest(hopes[cut]) for cut in cuts]
        # First only the most promising pods of each source, against the listed targets.
        rows = np.concatenate(first)
        hopes[rows] = _NOWHERE
        gains = self._gains(here[rows], used[rows], home[rows])
        start = 0
        for place, cut, some in zip(places, cuts, first, strict=True):
            beyond, rest = float(others[cut].max()), float(hopes[cut].max())
            best = self._search_listed(place, pods[some], gains[start : start + len(some)], beyond)
            start += len(some)
            # Another pod of the source may gain as much: compare all of them, still against the listed targets.
            if best is not None and rest > _NOWHERE and (best[0] is None or best[1] <= rest + 2 * self.tie):
                every = self._gains(here[cut], used[cut], home[cut])
                best = self._search_listed(place, pods[cut], every, beyond)
            # A target that is not listed may be better: compare all targets.
            step, bound = best or self._search_all(place, pods[cut])
            self._fresh[place], self._bound[place], self._aims[place] = True, bound, -1
            if step is not None:
                self._offers[place], self._aims[place] = (bound, step), step.target

    def _gains(self, here: Floats, used: Floats, home: Floats) -> Floats:
        """[pod, listed]"""
        costs = self._shortlist.costs(used, home)
        return np.subtract(here[:, None], costs, out=costs)

    def _search_listed(self, place: int, pods: Ints, gains: Floats, others: float) -> _Found | None:
        gains[:, self._shortlist.listed == place] = _NOWHERE
        return self._search(place, pods, gains, self._shortlist.listed, others)

    def _search_all(self, place: int, pods: Ints) -> _Found:
        places = np.full(len(pods), place)
        used, home = self._placement.layout.used[pods], self._inverse[places]
        gains = self._here(pods, places)[:, None] - self._shortlist.all_costs(used, home)
        best = self._search(place, pods, gains, self._shortlist.targets, _NOWHERE)
        assert best is not None
        return best

    def _search(self, place: int, pods: Ints, gains: Floats, targets: Ints, others: float) -> _Found | None:
        """The move if it gains enough, and what no move exceeds; None if a target outside may be better."""
        best = gains.max(axis=1)
        narrowed: set[int] = set()
        while True:
            highest = float(best.max())
            if max(highest, others) <= self._floor:
                return None, max(highest, others)
            if highest <= others + self.tie:
                # A target that is not listed could be as good, so the caller has to compare all of them.
                return None
            # Of equal gains the first row and column count: rows are pods by name, columns nodes by name.
            row = int(np.argmax(best >= highest - self.tie))
            column = int(np.argmax(gains[row] >= highest - self.tie))
            pod, target = int(pods[row]), int(self._rows[targets[column]])
            if row in narrowed or self._placement.fits(pod, target):
                step = self._step(pod, place, int(targets[column]), float(gains[row, column]))
                if step.gain - self._confidence * step.error > step.cost - self.tie:
                    return step, highest
                gains[row, column] = _NOWHERE
                best[row] = gains[row].max()
                continue
            # The best target does not fit. All targets that do not fit are excluded at once, so that each pod is
            # checked against the nodes only once.
            narrowed.add(row)
            gains[row, ~self._placement.open_among(pod, self._rows[targets])] = _NOWHERE
            best[row] = gains[row].max()

    def _step(self, pod: int, place: int, target: int, surplus: float) -> PlannedMove:
        """`surplus` is what the move gains beyond its price, with the loads of both nodes nearer to the mean."""
        used = self._placement.layout.used[pod]
        leaves, comes = used * self._inverse[place] * self._w, used * self._inverse[target] * self._w
        nearer = 2 * float((leaves * self._margin[place] + comes * self._margin[target]).sum())
        squares = np.square(leaves * self._error[place]) + np.square(comes * self._error[target])
        # What the gain changes with the pod's use: its slope, (x_i - mu - a) at home less (x_j - mu + b) there.
        away = self._inverse[place] * (self._x[place] - self._mean - used * self._inverse[place])
        there = self._inverse[target] * (self._x[target] - self._mean + used * self._inverse[target])
        doubt = self._placement.layout.doubt_of(np.array([pod]))[0]
        squares += np.square(self._w * (away - there) * doubt)
        return PlannedMove(
            pod,
            int(self._rows[place]),
            int(self._rows[target]),
            surplus + float(self._beyond[pod]) + nearer,
            error=2 * float(np.sqrt(squares.sum())),
            cost=float(self._cost[pod]),
        )

    def unpaid(self) -> Ints:
        """The pods whose move gains something, but less than it costs."""
        if not len(self._shortlist.targets):
            return np.zeros(0, np.int64)
        pods = np.concatenate(self._pods)
        places = np.repeat(np.arange(len(self._pods)), [len(pods) for pods in self._pods])
        surplus = self._imaginable(pods, places)
        self._margin, self._beyond = np.zeros_like(self._margin), np.zeros_like(self._beyond)
        self._shortlist.renew(-1)
        return pods[(surplus <= self._floor) & (self._imaginable(pods, places) > self._floor)]

    def _lower_targets(self, place: int) -> None:
        """Raises the bounds of sources for which this node, which has lost load, may now be the best target."""
        home = self._inverse[place]
        over, under = self._x - self._margin - self._mean, self._x[place] + self._margin[place] - self._mean
        # A pod of size s gains 2 slope s - curve s^2 by this move, so at most slope^2 / curve, at s = slope / curve. No
        # pod of any size gains more: a bound without looking at the pods.
        slope = np.maximum(over * self._inverse - under * home, 0.0)
        curve = np.square(self._inverse) + np.square(home) - np.square(home - self._inverse) / self._n
        gain = weighted(np.divide(np.square(slope), curve, out=np.zeros_like(slope), where=curve > 0), self._w)
        better = (gain > self._bound) & ~self._empty
        self._bound[better] = gain[better]
        self._fresh[better] = False


def _highest(hopes: Floats) -> Ints:
    """The places of the most promising ones, ascending."""
    if len(hopes) <= _PROMISING:
        return np.arange(len(hopes))
    return np.sort(np.argpartition(hopes, -_PROMISING)[-_PROMISING:])


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
