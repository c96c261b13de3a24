"""A placement problem from a cluster: from the files that kubectl prints, or from the cluster itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from ballast.base.text import named
from ballast.cli import files, live
from ballast.cli.metrics_file import MetricsFile, loads, metrics
from ballast.cli.planning.eviction_settings import settings_of
from ballast.cli.planning.gather import Origin, variables
from ballast.cli.pod_metrics import pod_usage
from ballast.model.devices import MILLI, claim_of, devices_of
from ballast.model.node_weights import NO_NODE_WEIGHTS, NodeWeights, node_factors
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats, Ints
from ballast.model.selector import parse
from ballast.placement.layout import IN_PARTS, Layout, layout
from ballast.solving import Problem, arrange
from ballast.solving.device_shares import Devices, DeviceShare, DeviceShares
from ballast_lab.solvers.pod_rules import PodRules
from ballast_lab.solvers.problem_file import check_weights

NEEDED = ("cpu", "memory")
KINDS = {"disk": "Storage", "network": "Bandwidth"}
"""How a load-watcher document calls them."""


def problem_of_cluster(origin: Origin, weights: Mapping[str, float] | None) -> Problem:
    """Raises UsageError for a wrong combination of options, BadFile for invalid input, ClusterError of the cluster."""
    origin.check()
    settings, _ = settings_of((), variables(origin))
    documents = live.read(settings, origin, origin.place) if origin.of_cluster else _files(origin)
    found = files.cluster(documents.cluster, documents.cluster_source)
    if settings.cluster.node_selector:
        selector = parse(settings.cluster.node_selector)
        found = replace(found, nodes=tuple(node for node in found.nodes if selector.matches(node.labels)))
    document = metrics(documents.metrics, documents.metrics_source)
    usage: dict[str, dict[str, float]] = {}
    if documents.pod_metrics is not None:
        usage = pod_usage(documents.pod_metrics, documents.pod_metrics_source)
    return cluster_problem(found, document, usage, weights, settings.scoring.node_weights)


def cluster_problem(
    found: files.ClusterFile,
    document: MetricsFile,
    usage: Mapping[str, Mapping[str, float]],
    weights: Mapping[str, float] | None = None,
    node_weights: NodeWeights = NO_NODE_WEIGHTS,
) -> Problem:
    """The problem of all pods that run or wait; cpu and memory count 1 each without `weights`.

    A pod's part of disk or network is its share of the bytes of all pods there times the node's ratio. Pods of
    DaemonSets, static pods, those with volume or resource claims, those that are being deleted, and those on nodes
    whose load is unknown stay where they are. Waiting pods with resource claims are left out.
    """
    unfinished = [_expected(pod) for pod in found.pods if not pod.finished]
    # Which nodes can satisfy a claim of a device is up to its driver.
    claiming = [pod for pod in unfinished if pod.template.resource_claims and not pod.node]
    pods = [pod for pod in unfinished if pod.node or not pod.template.resource_claims]
    arranged = layout(found.nodes, pods, NEEDED, loads(found, document, NEEDED), usage)
    order = {node.name: row for row, node in enumerate(arranged.nodes)}
    extra = [name for name, kind in KINDS.items() if any(e.kind == kind for es in document.nodes.values() for e in es)]
    ratio = np.array([[_ratio(document, node.name, name) for name in extra] for node in arranged.nodes], float)
    ratio = ratio.reshape(len(order), len(extra))
    names = [f"{pod.namespace}/{pod.name}" for pod in arranged.pods]
    bytes_ = np.array([[usage.get(name, {}).get(each, np.nan) for each in extra] for name in names], float)
    part = _parts(arranged.on, bytes_.reshape(len(names), len(extra)), ratio)
    known: Bools = np.asarray(np.isfinite(arranged.load).all(axis=1), bool)
    capacity = np.concatenate([arranged.whole, np.where(np.isfinite(ratio), 1.0, np.nan)], axis=1)
    capacity[~known, : len(NEEDED)] = np.nan
    used = np.concatenate([arranged.used, part], axis=1)
    load = np.concatenate([np.where(known[:, None], arranged.load, np.nan) * arranged.whole, ratio], axis=1)
    resources = [*NEEDED, *extra]
    check_weights(weights or {}, resources)
    weight = {name: float(name in NEEDED) for name in resources} if weights is None else weights
    counting = [column for column, name in enumerate(resources) if weight.get(name, 0.0) > 0]
    reasons = _reasons(arranged, known, used[:, counting], [resources[column] for column in counting])
    fixed: Bools = np.logical_or.reduce([*reasons.values(), np.zeros(len(arranged.pods), bool)])
    use = np.nan_to_num(used)
    namespaces = {
        files.name_of(each): (each.get("metadata") or {}).get("labels") or {}
        for each in found.objects.get("Namespace", ())
    }
    rules = PodRules(arranged.nodes, arranged.pods, arranged.on, fixed, known, namespaces)
    return arrange(
        [node.name for node in arranged.nodes],
        names,
        resources,
        capacity=capacity,
        use=use,
        weights=np.array([weight.get(name, 0.0) for name in resources]),
        base=_base(arranged.on, use, load),
        factor=node_factors(node_weights, arranged.nodes, resources),
        kinds=arranged.kinds,
        room=_room(arranged, fixed),
        request=arranged.asked.astype(float),
        home=arranged.on,
        rules=rules.rules(),
        devices=_devices(arranged, fixed),
        notes=[
            *_notes(arranged, known, ratio, extra, weight, weights, reasons),
            *(
                f"{pod.namespace}/{pod.name} is left out: it has resource claims, and waits for a node."
                for pod in claiming
            ),
        ],
    )


def _files(origin: Origin) -> live.Documents:
    assert origin.cluster is not None
    assert origin.metrics is not None
    usage = None if origin.pod_metrics is None else files.read_document(origin.pod_metrics, "--pod-metrics")
    return live.Documents(
        files.read_document(origin.cluster, "--cluster"),
        files.read_document(origin.metrics, "--metrics"),
        usage,
        f"--cluster {origin.cluster}",
        f"--metrics {origin.metrics}",
        f"--pod-metrics {origin.pod_metrics}",
    )


def _expected(pod: Pod) -> Pod:
    """A pod without a node is to be placed, whether or not the scheduler has tried it."""
    if pod.node or pod.deleting:
        return pod
    return msgspec.structs.replace(pod, phase="Pending", waiting_since=pod.waiting_since or 0.0, gates=())


def _ratio(document: MetricsFile, node: str, resource: str) -> float:
    entries = [each for each in document.nodes.get(node, ()) if each.kind == KINDS[resource]]
    means = [each.percent for each in entries if each.operator == "AVG"]
    latest = [each.percent for each in entries if each.operator in ("", "Latest")]
    values = means or latest
    return values[-1] / 100 if values and values[-1] >= 0 else np.nan


def _parts(on: Ints, amount: Floats, ratio: Floats) -> Floats:
    """[pod, resource]: bytes / all pod bytes on the node times its ratio; unplaced pods by the mean of all nodes."""
    found = np.full(amount.shape, np.nan)
    for column in range(amount.shape[1]):
        placed = (on >= 0) & np.isfinite(amount[:, column])
        whole = np.bincount(on[placed], weights=amount[placed, column], minlength=len(ratio))
        there = (whole > 0) & np.isfinite(ratio[:, column])
        per_byte = np.divide(ratio[:, column], whole, out=np.full(len(whole), np.nan), where=there)
        found[placed, column] = amount[placed, column] * per_byte[on[placed]]
        idle = placed & (amount[:, column] == 0)
        found[idle, column] = 0.0
        if there.any():
            waiting = (on < 0) & np.isfinite(amount[:, column])
            found[waiting, column] = amount[waiting, column] * ratio[there, column].sum() / whole[there].sum()
    return found


def _reasons(arranged: Layout, known: Bools, used: Floats, counting: Sequence[str]) -> dict[str, Bools]:
    """[pod] by reason: those that stay on their node; each pod counts for the first reason that it has."""

    def of_pods(holds: Callable[[Pod], object]) -> Bools:
        return np.array([bool(holds(pod)) for pod in arranged.pods], bool)

    reasons = {
        "are being deleted": of_pods(lambda pod: pod.deleting),
        "have volume claims": of_pods(lambda pod: pod.template.volume_claims),
        "have resource claims": of_pods(lambda pod: pod.template.resource_claims),
        "are of DaemonSets or static": of_pods(
            lambda pod: pod.owner is not None and pod.owner.kind in ("DaemonSet", "Node")
        ),
        "are on nodes of unknown load": ~known[np.maximum(arranged.on, 0)],
    }
    for column, name in enumerate(counting):
        where = f" (containers[].usage.{name} in --pod-metrics)" if name in KINDS else ""
        reasons[f"have no figure for {name}{where}"] = ~np.isfinite(used[:, column])
    staying = arranged.on >= 0
    for reason, holds in reasons.items():
        reasons[reason] = staying & holds
        staying = staying & ~holds
    return reasons


def _base(on: Ints, use: Floats, load: Floats) -> Floats:
    """[node, resource]: what the node uses beyond its pods."""
    placed = on >= 0
    sums = [np.bincount(on[placed], weights=use[placed, k], minlength=len(load)) for k in range(load.shape[1])]
    return np.asarray(np.where(np.isfinite(load), np.maximum(load - np.stack(sums, axis=1), 0.0), np.nan))


def _devices(arranged: Layout, fixed: Bools) -> Devices | None:
    """Devices that are handed out in parts. A pod that stays keeps the devices that its annotations name."""
    names = [devices_of(node) for node in arranged.nodes]
    claims = [claim_of(pod) for pod in arranged.pods]
    if not any(names) or not any(claims):
        return None
    left = [dict.fromkeys(devices, float(MILLI)) for devices in names]
    asked: list[DeviceShares] = []
    for pod, claim in enumerate(claims):
        node = int(arranged.on[pod])
        if claim is None or (fixed[pod] and claim.on is not None and node >= 0):
            for device, milli in claim.on if claim is not None and claim.on else ():
                left[node][device] = max(0.0, left[node].get(device, 0.0) - milli)
            asked.append(())
            continue
        asked.append((DeviceShare(IN_PARTS, (float(claim.milli),)),) * claim.count)
    whole = any(claim is not None and not claim.shared for claim in claims)
    there = [
        tuple(DeviceShare(IN_PARTS, (left[row][device],)) for device in devices) if devices or not whole else None
        for row, devices in enumerate(names)
    ]
    return Devices(tuple(there), tuple(asked))


def _room(arranged: Layout, fixed: Bools) -> Floats:
    """Allocatable, and never less than what pods hold that stay anyway."""
    held = np.zeros(arranged.total.shape)
    np.add.at(held, arranged.on[fixed], arranged.asked[fixed])
    return np.asarray(np.maximum(arranged.total.astype(float), held))


def _notes(
    arranged: Layout,
    known: Bools,
    ratio: Floats,
    extra: Sequence[str],
    weight: Mapping[str, float],
    given: Mapping[str, float] | None,
    reasons: Mapping[str, Bools],
) -> Iterator[str]:
    dark = [node.name for node, good in zip(arranged.nodes, known, strict=True) if not good]
    if dark:
        yield f"The load of {named(dark)} is unknown: their pods stay, and no pod goes there."
    for column, name in enumerate(extra):
        if given is None:
            yield f"{name} is shown but does not count. To count it, give --weights cpu=1,memory=1,{name}=1."
        without = [node.name for node, r in zip(arranged.nodes, ratio[:, column], strict=True) if not np.isfinite(r)]
        if without and weight.get(name, 0.0) > 0:
            yield f"{name} does not count for {named(without)}: the speed of the link or disk is unknown."
    counts = {reason: int(holds.sum()) for reason, holds in reasons.items() if holds.any()}
    if counts:
        why = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        yield f"{sum(counts.values())} of {len(arranged.pods)} pods stay on their node: {why}."
