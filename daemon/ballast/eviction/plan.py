"""Plans: what a planner wants and the gate permits, simulated step by step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from ballast.eviction.check_input import LOOKED_NOWHERE, Feasibility, GateVerdict
from ballast.eviction.emptying import EMPTIES, FOR_NOW, ends_with_its_node, handed_over, may_empty
from ballast.eviction.feasibility import targets
from ballast.eviction.gate import NAMES, NUMBER, PASSED, Gate, refusals
from ballast.eviction.planners.planner import Aims as Aims
from ballast.eviction.planners.planner import PlanInput, Planner, WholeNodes, pod_name
from ballast.eviction.planners.registry import planner
from ballast.eviction.price import prices
from ballast.eviction.waiting import PlannedPods
from ballast.model.limits import limits
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.planners.can_move import can_move, fits_on
from ballast.placement.planners.layout import Layout
from ballast.placement.planners.load_spread import deviations
from ballast.placement.planners.relieve import Thresholds
from ballast.placement.planners.simulated_placement import SimulatedPlacement
from ballast.placement.planners.step import PlannedMove
from ballast.placement.planners.worth import Worth

Kind: TypeAlias = str
"""The name of a planner."""

_OF_WORKLOADS = ("limit-workload", "workload-window", "min-ready")
_FOR_NOW = [NUMBER[name] for name in FOR_NOW]
_FITS = Feasibility(fits=True)
_ONLY_UNKNOWN = Feasibility(only_unknown=True)
_UNMEASURED = Feasibility(used=False)
_UNPAID = Feasibility(unpaid="moving it gains less than its price and the uncertainty of the loads")
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


def make_plan(
    kind: Kind, layout: Layout, gate: Gate, aims: Aims, *, examples: int = 0, peak: Floats | None = None
) -> EvictionPlan:
    """Every step has passed the gate, with the limits and budgets that the steps before it have spent.

    At most `examples` refused pods are listed for each check. `peak` [node, resource] is the load at the day's p95 in
    the order of the layout, NaN where unknown. Raises UsageError if there is no planner `kind`.
    """
    return _PlanBuilder(planner(kind), layout, gate, aims, peak).plan(examples)


class _PlanBuilder:
    def __init__(self, planner: Planner, layout: Layout, gate: Gate, aims: Aims, peak: Floats | None = None) -> None:
        self._planner, self._layout, self._gate, self._peak = planner, layout, gate, peak
        self._empty: list[int] = []
        self._groups: dict[str, Ints] = {}
        self._counted = np.array([node.schedulable for node in layout.nodes], bool)
        self._targets = targets(layout.nodes, gate.facts, gate.rules)
        thresholds = (
            Thresholds.absolute(layout.load, aims.high, aims.low, layout.resources)
            if aims.deviation is None
            else Thresholds.deviation(layout.load, self._counted, layout.pool, aims.deviation)
        )
        pods = PlannedPods(layout, gate.facts, aims.wait_for)
        worth = Worth(
            np.zeros(len(layout.pods))
            if not aims.price
            else aims.price * prices(gate.facts, layout.pods, gate.history.restarts),
            layout.error,
            aims.confidence,
            self._unpaid,
        )
        self._input = PlanInput(layout, aims, self._counted, thresholds, pods, worth)
        self._considered = np.flatnonzero(planner.considers(self._input))
        self._numbers = np.full(len(layout.pods), PASSED)
        self._numbers[self._considered] = gate.screen(layout.pods[pod] for pod in self._considered.tolist())
        self._measured: Bools = np.asarray(np.isfinite(layout.used).all(axis=1))
        self._lower(self._considered[~self._measured[self._considered]], "stale")
        self._movable = np.zeros(len(layout.pods), bool)
        self._movable[self._considered] = self._numbers[self._considered] == PASSED

    def plan(self, examples: int) -> EvictionPlan:
        placement = SimulatedPlacement(
            self._layout,
            targets=self._targets,
            ceiling=limits(self._planner.ceiling(self._input.aims), self._layout.resources),
            namespaces=self._gate.facts.namespace_labels(),
            attachments=self._gate.facts.attachments,
        )
        stuck, hidden = self._without_room(placement)
        self._crowded = {pod for pod in stuck[:examples].tolist() if placement.crowded(pod)}
        load = self._loads(placement)
        made: list[PlannedMove] = []
        moves: list[Move] = []
        admit = self._admission(placement)
        given = replace(self._input, whole_nodes=self._whole_nodes(), rehearse=lambda: self._rehearsal(placement))
        for step in self._planner.steps(given, placement, self._movable, admit, self._spare):
            moves.append(self._move(step, load))
            load = self._loads(placement)
            made.append(step)
        self._lower(stuck, "node-fit")
        self._lower(hidden, "stale")
        self._numbers[[step.pod for step in made]] = PASSED
        return EvictionPlan(
            kind=self._planner.name,
            steps=tuple(moves),
            before=self._spread(self._layout.load),
            after=self._spread(self._loads(placement)),
            refused=dict(refusals(self._numbers)),
            placed=tuple(pod_name(self._layout.pods[pod]) for step in made for pod in step.starts),
            refusals=tuple(self._refusals(examples)),
            empty=tuple(self._layout.nodes[row].name for row in self._empty) if self._planner.name == EMPTIES else None,
        )

    def _whole_nodes(self) -> WholeNodes:
        layout, facts, rules = self._layout, self._gate.facts, self._gate.rules
        return WholeNodes(
            begun=np.array([node.ready and handed_over(node, rules.prefix) for node in layout.nodes], bool),
            may_empty=np.array([may_empty(node, facts, rules) for node in layout.nodes], bool),
            stays=np.array([ends_with_its_node(pod) for pod in layout.pods], bool),
            later=np.isin(self._numbers, _FOR_NOW) & self._measured,
            together=self._together,
            hand_over=self._empty.append,
            peak=self._peak,
        )

    def _together(self, pods: Sequence[int]) -> bool:
        refusal = self._gate.admit_together([self._layout.pods[pod] for pod in pods], _FITS)
        if refusal is not None:
            self._lower(np.array(pods, np.int64), refusal.check)
        return refusal is None

    def _loads(self, placement: SimulatedPlacement) -> Floats:
        """[node, resource], NaN for what a node does not have."""
        return np.where(self._layout.there, placement.load, np.nan)

    def _admission(self, placement: SimulatedPlacement) -> Callable[[int, int], Ints | None]:
        def admit(pod: int, target: int) -> Ints | None:
            refusal = self._gate.admit(self._layout.pods[pod], _FITS)
            if refusal is None:
                return None
            alike = self._alike(placement, pod, refusal)
            self._lower(alike, refusal.check)
            self._movable[alike] = False
            return alike

        return admit

    def _rehearsal(self, placement: SimulatedPlacement) -> Callable[[int, int], Ints | None]:
        gate = self._gate.rehearsal()

        def admit(pod: int, target: int) -> Ints | None:
            refusal = gate.admit(self._layout.pods[pod], _FITS)
            return None if refusal is None else self._alike(placement, pod, refusal)

        return admit

    def _alike(self, placement: SimulatedPlacement, pod: int, refusal: GateVerdict) -> Ints:
        """Pods that the same refusal holds for."""
        left = self._movable & (placement.on >= 0)
        if refusal.check == "limit-node":
            left &= placement.on == placement.on[pod]
        elif (same := self._group(refusal.check)) is not None:
            left &= same == same[pod]
        elif refusal.check not in ("limit-total", "rate"):
            return np.array([pod], np.int64)
        return np.flatnonzero(left)

    def _group(self, check: str) -> Ints | None:
        """[pod]: a number that pods share which this check cannot tell apart; None where it tells all apart."""
        facts = self._gate.facts
        keys: dict[str, Callable[[Pod], Hashable]] = {
            "limit-namespace": lambda pod: pod.namespace,
            "pdb": lambda pod: (pod.namespace, *(budget.name for budget in facts.budgets(pod))),
            **dict.fromkeys(_OF_WORKLOADS, lambda pod: (facts.key(pod), pod.ready)),
        }
        name = "workload" if check in _OF_WORKLOADS else check
        if check in keys and name not in self._groups:
            self._groups[name] = self._numbered(keys[check])
        return self._groups.get(name)

    def _numbered(self, key: Callable[[Pod], Hashable]) -> Ints:
        numbers: dict[Hashable, int] = {}
        return np.array([numbers.setdefault(key(pod), len(numbers)) for pod in self._layout.pods], np.int64)

    def _unpaid(self, pods: Ints) -> None:
        self._lower(pods, "gain")

    def _spare(self, pods: Ints) -> None:
        self._lower(pods, "relieved")

    def _lower(self, pods: Ints, check: str) -> None:
        self._numbers[pods] = np.minimum(self._numbers[pods], NUMBER[check])

    def _without_room(self, placement: SimulatedPlacement) -> tuple[Ints, Ints]:
        """Pods that no other node can take as things stand, and those that only nodes of unknown load could.

        Pods of unknown usage are in neither.
        """
        asked = self._considered[self._numbers[self._considered] > NUMBER["node-fit"]]
        asked = asked[self._measured[asked]]
        stuck = asked[~can_move(placement, asked)]
        unknown: Bools = np.asarray(self._targets & ~self._layout.known)
        hidden = fits_on(placement, stuck, unknown) if unknown.any() else np.zeros(len(stuck), bool)
        return stuck[~hidden], stuck[hidden]

    def _refusals(self, most: int) -> Iterator[Refusal]:
        for number in np.unique(self._numbers[self._considered]).tolist() if most else ():
            if number == PASSED:
                continue
            for row in self._considered[self._numbers[self._considered] == number][:most].tolist():
                yield Refusal(pod_name(self._layout.pods[row]), NAMES[number], self._said(row, number))

    def _said(self, row: int, number: int) -> str:
        pod, check = self._layout.pods[row], NAMES[number]
        feasible = [LOOKED_NOWHERE]
        if check == "node-fit":
            feasible = [Feasibility(fits=False, crowded=row in self._crowded)]
        elif check == "stale":
            feasible = [LOOKED_NOWHERE, _ONLY_UNKNOWN if self._measured[row] else _UNMEASURED]
        elif check == "relieved":
            feasible = [_COSTLY]
        elif check == "gain":
            feasible = [_UNPAID]
        found = [self._gate.explain(pod, outlook)[number] for outlook in feasible]
        return next((verdict for verdict in found if not verdict.allowed), found[-1]).reason

    def _spread(self, load: Floats) -> dict[str, float]:
        found = deviations(load, self._counted, self._layout.pool).tolist()
        return dict(zip(self._layout.resources, found, strict=True))

    def _move(self, step: PlannedMove, load: Floats) -> Move:
        nodes, pod = self._layout.nodes, self._layout.pods[step.pod]
        return Move(
            pod=pod_name(pod),
            source=nodes[step.source].name,
            target=nodes[step.target].name if self._steered(pod) else None,
            gain=step.gain,
            gain_error=step.error,
            cost=step.cost,
            reason=self._planner.reason(self._input, step, load),
            uid=pod.uid,
            used=dict(zip(self._layout.resources, self._layout.used[step.pod].tolist(), strict=True)),
            starts=tuple(self._layout.pods[row].uid for row in step.starts),
            starts_on=tuple(nodes[row].name for row in step.starts_on),
            aim=nodes[step.target].name,
        )

    def _steered(self, pod: Pod) -> bool:
        steered = self._gate.rules.steered
        return steered is None or pod.scheduler_name in steered
