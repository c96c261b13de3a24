"""`redistribute`: evictions that let waiting pods start.

Source: Knyazhev and Romanova, "A resource allocation method based on the dominant-residual method and redistribution on
Kubernetes" (DOI 10.58351/2949-2041.2026.35.6.034), with the search cut down without changing its answer: once every
waiting pod was tried, a released pod makes room on its own node alone, so the pods that start are those that fit there
in turn; the released pod needs room on another node; and pods of the same node, requests and constraints are alike.
A waiting pod that other pods forbid nodes to (anti-affinity, topology spread) may start on any node that the eviction
opens. Then every pod whose eviction could open one is tried, at most `_TRIES` of them for a step. Unlike in the paper
the released pod never comes back to its own node: that would be a restart.
"""

import heapq
from collections.abc import Callable, Iterator

import numpy as np

from ballast.base.text import named
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.alike_pods import AlikePods, Groups
from ballast.planners.frontier import smallest
from ballast.planners.node_choice import OBSERVED, NodeChoice
from ballast.planners.plan_input import PlanInput
from ballast.planners.planned_pods import pod_name
from ballast.planners.planner import BasePlanner, Effect, PlanningDemand, Spare
from ballast.planners.room_price import WORTH, RoomPrice
from ballast.planners.step import Admit, PlannedMove
from ballast.planners.two_evictions import SearchBudget, two_evictions
from ballast.scoring.dominant_residual import DominantResidual

_CHUNK = 256
_MANY = 512
_TRIES = 4096


def redistribute(
    placement: SimulatedPlacement,
    movable: Bools,
    admit: Admit,
    *,
    arrivals: float | None = 0.0,
    waiting: Bools | None = None,
    limit: int | None = None,
    costly: Callable[[Ints], None] = lambda pods: None,
    criterion: DominantResidual = OBSERVED,
) -> Iterator[PlannedMove]:
    """Yields steps, already made in `placement`, until no eviction helps or `limit` is reached.

    `movable` [pod] is the predicate Q of the paper; `waiting` [pod] are the pods that room may be made for, by default
    all that wait. Each step lets most of them start; ties go by the pod's name. `arrivals` are the pods that are
    expected to come next: a step takes the room of at most WORTH of them for each that it lets start; `costly` hears
    of pods whose eviction would not pay so. None is the published rule, which counts no price. Beside it, where one
    eviction is not enough for a waiting pod and all that come find room, two are planned: the first gains nothing by
    itself. All pods land by `criterion`.
    """
    choice = NodeChoice(placement.layout, criterion)
    price = None if arrivals is None else RoomPrice(arrivals, choice, placement)
    search = _RoomSearch(placement, movable, price, costly, choice, waiting)
    moves = 0
    while limit is None or moves < limit:
        step = search.best(admit)
        if step is None:
            break
        moves += 1
        yield step
    # Two evictions for one pod are dear, so they are planned only while all that come find room.
    if price is None or price.scarce:
        return
    while limit is None or moves + 1 < limit:
        pair = search.pair(admit)
        if pair is None:
            return
        moves += 2
        yield from pair


