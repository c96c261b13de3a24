"""Moves of pods that are not where they ask to be: node affinity, taints, anti-affinity, spread, duplicates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ballast.model.sample import Bools, Ints
from ballast.placement.planners.simulated_placement import SimulatedPlacement
from ballast.placement.planners.step import Admit, Step

AFFINITY, TAINTS, DUPLICATE, PREFERENCE = "node affinity", "taints", "duplicate", "preferred node affinity"
_NOBODY = np.zeros(0, np.int64)
_WHOLE = 100
"""The largest weight of a preferred term: a preference that is met better gains at most one."""


@dataclass(frozen=True)
class Faults:
    """What of a pod's wishes does not hold: `hard` by the scheduler's filters, `duplicate` beside a pod of its own."""

    hard: tuple[str, ...] = ()
    duplicate: bool = False
    missed: int = 0
    """Weight of its preferred node affinity that another node it fits on would meet."""

    @property
    def names(self) -> tuple[str, ...]:
        """In words."""
        soft = ((DUPLICATE, self.duplicate), (PREFERENCE, self.missed > 0))
        return (*dict.fromkeys(self.hard), *(name for name, there in soft if there))

    @property
    def weight(self) -> float:
        """How much is wrong: hard ones and duplicates count one each, a preference its share."""
        return len(self.hard) + self.duplicate + min(1.0, self.missed / _WHOLE)


def repair(
    standing: SimulatedPlacement, movable: Bools, workload: Ints, admit: Admit, *, limit: int | None = None
) -> Iterator[Step]:
    """Yields steps, already made in `standing`, until no movable pod has a fault that a move would mend.

    `workload` [pod] numbers the workloads, -1 for none. The pod with most wrong goes first. No step gives another pod
    a fault that it did not have. `gain` is the weight of the faults that it mends; `numbers` name them by 1.
    """
    search = _Search(standing, workload)
    left = movable & standing.layout.present
    made, progress = 0, True
    while progress:
        progress = False
        for pod in search.faulty(left):
            if limit is not None and made >= limit:
                return
            if not left[pod]:
                continue
            step = search.step(pod)
            if step is None:
                continue
            refused = admit(step.pod, step.target)
            if refused is not None:
                left[refused] = False
                continue
            standing.move(step.pod, step.target)
            left[pod] = False
            made += 1
            progress = True
            yield step


class _Search:
    def __init__(self, standing: SimulatedPlacement, workload: Ints) -> None:
        self._standing, self._workload = standing, workload
        self._mates: dict[int, Ints] = {}
        order = np.argsort(workload, kind="stable")
        bounds = np.flatnonzero(np.diff(workload[order], prepend=-2))
        for start, end in zip(bounds.tolist(), [*bounds.tolist()[1:], len(order)], strict=True):
            if workload[order[start]] >= 0:
                self._mates[int(workload[order[start]])] = order[start:end]

    def faulty(self, movable: Bools) -> list[int]:
        """Movable pods that could have a fault, the worst first."""
        alike: dict[tuple[int, str, int, int], tuple[str, ...]] = {}
        found = []
        for pod in np.flatnonzero(movable & (self._standing.on >= 0)).tolist():
            each = self._standing.layout.pods[pod]
            key = (id(each.template), each.namespace, id(each.labels), int(self._standing.on[pod]))
            if key not in alike:
                alike[key] = self._hard(pod)
            found.append((pod, self.faults(pod, alike[key]).weight))
        return [pod for pod, weight in sorted(found, key=lambda item: (-item[1], item[0])) if weight > 0]

    def faults(self, pod: int, hard: tuple[str, ...] | None = None) -> Faults:
        """Where it is now; `hard` where these are known."""
        standing = self._standing
        row = int(standing.on[pod])
        preference = standing.sites.preference(standing.layout.pods[pod].template)
        free = self._without_mates(pod, row)
        better = standing.targets & (preference > preference[row])
        hard = self._hard(pod) if hard is None else hard
        if not (free.any() or better.any()):
            return Faults(hard)
        open_to = standing.open_to(pod)
        best = int(preference[open_to].max(initial=preference[row]))
        return Faults(hard, bool((open_to & free).any()), best - int(preference[row]))

    def step(self, pod: int) -> Step | None:
        """The best node for a pod with faults, None where none mends any without a new one."""
        standing = self._standing
        before, source = self.faults(pod), int(standing.on[pod])
        if not before.weight:
            return None
        related = np.setdiff1d(standing.neighbours.related(pod), [pod])
        related = related[standing.on[related] >= 0]
        hard = {other: self._hard(other) for other in related.tolist()}
        for target in self._ordered(pod, source, before):
            standing.move(pod, target)
            after = self.faults(pod)
            worse = any(not set(self._hard(other)) <= set(known) for other, known in hard.items())
            standing.move(pod, source)
            gain = before.weight - after.weight
            if gain > 0 and not worse and set(after.names) <= set(before.names):
                return Step(pod, source, target, gain, dict.fromkeys(set(before.names) - set(after.names), 1.0))
        return None

    def _ordered(self, pod: int, source: int, before: Faults) -> list[int]:
        """Nodes it can go to: most preferred, without a pod of its own, least loaded."""
        standing = self._standing
        rows = np.flatnonzero(standing.open_to(pod))
        preference = standing.sites.preference(standing.layout.pods[pod].template)
        if not before.hard:
            rows = rows[preference[rows] >= preference[source]]
        mates = np.isin(rows, standing.on[self._mates.get(int(self._workload[pod]), _NOBODY)])
        load = (standing.load[rows] + standing.increments(pod)[rows]).max(axis=1, initial=0.0)
        ordered: list[int] = rows[np.lexsort((rows, load, -preference[rows], mates))].tolist()
        return ordered

    def _hard(self, pod: int) -> tuple[str, ...]:
        standing = self._standing
        row, template = int(standing.on[pod]), standing.layout.pods[pod].template
        found = [] if standing.sites.chosen(template)[row] else [AFFINITY]
        found += [] if standing.sites.tolerated(template.tolerations)[row] else [TAINTS]
        return (*found, *(standing.neighbours.broken(pod) if standing.neighbours.matters(pod) else ()))

    def _without_mates(self, pod: int, row: int) -> Bools:
        """[node]: targets without a pod of its workload; none unless another one is to stay where it is."""
        standing = self._standing
        mates = self._mates.get(int(self._workload[pod]), _NOBODY)
        mates = mates[(mates != pod) & standing.layout.present[mates] & (standing.on[mates] >= 0)]
        stays = mates[standing.on[mates] == row]
        if all(standing.layout.pods[mate].deleting for mate in stays.tolist()):
            return np.zeros(len(standing.targets), bool)
        found = standing.targets.copy()
        found[standing.on[mates]] = False
        return found
