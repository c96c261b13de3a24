"""Where pods that are planned together should go, and in which order they should be released.

Every pod is placed, one after another, on the node with the least L of the dominant-residual criterion
(`scoring/residual.py`); what it is to keep free is weighed by the requests of the batch itself, which are known.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec
import numpy as np

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.placement.batch_balance import MeasuredLoad, balanced
from ballast.placement.layout import IN_PARTS, PODS, Layout, is_device, layout
from ballast.placement.simulated_placement import SimulatedPlacement
from ballast.scoring.residual import NOWHERE, Criterion, Residuals

MOST = 2000
"""Pods in one plan; those that come later in the order are planned when these are bound."""


class BatchOrder(StrEnum):
    """In which order pods of equal priority are placed; `fullest` is by arrival or the largest first, whichever uses
    more of the resource that is shortest.
    """

    ARRIVAL = "arrival"
    SMALL_FIRST = "small-first"
    FULLEST = "fullest"


@dataclass(frozen=True)
class BatchRules:
    """`aging` is the age in seconds from which a pod comes before all that are younger, whatever its size; 0: never."""

    order: BatchOrder = BatchOrder.ARRIVAL
    aging: float = 0.0


class BatchStep(msgspec.Struct, frozen=True):
    """A pod, by UID and namespace/name, and the node it should go to."""

    uid: str
    pod: str
    node: str


class Misfit(msgspec.Struct, frozen=True):
    """A pod that finds no room: on no node as it is now (`ever` is false), or only because of pods before it."""

    uid: str
    pod: str
    reason: str
    ever: bool


class BatchPlan(msgspec.Struct, frozen=True):
    """`steps` are in the order in which the pods should be released."""

    steps: tuple[BatchStep, ...] = ()
    misfits: tuple[Misfit, ...] = ()


def plan_batch(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    batch: Sequence[str],
    rules: BatchRules,
    *,
    now: float,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    measured: MeasuredLoad | None = None,
) -> BatchPlan:
    """Places the pods whose UIDs are in `batch`; the other `pods` stay where they are.

    Where all of them fit and the load is known (`measured`, in the order of `nodes`), they are spread so that it
    becomes even; else so that most room is left for pods like them. `namespaces` are their labels by name. At most
    `MOST` pods are in one plan. The answer does not depend on the order of `nodes`, `pods` or `batch`.
    """
    arranged = _arranged(nodes, pods, frozenset(batch), measured)
    chosen = [row for row, pod in enumerate(arranged.pods) if pod.uid in frozenset(batch) and arranged.on[row] < 0]
    first = order(arranged, chosen, rules, now)[:MOST]
    plans = [_place(arranged, first, chosen, namespaces)]
    use = _use_of_the_shortest(arranged, chosen)
    if rules.order is BatchOrder.FULLEST and plans[0][1]:
        plans.append(_place(arranged, order(arranged, first, rules, now, -use), chosen, namespaces))
    places, misfits = max(plans, key=lambda plan: use[list(plan[0])].sum())
    targets = places
    if measured is not None and places and not any(misfit.ever for misfit in misfits):
        targets = balanced(arranged, list(places), measured, namespaces) or places
    named = ((arranged.pods[row], arranged.nodes[targets[row]].name) for row in places)
    return BatchPlan(tuple(BatchStep(pod.uid, _name(pod), name) for pod, name in named), tuple(misfits))


def _place(
    arranged: Layout, ordered: Sequence[int], chosen: Sequence[int], namespaces: Mapping[str, Mapping[str, str]] | None
) -> tuple[dict[int, int], list[Misfit]]:
    """One pod after another: {row: its node}, and those without room."""
    world = SimulatedPlacement(
        arranged, targets=np.ones(len(arranged.nodes), bool), ceiling=np.inf, namespaces=namespaces
    )
    before = {row: bool(world.feasible(row).any()) for row in ordered}
    residuals = _residuals(arranged, chosen)
    requests: Floats = arranged.asked[:, 1:].astype(float)
    places, misfits = {}, []
    for row in ordered:
        pod = arranged.pods[row]
        losses = np.where(world.feasible(row), residuals.steps(requests[row]), NOWHERE)
        least = losses.min(initial=NOWHERE)
        if least == NOWHERE:
            misfits.append(Misfit(pod.uid, _name(pod), _why(world, row, before[row]), before[row]))
            continue
        # Of equal nodes the one with the fewest pods of its workload, then the first.
        equal = np.flatnonzero(losses == least)
        places[row] = target = int(equal[world.siblings.on_nodes(row)[equal].argmin()])
        world.move(row, target)
        residuals.place(target, requests[row])
    return places, misfits


def _use_of_the_shortest(arranged: Layout, rows: Sequence[int]) -> Floats:
    """[pod]: what it asks of the resource of which these rows ask most for what is free; devices that do not suffice
    come before what does not cost as much.
    """
    asked: Floats = arranged.asked[:, 1:].astype(float)
    if not asked.shape[1]:
        return np.zeros(len(asked))
    ratio = asked[list(rows)].sum(axis=0) / np.maximum(arranged.free[:, 1:].sum(axis=0), 1)
    devices = np.array([kind == IN_PARTS or is_device(kind) for kind in arranged.kinds[1:]])
    short = devices & (ratio > 1)
    return np.asarray(asked[:, int(np.where(short, ratio, ratio * (not short.any())).argmax())])


def order(
    arranged: Layout, rows: Sequence[int], rules: BatchRules, now: float, sizes: Floats | None = None
) -> list[int]:
    """The rows by priority, the highest first, then by `rules`, then by age, then by name.

    `sizes` [pod] replace those of the rules: with small-first the sum over the resources of a pod's share of what all
    nodes have, else 0.
    """
    if sizes is None:
        total = arranged.total[:, 1:].sum(axis=0).astype(float)
        shares = np.divide(arranged.asked[:, 1:], total, out=np.zeros(arranged.asked[:, 1:].shape), where=total > 0)
        sizes = shares.sum(axis=1) * (rules.order is BatchOrder.SMALL_FIRST)

    aging = rules.aging if rules.aging > 0 and sizes.any() else np.inf

    def key(row: int) -> tuple[int, float, float, int]:
        pod = arranged.pods[row]
        size = -np.inf if now - pod.created >= aging else float(sizes[row])
        return (-pod.priority, size, pod.created, row)

    return sorted(rows, key=key)


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"


def _arranged(
    nodes: Sequence[Node], pods: Sequence[Pod], batch: frozenset[str], measured: MeasuredLoad | None
) -> Layout:
    """As if the pods of the batch had been tried, so that they count as waiting."""
    freed = [
        msgspec.structs.replace(pod, gates=(), waiting_since=pod.created) if pod.uid in batch else pod for pod in pods
    ]
    if measured is None:
        return layout(nodes, freed, (), np.zeros((len(nodes), 0)))
    return layout(nodes, freed, measured.resources, measured.load).weighted(measured.node_weights)


def _residuals(arranged: Layout, rows: Sequence[int]) -> Residuals:
    """Over what the pods ask for; the number of pods is a limit, not a resource."""
    profiles, counts = np.unique(arranged.asked[list(rows), 1:], axis=0, return_counts=True)
    weights: Floats = counts / max(1, counts.sum())
    criterion = Criterion(profiles.astype(float), weights)
    return Residuals(criterion, arranged.total[:, 1:].astype(float), arranged.free[:, 1:].astype(float))


def _why(world: SimulatedPlacement, row: int, fitted: bool) -> str:
    """What keeps the pod off the nodes, in the words of people."""
    arranged = world.layout
    pod, requests = arranged.pods[row], arranged.asked[row]
    allowed = world.sites.allowed(pod.template)
    near = world.neighbours.allowed(row)
    count = len(arranged.nodes)
    if not allowed.any():
        return f"its selectors, affinities and tolerations allow none of {count:,} nodes"
    free: Ints = world.free if fitted else arranged.free
    short: Bools = (free < requests) & (requests > 0)
    names = [name for name, kind in zip(arranged.kinds, short[allowed].T, strict=True) if kind.any()]
    others = "" if near is None or (allowed & near).any() else "other pods keep it off all nodes; "
    what = " and ".join("pods" if name == PODS else name for name in names)
    room = f"no node has enough {what} left" if what else "no node has room"
    if fitted:
        return f"{others}{room} once the pods before it are placed"
    return f"{others}{room}"
