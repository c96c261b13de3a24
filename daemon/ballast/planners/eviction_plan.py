"""Plans: what a planner wants and the gate permits, simulated step by step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from ballast.answers.views import RefusalPrice
from ballast.eviction.check_input import LOOKED_NOWHERE, Feasibility
from ballast.eviction.checks.limits import scarcity
from ballast.eviction.feasibility import ends_with_its_node, handed_over, may_empty, targets
from ballast.eviction.gate import NAMES, NUMBER, PASSED, ROWS, Alike, Gate, refusals
from ballast.eviction.history import History
from ballast.eviction.price import prices
from ballast.eviction.starting import in_words
from ballast.eviction.upgrade_front import upgrade_front
from ballast.model.load_limits import limits
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.layout import Layout
from ballast.placement.load_spread import deviations
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.planners.aims import Aims as Aims
from ballast.planners.built_in import planner
from ballast.planners.can_move import can_move, fits_on
from ballast.planners.plan_input import PlanInput, WholeNodes
from ballast.planners.planned_pods import PlannedPods, pod_name
from ballast.planners.planner import BasePlanner, Planner
from ballast.planners.step import Admit, PlannedMove, Worth
from ballast.planners.thresholds import Thresholds, hot
from ballast.planners.tidy import NOTHING_TO_REMOVE
from ballast.planners.tidy_rules import NOTHING

Kind: TypeAlias = str
"""The name of a planner."""

_TEMPORARY = [number for number, row in enumerate(ROWS) if row.temporary]
_FITS = Feasibility(fits=True)
_ONLY_UNKNOWN = Feasibility(only_unknown=True)
_UNMEASURED = Feasibility(used=False)
UNPAID = "moving it gains less than its price and the uncertainty of the loads"
_UNPAID = Feasibility(unpaid=UNPAID)
_COSTLY = Feasibility(spared="moving it costs more room for other pods than the waiting ones are worth")


@dataclass(frozen=True)
class Move:
    """`target` is None where the landing is not steered; `aim` is the node that the plan counts on all the same.
    `gain_error` is the standard error of the gain, `cost` the price of the eviction, both in the measure of the gain.

    `used` is what the pod takes along, in cores and bytes; `starts` are the UIDs of waiting pods that it starts, and
    `starts_on` their nodes.
    """

    pod: str
    source: str
    target: str | None
    gain: float
    reason: str
    uid: str = ""
    used: Mapping[str, float] = field(default_factory=dict)
    starts: tuple[str, ...] = ()
    starts_on: tuple[str, ...] = ()
    gain_error: float = 0.0
    cost: float = 0.0
    aim: str = ""
    siblings: tuple[int, int] = (0, 0)
    """Pods of its workload on the source and on the target after the step."""


@dataclass(frozen=True)
class Refusal:
    """The first check that refused a pod, and what it said."""

    pod: str
    check: str
    reason: str


@dataclass(frozen=True)
class EvictionPlan:
    """`before` and `after` are deviations of load, `refused` counts pods by the first check that refused them.

    `placed` are waiting pods that the plan starts; `refusals` are examples of the refused pods; `empty` are nodes that
    are or become empty, None in plans that empty no nodes.
    """

    kind: Kind
    steps: tuple[Move, ...]
    before: Mapping[str, float]
    after: Mapping[str, float]
    refused: Mapping[str, int]
    placed: tuple[str, ...]
    refusals: tuple[Refusal, ...] = ()
    empty: tuple[str, ...] | None = None
    concentration: tuple[int, int] = (0, 0)
    """The most pods of one workload on one node before and after, of workloads that have at least two."""
    note: str | None = None
    """Why the plan leaves something undone, beside its refusals."""
    prices: Mapping[str, RefusalPrice] = field(default_factory=dict)
    """What checks cost that alone keep pods on hot nodes, of a plan without steps; the most load first."""
    held_back: Move | None = None
    """The first step that the rates alone leave undone, of a plan without steps."""


REPLACED_WITHIN = 60.0
"""Seconds after an eviction within which a new pod of the workload is its replacement."""

DAY_UNKNOWN = "begins no node: the load of a day is not known"


def make_plan(
    kind: Kind, layout: Layout, gate: Gate, aims: Aims, *, examples: int = 0, peak: Floats | None = None
) -> EvictionPlan:
    """Every step has passed the gate, with the limits and budgets that the steps before it have spent.

    At most `examples` refused pods are listed for each check. `peak` [node, resource] is the load at the day's p95 in
    the order of the layout, NaN where unknown. Raises UsageError if there is no planner `kind`.
    """
    chosen = planner(kind)
    thresholds = thresholds_of(layout, aims)
    above: Bools = np.asarray(hot(layout.load, np.ones(len(layout.nodes), bool), thresholds).any(axis=1))
    expected = by_the_hour(layout, gate, chosen, above) if chosen.by_the_hour else layout
    screening = _Screening(expected, gate)
    if chosen.by_the_hour and not chosen.needs_confirmation:
        aims = replace(aims, price=aims.price * scarcity(gate.facts, gate.rules, gate.history))
    inputs = _plan_input(expected, gate, aims, screening, thresholds, above)
    screening.screen(chosen.considers(inputs), moves=chosen.moves)
    return _PlanBuilder(chosen, inputs, screening, layout).plan(examples, peak)


def thresholds_of(layout: Layout, aims: Aims) -> Thresholds:
    """From where on nodes are hot."""
    if aims.deviation is None:
        return Thresholds.absolute(layout.load, aims.high, aims.low, layout.resources)
    return Thresholds.deviation(layout.load, _counted(layout), layout.pool, aims.deviation)


def by_the_hour(layout: Layout, gate: Gate, chosen: Planner, above: Bools) -> Layout:
    """What a planner goes by that chooses by the last hour; `above` [node] are hot now.

    Pods of overloaded nodes count with what they use now. A planner that relieves nodes sees hot ones as loaded as they
    are now, and others as they are now or were, whichever is more.
    """
    expected = layout.by_the_hour(overloaded_of(layout, gate.history))
    if not chosen.needs_confirmation:
        return expected
    return replace(expected, load=np.where(above[:, None], layout.load, np.maximum(layout.load, expected.load)))


def overloaded_of(layout: Layout, history: History) -> Bools:
    """[node]"""
    return np.array([node.name in history.overloaded for node in layout.nodes], bool)


def _counted(layout: Layout) -> Bools:
    """[node]: whether its load counts for means and variances."""
    return np.array([node.schedulable for node in layout.nodes], bool)


def _plan_input(
    layout: Layout, gate: Gate, aims: Aims, screening: _Screening, thresholds: Thresholds, above: Bools
) -> PlanInput:
    price = np.zeros(len(layout.pods))
    if aims.price:
        price = aims.price * prices(gate.facts, layout.pods, gate.history.restarts)
    worth = Worth(price, layout.error, aims.confidence, lambda pods: screening.lower(pods, "gain"))
    overloaded = overloaded_of(layout, gate.history)
    pods = PlannedPods(layout, gate.facts, aims.wait_for)
    return PlanInput(
        layout,
        aims,
        _counted(layout),
        thresholds,
        above,
        pods,
        worth,
        overloaded=overloaded,
        came=lambda: _came(layout.pods, gate),
    )


def _came(pods: Sequence[Pod], gate: Gate) -> Bools:
    """[pod]: those that were created right after Ballast evicted one of their workload."""
    evicted = gate.history.workload_evictions

    def one(pod: Pod) -> bool:
        key = gate.facts.key(pod)
        return key is not None and any(0 <= pod.created - at <= REPLACED_WITHIN for at in evicted.get(key, ()))

    return np.array([bool(evicted) and one(pod) for pod in pods], bool)


class _Screening:
    """[pod]: the number of the first check that refuses it, PASSED if none does.

    `screen` asks the gate once. What is found out while the plan is made only lowers numbers.
    """

    def __init__(self, layout: Layout, gate: Gate) -> None:
        self.layout, self.gate = layout, gate
        self.numbers = np.full(len(layout.pods), PASSED)
        self.considered = np.zeros(0, np.int64)
        """Pods that the planner may move."""
        self.movable = np.zeros(len(layout.pods), bool)
        """[pod]: those of them that no check refuses."""
        self.measured: Bools = np.asarray(np.isfinite(layout.used).all(axis=1))
        self._groups: dict[Alike, Ints] = {}

    def screen(self, considered: Bools, *, moves: bool) -> None:
        rows = self.considered = np.flatnonzero(considered)
        self.numbers[rows] = self.gate.screen(self.layout.pods[pod] for pod in rows.tolist())
        if moves:
            self.lower(rows[~self.measured[rows]], "stale")
        self.movable[rows] = self.numbers[rows] == PASSED

    def lower(self, pods: Ints, check: str) -> None:
        self.numbers[pods] = np.minimum(self.numbers[pods], NUMBER[check])

    def admit(self, gate: Gate, placement: SimulatedPlacement, pod: int) -> tuple[str, Ints] | None:
        """The check by which `gate` refuses the pod, and the pods that it refuses likewise; None if it admits it."""
        refusal = gate.admit(self.layout.pods[pod], _FITS)
        if refusal is None:
            return None
        alike = ROWS[NUMBER[refusal.check]].alike
        if alike is Alike.POD:
            return refusal.check, np.array([pod], np.int64)
        left = self.movable & (placement.on >= 0)
        if alike is Alike.NODE:
            left &= placement.on == placement.on[pod]
        elif alike is not Alike.ALL:
            group = self._group(alike)
            left &= group == group[pod]
        return refusal.check, np.flatnonzero(left)

    def _group(self, alike: Alike) -> Ints:
        """[pod]: a number that pods share which are alike."""
        facts = self.gate.facts
        keys: dict[Alike, Callable[[Pod], Hashable]] = {
            Alike.NAMESPACE: lambda pod: pod.namespace,
            Alike.BUDGETS: lambda pod: (pod.namespace, pod.ready, *(budget.name for budget in facts.budgets(pod))),
            Alike.WORKLOAD: lambda pod: (facts.key(pod), pod.ready),
        }
        if alike not in self._groups:
            numbers: dict[Hashable, int] = {}
            names = map(keys[alike], self.layout.pods)
            self._groups[alike] = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
        return self._groups[alike]

    def without_room(self, placement: SimulatedPlacement, targets: Bools) -> tuple[Ints, Ints]:
        """Pods that no other node can take as things stand, and those that only nodes of unknown load could.

        Pods of unknown usage are in neither.
        """
        rows = self.considered[self.numbers[self.considered] > NUMBER["node-fit"]]
        rows = rows[self.measured[rows]]
        stuck = rows[~can_move(placement, rows)]
        unknown: Bools = np.asarray(targets & ~self.layout.known)
        hidden = fits_on(placement, stuck, unknown) if unknown.any() else np.zeros(len(stuck), bool)
        return stuck[~hidden], stuck[hidden]

    def examples(self, most: int, crowded: Collection[int]) -> Iterator[Refusal]:
        """At most `most` for each check; `crowded` are pods that only nodes with too much load have room for."""
        for number in np.unique(self.numbers[self.considered]).tolist() if most else ():
            if number == PASSED:
                continue
            for row in self.considered[self.numbers[self.considered] == number][:most].tolist():
                pod, check = self.layout.pods[row], NAMES[number]
                verdict = self.gate.explain(pod, self._outlook(row, check, crowded))[number]
                yield Refusal(pod_name(pod), check, verdict.reason)

    def _outlook(self, row: int, check: str, crowded: Collection[int]) -> Feasibility:
        """What the plan found out about a pod, for which this check refuses it."""
        if check == "node-fit":
            return Feasibility(fits=False, crowded=row in crowded)
        if check == "stale":
            return _ONLY_UNKNOWN if self.measured[row] else _UNMEASURED
        return {"gain": _UNPAID, "relieved": _COSTLY}.get(check, LOOKED_NOWHERE)


class _PlanBuilder:
    def __init__(self, planner: Planner, inputs: PlanInput, screening: _Screening, now: Layout) -> None:
        """`now`: the layout by which moves are predicted; the planner chooses by that of `screening`."""
        self._planner, self._inputs, self._screening, self._now = planner, inputs, screening, now
        self._layout, self._gate = screening.layout, screening.gate

    def plan(self, examples: int, peak: Floats | None) -> EvictionPlan:
        screening, open_nodes = self._screening, targets(self._layout, self._gate.facts, self._gate.rules)
        front = upgrade_front(self._layout.nodes, self._layout.pool, self._gate.facts.now)
        optional = isinstance(self._planner, BasePlanner) and self._planner.optional
        if optional:
            # Whatever moves now may move again once the front comes by.
            open_nodes &= ~front.pools
        placement = SimulatedPlacement(
            self._layout,
            targets=open_nodes,
            ceiling=limits(self._planner.ceiling(self._inputs.aims), self._layout.resources),
            namespaces=self._gate.facts.namespace_labels(),
            attachments=self._gate.facts.attachments,
            workload=self._inputs.pods.workload,
        )
        # Before any move: a pod without room now may find some later, so it stays movable and is counted at the end.
        stuck = hidden = np.zeros(0, np.int64)
        if self._planner.moves:
            stuck, hidden = screening.without_room(placement, open_nodes)
        placement.preferences = self._planner.preferences
        crowded = {pod for pod in stuck[:examples].tolist() if placement.crowded(pod)}
        emptied: list[int] | None = [] if self._planner.whole_nodes else None
        inputs = replace(
            self._inputs,
            whole_nodes=None if emptied is None else self._whole_nodes(emptied.append, peak),
            rehearse=lambda: self._rehearsal(placement),
        )
        steps: list[PlannedMove] = []
        moves: list[Move] = []
        load, stacked = self._loads(placement), placement.siblings.most()
        admit = self._admission(placement)
        for step in self._planner.steps(inputs, placement, screening.movable, admit, self._spare):
            there = [placement.siblings.there(step.pod, row) if row >= 0 else 0 for row in (step.source, step.target)]
            moves.append(replace(self._move(step, load), siblings=(there[0], there[1])))
            load = self._loads(placement)
            steps.append(step)
        screening.lower(stuck, "node-fit")
        screening.lower(hidden, "stale")
        # A step may have found room that there was not at first.
        screening.numbers[[step.pod for step in steps]] = PASSED
        return EvictionPlan(
            kind=self._planner.name,
            steps=tuple(moves),
            before=self._spread(self._now.load),
            after=self._spread(self._predicted(steps)),
            refused=dict(refusals(screening.numbers)),
            placed=tuple(pod_name(self._layout.pods[pod]) for step in steps for pod in step.starts),
            refusals=tuple(screening.examples(examples, crowded)),
            empty=None if emptied is None else tuple(self._layout.nodes[row].name for row in emptied),
            concentration=(stacked, placement.siblings.most()),
            note=self._note(peak, front.text if optional else None),
        )

    def _note(self, peak: Floats | None, upgrade: str | None) -> str | None:
        if upgrade is not None:
            return f"rests: {upgrade}"
        if self._planner.moves and (barren := in_words(self._gate.facts.barren)) is not None:
            return f"goes round nodes: {barren}"
        if self._planner.whole_nodes and not self._day_known(peak).any():
            return DAY_UNKNOWN
        removes = self._planner.moves or self._inputs.aims.tidy != NOTHING
        return None if removes else NOTHING_TO_REMOVE

    def _whole_nodes(self, hand_over: Callable[[int], None], peak: Floats | None) -> WholeNodes:
        nodes, facts, rules = self._layout.nodes, self._gate.facts, self._gate.rules
        numbers, pods = self._screening.numbers, self._layout.pods
        never: Bools = np.asarray(numbers == NUMBER["returnable"])
        for row in np.flatnonzero(numbers == NUMBER["pdb"]).tolist():
            never[row] = any(budget.never for budget in facts.budgets(pods[row]))
        return WholeNodes(
            begun=np.array([node.ready and handed_over(node, rules.prefix) for node in nodes], bool),
            may_empty=np.array([may_empty(node, facts, rules) for node in nodes], bool) & self._day_known(peak),
            stays=np.array([ends_with_its_node(pod) for pod in self._layout.pods], bool),
            later=np.isin(numbers, _TEMPORARY) & self._screening.measured,
            never=never,
            together=self._together,
            hand_over=hand_over,
            peak=peak,
        )

    def _day_known(self, peak: Floats | None) -> Bools:
        """[node]: whether the peak of all targets of its pool is known, or need not be."""
        layout = self._layout
        if self._inputs.aims.no_peak:
            return np.ones(len(layout.nodes), bool)
        known = np.zeros(len(layout.nodes), bool)
        if peak is not None:
            known = np.asarray((np.isfinite(peak) | ~layout.there).all(axis=1))
        needed = np.array([node.ready and node.name not in self._gate.facts.unknown for node in layout.nodes], bool)
        return np.asarray(~np.isin(layout.pool, layout.pool[needed & ~known]))

    def _together(self, pods: Sequence[int]) -> bool:
        refusal = self._gate.admit_together([self._layout.pods[pod] for pod in pods], _FITS)
        if refusal is not None:
            self._screening.lower(np.array(pods, np.int64), refusal.check)
        return refusal is None

    def _loads(self, placement: SimulatedPlacement) -> Floats:
        """[node, resource], NaN for what a node does not have."""
        return np.where(self._layout.there, placement.load, np.nan)

    def _predicted(self, steps: Sequence[PlannedMove]) -> Floats:
        """[node, resource]: the load after these moves, by what pods use now."""
        load, layout = self._now.load.copy(), self._now
        for step in steps:
            if step.target >= 0:  # Else it comes back nobody knows where.
                used = np.nan_to_num(layout.used[step.pod])
                load[step.source] -= used / layout.whole[step.source]
                load[step.target] += used / layout.whole[step.target]
            for pod, row in zip(step.starts, step.starts_on, strict=True):
                load[row] += np.nan_to_num(layout.used[pod]) / layout.whole[row]
        return load

    def _admission(self, placement: SimulatedPlacement) -> Admit:
        def admit(pod: int, target: int) -> Ints | None:
            refusal = self._screening.admit(self._gate, placement, pod)
            if refusal is None:
                return None
            check, alike = refusal
            self._screening.lower(alike, check)
            self._screening.movable[alike] = False
            return alike

        return admit

    def _rehearsal(self, placement: SimulatedPlacement) -> Admit:
        gate = self._gate.rehearsal()

        def admit(pod: int, target: int) -> Ints | None:
            refusal = self._screening.admit(gate, placement, pod)
            return None if refusal is None else refusal[1]

        return admit

    def _spare(self, pods: Ints) -> None:
        self._screening.lower(pods, "relieved")

    def _spread(self, load: Floats) -> dict[str, float]:
        deviation = deviations(load * self._layout.factor, self._inputs.counted, self._layout.pool).tolist()
        return dict(zip(self._layout.resources, deviation, strict=True))

    def _move(self, step: PlannedMove, load: Floats) -> Move:
        nodes, pod = self._layout.nodes, self._layout.pods[step.pod]
        aim = nodes[step.target].name if step.target >= 0 else ""
        used = dict(zip(self._layout.resources, self._now.used[step.pod].tolist(), strict=True))
        return Move(
            pod=pod_name(pod),
            source=nodes[step.source].name,
            target=aim if aim and self._steered(pod) else None,
            gain=step.gain,
            gain_error=step.error,
            cost=step.cost,
            reason=self._planner.reason(self._inputs, step, load),
            uid=pod.uid,
            used=used if aim else {},
            starts=tuple(self._layout.pods[row].uid for row in step.starts),
            starts_on=tuple(nodes[row].name for row in step.starts_on),
            aim=aim,
        )

    def _steered(self, pod: Pod) -> bool:
        steered = self._gate.rules.steered
        return steered is None or pod.scheduler_name in steered
