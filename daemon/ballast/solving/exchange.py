"""Rounds of exchanges: nodes are paired at random, and each pair makes its best move or swap of units.

With x the loads of a pair (i, j), s their load per use, mu the mean over n nodes and D the use that i gains and j
loses, the value changes by sum_k c_k (2 D ((x_i - mu) s_i - (x_j - mu) s_j) + D^2 (s_i^2 + s_j^2 - (s_i - s_j)^2 / n)).
With D = u_q - u_p for a swap of p and q, that is one product of small matrices for all swaps of a pair; the unit of
zeros makes a swap a move. Pairs are disjoint, so all of them change at once.
"""

from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.assignment import Assignment, Saved
from ballast.solving.solution import TimeBudget

MOST = 64
"""Units of one node that a round looks at; of more, a random part."""
_CELLS = 2_000_000
_TRIES = 6
# Of the value: what sums of floats may be off by.
_ROUNDING = 1e-13
_ANY = 2**62


@dataclass(frozen=True, eq=False)
class _NodePairs:
    """`left`, `right` [pair] are nodes; `here`, `there` [pair, slot] their units; `gain` [pair, slot, slot]."""

    left: Ints
    right: Ints
    here: Ints
    there: Ints


class Exchange:
    """Improves an assignment round by round. `moves_left` is how many more pods may leave the node they came with."""

    def __init__(self, assignment: Assignment, rng: np.random.Generator, moves_left: int = _ANY) -> None:
        self.assignment, self.moves_left = assignment, moves_left
        self._rng = rng
        units = assignment.units
        self._site = np.append(units.site, 0)
        self._masked = bool((~units.sites).any())
        self._counted = moves_left < _ANY
        self._home = np.append(units.home, -1)
        self._at_home = np.append(units.at_home, 0)
        self._value = assignment.value()
        self._turn = 0
        self._circle: Ints = np.zeros(0, np.int64)

    @property
    def value(self) -> float:
        """The value now."""
        return self._value

    def restore(self, saved: Saved, moves_left: int) -> None:
        """Goes back to a saved assignment."""
        self.assignment.restore(saved)
        self._value, self.moves_left = saved.value, moves_left

    def round(self, budget: TimeBudget, tolerance: float = 0.0) -> int | None:
        """One round; the number of changes, or None if the budget was too small for one pair.

        A pair whose best change raises the value by less than `tolerance` makes it too.
        """
        left, right = self._paired()
        table, counts = self._table()
        size = (counts[left] + 1) * (counts[right] + 1)
        # Pairs are random, so the budget may simply cut off the last ones.
        fitting = int(np.searchsorted(np.cumsum(size), budget.left(), side="right"))
        if not fitting:
            budget.over = True
            return None
        left, right, size = left[:fitting], right[:fitting], size[:fitting]
        width = table.shape[1]
        # All pairs at once would take too much memory: a table of gains has width² cells for each pair.
        chunk = max(1, _CELLS // (width * width))
        exchanged = 0
        mean = self.assignment.mean()
        # A gain within rounding is none: two placements that mirror each other would take turns for ever.
        tolerance -= _ROUNDING * self._value
        for begin in range(0, fitting, chunk):
            part = slice(begin, begin + chunk)
            pairs = _NodePairs(left[part], right[part], table[left[part]], table[right[part]])
            exchanged += self._change(pairs, mean, tolerance)
        if exchanged:
            self._value = self.assignment.value()
        budget.spend(int(size.sum()), self._value)
        return exchanged

    def kick(self, pairs: int) -> None:
        """Makes a random possible swap in a few random pairs of nodes."""
        n = len(self.assignment.load)
        if n < 2:
            return
        table, _ = self._table()
        for _ in range(pairs):
            one, other = self._rng.choice(n, 2, replace=False).tolist()
            pair = _NodePairs(np.array([one]), np.array([other]), table[[one]], table[[other]])
            gains = self._gains(pair, self.assignment.mean()).reshape(-1)
            # Any possible swap will do, however bad: it is to lead out of a local optimum.
            gains[np.isfinite(gains)] = self._rng.random(int(np.isfinite(gains).sum()))
            if self._try(pair, gains, 0, 1.0):
                table, _ = self._table()
        self._value = self.assignment.value()

    def _paired(self) -> tuple[Ints, Ints]:
        """Disjoint pairs of nodes; n - 1 successive rounds (n for odd n) meet every pair once."""
        n = len(self.assignment.load)
        size = n + n % 2
        if self._turn % max(1, size - 1) == 0:
            self._circle = np.concatenate([self._rng.permutation(n), np.full(size - n, n)])
        # The circle method of round-robin tournaments: the first stays, the others turn.
        turn = self._turn % max(1, size - 1)
        self._turn += 1
        circle = np.concatenate([self._circle[:1], np.roll(self._circle[1:], turn)])
        left, right = circle[: size // 2], circle[size // 2 :][::-1]
        real = (left < n) & (right < n)
        return left[real], right[real]

    def _table(self) -> tuple[Ints, Ints]:
        """[node, slot] units, padded with the unit of zeros, which is always the last; [node] how many are real."""
        on, n = self.assignment.on, len(self.assignment.load)
        counts = np.bincount(on, minlength=n)
        most = int(counts.max(initial=0))
        full = most >= MOST
        # Which units do not fit into the table is drawn anew each round, so that each has its turn.
        order = np.lexsort((self._rng.random(len(on)), on)) if full else np.argsort(on, kind="stable")
        begins = np.cumsum(counts) - counts
        width = min(most, MOST - 1) + 1
        slots = np.arange(width)
        real = slots < np.minimum(counts, width - 1)[:, None]
        table = np.full((n, width), len(on))
        table[real] = order[(begins[:, None] + slots)[real]]
        return table, np.minimum(counts, width - 1)

    def _change(self, pairs: _NodePairs, mean: Floats, tolerance: float) -> int:
        gains = self._gains(pairs, mean)
        width = gains.shape[2]
        flat = gains.reshape(len(gains), -1)
        best = flat.argmin(axis=1)
        rows = np.arange(len(flat))
        value = flat[rows, best]
        # The best swap of most pairs is possible, so only the pairs where it is not check all their swaps.
        bad = np.flatnonzero((value < tolerance) & ~self._possible(pairs, rows, best // width, best % width))
        if len(bad):
            flat[bad] = np.where(self._open(pairs, bad).reshape(len(bad), -1), flat[bad], np.inf)
            best[bad] = flat[bad].argmin(axis=1)
            value[bad] = flat[bad, best[bad]]
        # The unit of zeros against itself changes nothing.
        chosen = np.flatnonzero((value < tolerance) & (best != width * width - 1))
        return self._make(pairs, flat, chosen[np.argsort(value[chosen], kind="stable")], best, tolerance)

    def _gains(self, pairs: _NodePairs, mean: Floats) -> Floats:
        """[pair, slot here, slot there]: the change of the value."""
        units, assignment = self.assignment.units, self.assignment
        s, t = units.scale[pairs.left], units.scale[pairs.right]
        x = np.where(units.there[pairs.left], assignment.load[pairs.left] - mean, 0.0)
        y = np.where(units.there[pairs.right], assignment.load[pairs.right] - mean, 0.0)
        slope = (2 * units.cost * (x * s - y * t))[:, None, :]
        curve = (units.cost * (s * s + t * t - np.square(s - t) / units.count))[:, None, :]
        here, there = units.use[pairs.here], units.use[pairs.there]
        bent = here * curve
        leaving = (here * (bent - slope)).sum(axis=2)
        coming = (there * (there * curve + slope)).sum(axis=2)
        if self._masked:
            leaving[~units.sites[self._site[pairs.here], pairs.right[:, None]]] = np.inf
            coming[~units.sites[self._site[pairs.there], pairs.left[:, None]]] = np.inf
        best = np.matmul(bent, there.transpose(0, 2, 1))
        best *= -2
        best += leaving[:, :, None]
        best += coming[:, None, :]
        return np.asarray(best)

    def _possible(self, pairs: _NodePairs, rows: Ints, here: Ints, there: Ints) -> Bools:
        """[row]: whether room and the moves that are left allow the swap of these slots."""
        units, free = self.assignment.units, self.assignment.free
        more = units.request[pairs.there[rows, there]] - units.request[pairs.here[rows, here]]
        # An overfull node has less than no room; it may still make a swap that takes none.
        good = ((more <= free[pairs.left[rows]]) | (more <= 0)).all(axis=1)
        good &= ((-more <= free[pairs.right[rows]]) | (more >= 0)).all(axis=1)
        if self._counted:
            leaving, coming = self._moved(pairs, rows)
            good &= np.take_along_axis(leaving, here[:, None], 1)[:, 0] + np.take_along_axis(coming, there[:, None], 1)[
                :, 0
            ] <= max(0, self.moves_left)
        return np.asarray(good)

    def _open(self, pairs: _NodePairs, rows: Ints) -> Bools:
        """[row, slot here, slot there]: `_possible` for all swaps."""
        units, free = self.assignment.units, self.assignment.free
        good = np.ones((len(rows), pairs.here.shape[1], pairs.there.shape[1]), bool)
        for kind in range(free.shape[1]):
            here, there = units.request[pairs.here[rows], kind], units.request[pairs.there[rows], kind]
            more = there[:, None, :] - here[:, :, None]
            good &= (more <= free[pairs.left[rows], kind][:, None, None]) | (more <= 0)
            good &= (-more <= free[pairs.right[rows], kind][:, None, None]) | (more >= 0)
        if self._counted:
            leaving, coming = self._moved(pairs, rows)
            good &= leaving[:, :, None] + coming[:, None, :] <= max(0, self.moves_left)
        return good

    def _moved(self, pairs: _NodePairs, rows: Ints) -> tuple[Ints, Ints]:
        """[row, slot]: how many more pods are away from their node when the unit of the slot changes sides."""
        left, right = pairs.left[rows][:, None], pairs.right[rows][:, None]
        here, there = pairs.here[rows], pairs.there[rows]
        away = self._at_home[here] * ((self._home[here] == left).astype(np.int64) - (self._home[here] == right))
        back = self._at_home[there] * ((self._home[there] == right).astype(np.int64) - (self._home[there] == left))
        return away, back

    def _make(self, pairs: _NodePairs, flat: Floats, chosen: Ints, best: Ints, tolerance: float) -> int:
        width = pairs.here.shape[1]
        p, q = pairs.here[chosen, best[chosen] // width], pairs.there[chosen, best[chosen] % width]
        simple = self.assignment.relations.simple[p] & self.assignment.relations.simple[q]
        # Pairs are disjoint: without rules between pods and a limit of moves no swap can forbid another one.
        if simple.all() and not self._counted:
            self._swap(p, q, pairs.left[chosen], pairs.right[chosen])
            return len(chosen)
        return sum(self._try(pairs, flat[row], int(row), tolerance) for row in chosen.tolist())

    def _try(self, pairs: _NodePairs, gains: Floats, row: int, tolerance: float) -> int:
        """The best swap of one pair that rules between pods allow, of the first few."""
        width, rows = pairs.here.shape[1], np.array([row])
        left, right = int(pairs.left[row]), int(pairs.right[row])
        for _ in range(_TRIES):
            best = int(gains.argmin())
            if gains[best] >= tolerance or best == width * width - 1:
                return 0
            gains[best] = np.inf
            here, there = np.array([best // width]), np.array([best % width])
            if not self._possible(pairs, rows, here, there)[0]:
                continue
            p, q = int(pairs.here[row, here[0]]), int(pairs.there[row, there[0]])
            if self._allowed(p, q, left, right):
                if self._counted:
                    leaving, coming = self._moved(pairs, rows)
                    self.moves_left -= int(leaving[0, here[0]] + coming[0, there[0]])
                self._swap(np.array([p]), np.array([q]), pairs.left[rows], pairs.right[rows])
                return 1
        return 0

    def _allowed(self, p: int, q: int, left: int, right: int) -> bool:
        relations, nobody = self.assignment.relations, self.assignment.units.size
        changes = [(p, left, right)] * (p != nobody) + [(q, right, left)] * (q != nobody)
        return bool(relations.simple[p] and relations.simple[q]) or relations.exchange(changes)

    def _swap(self, p: Ints, q: Ints, left: Ints, right: Ints) -> None:
        """Each p goes to the right, each q to the left; relations have been told."""
        assignment, units = self.assignment, self.assignment.units
        gained, requests = units.use[q] - units.use[p], units.request[q] - units.request[p]
        assignment.load[left] += gained * units.scale[left]
        assignment.load[right] -= gained * units.scale[right]
        assignment.free[left] -= requests
        assignment.free[right] += requests
        real_p, real_q = p < units.size, q < units.size
        assignment.on[p[real_p]] = right[real_p]
        assignment.on[q[real_q]] = left[real_q]
