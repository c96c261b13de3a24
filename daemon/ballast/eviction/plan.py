"""Plans: what a planner wants and the gate permits, simulated step by step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from ballast.eviction.check_input import LOOKED_NOWHERE, Feasibility, Verdict
from ballast.eviction.feasibility import targets
from ballast.eviction.gate import NAMES, NUMBER, PASSED, Gate, refusals
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.planners.can_move import can_move, fits_on
from ballast.placement.planners.layout import Layout
from ballast.placement.planners.load_spread import deviations
from ballast.placement.planners.rebalance import rebalance
from ballast.placement.planners.redistribute import redistribute
from ballast.placement.planners.relieve import Thresholds, hot, relieve
from ballast.placement.planners.simulated_placement import SimulatedPlacement
from ballast.placement.planners.step import Step

Kind: TypeAlias = Literal["relieve", "rebalance", "redistribute"]

_OF_WORKLOADS = ("limit-workload", "workload-window", "min-ready")
_FITS = Feasibility(fits=True)
_ONLY_UNKNOWN = Feasibility(only_unknown=True)
_UNMEASURED = Feasibility(used=False)
_COSTLY = Feasibility(spared="moving it costs more room for other pods than the waiting ones are worth")


@dataclass(frozen=True)
class Aims:
    """Loads are fractions; `deviation` replaces `high` and `low`; `max_moves` and `kappa` None: no limit.

    `relieve` loads targets to `high` at most, whatever `target_high` says.
    """

    high: float = 0.8
    low: float = 0.6
    target_high: float = 0.7
    deviation: float | None = None
    min_gain: float = 0.0
    max_moves: int | None = None
    kappa: float | None = 0.5


@dataclass(frozen=True)
class Move:
    """`target` is None where the landing is not steered.

    `used` is what the pod takes along, in cores and bytes; `starts` are the UIDs of waiting pods that it starts.
    """

    pod: str
    source: str
    target: str | None
    gain: float
    reason: str
    uid: str = ""
    used: Mapping[str, float] = field(default_factory=dict)
    starts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """The first check that refused a pod, and what it said."""

    pod: str
    check: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """`before` and `after` are deviations of load, `refused` counts pods by the first check that refused them.

    `placed` are waiting pods that the plan starts; `refusals` tell of some of the refused pods.
    """

    kind: Kind
    steps: tuple[Move, ...]
    before: Mapping[str, float]
    after: Mapping[str, float]
    refused: Mapping[str, int]
    placed: tuple[str, ...]
    refusals: tuple[Refusal, ...] = ()


def make_plan(kind: Kind, layout: Layout, gate: Gate, aims: Aims, *, told: int = 0) -> Plan:
    """Every step has passed the gate, with the limits and budgets that the steps before it have spent.

    `told` is how many refused pods are told of for each check.
    """
    return _Making(kind, layout, gate, aims).plan(told)


class _Making:
    def __init__(self, kind: Kind, layout: Layout, gate: Gate, aims: Aims) -> None:
        self._kind, self._layout, self._gate, self._aims = kind, layout, gate, aims
        self._groups: dict[str, Ints] = {}
        self._counted = np.array([node.schedulable for node in layout.nodes], bool)
        self._targets = targets(layout.nodes, gate.facts, gate.rules)
        self._thresholds = (
            Thresholds.absolute(layout.load, aims.high, aims.low)
            if aims.deviation is None
            else Thresholds.deviation(layout.load, self._counted, layout.pool, aims.deviation)
        )
        self._considered = np.flatnonzero(self._consider())
        self._numbers = np.full(len(layout.pods), PASSED)
        self._numbers[self._considered] = gate.screen(layout.pods[pod] for pod in self._considered.tolist())
        self._measured: Bools = np.asarray(np.isfinite(layout.used).all(axis=1))
        self._lower(self._considered[~self._measured[self._considered]], "stale")
        self._movable = np.zeros(len(layout.pods), bool)
        self._movable[self._considered] = self._numbers[self._considered] == PASSED

    def plan(self, told: int) -> Plan:
        standing = self._standing()
        stuck, hidden = self._without_room(standing)
        self._crowded = {pod for pod in stuck[:told].tolist() if standing.crowded(pod)}
        loads = [standing.load.copy()]
        made: list[Step] = []
        moves: list[Move] = []
        for step in self._steps(standing):
            moves.append(self._move(step, loads[-1]))
            loads[-1] = standing.load.copy()
            made.append(step)
        self._lower(stuck, "node-fit")
        self._lower(hidden, "stale")
        self._numbers[[step.pod for step in made]] = PASSED
        return Plan(
            kind=self._kind,
            steps=tuple(moves),
            before=self._spread(self._layout.load),
            after=self._spread(standing.load),
            refused=dict(refusals(self._numbers)),
            placed=tuple(_name(self._layout.pods[pod]) for step in made for pod in step.starts),
            refusals=tuple(self._refusals(told)),
        )

    def _consider(self) -> Bools:
        """Pods on nodes; for `relieve` on hot ones, for `redistribute` only while somebody waits."""
        on = self._layout.on
        bound = on >= 0
        if self._kind == "relieve":
            everywhere = np.ones(len(self._layout.nodes), bool)
            nodes = hot(self._layout.load, everywhere, self._thresholds).any(axis=1)
            return np.asarray(bound & np.append(nodes, False)[on])
        if self._kind == "redistribute" and not any(pod.waiting for pod in self._layout.pods):
            return np.zeros(len(on), bool)
        return np.asarray(bound)

    def _standing(self) -> SimulatedPlacement:
        namespaces, ceiling = self._gate.facts.namespace_labels(), self._aims.target_high
        if self._kind == "relieve" and self._aims.deviation is None:
            ceiling = min(ceiling, self._aims.high)
        return SimulatedPlacement(self._layout, targets=self._targets, ceiling=ceiling, namespaces=namespaces)

    def _steps(self, standing: SimulatedPlacement) -> Iterator[Step]:
        aims, admit = self._aims, self._admission(standing)
        if self._kind == "rebalance":
            gain, limit = aims.min_gain, aims.max_moves
            return rebalance(standing, self._movable, self._counted, admit, min_gain=gain, limit=limit)
        if self._kind == "relieve":
            return relieve(
                standing,
                self._movable,
                self._counted,
                admit,
                self._thresholds,
                min_gain=aims.min_gain,
                limit=aims.max_moves,
            )
        return redistribute(standing, self._movable, admit, kappa=aims.kappa, limit=aims.max_moves, costly=self._spare)

    def _admission(self, standing: SimulatedPlacement) -> Callable[[int, int], Ints | None]:
        def admit(pod: int, target: int) -> Ints | None:
            refusal = self._gate.admit(self._layout.pods[pod], _FITS)
            if refusal is None:
                return None
            alike = self._alike(standing, pod, refusal)
            self._lower(alike, refusal.check)
            self._movable[alike] = False
            return alike

        return admit

    def _alike(self, standing: SimulatedPlacement, pod: int, refusal: Verdict) -> Ints:
        """Pods that the same refusal holds for."""
        left = self._movable & (standing.on >= 0)
        if refusal.check == "limit-node":
            left &= standing.on == standing.on[pod]
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

    def _spare(self, pods: Ints) -> None:
        self._lower(pods, "relieved")

    def _lower(self, pods: Ints, check: str) -> None:
        self._numbers[pods] = np.minimum(self._numbers[pods], NUMBER[check])

    def _without_room(self, standing: SimulatedPlacement) -> tuple[Ints, Ints]:
        """Pods that no other node can take as things stand, and those that only nodes of unknown load could.

        Where a pod of unknown use could go, nobody can tell.
        """
        asked = self._considered[self._numbers[self._considered] > NUMBER["node-fit"]]
        asked = asked[self._measured[asked]]
        stuck = asked[~can_move(standing, asked)]
        unknown: Bools = np.asarray(self._targets & ~np.isfinite(self._layout.load).all(axis=1))
        hidden = fits_on(standing, stuck, unknown) if unknown.any() else np.zeros(len(stuck), bool)
        return stuck[~hidden], stuck[hidden]

    def _refusals(self, most: int) -> Iterator[Refusal]:
        for number in np.unique(self._numbers[self._considered]).tolist() if most else ():
            if number == PASSED:
                continue
            for row in self._considered[self._numbers[self._considered] == number][:most].tolist():
                yield Refusal(_name(self._layout.pods[row]), NAMES[number], self._said(row, number))

    def _said(self, row: int, number: int) -> str:
        pod, check = self._layout.pods[row], NAMES[number]
        outlooks = [LOOKED_NOWHERE]
        if check == "node-fit":
            outlooks = [Feasibility(fits=False, crowded=row in self._crowded)]
        elif check == "stale":
            outlooks = [LOOKED_NOWHERE, _ONLY_UNKNOWN if self._measured[row] else _UNMEASURED]
        elif check == "relieved":
            outlooks = [_COSTLY]
        found = [self._gate.explain(pod, outlook)[number] for outlook in outlooks]
        return next((verdict for verdict in found if not verdict.allowed), found[-1]).reason

    def _spread(self, load: Floats) -> dict[str, float]:
        found = deviations(load, self._counted, self._layout.pool).tolist()
        return dict(zip(self._layout.resources, found, strict=True))

    def _move(self, step: Step, load: Floats) -> Move:
        nodes, pod = self._layout.nodes, self._layout.pods[step.pod]
        return Move(
            pod=_name(pod),
            source=nodes[step.source].name,
            target=nodes[step.target].name if self._steered(pod) else None,
            gain=step.gain,
            reason=self._reason(step, load),
            uid=pod.uid,
            used=dict(zip(self._layout.resources, self._layout.used[step.pod].tolist(), strict=True)),
            starts=tuple(self._layout.pods[waiting].uid for waiting in step.starts),
        )

    def _steered(self, pod: Pod) -> bool:
        steered = self._gate.rules.steered
        return steered is None or pod.scheduler_name in steered

    def _reason(self, step: Step, load: Floats) -> str:
        source, target = self._layout.nodes[step.source].name, self._layout.nodes[step.target].name
        if self._kind == "redistribute":
            waiting = [_name(self._layout.pods[pod]) for pod in step.starts]
            shown = ", ".join(waiting[:3]) + (f" and {len(waiting) - 3} more" if len(waiting) > 3 else "")
            return f"makes room on {source} for {shown}; costs {step.numbers['loss']:.3f} of residual"
        if self._kind == "relieve":
            resource = int(step.numbers["resource"])
            now, high = load[step.source, resource], self._thresholds.high[step.source, resource]
            low = self._thresholds.low[step.source, resource]
            wanted = f"above {high:.1%}" if now > high else f"not yet down to {low:.1%}"
            return f"{source} is at {now:.1%} of its {self._layout.resources[resource]}, {wanted}"
        return f"{source} is at {self._loads(load[step.source])}, {target} at {self._loads(load[step.target])}"

    def _loads(self, load: Floats) -> str:
        shares = zip(load.tolist(), self._layout.resources, strict=True)
        return " and ".join(f"{share:.1%} {name}" for share, name in shares)


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
