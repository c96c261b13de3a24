"""`repair`: moves pods that are not where they ask to be: node affinity, taints, anti-affinity, spread, duplicates."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.simulated_placement import Preferences, SimulatedPlacement
from ballast.planners.plan_input import PlanInput
from ballast.planners.planner import BasePlanner, Spare
from ballast.planners.step import Admit, PlannedMove

AFFINITY, TAINTS, DUPLICATE, PREFERENCE = "node affinity", "taints", "duplicate", "preferred node affinity"
UNEVEN = "preferred spread"
_NOBODY = np.zeros(0, np.int64)
_WHOLE = 100
"""The largest weight of a preferred term: a preference that is met better gains at most one."""


@dataclass(frozen=True)
class Violations:
    """What of a pod's wishes does not hold: `hard` by the scheduler's filters, `duplicate` beside a pod of its own."""

    hard: tuple[str, ...] = ()
    duplicate: bool = False
    missed: int = 0
    """Weight of its preferred node affinity that another node it fits on would meet."""
    uneven: bool = False
    """Whether a spread that it prefers is above its skew."""

    @property
    def names(self) -> tuple[str, ...]:
        """In words."""
        soft = ((DUPLICATE, self.duplicate), (UNEVEN, self.uneven), (PREFERENCE, self.missed > 0))
        return (*dict.fromkeys(self.hard), *(name for name, there in soft if there))

    @property
    def weight(self) -> float:
        """How much is wrong: hard ones and duplicates count one each, a preference its share, a spread a half."""
        return len(self.hard) + self.duplicate + self.uneven / 2 + min(1.0, self.missed / _WHOLE)


def repair(
    placement: SimulatedPlacement,
    movable: Bools,
    workload: Ints,
    admit: Admit,
    *,
    limit: int | None = None,
    came: Bools | None = None,
) -> Iterator[PlannedMove]:
    """Yields steps, already made in `placement`, until no movable pod has a fault that a move would fix.

    `workload` [pod] numbers the workloads, -1 for none. The pod with most wrong goes first. No step gives another pod a
    fault that it did not have. Pods that `came` [pod] for an evicted one are where that was better for all, so that
    they are beside others of their workload is no fault. `gain` is the weight of the faults that it fixes; `numbers`
    name them by 1.
    """
    search = _RepairSearch(placement, workload, np.zeros(len(workload), bool) if came is None else came)
    left = movable & placement.layout.present
    moves, progress = 0, True
    while progress:
        progress = False
        for pod in search.faulty(left):
            if limit is not None and moves >= limit:
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
            placement.move(step.pod, step.target)
            left[pod] = False
            moves += 1
            progress = True
            yield step


class _RepairSearch:
    def __init__(self, placement: SimulatedPlacement, workload: Ints, came: Bools) -> None:
        self._placement, self._workload, self._came = placement, workload, came
        self._mates: dict[int, Ints] = {}
        order = np.argsort(workload, kind="stable")
        bounds = np.flatnonzero(np.diff(workload[order], prepend=-2))
        for start, end in zip(bounds.tolist(), [*bounds.tolist()[1:], len(order)], strict=True):
            if workload[order[start]] >= 0:
                self._mates[int(workload[order[start]])] = order[start:end]

    def faulty(self, movable: Bools) -> list[int]:
        """Movable pods that could have a fault, the worst first."""
        alike: dict[tuple[int, str, int, int, bool], Violations] = {}
        faults = []
        for pod in np.flatnonzero(movable & (self._placement.on >= 0)).tolist():
            moved_pod = self._placement.layout.pods[pod]
            key = (
                id(moved_pod.template),
                moved_pod.namespace,
                id(moved_pod.labels),
                int(self._placement.on[pod]),
                bool(self._came[pod]),
            )
            if key not in alike:
                alike[key] = self._shared(pod)
            faults.append((pod, self.faults(pod, alike[key]).weight))
        return [pod for pod, weight in sorted(faults, key=lambda item: (-item[1], item[0])) if weight > 0]

    def faults(self, pod: int, shared: Violations | None = None) -> Violations:
        """Where it is now; `shared` are those of all pods like it there, where they are known."""
        placement = self._placement
        row = int(placement.on[pod])
        preference = placement.sites.preference(placement.layout.pods[pod].template)
        free = self._without_mates(pod, row)
        better = placement.targets & (preference > preference[row])
        shared = self._shared(pod) if shared is None else shared
        if not (free.any() or better.any()):
            return shared
        open_to = placement.open_to(pod)
        best = int(preference[open_to].max(initial=preference[row]))
        return replace(shared, duplicate=bool((open_to & free).any()), missed=best - int(preference[row]))

    def step(self, pod: int) -> PlannedMove | None:
        """The best node for a pod with faults, None where none fixes any without a new one."""
        placement = self._placement
        before, source = self.faults(pod), int(placement.on[pod])
        if not before.weight:
            return None
        related = np.setdiff1d(placement.neighbours.related(pod), [pod])
        related = related[placement.on[related] >= 0]
        hard = {other: self._hard(other) for other in related.tolist()}
        for target in self._ordered(pod, source, before):
            placement.move(pod, target)
            after = self.faults(pod)
            worse = any(not set(self._hard(other)) <= set(known) for other, known in hard.items())
            placement.move(pod, source)
            gain = before.weight - after.weight
            if gain > 0 and not worse and set(after.names) <= set(before.names):
                return PlannedMove(pod, source, target, gain, dict.fromkeys(set(before.names) - set(after.names), 1.0))
        return None

    def _ordered(self, pod: int, source: int, before: Violations) -> list[int]:
        """Nodes it can go to: most preferred, without a pod of its own, least loaded."""
        placement = self._placement
        rows = np.flatnonzero(placement.open_to(pod))
        preference = placement.sites.preference(placement.layout.pods[pod].template)
        if not before.hard:
            rows = rows[preference[rows] >= preference[source]]
        mates = np.isin(rows, placement.on[self._mates.get(int(self._workload[pod]), _NOBODY)])
        load = (placement.load[rows] + placement.increments(pod)[rows]).max(axis=1, initial=0.0)
        ordered: list[int] = rows[np.lexsort((rows, load, -preference[rows], mates))].tolist()
        return ordered

    def _shared(self, pod: int) -> Violations:
        soft = self._placement.layout.pods[pod].template.preferred_spread
        uneven = bool(soft) and not self._came[pod] and self._placement.neighbours.uneven(pod)
        return Violations(self._hard(pod), uneven=uneven)

    def _hard(self, pod: int) -> tuple[str, ...]:
        placement = self._placement
        row, template = int(placement.on[pod]), placement.layout.pods[pod].template
        faults = [] if placement.sites.chosen(template)[row] else [AFFINITY]
        faults += [] if placement.sites.tolerated(template.tolerations)[row] else [TAINTS]
        return (*faults, *(placement.neighbours.broken(pod) if placement.neighbours.matters(pod) else ()))

    def _without_mates(self, pod: int, row: int) -> Bools:
        """[node]: targets without a pod of its workload; none unless another one is to stay where it is."""
        placement = self._placement
        mates = self._mates.get(int(self._workload[pod]), _NOBODY)
        mates = mates[(mates != pod) & placement.layout.present[mates] & (placement.on[mates] >= 0)]
        stays = mates[placement.on[mates] == row]
        brought = self._came[pod] or self._came[stays].any()
        if brought or all(placement.layout.pods[mate].deleting for mate in stays.tolist()):
            return np.zeros(len(placement.targets), bool)
        candidates = placement.targets.copy()
        candidates[placement.on[mates]] = False
        return candidates


_REASONS = {
    "node affinity": "{node} is none of the nodes it asks for",
    "taints": "it does not tolerate the taints of {node}",
    "host ports": "another pod on {node} has its host port",
    "anti-affinity": "a pod near {node} and it keep apart",
    "affinity": "no pod that it wants near is near {node}",
    "spread": "too many pods like it are near {node}",
    "duplicate": "{node} has another pod of its workload, and {target} has none",
    "preferred spread": "too many pods like it are near {node} for a spread that it prefers",
    "preferred node affinity": "it prefers {target} to {node}",
}


class Repair(BasePlanner):
    """The gain of a step is what it fixes: 1 for each constraint and for a duplicate, a preference by its weight."""

    name = "repair"
    optional = True
    preferences = Preferences.IGNORED  # It weighs them itself.

    def steps(
        self, inputs: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The pod with most wrong first."""
        came = inputs.came() if inputs.came is not None else None
        return repair(placement, movable, inputs.pods.workload, admit, limit=inputs.aims.max_moves, came=came)

    def reason(self, inputs: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "n1 is none of the nodes it asks for; it does not tolerate the taints of n1"."""
        nodes = inputs.layout.nodes
        names = {"node": nodes[step.source].name, "target": nodes[step.target].name}
        return "; ".join(text.format(**names) for name, text in _REASONS.items() if name in step.numbers)
