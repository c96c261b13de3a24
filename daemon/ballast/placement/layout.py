"""Where pods are, what they use and what they ask for, as arrays: what the planners look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ballast.model.devices import MILLI, PARTS, claim_in, devices_of, parts_of
from ballast.model.load_limits import Weights, shares
from ballast.model.node import Node
from ballast.model.node_state import ALWAYS_NEEDED, AMOUNTS
from ballast.model.node_weights import NodeWeights, node_factors
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.scoring.demand import units
from ballast.scoring.profiles import asked_by

PODS = "pods"
IN_PARTS = "devices in parts"
PARTS_OF_HOUR = 12
# A node that does not say how many pods it takes.
ANY_NUMBER = 2**31
Usage = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Layout:
    """What planners read: nodes, their loads and their pods as arrays. `layout` makes one.

    `on` [pod] is the row of the pod's node, so a pod is joined with its node by an index:

        home = layout.on[pod]  # -1: it waits
        share = layout.used[pod] / layout.whole[home]  # [resource]: the part of the node's load that is this pod's
        fits = (layout.free >= layout.asked[pod]).all(axis=1)  # [node]: where its requests have room

    A planner tries moves in a SimulatedPlacement; the layout stays as it is.

    `nodes` are in the order of their names, `pods` in that of (namespace, name), so input order changes nothing.
    `pods` are those on listed nodes, also finished ones, and the waiting ones, whose row in `on` is -1; a pod that is
    nominated to a listed node is counted as on it, but is not `placed` there. `load`
    [node, resource] is a fraction of allocatable, NaN where unknown; `whole` [node, resource] and `used`
    [pod, resource] are cores and bytes, `used` NaN where neither measured nor requested. `free` [node, kind] and
    `asked` [pod, kind] are milli-cores, bytes and pieces, of every kind that a pod asks for; the first is `pods`.
    `pool` [node] numbers the pools. `profiles` [profile, kind] are the distinct requests of all unfinished pods, also
    of those the scheduler has not tried yet, without the kind `pods`; `frequency` [profile] is how many have them.

    Resources beside cpu, memory and pods are ratios of their node: a `whole` is 1, and `used` is a pod's part of it.
    A node that is measured, but not of such a resource, does not have it: it is not `there` [node, resource], its
    `whole` is infinite and it stays unknown in `load`. `weights` [resource] sum to 1.
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
    there: Bools
    weights: Floats
    error: Floats
    """[node, resource]: the standard error of each load, 0 where nothing is known of it."""
    factor: Floats
    """[node, resource]: what the load of a node counts as where loads are evened out; limits are for the load itself.
    """
    hour: Floats
    """[pod, resource]: what pods used on average over the last hour; `used` where that is not known."""
    doubt: Floats | None = None
    """[pod, resource]: the standard error of `used`; None: it is what it is now."""
    now: Floats | None = None
    """[node, resource]: the load now, where `load` is that by the hour; targets keep below the ceiling by both."""

    @property
    def known(self) -> Bools:
        """[node]: whether the load of every resource that it has is known."""
        return np.asarray((np.isfinite(self.load) | ~self.there).all(axis=1))

    def weighted(self, node_weights: NodeWeights) -> "Layout":
        """The same with the weights of its nodes."""
        return replace(self, factor=node_factors(node_weights, self.nodes, self.resources))

    def by_the_hour(self, but: Bools) -> "Layout":
        """The same with what pods used over the last hour, and nodes loaded as with that; `but` some nodes
        [node] are as they are now.

        The hour tells 12 parts of five minutes apart, so its standard error is that of one part / sqrt(12); how far a
        pod is from its hour now says how far one part is.
        """
        there = self.present & (self.on >= 0)
        kept = np.append(but, True)[self.on]
        used = np.where(kept[:, None], self.used, self.hour)
        change = np.zeros_like(self.load)
        np.add.at(change, self.on[there], np.nan_to_num(used - self.used)[there])
        change = np.divide(change, self.whole, out=np.zeros_like(change), where=self.whole > 0)
        load = np.maximum(self.load + change, 0.0)
        doubt = np.abs(self.used - used) / np.sqrt(PARTS_OF_HOUR)
        return replace(self, load=load, used=used, doubt=doubt, now=self.load)

    def doubt_of(self, pods: Ints) -> Floats:
        """[pod, resource]: the standard errors of what these pods use."""
        return np.zeros((len(pods), len(self.resources))) if self.doubt is None else self.doubt[pods]

    @property
    def placed(self) -> Bools:
        """[pod]: whether it is on a node, not only nominated to it."""
        return np.array([bool(pod.node) for pod in self.pods], bool) & (self.on >= 0)


