"""Where pods are, what they use and what they ask for, as arrays: what the planners look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ballast.model.devices import MILLI, PARTS, claim_in, devices_of, parts_of
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.scoring.demand import units
from ballast.scoring.profiles import asked_by

PODS = "pods"
IN_PARTS = "devices in parts"
# A node that does not say how many pods it takes.
ANY_NUMBER = 2**31
Usage = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Layout:
    """`nodes` are in the order of their names, `pods` in that of (namespace, name), so input order changes nothing.

    `pods` are those on listed nodes, also finished ones, and the waiting ones, whose row in `on` is -1. `load`
    [node, resource] is a fraction of allocatable, NaN where unknown; `whole` [node, resource] and `used`
    [pod, resource] are cores and bytes, `used` NaN where neither measured nor requested. `free` [node, kind] and
    `asked` [pod, kind] are milli-cores, bytes and pieces, of every kind that a pod asks for; the first is `pods`.
    `pool` [node] numbers the pools. `profiles` [profile, kind] are the distinct requests of all unfinished pods, also
    of those the scheduler has not tried yet, without the kind `pods`; `frequency` [profile] is how many have them.
    """

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    on: Ints
    present: Bools
    resources: tuple[str, ...]
    load: Floats
    whole: Floats
    used: Floats
    kinds: tuple[str, ...]
    total: Ints
    free: Ints
    asked: Ints
    pool: Ints
    profiles: Ints
    frequency: Ints


def layout(
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    resources: Sequence[str],
    load: Floats,
    usage: Usage | None = None,
    pool_label: str | None = None,
) -> Layout:
    """`load` is [node, resource] in the order of `nodes`; `usage` has cores and bytes by namespace/name.

    A pod that is not in `usage` counts with its requests.
    """
    order = sorted(range(len(nodes)), key=lambda row: nodes[row].name)
    ordered = tuple(nodes[row] for row in order)
    rows = {node.name: row for row, node in enumerate(ordered)}
    kept = sorted((pod for pod in pods if pod.node in rows or pod.waiting), key=lambda pod: (pod.namespace, pod.name))
    on = np.array([rows.get(pod.node, -1) for pod in kept], np.int64)
    present = np.array([not pod.finished for pod in kept], bool) & (on >= 0)
    expected = [pod for pod in pods if not pod.finished and (pod.node in rows or not pod.node)]
    kinds, table, place = _asked([*kept, *expected])
    asked = table[place[: len(kept)]]
    profiles, alike = np.unique(table[:, 1:], axis=0, return_inverse=True)
    total = _total(ordered, kinds)
    free = total.copy()
    np.subtract.at(free, on[present], asked[present])
    return Layout(
        nodes=ordered,
        pods=tuple(kept),
        on=on,
        present=present,
        resources=tuple(resources),
        load=np.array(load, float).reshape(len(nodes), len(resources))[order],
        whole=np.array([[node.allocatable.get(name, 0.0) for name in resources] for node in ordered], float).reshape(
            len(nodes), len(resources)
        ),
        used=_used(kept, resources, usage or {}),
        kinds=kinds,
        total=total,
        free=free,
        asked=asked,
        pool=_pools(ordered, pool_label),
        profiles=profiles,
        frequency=np.bincount(alike.reshape(-1)[place[len(kept) :]], minlength=len(profiles)),
    )


def _asked(pods: Sequence[Pod]) -> tuple[tuple[str, ...], Ints, Ints]:
    """Kinds, what each shape asks for, and the shape of each pod. Shapes are shared, so each is looked at once."""
    keys = [(id(pod.shape), *parts_of(pod).values()) for pod in pods]
    demands = {key: _demand(pod) for key, pod in zip(keys, pods, strict=True)}
    kinds = (PODS, *sorted({name for each in demands.values() for name, amount in each.items() if amount} - {PODS}))
    table = np.array([[1, *(each.get(name, 0) for name in kinds[1:])] for each in demands.values()], np.int64)
    index = {key: row for row, key in enumerate(demands)}
    return (
        kinds,
        table.reshape(len(demands), len(kinds)),
        np.array([index[key] for key in keys], np.int64),
    )


def _demand(pod: Pod) -> Mapping[str, int]:
    """Requests, and thousandths of devices in parts as a sum; devices_of_pods.py looks at single devices."""
    asked = asked_by(pod)
    if PARTS.isdisjoint(asked):
        return asked
    claim = claim_in(asked)
    found = {name: amount for name, amount in asked.items() if name not in PARTS}
    return {**found, IN_PARTS: claim.count * claim.milli} if claim is not None and claim.shared else found


def _total(nodes: Sequence[Node], kinds: Sequence[str]) -> Ints:
    def total(node: Node, name: str) -> int:
        if name == IN_PARTS:
            return len(devices_of(node)) * MILLI
        return units(name, node.allocatable.get(name, ANY_NUMBER if name == PODS else 0))

    found = [[total(node, name) for name in kinds] for node in nodes]
    return np.array(found, np.int64).reshape(len(nodes), len(kinds))


def _used(pods: Sequence[Pod], resources: Sequence[str], usage: Usage) -> Floats:
    """Measured, else requested; a pod of which nothing is known is unknown."""
    rows: dict[int, int] = {}
    asked: list[list[float]] = []
    which: list[int] = []
    for pod in pods:
        row = rows.get(id(pod.shape))
        if row is None:
            row = rows[id(pod.shape)] = len(asked)
            requests = pod.shape.requests
            known = any(requests.get(name) for name in resources)
            asked.append([requests.get(name, 0.0) if known else np.nan for name in resources])
        which.append(row)
    requested = np.array(asked, float).reshape(len(asked), len(resources))[which]
    if not usage:
        return requested
    nothing: Mapping[str, float] = {}
    said = [usage.get(f"{pod.namespace}/{pod.name}", nothing) for pod in pods]
    columns = [[each.get(name, np.nan) for each in said] for name in resources]
    measured = np.array(columns, float).reshape(len(resources), len(pods)).T
    some = np.isfinite(measured).any(axis=1)
    instead = np.where(some[:, None], np.nan_to_num(requested), requested)
    return np.where(np.isfinite(measured), measured, instead)


def _pools(nodes: Sequence[Node], label: str | None) -> Ints:
    names = [node.labels.get(label, "") if label else "" for node in nodes]
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return np.array([numbers[name] for name in names], np.int64)
