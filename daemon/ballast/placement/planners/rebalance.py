"""Moves that even out load: each step is the single move with the largest fall of sum_k w_k Var_k, found exactly.

With x the load of nodes, mu its mean over n nodes, a and b what the pod adds to the load of source i and target j, a
move lowers the variance of one resource by

    (2 a (x_i - mu) - a^2 - 2 b (x_j - mu) - b^2 + (b - a)^2 / n) / n.

So the best targets of pods come from a product of two small matrices. Few nodes are evaluated again for each step: what
was best for a source bounds what can be best later, until its own load falls or another node becomes a better target,
and both of these are bounded in closed form.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.planners.shortlist import Shortlist, weighted
from ballast.placement.planners.simulated_placement import SimulatedPlacement
from ballast.placement.planners.step import Admit, Step

# Gains this close, in units of load squared per node, count as equal; then names decide.
_TIE = 1e-12
# A mean that moves by less has not moved.
_STILL = 1e-14
_TOGETHER = 8
_NOWHERE = -np.inf


def rebalance(
    standing: SimulatedPlacement,
    movable: Bools,
    counted: Bools,
    admit: Admit,
    *,
    min_gain: float = 0.0,
    limit: int | None = None,
) -> Iterator[Step]:
    """Yields steps, already made in `standing`, until no move gains `min_gain` or `limit` is reached.

    `movable` [pod] may be moved, each once; `counted` [node] make up the variance. Pools do not mix; a gain is the
    fall within the pool.
    """
    numbers = np.unique(standing.layout.pool)
    pools = [_Pool(standing, np.flatnonzero(standing.layout.pool == n), movable, counted, min_gain) for n in numbers]
    made = 0
    while limit is None or made < limit:
        offers = [(pool, offer) for pool in pools if (offer := pool.best()) is not None]
        if not offers:
            return
        highest = max(offer.gain for _, offer in offers)
        pool, step = min(
            ((pool, offer) for pool, offer in offers if offer.gain >= highest - pool.tie), key=lambda each: each[1].pod
        )
        refused = admit(step.pod, step.target)
        if refused is not None:
            for each in pools:
                each.drop(refused)
            continue
        made += 1
        pool.make(step)
        yield step


class _Pool:
    """The nodes of one pool; `rows` are theirs in the layout, everything else is by place in `rows`."""

    def __init__(
        self, standing: SimulatedPlacement, rows: Ints, movable: Bools, counted: Bools, min_gain: float
    ) -> None:
        layout = standing.layout
        self._standing, self._rows = standing, rows
        self._known: Bools = np.asarray(np.isfinite(layout.load[rows]) & counted[rows, None])
        self._n = np.maximum(self._known.sum(axis=0), 1)
        self._w = layout.weights / self._n
        self.tie = _TIE / float(self._n.max(initial=1))
        self._floor = max(min_gain - self.tie, self.tie)
        whole = layout.whole[rows]
        self._inverse: Floats = np.divide(1.0, whole, out=np.zeros_like(whole), where=whole > 0)
        usable: Bools = np.asarray((self._known | ~layout.there[rows]).all(axis=1) & (whole > 0).all(axis=1))
        self._place = np.full(len(layout.nodes), -1)
        self._place[rows] = np.arange(len(rows))
        self._read()
        targets = np.flatnonzero(usable & standing.targets[rows])
        self._shortlist = Shortlist(targets, self._inverse, self._w, self._n)
        measured = np.isfinite(layout.used).all(axis=1)
        self._pods = self._candidates(
            np.flatnonzero(np.logical_and.reduce([movable, measured, standing.on >= 0])), usable
        )
        self._empty = np.array([not len(pods) for pods in self._pods], bool)
        self._bound = np.full(len(rows), _NOWHERE)
        self._fresh = np.zeros(len(rows), bool)
        self._offers: dict[int, Step] = {}
        self._aims = np.full(len(rows), -1)
        self._largest = np.zeros(len(layout.resources))
        if len(targets):
            self._begin()

    def _candidates(self, pods: Ints, usable: Bools) -> list[Ints]:
        places = self._place[self._standing.on[pods]]
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
            self._largest = self._standing.layout.used[pods].max(axis=0) * self._inverse.max(axis=0)
            gains = self._imaginable(pods, np.repeat(filled, sizes))
            self._bound[filled] = np.maximum.reduceat(gains, np.cumsum(sizes) - sizes)

    def best(self) -> Step | None:
        """The steepest move, or None when none gains enough."""
        while True:
            highest = self._bound.max()
            if highest <= self._floor:
                return None
            top = np.flatnonzero(self._bound >= highest - self.tie)
            if self._fresh[top].all():
                return min((self._offers[place] for place in top.tolist()), key=lambda step: step.pod)
            stale = np.where(self._fresh, _NOWHERE, self._bound)
            old = np.argpartition(stale, -_TOGETHER)[-_TOGETHER:] if len(stale) > _TOGETHER else np.arange(len(stale))
            self._evaluate(np.sort(old[stale[old] > self._floor]).tolist())

    def drop(self, pods: Ints) -> None:
        places = self._place[self._standing.on[pods]]
        gone = np.zeros(len(self._standing.on), bool)
        gone[pods] = True
        for place in np.unique(places[places >= 0]).tolist():
            kept = self._pods[place][~gone[self._pods[place]]]
            if len(kept) != len(self._pods[place]):
                self._keep(place, kept)
                self._fresh[place] = False

    def make(self, step: Step) -> None:
        source, target = int(self._place[step.source]), int(self._place[step.target])
        homes = self._standing.on[self._standing.neighbours.related(step.pod)]
        related = set(self._place[homes[homes >= 0]].tolist()) - {-1}
        before = self._mean
        self._standing.move(step.pod, step.target)
        self._keep(source, self._pods[source][self._pods[source] != step.pod])
        self._read()
        self._shortlist.renew(source)
        shift = np.abs(self._mean - before)
        if (shift > _STILL).any():
            self._bound += float((2 * self._w * shift * self._largest).sum())
            self._fresh[:] = False
        self._fresh[self._aims == step.target] = False
        self._welcome(source)
        for place in {source, target} | related:
            self._bound[place] = self._ceiling(place)
            self._fresh[place] = False

    def _keep(self, place: int, pods: Ints) -> None:
        self._pods[place] = pods
        if not len(pods):
            self._empty[place] = True
            self._bound[place] = _NOWHERE

    def _read(self) -> None:
        load = self._standing.load[self._rows]
        self._mean: Floats = np.where(self._known, load, 0.0).sum(axis=0) / self._n
        self._x = np.where(self._known, load, self._mean)

    def _ceiling(self, place: int) -> float:
        pods = self._pods[place]
        return float(self._imaginable(pods, np.full(len(pods), place)).max(initial=_NOWHERE))

    def _imaginable(self, pods: Ints, places: Ints) -> Floats:
        """[pod]: an upper bound of its gain."""
        self._shortlist.prepare(self._x, self._mean)
        used, home = self._standing.layout.used[pods], self._inverse[places]
        return self._here(used, home, self._x[places]) - self._shortlist.least(used, home)

    def _here(self, used: Floats, home: Floats, x: Floats) -> Floats:
        """[pod]: what leaving is worth, (2 a (x_i - mu) - a^2) w."""
        added = used * home
        return weighted(added * (2 * (x - self._mean) - added), self._w)

    def _evaluate(self, places: list[int]) -> None:
        """The best feasible move away from each of these nodes."""
        self._shortlist.prepare(self._x, self._mean)
        parts = [self._pods[place] for place in places]
        pods = np.concatenate(parts)
        owners = np.repeat(places, [len(part) for part in parts])
        used, home = self._standing.layout.used[pods], self._inverse[owners]
        here = self._here(used, home, self._x[owners])
        listed = self._shortlist.listed
        costs = self._shortlist.costs(used, home)
        gains = np.subtract(here[:, None], costs, out=costs)
        others = here - self._shortlist.least_outside(used, home)
        start = 0
        for place, part in zip(places, parts, strict=True):
            cut = slice(start, start + len(part))
            gains[cut, listed == place] = _NOWHERE
            found = self._search(place, part, gains[cut], listed, float(others[cut].max()))
            step, bound = found or self._search_all(place, part)
            self._fresh[place], self._bound[place] = True, bound
            self._aims[place] = -1
            if step is not None:
                self._offers[place], self._aims[place] = step, step.target
            start = cut.stop

    def _search_all(self, place: int, pods: Ints) -> tuple[Step | None, float]:
        used, home = self._standing.layout.used[pods], self._inverse[np.full(len(pods), place)]
        targets = self._shortlist.targets
        here = self._here(used, home, self._x[np.full(len(pods), place)])
        gains = here[:, None] - self._shortlist.all_costs(used, home)
        found = self._search(place, pods, gains, targets, _NOWHERE)
        assert found is not None
        return found

    def _search(
        self, place: int, pods: Ints, gains: Floats, targets: Ints, others: float
    ) -> tuple[Step | None, float] | None:
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
            if row in narrowed or self._standing.fits(pod, target):
                return Step(pod, int(self._rows[place]), target, float(gains[row, column])), highest
            # The best target does not fit. All targets that do not fit are excluded at once, so that each pod is
            # checked against the nodes only once.
            narrowed.add(row)
            gains[row, ~self._standing.open_among(pod, self._rows[targets])] = _NOWHERE
            best[row] = gains[row].max()

    def _welcome(self, place: int) -> None:
        """A node that has lost load may now be the best target of others, of whatever size their pods are."""
        home = self._inverse[place]
        slope = np.maximum((self._x - self._mean) * self._inverse - (self._x[place] - self._mean) * home, 0.0)
        curve = np.square(self._inverse) + np.square(home) - np.square(home - self._inverse) / self._n
        gain = weighted(np.divide(np.square(slope), curve, out=np.zeros_like(slope), where=curve > 0), self._w)
        better = (gain > self._bound) & ~self._empty
        self._bound[better] = gain[better]
        self._fresh[better] = False
