"""The even placement of a batch that fits as a whole: real load decides, instead of the room that is left.

Source of the objective: the batch placement of Liu et al. by a genetic algorithm over the deviation of the nodes' load,
with the deviation taken per resource (`solvers/objective.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ballast.base.errors import PlacementError
from ballast.model.node_weights import NO_NODE_WEIGHTS, NodeWeights
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.layout import Layout
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.solving import Problem, Rule, RuleKind, arrange, solve

EVALUATIONS_PER_POD = 100
MOST_EVALUATIONS = 50_000


@dataclass(frozen=True)
class MeasuredLoad:
    """`load` [node, resource] is a fraction of allocatable, NaN where unknown, over the `length` seconds to `end`."""

    resources: tuple[str, ...]
    load: Floats
    end: float
    length: float
    node_weights: NodeWeights = field(default_factory=lambda: NO_NODE_WEIGHTS)


def balanced(
    arranged: Layout,
    rows: Sequence[int],
    measured: MeasuredLoad,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[int, int] | None:
    """{pod row: node row} with the least Σ w Var of load, for pods released in the order of `rows`.

    Pods of a workload are on nodes of their own where there are enough, but those of Jobs. None where no node's load is
    known, where no such placement is found, or where the rules between the pods of the batch do not hold at every step
    of it.
    """
    known: Bools = np.asarray(np.isfinite(arranged.load).all(axis=1), bool)
    if not known.any() or not arranged.resources:
        return None
    tries = (_solved(arranged, rows, measured, namespaces, apart=apart) for apart in (True, False))
    return next((targets for targets in tries if targets is not None), None)


def _solved(
    arranged: Layout,
    rows: Sequence[int],
    measured: MeasuredLoad,
    namespaces: Mapping[str, Mapping[str, str]] | None,
    *,
    apart: bool,
) -> dict[int, int] | None:
    try:
        solution = solve(
            _problem(arranged, rows, measured, namespaces, apart=apart),
            solver="late-acceptance",
            evaluations=min(MOST_EVALUATIONS, EVALUATIONS_PER_POD * len(rows)),
        )
    except PlacementError:
        return None
    places = {node.name: row for row, node in enumerate(arranged.nodes)}
    target = {row: places[solution.placement[_name(row)]] for row in rows}
    world = _world(arranged, namespaces)
    for row in rows:
        if not world.feasible(row)[target[row]]:
            return None
        world.move(row, target[row])
    return target


def _problem(
    arranged: Layout,
    rows: Sequence[int],
    measured: MeasuredLoad,
    namespaces: Mapping[str, Mapping[str, str]] | None,
    *,
    apart: bool,
) -> Problem:
    """The pods of the batch alone; what else is there is load and taken room.

    `apart`: those of a workload that has enough nodes without any of it keep to those, one on each.
    """
    world = _world(arranged, namespaces)
    known: Bools = np.asarray(np.isfinite(arranged.load).all(axis=1), bool)
    masks: dict[bytes, list[int]] = {}
    workloads: dict[int, list[int]] = {}
    place = {row: position for position, row in enumerate(rows)}
    for position, row in enumerate(rows):
        near = world.neighbours.allowed(row)
        allowed = known & world.sites.allowed(arranged.pods[row].template)
        allowed = allowed if near is None else allowed & near
        if apart and _serves(arranged.pods[row]):
            mates = np.intersect1d(world.siblings.mates(row), rows)
            free = allowed & (world.siblings.on_nodes(row) == 0)
            if 0 < len(mates) <= free.sum():
                allowed = free
                workloads[int(mates[0])] = [place[mate] for mate in mates.tolist()]
        masks.setdefault(allowed.tobytes(), []).append(position)
    rules = [Rule(RuleKind.SITE, np.array(pods), nodes=np.frombuffer(mask, bool)) for mask, pods in masks.items()]
    rules += [Rule(RuleKind.APART, np.array(mates)) for mates in workloads.values() if len(mates) > 1]
    return arrange(
        [node.name for node in arranged.nodes],
        [_name(row) for row in rows],
        arranged.resources,
        capacity=np.where(known[:, None], arranged.whole, np.nan),
        use=np.nan_to_num(arranged.used[list(rows)]),
        base=np.nan_to_num(arranged.load) * arranged.whole + _unseen(arranged, measured),
        factor=arranged.factor,
        kinds=arranged.kinds,
        room=np.maximum(arranged.free, 0).astype(float),
        request=arranged.asked[list(rows)].astype(float),
        rules=rules,
    )


def _serves(pod: Pod) -> bool:
    """Whether losing several pods of its workload at once would matter: not for those of Jobs, which are done again."""
    return pod.owner is not None and pod.owner.kind != "Job"


def _unseen(arranged: Layout, measured: MeasuredLoad) -> Floats:
    """[node, resource]: what pods ask for whose time on their node the window does not show, by the share it lacks."""
    shares = np.array(
        [
            1.0
            if pod.scheduled_at is None and pod.phase == "Pending"
            else 1.0 - min(1.0, max(0.0, measured.end - (pod.scheduled_at or 0.0)) / measured.length)
            for pod in arranged.pods
        ],
        float,
    )
    on: Ints = np.where(arranged.present, arranged.on, -1)
    use = np.zeros(arranged.whole.shape)
    there = on >= 0
    np.add.at(use, on[there], np.nan_to_num(arranged.used[there]) * shares[there, None])
    return use


def _world(arranged: Layout, namespaces: Mapping[str, Mapping[str, str]] | None) -> SimulatedPlacement:
    everywhere = np.ones(len(arranged.nodes), bool)
    return SimulatedPlacement(arranged, targets=everywhere, ceiling=np.inf, namespaces=namespaces)


def _name(row: int) -> str:
    return f"{row:09d}"