class _RoomSearch:
    def __init__(
        self,
        placement: SimulatedPlacement,
        movable: Bools,
        price: RoomPrice | None,
        costly: Callable[[Ints], None],
        choice: NodeChoice,
        wanted: Bools | None,
    ) -> None:
        layout = placement.layout
        self._placement, self._price, self._costly, self._choice = placement, price, costly, choice
        self._movable = movable & layout.present
        self._alike = AlikePods(placement)
        waiting = [row for row, pod in enumerate(layout.pods) if layout.on[row] < 0 and pod.waiting]
        waiting.sort(key=lambda row: (layout.pods[row].waiting_since or 0.0, row))
        self._waiting, self._choosy = waiting, set[int]()
        self._start_anyway()
        if price is not None:
            self._start_after_terminating()
        if wanted is not None:
            self._waiting = [row for row in self._waiting if wanted[row]]
            self._choosy &= set(self._waiting)

    def _start_anyway(self) -> None:
        """Starts waiting pods that need no eviction; they are not counted, but their room is taken."""
        before = -1
        while before != len(self._waiting):
            before = len(self._waiting)
            left = []
            for pod in self._waiting:
                target = self._choose(pod, self._placement.feasible(pod))
                if target is None:
                    left.append(pod)
                else:
                    self._placement.move(pod, target)
            self._waiting = left
            # Pods that look at other pods; what started may have opened nodes to them.
            self._choosy = {pod for pod in left if self._placement.neighbours.matters(pod)}
            if not self._choosy:
                return

    def _start_after_terminating(self) -> None:
        """Starts waiting pods that fit once the terminating ones have ended: their room is taken, too."""
        placement = self._placement
        ending = [row for row, pod in enumerate(placement.layout.pods) if pod.deleting and placement.on[row] >= 0]
        homes = placement.on[ending].tolist()
        if not ending or not self._waiting:
            return
        for row in ending:
            placement.move(row, -1)
        self._start_anyway()
        for row, home in zip(ending, homes, strict=True):
            placement.move(row, home)

    def best(self, admit: Admit) -> PlannedMove | None:
        """The step, made in `placement`."""
        if self._choosy:
            self._start_anyway()
        if not self._waiting:
            return None
        groups, members = self._alike.candidates(self._movable, bool(self._choosy))
        room, order, bound = self._promising(groups)
        heap: list[tuple[int, int, int, int, bool]] = []
        self._dear: set[tuple[int, int]] = set()
        evaluated, left = 0, _TRIES
        # Groups are evaluated in the order of their upper bounds, until no bound reaches the best gain in the heap.
        while heap or evaluated < len(order):
            if evaluated < len(order) and (not heap or -heap[0][0] <= bound[order[evaluated]]):
                chunk = order[evaluated : evaluated + _CHUNK]
                evaluated += len(chunk)
                for group, gain in self._gains(chunk, groups, room, bound, members):
                    heapq.heappush(heap, (-gain, int(members[group][0]), group, 0, False))
                continue
            negative, pod, group, place, tried = heapq.heappop(heap)
            if self._movable[pod] and (tried or left > 0):
                left -= len(self._choosy) > 0
                step = self._try(pod, group, -negative)
                if isinstance(step, int):
                    # Constraints let fewer pods start than requests do: it returns to the heap with that number.
                    heapq.heappush(heap, (-step, pod, group, place, True))
                    continue
                if step is not None and self._admitted(step, admit):
                    self._make(step)
                    return step
            if place + 1 < len(members[group]):
                heapq.heappush(heap, (negative, int(members[group][place + 1]), group, place + 1, False))
        return None

    def _admitted(self, step: PlannedMove, admit: Admit) -> bool:
        """Whether the step is admitted; pods that are refused are not asked for again."""
        refused = admit(step.pod, step.target)
        if refused is not None:
            self._movable[refused] = False
        return refused is None

    def _promising(self, groups: Ints) -> tuple[Ints, Ints, Ints]:
        """Room once the pod of each group has left; groups where somebody can start, and how many at most."""
        placement = self._placement
        requests = placement.layout.asked
        room = np.maximum(placement.free[placement.on[groups]] + requests[groups], 0)
        waiting_requests = requests[self._waiting]
        some = np.zeros(len(groups), bool)
        for row in smallest(waiting_requests).tolist():
            some |= (room >= waiting_requests[row]).all(axis=1)
        bound = np.where(some, _bounds(room, waiting_requests), 0)
        if self._choosy:
            opened = self._opened()[self._alike.kin[groups]]
            more = np.where((some & self._chained()) | (opened > 0), len(self._choosy), 0)
            bound = np.minimum(bound + more, len(self._waiting))
        order = np.argsort(-bound, kind="stable")
        return room, order[bound[order] > 0], bound

    def _gains(self, chunk: Ints, groups: Ints, room: Ints, bound: Ints, members: Groups) -> Iterator[tuple[int, int]]:
        """Groups with how many pods start, without those that cost too much already on their own node.

        With pods that look at other pods it is at most how many.
        """
        if self._choosy:
            yield from zip(chunk.tolist(), bound[chunk].tolist(), strict=True)
            return
        sources = self._placement.on[groups[chunk]]
        gains, left = self._greedy(room[chunk], sources)
        dear = np.zeros(len(chunk), bool)
        if self._price is not None and self._choice.profiles <= _MANY:
            dear = self._price.of(self._placement.free[sources], left, sources) > WORTH * gains
        for group, gain, too_dear in zip(chunk.tolist(), gains.tolist(), dear.tolist(), strict=True):
            if gain and too_dear:
                self._costly(members[group])
            elif gain:
                yield group, gain

    def _greedy(self, room: Ints, nodes: Ints) -> tuple[Ints, Ints]:
        """[group]: how many waiting pods start when each takes its room in turn, and what is left."""
        left = room.copy()
        count = np.zeros(len(room), np.int64)
        for pod in self._waiting:
            request = self._placement.layout.asked[pod]
            fits = (left >= request).all(axis=1) & self._alike.may_run(pod)[nodes]
            left[fits] -= request
            count += fits
        return count, left

    def _try(self, pod: int, group: int, gain: int) -> PlannedMove | int | None:
        """The step, another number of pods that start, or None where it is not possible or costs too much."""
        placement = self._placement
        source = int(placement.on[pod])
        ahead = not self._choosy and not placement.neighbours.matters(pod)
        target = self._choose(pod, placement.open_to(pod)) if ahead else None
        if ahead and target is None:
            return None
        if (group, target) in self._dear:
            self._costly(np.array([pod]))
            return None
        load, free = placement.load.copy(), placement.free.copy()
        placement.move(pod, -1)
        starts = self._starts(source)
        if not ahead:
            target = self._choose(pod, placement.open_to(pod, source))
        if target is not None:
            placement.move(pod, target)
        rows = np.unique(np.array([source, source if target is None else target, *starts.values()], np.int64))
        price = None if self._price is None else self._price.sum(free[rows], placement.free[rows], rows)
        for start in reversed(starts):
            placement.move(start, -1)
        placement.move(pod, source)
        placement.load = load
        if target is None:
            return None
        if len(starts) < gain:
            return len(starts) or None
        if price is not None and price > WORTH * len(starts):
            self._dear.add((group, target))
            self._costly(np.array([pod]))
            return None
        numbers = {} if price is None else {"price": price}
        return PlannedMove(pod, source, target, float(len(starts)), numbers, tuple(starts), tuple(starts.values()))

    def _starts(self, source: int) -> dict[int, int]:
        """Waiting pods that start now that there is room on `source`, with their nodes, already moved."""
        placement = self._placement
        first_rows: dict[int, int] = {}
        for waiting_pod in self._waiting:
            target: int | None = None
            if waiting_pod in self._choosy:
                target = self._choose(waiting_pod, placement.feasible(waiting_pod))
            elif placement.runs_on(waiting_pod, source):
                target = source
            if target is not None:
                placement.move(waiting_pod, target)
                first_rows[waiting_pod] = target
        return first_rows

    def pair(self, admit: Admit) -> tuple[PlannedMove, PlannedMove] | None:
        """Two steps, made in `placement`, that together let a waiting pod start."""
        budget, layout = SearchBudget(), self._placement.layout
        alike = {(id(layout.pods[row].shape), id(layout.pods[row].template)): row for row in reversed(self._waiting)}
        for waiting in sorted(alike.values(), key=self._waiting.index):
            pair = two_evictions(self._placement, waiting, self._movable, self._choose, self._price, budget)
            for first, second in pair:
                refused = admit(first.pod, first.target)
                if refused is None:
                    refused = admit(second.pod, second.target)
                if refused is not None:
                    self._movable[refused] = False
                    continue
                self._make(first)
                self._make(second)
                return first, second
        return None

    def _make(self, step: PlannedMove) -> None:
        if self._price is not None:
            self._price.forget()
        self._placement.move(step.pod, step.target)
        for start, target in zip(step.starts, step.starts_on, strict=True):
            self._placement.move(start, target)
        self._waiting = [pod for pod in self._waiting if pod not in step.starts]
        self._movable[[step.pod, *step.starts]] = False

    def _choose(self, pod: int, mask: Bools) -> int | None:
        """By the criterion; ties go to the first name."""
        rows = np.flatnonzero(mask)
        layout = self._placement.layout
        return self._choice.choose(layout.asked[pod], self._placement.free, rows) if len(rows) else None

    def _opened(self) -> Bools:
        """[kin]: whether a pod that leaves could open nodes to a waiting one."""
        _, first = np.unique(self._alike.kin, return_index=True)
        related = self._placement.neighbours.related
        return np.array([not self._choosy.isdisjoint(related(pod).tolist()) for pod in first.tolist()], bool)

    def _chained(self) -> bool:
        """Whether a waiting pod that starts could open nodes to another one."""
        related = self._placement.neighbours.related
        return any(not self._choosy.isdisjoint({*related(pod).tolist()} - {pod}) for pod in self._waiting)