def layout(  # noqa: PLR0913
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    resources: Sequence[str],
    load: Floats,
    usage: Usage | None = None,
    pool_label: str | None = None,
    weights: Weights | None = None,
    error: Floats | None = None,
    hour: Usage | None = None,
) -> Layout:
    """`load` is [node, resource] in the order of `nodes`; `usage` has cores and bytes by namespace/name, `hour` their
    means over the last hour.

    A pod that is not in `usage` counts with its requests. Without `weights` all resources count alike.
    """
    order = sorted(range(len(nodes)), key=lambda row: nodes[row].name)
    ordered = tuple(nodes[row] for row in order)
    rows = {node.name: row for row, node in enumerate(ordered)}
    shown = (pod for pod in pods if pod.node in rows or pod.waiting or pod.promised in rows)
    kept = sorted(shown, key=lambda pod: (pod.namespace, pod.name))
    on = np.array([rows.get(pod.node or pod.promised, -1) for pod in kept], np.int64)
    present = np.array([not pod.finished for pod in kept], bool) & (on >= 0)
    expected = [pod for pod in pods if not pod.finished and (pod.node in rows or not pod.node)]
    kinds, table, place = _tabulate_requests([*kept, *expected])
    requests = table[place[: len(kept)]]
    profiles, alike = np.unique(table[:, 1:], axis=0, return_inverse=True)
    total = _total(ordered, kinds)
    free = total.copy()
    np.subtract.at(free, on[present], requests[present])
    loads = np.array(load, float).reshape(len(nodes), len(resources))[order]
    whole = np.array(
        [[node.allocatable.get(name, 0.0) if name in AMOUNTS else 1.0 for name in resources] for node in ordered], float
    ).reshape(len(nodes), len(resources))
    loads = np.where(whole > 0, loads, np.nan)
    there = _there(loads, resources)

    def used_by(pods: Usage) -> Floats:
        return _used(ordered, kept, on, present, resources, loads, pods, kinds, requests)

    used = used_by(usage or {})
    return Layout(
        nodes=ordered,
        pods=tuple(kept),
        on=on,
        present=present,
        resources=tuple(resources),
        load=loads,
        whole=np.where(there, whole, np.inf),
        used=used,
        hour=used_by({pod: {**now, **hour.get(pod, {})} for pod, now in usage.items()}) if usage and hour else used,
        kinds=kinds,
        total=total,
        free=free,
        asked=requests,
        pool=_pools(ordered, pool_label),
        profiles=profiles,
        frequency=np.bincount(alike.reshape(-1)[place[len(kept) :]], minlength=len(profiles)),
        there=there,
        weights=shares(weights or dict.fromkeys(resources, 1.0), resources),
        error=np.zeros_like(loads) if error is None else np.nan_to_num(error)[order],
        factor=np.ones_like(loads),
    )


def _there(load: Floats, resources: Sequence[str]) -> Bools:
    """[node, resource]: a measured node has what is measured of it, and cpu and memory; of others nothing is known."""
    always = np.array([name in ALWAYS_NEEDED for name in resources], bool)
    known = np.isfinite(load)
    return np.asarray(known | always | ~known.any(axis=1, keepdims=True))


def _tabulate_requests(pods: Sequence[Pod]) -> tuple[tuple[str, ...], Ints, Ints]:
    """Kinds, what each shape asks for, and the shape of each pod. Shapes are shared, so each is looked at once."""
    keys = [(id(pod.shape), *parts_of(pod).values()) for pod in pods]
    demands = {key: _demand(pod) for key, pod in zip(keys, pods, strict=True)}
    kinds = (PODS, *sorted({name for demand in demands.values() for name, amount in demand.items() if amount} - {PODS}))
    table = np.array([[1, *(demand.get(name, 0) for name in kinds[1:])] for demand in demands.values()], np.int64)
    index = {key: row for row, key in enumerate(demands)}
    return (kinds, table.reshape(len(demands), len(kinds)), np.array([index[key] for key in keys], np.int64))


def _demand(pod: Pod) -> Mapping[str, int]:
    """Requests, and thousandths of devices in parts as a sum; DevicesOfPods looks at single devices."""
    requests = asked_by(pod)
    if PARTS.isdisjoint(requests):
        return requests
    claim = claim_in(requests)
    plain = {name: amount for name, amount in requests.items() if name not in PARTS}
    return {**plain, IN_PARTS: claim.count * claim.milli} if claim is not None and claim.shared else plain


def _total(nodes: Sequence[Node], kinds: Sequence[str]) -> Ints:
    def total(node: Node, name: str) -> int:
        if name == IN_PARTS:
            return len(devices_of(node)) * MILLI
        return units(name, node.allocatable.get(name, ANY_NUMBER if name == PODS else 0))

    totals = [[total(node, name) for name in kinds] for node in nodes]
    return np.array(totals, np.int64).reshape(len(nodes), len(kinds))


