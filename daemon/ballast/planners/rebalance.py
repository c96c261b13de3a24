"""`rebalance`: evens out load within a pool; many moves go towards a target that a search over placements finds.

The steepest moves one after another come close to the best few. Where many are allowed, another choice of as many pods
and nodes is better: a search by exchanges goes on from where the steepest moves end. Its target is carried out like
every other plan, by gain, each move only if it pays by itself; what is left to move is then chosen by steepness.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ballast.model.load_limits import limits
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.simulated_placement import ROUNDING, Preferences, SimulatedPlacement
from ballast.planners.plan_input import PlanInput
from ballast.planners.planner import BasePlanner, Spare, loads_in_words
from ballast.planners.steepest_moves import steepest_moves
from ballast.planners.step import Admit, PlannedMove, Worth, free, nobody
from ballast.solving import Problem, Rule, RuleKind, arrange, improve

MANY = 0.05
"""Share of the movable pods from which on a plan aims at a target; below it gains nothing worth its time."""
LEAST = 20
"""Moves of the steepest plan from which on it does."""
LARGEST = 3_000_000
"""Movable pods times nodes up to which it does."""
EVALUATIONS_PER_POD = 1_000
MOST_EVALUATIONS = 10_000_000
_UNBOUNDED = 1e18


def even_out(
    placement: SimulatedPlacement,
    movable: Bools,
    counted: Bools,
    admit: Admit,
    *,
    rehearse: Callable[[], Admit],
    min_gain: float = 0.0,
    limit: int | None = None,
    worth: Worth | None = None,
) -> Iterator[PlannedMove]:
    """As `steepest_moves`, with a target where `limit` is many.

    `rehearse` gives an `admit` that answers the same and remembers nothing. Two drafts are made with it, and the
    target counts only if its draft gains more beyond its price. The search ends after a number of evaluations that
    depends on the number of pods alone.
    """
    worth = worth or free(len(placement.on), *placement.load.shape)
    count = int(np.count_nonzero(movable))
    few = limit is not None and limit < max(LEAST, MANY * count)
    plan = _Plan(placement, counted, min_gain, limit)
    if few or count * len(placement.load) > LARGEST:
        yield from plan.steps(movable, admit, worth, None)
        return
    # A draft tells nobody which moves do not pay: they are told of the plan that is made.
    quiet = replace(worth, unpaid=nobody)
    steepest = plan.draft(movable, rehearse(), quiet, None)
    aims = _target(placement, movable, counted, steepest) if len(steepest) >= LEAST else None
    # The search knows no prices and no order of moves, so its target is judged by what of it can be carried out.
    if aims is not None and _pays(plan.draft(movable, rehearse(), quiet, aims)) <= _pays(steepest):
        aims = None
    yield from plan.steps(movable, admit, worth, aims)


class _Plan:
    def __init__(self, placement: SimulatedPlacement, counted: Bools, min_gain: float, limit: int | None) -> None:
        self._placement, self._counted, self._min_gain, self._limit = placement, counted, min_gain, limit

    def steps(self, movable: Bools, admit: Admit, worth: Worth, aims: Ints | None) -> Iterator[PlannedMove]:
        """Towards `aims` [pod], -1 for none, and from there on the steepest."""
        placement, limit = self._placement, self._limit
        moved: list[int] = []
        if aims is not None:
            placement.aims = aims
            for step in self._rebalance(movable & (aims >= 0), admit, limit, replace(worth, unpaid=nobody)):
                moved.append(step.pod)
                yield step
            # The rest of the limit goes to the steepest moves; no pod moves twice in one plan.
            placement.aims = None
            movable = movable.copy()
            movable[moved] = False
        yield from self._rebalance(movable, admit, None if limit is None else limit - len(moved), worth)

    def draft(self, movable: Bools, admit: Admit, worth: Worth, aims: Ints | None) -> list[PlannedMove]:
        """The same steps, unmade again."""
        placement = self._placement
        load = placement.load.copy()
        planned = list(self.steps(movable, admit, worth, aims))
        for step in reversed(planned):
            placement.move(step.pod, step.source)
        placement.load = load
        return planned

    def _rebalance(self, movable: Bools, admit: Admit, limit: int | None, worth: Worth) -> Iterator[PlannedMove]:
        return steepest_moves(
            self._placement, movable, self._counted, admit, min_gain=self._min_gain, limit=limit, worth=worth
        )


def _pays(steps: list[PlannedMove]) -> float:
    return sum(step.gain - step.cost for step in steps)


def _target(placement: SimulatedPlacement, movable: Bools, counted: Bools, draft: list[PlannedMove]) -> Ints:
    """[pod]: where it goes, -1 where it stays; in no pool more pods move than in the draft."""
    layout = placement.layout
    drafted = placement.on.copy()
    drafted[[step.pod for step in draft]] = [step.target for step in draft]
    aims = np.full(len(placement.on), -1)
    usable: Bools = np.asarray(
        (np.isfinite(layout.load) & counted[:, None] | ~layout.there).all(axis=1) & (layout.whole > 0).all(axis=1)
    )
    place = np.full(len(layout.nodes), -1)
    for number in np.unique(layout.pool[[step.source for step in draft]]).tolist():
        rows = np.flatnonzero(layout.pool == number)
        # Pools are solved one by one: `place` turns the row of a node into its column in the problem of its pool.
        place[rows] = np.arange(len(rows))
        candidates = movable & np.isfinite(layout.used).all(axis=1) & (placement.on >= 0)
        pods = np.flatnonzero(candidates & (layout.pool[placement.on] == number) & usable[placement.on])
        moves = int(np.count_nonzero(drafted[pods] != placement.on[pods]))
        improved = improve(
            _problem(placement, rows, pods, place, counted),
            place[drafted[pods]],
            evaluations=min(MOST_EVALUATIONS, EVALUATIONS_PER_POD * len(pods)),
            max_moves=moves,
        )
        changed = rows[improved] != placement.on[pods]
        aims[pods[changed]] = rows[improved][changed]
    return aims


def _problem(placement: SimulatedPlacement, rows: Ints, pods: Ints, place: Ints, counted: Bools) -> Problem:
    """The movable pods of one pool; all others are load and taken room. Rules between pods count as they are now."""
    layout, home = placement.layout, place[placement.on[pods]]
    known: Bools = np.asarray(np.isfinite(layout.load[rows]) & counted[rows, None])
    whole = np.where(np.isfinite(layout.whole[rows]), layout.whole[rows], 0.0)
    there = np.nan_to_num(layout.load[rows]) * whole
    base = there - _summed(layout.used[pods], home, len(rows))
    ceiling = np.minimum(placement.ceiling, _UNBOUNDED)
    # A node above its ceiling may keep what it has: only further load is out of the question.
    below = np.where(whole > 0, np.maximum(ceiling * whole, there) - base, _UNBOUNDED)
    taken = _summed(layout.asked[pods].astype(float), home, len(rows))
    # What node selectors, taints and other pods forbid is one rule for all pods with the same permitted nodes.
    masks: dict[bytes, list[int]] = {}
    for position, pod in enumerate(pods.tolist()):
        masks.setdefault(_sites(placement, pod, rows, int(home[position])).tobytes(), []).append(position)
    return arrange(
        [layout.nodes[row].name for row in rows.tolist()],
        [f"{pod:09d}" for pod in pods.tolist()],
        layout.resources,
        weights=layout.weights,
        capacity=np.where(known & (whole > 0), whole, np.nan),
        use=layout.used[pods],
        base=base,
        factor=layout.factor[rows],
        kinds=(*layout.kinds, *(f"load of {name}" for name in layout.resources)),
        room=np.concatenate([np.maximum(placement.free[rows], 0) + taken, below], axis=1),
        request=np.concatenate([layout.asked[pods], layout.used[pods]], axis=1),
        home=home,
        rules=[Rule(RuleKind.SITE, np.array(pods), nodes=np.frombuffer(mask, bool)) for mask, pods in masks.items()],
    )


def _sites(placement: SimulatedPlacement, pod: int, rows: Ints, home: int) -> Bools:
    """[place]: where what nodes and other pods are lets it run, and its own node."""
    mask = (placement.targets & placement.sites.allowed(placement.layout.pods[pod].template))[rows]
    near = placement.neighbours.allowed(pod)
    if near is not None:
        mask &= near[rows]
    everywhere = np.zeros(len(placement.targets), bool)
    everywhere[rows] = mask
    mask = placement.apart(pod, int(rows[home]), everywhere)[rows]
    mask[home] = True
    return np.asarray(mask)


def _summed(amounts: Floats, home: Ints, nodes: int) -> Floats:
    sums = np.zeros((nodes, amounts.shape[1]))
    np.add.at(sums, home, amounts)
    return sums


class Rebalance(BasePlanner):
    """The gain of a step is the fall of sum_k w_k Var_k within its pool.

    Where `consolidate` runs too, pods leave only nodes above the load to which it packs.
    """

    name = "rebalance"
    optional = True
    preferences = Preferences.KEPT
    by_the_hour = True

    def steps(
        self, inputs: PlanInput, placement: SimulatedPlacement, movable: Bools, admit: Admit, spare: Spare
    ) -> Iterator[PlannedMove]:
        """The move with the largest gain first; of many, those towards a target."""
        aims, layout = inputs.aims, inputs.layout
        if aims.packed:
            above: Bools = np.asarray((placement.load > limits(aims.ceiling, layout.resources) + ROUNDING).any(axis=1))
            movable &= above[layout.on]
        assert inputs.rehearse is not None
        return even_out(
            placement,
            movable,
            inputs.counted,
            admit,
            rehearse=inputs.rehearse,
            min_gain=aims.min_gain,
            limit=aims.max_moves,
            worth=inputs.worth,
        )

    def reason(self, inputs: PlanInput, step: PlannedMove, load: Floats) -> str:
        """ "n1 is at 85.0% cpu and 40.0% memory, n2 at 20.0% cpu and 30.0% memory"."""
        nodes, resources = inputs.layout.nodes, inputs.layout.resources
        source, target = (loads_in_words(load[row], resources) for row in (step.source, step.target))
        return f"{nodes[step.source].name} is at {source}, {nodes[step.target].name} at {target}"