def _bounds(room: Ints, wanted: Ints) -> Ints:
    """No more start than the smallest of each kind would."""
    counts = np.full(len(room), len(wanted))
    for kind in range(room.shape[1]):
        sums = np.cumsum(np.sort(wanted[:, kind]))
        np.minimum(counts, np.searchsorted(sums, room[:, kind], "right"), out=counts)
    return counts


class Redistribute(BasePlanner):
    """The gain of a step is the number of waiting pods that start."""

    name = "redistribute"
    one_at_a_time = True
    effect = Effect.STARTS

    def idle(self, demand: PlanningDemand) -> str | None:
        """Without waiting pods there is nothing to make room for."""
        return None if demand.waiting else "no pod waits"

    def considers(self, inputs: PlanInput) -> Bools:
        """All pods on nodes, but none unless a pod waits."""
        return super().considers(inputs) if inputs.pods.waiting.any() else np.zeros(len(inputs.layout.on), bool)

    def steps(
        self, inputs: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The eviction that lets most waiting pods start first."""
        aims = inputs.aims
        return redistribute(
            placement,
            movable,
            admit,
            arrivals=inputs.pods.arrivals if aims.priced else None,
            waiting=inputs.pods.waiting,
            limit=aims.max_moves,
            costly=spare,
            criterion=aims.criterion,
        )

    def reason(self, inputs: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "makes room on n1 for shop/web-3", with every node where a pod starts, and what it takes from later pods."""
        if not step.starts:
            waiting = pod_name(inputs.layout.pods[int(step.numbers["for"])])
            return f"makes way for the next eviction, which makes room for {waiting}"
        shown = named([pod_name(inputs.layout.pods[pod]) for pod in step.starts], 3)
        nodes = " and ".join(inputs.layout.nodes[row].name for row in dict.fromkeys(step.starts_on))
        price = step.numbers.get("price", 0.0)
        return f"makes room on {nodes} for {shown}" + (f"; takes that of {price:.1f} later pods" if price else "")