def _used(  # noqa: PLR0913
    nodes: Sequence[Node],
    pods: Sequence[Pod],
    on: Ints,
    present: Bools,
    resources: Sequence[str],
    load: Floats,
    usage: Usage,
    kinds: Sequence[str],
    asked: Ints,
) -> Floats:
    """[pod, resource]: amounts of cpu and memory, shares of the node's ratio of what else is measured."""
    own = [name for name in resources if name in ALWAYS_NEEDED]
    if len(own) == len(resources):
        return _amounts(pods, resources, usage)
    used = np.zeros((len(pods), len(resources)))
    used[:, [resources.index(name) for name in own]] = _amounts(pods, own, usage)
    cpu = _amounts(pods, ("cpu",), usage)[:, 0]
    cores = np.array([node.allocatable.get("cpu", 0.0) for node in nodes], float)
    cpu_there = load[:, resources.index("cpu")] * cores if "cpu" in resources else np.zeros(len(nodes))
    devices = asked @ np.array([1 / MILLI if kind == IN_PARTS else float(is_device(kind)) for kind in kinds])
    for column, name in enumerate(resources):
        if name == PODS:
            used[:, column] = 1.0
        elif name not in ALWAYS_NEEDED:
            share = pod_shares(name, pods, on, present, usage, devices, cpu, cpu_there)
            used[:, column] = share * np.append(np.nan_to_num(load[:, column]), 0.0)[on]
    return used


def _amounts(pods: Sequence[Pod], resources: Sequence[str], usage: Usage) -> Floats:
    """Measured, else requested; a pod of which nothing is known is unknown."""
    rows: dict[int, int] = {}
    request_rows: list[list[float]] = []
    which: list[int] = []
    for pod in pods:
        row = rows.get(id(pod.shape))
        if row is None:
            row = rows[id(pod.shape)] = len(request_rows)
            requests = pod.shape.requests
            known = any(requests.get(name) for name in resources)
            request_rows.append([requests.get(name, 0.0) if known else np.nan for name in resources])
        which.append(row)
    requested = np.array(request_rows, float).reshape(len(request_rows), len(resources))[which]
    if not usage:
        return requested
    nothing: Mapping[str, float] = {}
    said = [usage.get(f"{pod.namespace}/{pod.name}", nothing) for pod in pods]
    columns = [[usage.get(name, np.nan) for usage in said] for name in resources]
    measured = np.array(columns, float).reshape(len(resources), len(pods)).T
    some = np.isfinite(measured).any(axis=1)
    instead = np.where(some[:, None], np.nan_to_num(requested), requested)
    return np.where(np.isfinite(measured), measured, instead)


def _pools(nodes: Sequence[Node], label: str | None) -> Ints:
    names = [node.labels.get(label, "") if label else "" for node in nodes]
    numbers = {name: number for number, name in enumerate(sorted(set(names)))}
    return np.array([numbers[name] for name in names], np.int64)


BYTES = ("disk", "network")
DEVICE_DOMAINS_EXCLUDED = ("kubernetes.io", "k8s.io")


def is_device(kind: str) -> bool:
    """Whether a request is for devices: an extended resource such as nvidia.com/gpu."""
    domain, slash, _ = kind.partition("/")
    return bool(slash) and not domain.endswith(DEVICE_DOMAINS_EXCLUDED)


def pod_shares(
    resource: str,
    pods: Sequence[Pod],
    on: Ints,
    present: Bools,
    usage: Mapping[str, Mapping[str, float]],
    devices: Floats,
    cpu: Floats,
    cpu_there: Floats,
) -> Floats:
    """[pod]: the share of its node's ratio that is the pod's, 0..1; 0 for a pod that is on no node.

    `devices` [pod] are requested; `cpu` [pod] is used, NaN where unknown, and `cpu_there` [node] is what its node uses,
    NaN where unknown: at least what its pods use together.
    """
    nodes = len(cpu_there)
    of_cpu = _share(cpu, on, present, np.nan_to_num(cpu_there))
    if resource in BYTES:
        said = [usage.get(f"{pod.namespace}/{pod.name}", {}).get(resource) for pod in pods]
        moved = np.array([np.nan if amount is None else amount for amount in said], float)
        measured = np.isfinite(moved)
        by_bytes = _share(np.nan_to_num(moved), on, present, np.zeros(nodes))
        return np.where(measured, by_bytes, of_cpu)
    requested = np.bincount(on[present], devices[present], nodes) > 0
    of_devices = _share(devices, on, present, np.zeros(nodes))
    return np.where(np.append(requested, False)[on], of_devices, of_cpu)


def _share(used: Floats, on: Ints, present: Bools, at_least: Floats) -> Floats:
    """[pod]: `used` of all that pods on its node use, or of what the node is known to use if that is more."""
    known = np.nan_to_num(used)
    total = np.maximum(np.bincount(on[present], known[present], len(at_least)), at_least)
    there = np.append(total, 0.0)[on]
    share = np.divide(used, there, out=np.zeros(len(used)), where=there > 0)
    return np.where(present, share, 0.0)
