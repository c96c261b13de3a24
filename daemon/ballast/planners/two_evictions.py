"""Two evictions for one waiting pod, where one is not enough: two pods leave its node, or one leaves it for a node
that another pod leaves first."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from ballast.model.sample import Bools, Ints
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.room_price import WORTH, RoomPrice
from ballast.planners.step import PlannedMove

TRIES = 512
"""Most pairs that are looked at in one plan."""

_SOURCES = 32
_BETWEEN = 16
"""Most nodes that are looked at for one waiting pod, those that lack least first."""


@dataclass
class SearchBudget:
    """Pairs that may still be looked at."""

    left: int = TRIES


def two_evictions(
    placement: SimulatedPlacement,
    waiting: int,
    movable: Bools,
    choose: Callable[[int, Bools], int | None],
    price: RoomPrice | None,
    budget: SearchBudget,
) -> Iterator[tuple[PlannedMove, PlannedMove]]:
    """Pairs of steps, not made, of which the second lets the pod start; the first gains nothing by itself."""
    search = _PairSearch(placement, waiting, movable, choose, price, budget)
    allowed = placement.sites.allowed(placement.layout.pods[waiting].template)
    for source in _nearest(placement, waiting, allowed, _SOURCES):
        if budget.left <= 0:
            return
        yield from search.of_one_node(source)
        yield from search.in_a_row(source)


def _nearest(placement: SimulatedPlacement, pod: int, allowed: Bools, most: int) -> list[int]:
    """The nodes that lack least room for a pod."""
    lack = np.maximum(placement.layout.asked[pod] - placement.free, 0) / np.maximum(placement.layout.total, 1)
    rows = np.flatnonzero(allowed)
    nearest: list[int] = rows[np.lexsort((rows, lack[rows].sum(axis=1)))][:most].tolist()
    return nearest


class _PairSearch:
    def __init__(
        self,
        placement: SimulatedPlacement,
        waiting: int,
        movable: Bools,
        choose: Callable[[int, Bools], int | None],
        price: RoomPrice | None,
        budget: SearchBudget,
    ) -> None:
        self._placement, self._waiting, self._choose, self._price = placement, waiting, choose, price
        self._movable = movable
        self._budget = budget
        self._alike: dict[int, list[list[int]]] = {}
        self._open: dict[int, list[list[int]]] = {}

    def of_one_node(self, source: int) -> Iterator[tuple[PlannedMove, PlannedMove]]:
        """Two pods leave `source`."""
        placement = self._placement
        for one, other in combinations_with_replacement(self._mobile(source), 2):
            # Pods that are alike are as good as each other: one stands for its kind, two where a kind is paired with
            # itself.
            pair = (one[0], other[0]) if one is not other else tuple(one[:2])
            if len(pair) < 2 or not self._enough(source, pair):
                continue
            if self._budget.left <= 0:
                return
            self._budget.left -= 1
            with self._trial(*pair):
                for pod in pair:
                    placement.move(pod, -1)
                if not placement.runs_on(self._waiting, source):
                    continue
                # The waiting pod takes its room first, so that neither of the two is sent back to it.
                placement.move(self._waiting, source)
                targets = []
                for pod in pair:
                    target = self._choose(pod, placement.open_to(pod, source))
                    if target is not None:
                        placement.move(pod, target)
                        targets.append(target)
                if len(targets) < 2 or not self._pays(source, *targets):
                    continue
            yield self._steps(pair[0], source, targets[0], pair[1], source, targets[1])

    def in_a_row(self, source: int) -> Iterator[tuple[PlannedMove, PlannedMove]]:
        """A pod leaves another node, and one of `source` goes there."""
        placement = self._placement
        for victims in self._kinds(source):
            if not self._enough(source, (victims[0],)):
                continue
            victim = victims[0]
            requests = placement.layout.asked[victim]
            places = placement.targets & placement.sites.allowed(placement.layout.pods[victim].template)
            places &= placement.layout.pool == placement.layout.pool[source]
            places[source] = False
            for between in _nearest(placement, victim, places, _BETWEEN):
                for first in self._mobile(between):
                    # Room by requests is cheap to tell: pairs that lack it are not counted as tried.
                    room = placement.free[between] + placement.layout.asked[first[0]]
                    if not ((room >= requests) | (requests == 0)).all():
                        continue
                    if self._budget.left <= 0:
                        return
                    self._budget.left -= 1
                    target = self._row(source, victim, between, first[0])
                    if target is not None:
                        yield self._steps(first[0], between, target, victim, source, between)

    def _row(self, source: int, victim: int, between: int, first: int) -> int | None:
        """Where `first` goes from `between`, so that `victim` can leave `source` for it and the waiting pod starts."""
        placement = self._placement
        with self._trial(first, victim):
            open_to = placement.open_to(first)
            # Room on `source` is for the waiting pod.
            open_to[source] = False
            target = self._choose(first, open_to)
            if target is None:
                return None
            placement.move(first, target)
            if not placement.fits(victim, between):
                return None
            placement.move(victim, between)
            if not placement.runs_on(self._waiting, source):
                return None
            placement.move(self._waiting, source)
            return target if self._pays(source, between, target) else None

    def _steps(
        self, one: int, of: int, to: int, other: int, source: int, target: int
    ) -> tuple[PlannedMove, PlannedMove]:
        last = PlannedMove(other, source, target, 1.0, {}, (self._waiting,), (source,))
        return PlannedMove(one, of, to, 0.0, {"for": float(self._waiting)}), last

    def _kinds(self, row: int) -> list[list[int]]:
        """Movable pods of a node; those that are alike together."""
        alike = self._alike.get(row)
        if alike is None:
            placement = self._placement
            groups: dict[tuple[bytes, int, str, int], list[int]] = {}
            for pod in np.flatnonzero(self._movable & (placement.on == row)).tolist():
                victim = placement.layout.pods[pod]
                key = (placement.layout.asked[pod].tobytes(), id(victim.template), victim.namespace, id(victim.labels))
                groups.setdefault(key, []).append(pod)
            alike = self._alike[row] = list(groups.values())
        return alike

    def _mobile(self, row: int) -> list[list[int]]:
        """Those of them that have another node to go to as things stand."""
        open_rows = self._open.get(row)
        if open_rows is None:
            kinds = self._kinds(row)
            open_rows = self._open[row] = [pods for pods in kinds if self._placement.open_to(pods[0]).any()]
        return open_rows

    def _enough(self, source: int, pods: tuple[int, ...]) -> bool:
        requests = self._placement.layout.asked
        room = self._placement.free[source] + requests[list(pods)].sum(axis=0)
        return bool(((room >= requests[self._waiting]) | (requests[self._waiting] == 0)).all())

    def _pays(self, *rows: int) -> bool:
        if self._price is None:
            return True
        changed: Ints = np.unique(np.array(rows, np.int64))
        return self._price.sum(self._free[changed], self._placement.free[changed], changed) <= WORTH

    @contextmanager
    def _trial(self, *pods: int) -> Iterator[None]:
        """What is moved inside is put back."""
        placement = self._placement
        tried = [*pods, self._waiting]
        homes = placement.on[tried].tolist()
        load, self._free = placement.load.copy(), placement.free.copy()
        try:
            yield
        finally:
            # All leave before the first returns: one may stand in the room of another.
            for pod in tried:
                placement.move(pod, -1)
            for pod, home in zip(tried, homes, strict=True):
                placement.move(pod, home)
            # Sums of floats that are taken back are not exactly what they were.
            placement.load = load
