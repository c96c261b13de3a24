"""`consolidate`: empties nodes whose pods the others hold by requests and by load, with nodes to spare."""

from collections.abc import Iterator, Sequence

import numpy as np

from ballast.model.load_limits import limits
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.simulated_placement import ROUNDING, SimulatedPlacement
from ballast.planners.aims import Aims
from ballast.planners.plan_input import PlanInput, WholeNodes
from ballast.planners.planner import BasePlanner, Spare, loads_in_words
from ballast.planners.reserve import Reserve, RoomLeft
from ballast.planners.step import Admit, PlannedMove

WELL_BELOW = 0.8
"""Share of the ceiling up to which nodes are filled one after the other, and beyond it all together."""

TRIED = 50
"""Nodes that could be emptied by their pods alone and are tried, before a plan gives up."""


class _Consolidation:
    def __init__(self, placement: SimulatedPlacement, movable: Bools, nodes: WholeNodes, aims: Aims) -> None:
        self._placement, self._movable, self._nodes, self._aims = placement, movable, nodes, aims
        layout = placement.layout
        # A pod that ends is not moved, but it still counts in what the other nodes have to hold.
        ending = np.array([pod.deleting for pod in layout.pods], bool)
        self._needs: Bools = np.asarray(layout.present & ~nodes.stays)
        self._going: Bools = self._needs & ~ending
        self._others: Bools = np.asarray(placement.targets & ~nodes.begun)
        self._reserve = Reserve(placement, self._needs, aims.nodes_reserve)
        self._room = RoomLeft.of(placement, self._needs, nodes.peak)
        # The load at which the others still keep nodes empty.
        self._patience = limits(aims.high, layout.resources) + ROUNDING
        self._made = 0

    def steps(self) -> Iterator[PlannedMove]:
        pools = self._placement.layout.pool
        for number in np.unique(pools).tolist():
            pool: Bools = np.asarray(pools == number)
            left = self._aims.consolidate_nodes
            for row in self._keep(pool):
                left -= 1
                yield from self._go_on(row, pool)
            yield from self._begin(pool, left)

    def _keep(self, pool: Bools) -> list[int]:
        """Hands over the nodes begun before that the others can do without; those of them that still have pods."""
        begun = [row for row in self._in_order(np.flatnonzero(self._nodes.begun & pool)) if self._may_go(row)]
        empty = [row for row in begun if not len(self._pods(row))]
        others = self._others | (self._nodes.begun & ~_rows(empty, pool))
        room = self._room.copy(self._patience)
        # Empty nodes are given back for three reasons, in this order: pods wait for them, the others are loaded above
        # `patience`, or the others cannot lose `reserve` of their number.
        for pod in self._waiting(pool):
            needed = self._needed(room, pod, others & pool, empty)
            if needed is not None:
                empty.remove(needed)
                others[needed] = True
        if empty and not room.holds(others & pool):
            others[empty.pop()] = True
        while empty and not self._reserve.stands(room, others & pool):
            others[empty.pop()] = True
        for row in empty:
            self._nodes.hand_over(row)
        self._others = np.asarray(self._others | (others & pool & ~self._nodes.begun))
        return [row for row in begun if len(self._pods(row))]

    def _go_on(self, row: int, pool: Bools) -> Iterator[PlannedMove]:
        """Moves the pods that may be moved now, if the others still can take all of them."""
        moves = self._placed(row, self._others & pool, self._patience)
        if moves is None:
            return
        self._nodes.hand_over(row)
        yield from self._leave(row, moves)

    def _leave(self, row: int, moves: Sequence[tuple[int, int]]) -> Iterator[PlannedMove]:
        for pod, target in moves:
            if self._movable[pod] and self._nodes.together([pod]):
                yield self._step(pod, row, target, 1 / len(moves))
            else:
                # It is not moved in this plan, so what follows has to count it where it runs.
                self._placement.move(pod, row)

    def _begin(self, pool: Bools, left: int) -> Iterator[PlannedMove]:
        if self._waiting(pool):
            return
        tried = 0
        for row in self._in_order(np.flatnonzero(self._nodes.may_empty & self._others & pool)):
            if left <= 0 or tried >= TRIED:
                return
            pods = self._pods(row)
            within = self._aims.max_moves is None or self._made + len(pods) <= self._aims.max_moves
            # A node is begun only if every pod of it that needs another node may be moved, now or soon: none is ending.
            whole = len(pods) == np.count_nonzero(self._needs & (self._placement.on == row))
            if not (within and whole and self._may_go(row)) or self._nodes.never[pods].any():
                continue
            tried += 1
            before = self._room
            moves = self._placed(row, self._others & pool & ~_rows([row], pool), before.ceiling)
            if moves is None:
                continue
            steps = list(self._leave(row, moves))
            if moves and not steps:
                self._room = before
                continue
            left -= 1
            self._others[row] = False
            self._nodes.hand_over(row)
            yield from steps

    def _placed(self, row: int, others: Bools, ceiling: Floats) -> list[tuple[int, int]] | None:
        """(pod, target) for all pods of a node, already moved; None, and nothing moved, if `others` cannot take them
        with the reserve."""
        before, moves = self._room, list[tuple[int, int]]()
        self._room = before.copy()
        rows = np.flatnonzero(others)
        for pod in self._reserve.on([row]).tolist():
            if not self._going[pod]:
                continue
            target = self._target(pod, rows)
            if target is None:
                break
            self._placement.move(pod, target)
            self._room.put(pod, row, -1)
            self._room.put(pod, target)
            moves.append((pod, target))
        else:
            # Only here has every pod found a target; the reserve is judged for the node as a whole.
            room = self._room.copy(ceiling)
            if room.holds(others) and self._reserve.stands(room, others):
                return moves
        self._undo(moves, row, before)
        return None

    def _target(self, pod: int, rows: Ints) -> int | None:
        """The fullest node well below the ceiling, so that the others stay easy to empty; without one the least full:
        single nodes stray from what their pool does."""
        if not len(rows):
            return None
        mask = self._placement.open_among(pod, rows, alone=True) & self._room.open_among(pod, rows)
        if not mask.any():
            return None
        fullness = (np.maximum(self._room.load[rows], self._room.peak[rows]) / self._room.ceiling).max(axis=1)
        return int(rows[np.argmax(np.where(mask, np.where(fullness <= WELL_BELOW, fullness, -fullness), -np.inf))])

    def _undo(self, moves: Sequence[tuple[int, int]], row: int, before: RoomLeft) -> None:
        for pod, _ in reversed(moves):
            self._placement.move(pod, row)
        self._room = before

    def _step(self, pod: int, source: int, target: int, gain: float) -> PlannedMove:
        self._made += 1
        self._movable[pod] = False
        return PlannedMove(pod, source, target, gain)

    def _pods(self, row: int) -> Ints:
        """The pods that a node still has and that need another one."""
        return np.flatnonzero(self._going & (self._placement.on == row))

    def _may_go(self, row: int) -> bool:
        pods = self._pods(row)
        return bool((self._movable[pods] | self._nodes.later[pods]).all())

    def _in_order(self, rows: Ints) -> list[int]:
        """Those with the fewest pods first, then those with the least load."""
        counts = np.bincount(self._placement.on[self._going & (self._placement.on >= 0)], minlength=len(self._others))
        load = self._placement.load.max(axis=1, initial=0.0)
        return [int(row) for row in rows[np.lexsort((rows, load[rows], counts[rows]))]]

    def _waiting(self, pool: Bools) -> list[int]:
        """Pods that wait for a node of this pool."""
        pods = self._placement.layout.pods
        waiting = [row for row in np.flatnonzero(self._placement.layout.on < 0).tolist() if pods[row].waiting]
        return [row for row in waiting if (self._placement.sites.allowed(pods[row].template) & pool).any()]

    def _needed(self, room: RoomLeft, pod: int, others: Bools, empty: Sequence[int]) -> int | None:
        """Which of the `empty` nodes a waiting pod needs, if any; it is put into `room`."""
        fits = self._placement.feasible(pod)
        for rows in (np.flatnonzero(others & fits), np.array([row for row in empty if fits[row]], np.int64)):
            rows = rows[(room.free[rows] >= self._placement.layout.asked[pod]).all(axis=1)]
            if len(rows):
                row = int(rows[np.argmin(room.load[rows].max(axis=1))])
                room.put(pod, row)
                return row if row in empty else None
        return None


def _rows(rows: Sequence[int], like: Bools) -> Bools:
    mask = np.zeros(len(like), bool)
    mask[list(rows)] = True
    return mask


class Consolidate(BasePlanner):
    """The gain of a step is its share of the node that is emptied."""

    name = "consolidate"
    optional = True
    whole_nodes = True
    spans_cycles = True

    def steps(
        self, inputs: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The nodes begun before first, then those with the fewest pods.

        A node is begun if the others hold all its pods and one of them may be moved now; the rest follow as budgets
        permit. Every node that is empty or becomes so is handed over; of the nodes begun before, one that the others
        can no longer do without is not.
        """
        assert inputs.whole_nodes is not None
        return _Consolidation(placement, movable, inputs.whole_nodes, inputs.aims).steps()

    def reason(self, inputs: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "the other nodes can do without n3, which is at 12.0% cpu and 8.0% memory"."""
        node = inputs.layout.nodes[step.source].name
        at = loads_in_words(load[step.source], inputs.layout.resources)
        return f"the other nodes can do without {node}, which is at {at}"
