"""Evictions that let waiting pods start.

Source: Knyazhev and Romanova, "A resource allocation method based on the dominant-residual method and redistribution on
Kubernetes" (DOI 10.58351/2949-2041.2026.35.6.034), with the search cut down without changing its answer: once every
waiting pod was tried, a released pod makes room on its own node alone, so the pods that start are those that fit there
in turn; the released pod needs room on another node; and pods of the same node, requests and constraints are alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.planners.frontier import fit_elsewhere, smallest
from ballast.placement.planners.simulated_placement import SimulatedPlacement
from ballast.placement.planners.step import Admit, Step
from ballast.scoring.residual import NOWHERE, Criterion, steps

_CHUNK = 256
_FEW = 128
_PROFILES = 32
_MANY = 512
_ROUNDING = 1e-12


def redistribute(
    standing: SimulatedPlacement,
    movable: Bools,
    admit: Admit,
    *,
    kappa: float | None = 0.5,
    limit: int | None = None,
    costly: Callable[[Ints], None] = lambda pods: None,
) -> Iterator[Step]:
    """Yields steps, already made in `standing`, until no eviction helps or `limit` is reached.

    `movable` [pod] is the predicate Q of the paper. Each step lets most waiting pods start; ties go by the pod's name.
    It may cost at most `kappa` of residual per started pod, None for the published rule; `costly` hears of pods whose
    eviction would cost more.
    """
    search = _Search(standing, movable, kappa, costly)
    made = 0
    while limit is None or made < limit:
        step = search.best(admit)
        if step is None:
            return
        made += 1
        yield step


class _Search:
    def __init__(
        self, standing: SimulatedPlacement, movable: Bools, kappa: float | None, costly: Callable[[Ints], None]
    ) -> None:
        layout = standing.layout
        self._standing, self._kappa, self._costly = standing, kappa, costly
        self._movable = movable & layout.present
        self._class, self._masks = self._classes()
        self._shape = np.unique(layout.asked, axis=0, return_inverse=True)[1].reshape(-1)
        asked = layout.frequency > 0
        requests, counts = layout.profiles[asked].astype(float), layout.frequency[asked].astype(float)
        weights = counts / max(1.0, counts.sum())
        self._residual = Criterion(requests, weights, c=1.0)
        often = np.sort(np.argsort(-counts, kind="stable")[:_PROFILES])
        self._criterion = Criterion(requests[often], weights[often] / max(weights[often].sum(), 1e-300))
        waiting = [row for row, pod in enumerate(layout.pods) if layout.on[row] < 0 and pod.waiting]
        waiting.sort(key=lambda row: (layout.pods[row].waiting_since or 0.0, row))
        self._waiting = [pod for pod in waiting if not self._starts_anyway(pod)]

    def _starts_anyway(self, pod: int) -> bool:
        """Whether a waiting pod has room without any eviction; it is not counted, but its room is taken."""
        target = self._choose(pod, self._standing.feasible(pod))
        if target is not None:
            self._standing.move(pod, target)
        return target is not None

    def best(self, admit: Admit) -> Step | None:
        """The step, made in `standing`."""
        if not self._waiting:
            return None
        groups, members = self._candidates()
        room, order, bound = self._promising(groups)
        heap: list[tuple[int, int, int, int]] = []
        self._dear: set[tuple[int, int]] = set()
        evaluated = 0
        # Groups are evaluated in the order of their upper bounds, until no bound reaches the best gain in the heap.
        while heap or evaluated < len(order):
            if evaluated < len(order) and (not heap or -heap[0][0] <= bound[order[evaluated]]):
                chunk = order[evaluated : evaluated + _CHUNK]
                evaluated += len(chunk)
                for group, gain in self._gains(chunk, groups, room, members):
                    heapq.heappush(heap, (-gain, int(members[group][0]), group, 0))
                continue
            negative, pod, group, place = heapq.heappop(heap)
            if self._movable[pod]:
                step = self._try(pod, group, -negative)
                if isinstance(step, int):
                    # Constraints let fewer pods start than requests do: it returns to the heap with that number.
                    heapq.heappush(heap, (-step, pod, group, place))
                    continue
                if step is not None:
                    refused = admit(step.pod, step.target)
                    if refused is None:
                        self._make(step)
                        return step
                    self._movable[refused] = False
            if place + 1 < len(members[group]):
                heapq.heappush(heap, (negative, int(members[group][place + 1]), group, place + 1))
        return None

    def _candidates(self) -> tuple[Ints, _Groups]:
        """Pods with another way to go, one row for each (node, requests, class), and who else is like it."""
        on, asked = self._standing.on, self._standing.layout.asked
        pods = np.flatnonzero(self._movable & (on >= 0))
        kept = np.zeros(len(pods), bool)
        for number, mask in enumerate(self._masks):
            mine = np.flatnonzero(self._class[pods] == number)
            rows = np.flatnonzero(mask & self._standing.targets)
            if len(mine) and len(rows):
                kept[mine] = self._another(pods[mine], asked, on, rows)
        pods = pods[kept]
        key = (on[pods] * (self._shape.max(initial=0) + 1) + self._shape[pods]) * len(self._masks) + self._class[pods]
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=-1))
        return pods[order[first]], _Groups(pods[order], np.append(first, len(order)))

    def _another(self, pods: Ints, asked: Ints, on: Ints, rows: Ints) -> Bools:
        """[pod]: whether one of `rows` other than its own has room."""
        shapes, which = np.unique(self._shape[pods], return_inverse=True)
        free = self._standing.free
        if len(shapes) > _FEW:
            # What is not requested may be overcommitted.
            return fit_elsewhere(asked[pods], on[pods], np.maximum(free, 0), rows)
        found = np.zeros(len(pods), bool)
        listed = np.zeros(len(free), bool)
        listed[rows] = True
        for number in range(len(shapes)):
            mine = np.flatnonzero(which == number)
            request = asked[pods[mine[0]]]
            fits = ((free >= request) | (request == 0)).all(axis=1) & listed
            found[mine] = np.count_nonzero(fits) - fits[on[pods[mine]]] > 0
        return found

    def _promising(self, groups: Ints) -> tuple[Ints, Ints, Ints]:
        """Room once the pod of each group has left; groups where somebody can start, and how many at most."""
        standing = self._standing
        asked = standing.layout.asked
        room = np.maximum(standing.free[standing.on[groups]] + asked[groups], 0)
        wanted = asked[self._waiting]
        some = np.zeros(len(groups), bool)
        for row in smallest(wanted).tolist():
            some |= (room >= wanted[row]).all(axis=1)
        bound = np.where(some, self._bounds(room, wanted), 0)
        order = np.argsort(-bound, kind="stable")
        return room, order[bound[order] > 0], bound

    def _gains(self, chunk: Ints, groups: Ints, room: Ints, members: _Groups) -> Iterator[tuple[int, int]]:
        """Groups with how many pods start, without those that cost too much already on their own node."""
        sources = self._standing.on[groups[chunk]]
        gains, left = self._greedy(room[chunk], sources)
        dear = np.zeros(len(chunk), bool)
        if self._kappa is not None and len(self._residual.profiles) <= _MANY:
            before = np.maximum(self._standing.free[sources, 1:], 0).astype(float)
            after = left[:, 1:].astype(float)
            fall = self._residual.fitness(before) - self._residual.fitness(after)
            dear = fall - _ROUNDING > self._kappa * gains
        for group, gain, too_dear in zip(chunk.tolist(), gains.tolist(), dear.tolist(), strict=True):
            if gain and too_dear:
                self._costly(members[group])
            elif gain:
                yield group, gain

    def _bounds(self, room: Ints, wanted: Ints) -> Ints:
        """No more start than the smallest of each kind would."""
        found = np.full(len(room), len(wanted))
        for kind in range(room.shape[1]):
            sums = np.cumsum(np.sort(wanted[:, kind]))
            np.minimum(found, np.searchsorted(sums, room[:, kind], "right"), out=found)
        return found

    def _greedy(self, room: Ints, nodes: Ints) -> tuple[Ints, Ints]:
        """[group]: how many waiting pods start when each takes its room in turn, and what is left."""
        left = room.copy()
        count = np.zeros(len(room), np.int64)
        for pod in self._waiting:
            request = self._standing.layout.asked[pod]
            fits = (left >= request).all(axis=1) & self._masks[int(self._class[pod])][nodes]
            left[fits] -= request
            count += fits
        return count, left

    def _try(self, pod: int, group: int, gain: int) -> Step | int | None:
        """The step, another number of pods that start, or None where it is not possible or costs too much."""
        standing = self._standing
        source = int(standing.on[pod])
        target = self._choose(pod, standing.open_to(pod))
        if target is None:
            return None
        if (group, target) in self._dear:
            self._costly(np.array([pod]))
            return None
        load, free = standing.load.copy(), standing.free[source].astype(float)
        standing.move(pod, -1)
        started = []
        for each in self._waiting:
            if standing.runs_on(each, source):
                standing.move(each, source)
                started.append(each)
        loss = self._loss(pod, source, target, free)
        for each in reversed(started):
            standing.move(each, -1)
        standing.move(pod, source)
        standing.load = load
        if len(started) < gain:
            return len(started) or None
        if self._kappa is not None and loss > self._kappa * len(started) + _ROUNDING:
            self._dear.add((group, target))
            self._costly(np.array([pod]))
            return None
        return Step(pod, source, target, float(len(started)), {"loss": loss}, tuple(started))

    def _make(self, step: Step) -> None:
        self._standing.move(step.pod, step.target)
        for each in step.starts:
            self._standing.move(each, step.source)
        self._waiting = [pod for pod in self._waiting if pod not in step.starts]
        self._movable[[step.pod, *step.starts]] = False

    def _choose(self, pod: int, mask: Bools) -> int | None:
        """By the dominant-residual criterion; ties go to the first name."""
        rows = np.flatnonzero(mask)
        if not len(rows):
            return None
        layout = self._standing.layout
        free, whole = self._standing.free[rows, 1:].astype(float), layout.total[rows, 1:].astype(float)
        before = self._criterion.fitness(np.maximum(free, 0.0))
        losses, _, _ = self._criterion.losses(whole, free, layout.asked[pod, 1:].astype(float), before)
        return int(rows[np.argmin(np.minimum(steps(losses), NOWHERE))])

    def _loss(self, pod: int, source: int, target: int, before: Floats) -> float:
        """Fall of the residual of both nodes, once the waiting pods are on `source` and the pod is on `target`."""
        free = self._standing.free.astype(float)
        moved = self._standing.layout.asked[pod]
        vectors = np.stack([before, free[target], free[source], free[target] - moved])[:, 1:]
        residual = self._residual.fitness(np.maximum(vectors, 0.0))
        return float(residual[0] + residual[1] - residual[2] - residual[3])

    def _classes(self) -> tuple[Ints, list[Bools]]:
        """Pods by the nodes that they may run on at all."""
        numbers: dict[bytes, int] = {}
        by_id: dict[int, int] = {}
        masks: list[Bools] = []
        found = np.zeros(len(self._standing.layout.pods), np.int64)
        for row, pod in enumerate(self._standing.layout.pods):
            number = by_id.get(id(pod.template))
            if number is None:
                mask = self._standing.sites.allowed(pod.template)
                number = numbers.setdefault(mask.tobytes(), len(masks))
                if number == len(masks):
                    masks.append(mask)
                by_id[id(pod.template)] = number
            found[row] = number
        return found, masks


class _Groups:
    """Pods that are alike, by the number of their group, in the order of their names."""

    def __init__(self, pods: Ints, starts: Ints) -> None:
        self._pods, self._starts = pods, starts

    def __getitem__(self, group: int) -> Ints:
        return self._pods[self._starts[group] : self._starts[group + 1]]
