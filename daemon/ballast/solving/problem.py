"""The placement problem as arrays: pods by nodes by resources, and the hard rules between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from ballast.model.sample import Bools, Floats, Ints
from ballast.solving.device_shares import Devices, dimensions, total


class RuleKind(StrEnum):
    """What a rule says of its pods. Only AFFINE, FORBID, TOGETHER and APART are written by hand."""

    AFFINE = "affine"
    FORBID = "forbid"
    SITE = "site"
    TOGETHER = "together"
    APART = "apart"
    NEAR = "near"
    SPREAD = "spread"


@dataclass(frozen=True, eq=False)
class Rule:
    """One hard rule; rows of pods and nodes are those of the problem.

    affine, site: `pods` run only on `nodes` [node]. forbid: never on `nodes`. together: all on one node.
    apart: no two of `pods` in one domain; with `others`, none of `pods` in a domain with one of `others`.
    near: each of `pods` in a domain with one of `others`; one that is among `others` may be the first.
    spread: in domains with one of `pods`, the number of `others` exceeds the least of any domain by at most `skew`;
    the least is 0 while there are fewer than `min_domains`. `domain` [node] numbers domains, -1 is none;
    `nodes` [node] are those that a spread counts.
    """

    kind: RuleKind
    pods: Ints
    nodes: Bools | None = None
    domain: Ints | None = None
    others: Ints | None = None
    skew: int = 1
    min_domains: int = 1
    name: str = ""
    """What messages call it."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Where pods may go, and what makes a placement even.

    `nodes` and `pods` are names in sorted order, so that input order changes nothing (see `arrange`). Amounts are in
    any unit, one for each resource: `capacity` [node, resource] is NaN where unknown, which takes the resource out of
    the objective for that node; `use` [pod, resource]; `base` [node, resource] is use that belongs to no pod of the
    problem. `weights` [resource] sum to 1. `room` [node, kind] is capacity for `request` [pod, kind]. `factor`
    [node, resource] multiplies the load of a node. `home` [pod] is the node a pod came with, -1 without one.
    """

    nodes: tuple[str, ...]
    pods: tuple[str, ...]
    resources: tuple[str, ...]
    weights: Floats
    capacity: Floats
    use: Floats
    base: Floats
    kinds: tuple[str, ...]
    room: Floats
    request: Floats
    factor: Floats
    home: Ints
    rules: tuple[Rule, ...] = ()
    devices: Devices | None = None
    """Single devices; `kinds` has their sums too."""
    notes: tuple[str, ...] = field(default=())
    """Sentences about what the problem leaves out."""


def arrange(  # noqa: PLR0913 (each is a table of the problem by name)
    nodes: Sequence[str],
    pods: Sequence[str],
    resources: Sequence[str],
    *,
    capacity: Floats,
    use: Floats,
    weights: Floats | None = None,
    base: Floats | None = None,
    kinds: Sequence[str] | None = None,
    room: Floats | None = None,
    request: Floats | None = None,
    factor: Floats | None = None,
    home: Sequence[int] | Ints | None = None,
    rules: Iterable[Rule] = (),
    devices: Devices | None = None,
    notes: Iterable[str] = (),
) -> Problem:
    """The problem with nodes, pods and rules in the order of their names, weights that sum to 1.

    Rows are in the order of `nodes` and `pods` as given; `factor` is [node] or [node, resource]. Without `kinds`,
    `room` and `request`, capacity and use are what has to fit. Raises ValueError for weights that are all 0 or
    negative, or duplicate names.
    """
    n, m, k = len(nodes), len(pods), len(resources)
    if len(set(nodes)) < n or len(set(pods)) < m:
        raise ValueError("names of nodes and of pods have to be distinct")
    by_node, by_pod = _order(nodes), _order(pods)
    weight = np.ones(k) if weights is None else np.asarray(weights, float)
    capacity = np.asarray(capacity, float).reshape(n, k)
    if not (weight >= 0).all() or not weight.sum() > 0:
        raise ValueError("weights have to be at least 0, and one above 0")
    use = np.asarray(use, float).reshape(m, k)
    if kinds is None:
        kinds, room, request = resources, np.nan_to_num(capacity), use
    assert room is not None
    assert request is not None
    factors = np.ones((n, k)) if factor is None else np.asarray(factor, float)
    if factors.ndim == 1:
        factors = np.repeat(factors[:, None], k, axis=1)
    if devices is not None:
        kinds, room, request = _with_sums(devices, tuple(kinds), np.asarray(room, float), np.asarray(request, float))
        devices = devices.of(by_node.tolist(), by_pod.tolist())
    place = np.full(m, -1) if home is None else np.asarray(home, np.int64)
    node_row = _inverse(by_node)
    sorted_rules = sorted(
        (_renumbered(rule, by_node, _inverse(by_pod)) for rule in rules),
        key=lambda rule: (rule.kind, rule.pods.tolist(), rule.name, [] if rule.nodes is None else rule.nodes.tolist()),
    )
    return Problem(
        nodes=tuple(nodes[row] for row in by_node),
        pods=tuple(pods[row] for row in by_pod),
        resources=tuple(resources),
        weights=weight / weight.sum(),
        capacity=capacity[by_node],
        use=use[by_pod],
        base=(np.zeros((n, k)) if base is None else np.asarray(base, float).reshape(n, k))[by_node],
        kinds=tuple(kinds),
        room=np.asarray(room, float).reshape(n, len(kinds))[by_node],
        request=np.asarray(request, float).reshape(m, len(kinds))[by_pod],
        factor=factors[by_node],
        home=np.where(place >= 0, node_row[place] if n else -1, -1)[by_pod],
        rules=tuple(sorted_rules),
        devices=devices,
        notes=tuple(notes),
    )


def _with_sums(
    devices: Devices, kinds: tuple[str, ...], room: Floats, request: Floats
) -> tuple[tuple[str, ...], Floats, Floats]:
    """Kinds, room and requests with the sums over devices: what exceeds these fits on no single ones."""
    extra = dimensions(devices)
    sums, asked = ([total(shares, extra) for shares in each] for each in (devices.there, devices.asked))
    return (
        (*kinds, *(f"devices of {kind}" for kind, _ in extra)),
        np.concatenate([room.reshape(len(sums), len(kinds)), np.array(sums).reshape(-1, len(extra))], axis=1),
        np.concatenate([request.reshape(len(asked), len(kinds)), np.array(asked).reshape(-1, len(extra))], axis=1),
    )


def _order(names: Sequence[str]) -> Ints:
    return np.array(sorted(range(len(names)), key=lambda row: names[row]), np.int64)


def _inverse(order: Ints) -> Ints:
    rows = np.empty(len(order), np.int64)
    rows[order] = np.arange(len(order))
    return rows


def _renumbered(rule: Rule, by_node: Ints, pod_row: Ints) -> Rule:
    return Rule(
        kind=rule.kind,
        pods=np.unique(pod_row[rule.pods]),
        nodes=None if rule.nodes is None else rule.nodes[by_node],
        domain=None if rule.domain is None else rule.domain[by_node],
        others=None if rule.others is None else np.unique(pod_row[rule.others]),
        skew=rule.skew,
        min_domains=rule.min_domains,
        name=rule.name,
    )
