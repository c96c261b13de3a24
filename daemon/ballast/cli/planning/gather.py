"""Collects what `plan` and `explain` need of a cluster, from files or from the cluster itself."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import typer

from ballast.actuation.protected import METRICS_SERVER
from ballast.base.errors import BadFile, UsageError
from ballast.cli import files, live
from ballast.cli.files import ClusterFile, name_of
from ballast.cli.metrics_file import errors, loads, metrics
from ballast.cli.place import Place
from ballast.cli.pod_metrics import pod_usage
from ballast.cluster import workloads as wire
from ballast.cluster.objects import attachment_decoding as attached
from ballast.cluster.objects.decoding import Shared, annotation_filter
from ballast.eviction.coming_size import in_coming_size
from ballast.eviction.facts import LISTED, ClusterObjects, Facts, WorkloadKey, promised
from ballast.eviction.run_evidence import with_evidence
from ballast.model.attachments import Attachments, NodeClaim, ScaleUp
from ballast.model.load_limits import named
from ballast.model.node_state import ALWAYS_NEEDED, explained
from ballast.model.sample import Floats
from ballast.model.selector import parse
from ballast.model.workload import Autoscaler, DisruptionBudget, Namespace, Quota, Recommendation, Workload
from ballast.placement.layout import Layout, layout
from ballast.planners.destinations import as_tried
from ballast.settings import Settings


@dataclass(frozen=True)
class Origin:
    """Where the input comes from: files, or a cluster (`live`: that of the settings; or that of `kubeconfig`)."""

    cluster: Path | None
    metrics: Path | None
    pod_metrics: Path | None
    live: bool = False
    kubeconfig: Path | None = None
    context: str | None = None
    namespace: str | None = None

    @property
    def of_cluster(self) -> bool:
        """Whether the input comes from a cluster."""
        return self.live or self.kubeconfig is not None or self.context is not None

    @property
    def place(self) -> Place:
        """Where the cluster is, and Ballast in it."""
        return Place(None, self.namespace, self.kubeconfig, self.context)

    def check(self) -> None:
        """Raises UsageError unless exactly one of both is given."""
        if self.of_cluster == (self.cluster is not None):
            raise UsageError(
                "Give --cluster FILE with the output of `kubectl get nodes,pods,pdb,deploy,rs,sts,ds,hpa,ns,pvc,pv -A "
                "-o json`; or give --live, --kubeconfig FILE or --context NAME to read a running cluster."
            )
        if not self.of_cluster and self.metrics is None:
            raise UsageError("Give --metrics FILE with a load-watcher document, as GET /watcher returns it.")


@dataclass(frozen=True)
class PlanFiles:
    """The input of a plan: the layout of the pods, and the facts that the checks use."""

    arranged: Layout
    facts: Facts
    peak: Floats | None = None
    """[node, resource] as in the layout: the p95 of the load, NaN where the document does not say; None for nowhere."""
    gated: bool = False
    """Whether scheduling gates hold the pod that is explained."""


def gather(origin: Origin, settings: Settings, about: str = "") -> PlanFiles:
    """Reads the input and prints warnings; the pod `about` counts as tried by the scheduler.

    Raises BadFile for invalid input, ClusterError if the cluster refuses.
    """
    with pause_collection():
        return _read_files(origin, settings, about)


def _read_files(origin: Origin, settings: Settings, about: str) -> PlanFiles:
    documents = live.read(settings, origin, origin.place) if origin.of_cluster else _files(origin)
    source = documents.cluster_source
    cluster = files.cluster(documents.cluster, source)
    if settings.cluster.node_selector:
        cluster = _select_nodes(cluster, settings.cluster.node_selector, source)
    tried, gated = as_tried(cluster.pods, about)
    cluster = replace(cluster, pods=tuple(with_evidence(cluster.nodes, tried, settings.publishing.prefix)))
    document = metrics(documents.metrics, documents.metrics_source)
    usage = None
    if documents.pod_metrics is not None:
        usage = pod_usage(documents.pod_metrics, documents.pod_metrics_source)
    behind = supporting_objects(cluster, source, annotation_filter(settings.publishing.prefix))
    _warn(cluster, behind)
    coming = ClusterObjects(pods=cluster.pods, workloads=behind.workloads, recommendations=behind.recommendations)
    cluster = replace(cluster, pods=tuple(in_coming_size(coming)))
    watched = _watched_resources(settings)
    load = loads(cluster, document, watched)
    known = np.isfinite(load)
    kept = [column for column in range(len(watched)) if known[:, column].any()] or list(range(len(watched)))
    arranged = layout(
        cluster.nodes,
        cluster.pods,
        [watched[column] for column in kept],
        load[:, kept],
        usage,
        settings.cluster.pool_label,
        settings.scoring.resources,
        errors(cluster, document, watched)[:, kept],
    ).weighted(settings.scoring.node_weights)
    now = cluster.newest if document.timestamp is None else document.timestamp
    objects = ClusterObjects(
        cluster.nodes,
        cluster.pods,
        behind.workloads,
        behind.budgets,
        behind.autoscalers,
        behind.namespaces,
        dict(_find_protected(behind.workloads)),
        behind.attachments,
        behind.node_claims,
        promised(behind.scale_ups, now),
        quotas=behind.quotas,
        scales=dict(_scales(cluster)),
        revisions=dict(_revisions(cluster)),
    )
    unknown = [node.name for node, row in zip(cluster.nodes, known, strict=True) if not row.any()]
    silent = sum(
        not row.any() and not explained(node, now, settings.windows.lengths[0])
        for node, row in zip(cluster.nodes, known, strict=True)
    )
    peak = loads(cluster, document, [watched[column] for column in kept], p95=True)
    order = sorted(range(len(cluster.nodes)), key=lambda row: cluster.nodes[row].name)
    return PlanFiles(
        arranged,
        Facts(objects, now=now, unknown=unknown, silent=silent),
        peak[order] if np.isfinite(peak).any() else None,
        gated,
    )


def peaks_of(path: Path, arranged: Layout) -> Floats:
    """[node, resource] from a file {node: {resource: load at the p95 of a day}}, NaN where it says nothing.

    Raises BadFile for another form, or loads that are not between 0 and 2.
    """
    source = f"--peak {path}"
    expected = '{"node": {"cpu": 0.6, "memory": 0.7}}, loads as fractions of allocatable between 0 and 2'
    try:
        by_node = msgspec.convert(files.read_document(path, "--peak"), dict[str, dict[str, float]])
    except msgspec.ValidationError as error:
        raise BadFile(f"{source}: expected {expected}; {error}.") from None
    peak = np.full((len(arranged.nodes), len(arranged.resources)), np.nan)
    for row, node in enumerate(arranged.nodes):
        for column, resource in enumerate(arranged.resources):
            peak[row, column] = by_node.get(node.name, {}).get(resource, np.nan)
    known = [value for loads in by_node.values() for value in loads.values()]
    if not all(0 <= value <= 2 for value in known):
        raise BadFile(f"{source}: expected {expected}.")
    return peak


def _scales(cluster: ClusterFile) -> Iterator[tuple[WorkloadKey, int]]:
    """`spec.replicas` of objects of other kinds, as their /scale would tell."""
    for key, replicas in _others(cluster, "spec", "replicas"):
        if isinstance(replicas, int):
            yield key, replicas


def _revisions(cluster: ClusterFile) -> Iterator[tuple[WorkloadKey, str]]:
    """`status.updateRevision` of objects of other kinds: what they create now."""
    for key, revision in _others(cluster, "status", "updateRevision"):
        if isinstance(revision, str) and revision:
            yield key, revision


def _others(cluster: ClusterFile, part: str, field: str) -> Iterator[tuple[WorkloadKey, object]]:
    for kind in cluster.objects.keys() - {*ABSENT, "Pod", "Node"}:
        for item in cluster.objects[kind]:
            there, meta = item.get(part), item.get("metadata")
            if isinstance(there, Mapping) and isinstance(meta, Mapping):
                yield (str(meta.get("namespace") or "default"), kind, str(meta.get("name", ""))), there.get(field)


def _watched_resources(settings: Settings) -> list[str]:
    """cpu and memory where they are configured, and what has a weight or a limit."""
    eviction = settings.eviction
    deciding = named(settings.scoring.resources, eviction.high, eviction.low, eviction.target_high)
    configured = [resource.name for resource in settings.telemetry.resources if resource.name in ALWAYS_NEEDED]
    return configured + [name for name in deciding if name not in ALWAYS_NEEDED]


def _find_protected(workloads: Iterable[Workload]) -> Iterator[tuple[WorkloadKey, str]]:
    """Workloads that the daemon never evicts, with the reason, as far as labels show it.

    Only the daemon knows the Prometheus it reads from, so that is not among them.
    """
    for workload in workloads:
        if any(workload.pod_labels.get(key) == value for key, value in METRICS_SERVER):
            yield (workload.namespace, workload.kind, workload.name), "it is left alone: it is metrics-server"
        elif workload.pod_labels.get("app.kubernetes.io/name") == "ballast":
            yield (workload.namespace, workload.kind, workload.name), "it is left alone: it is Ballast itself"


def variables(origin: Origin) -> dict[str, str]:
    """The environment variables that are equivalent to `--kubeconfig`, `--context` and `--namespace`."""
    return origin.place.variables


def _files(origin: Origin) -> live.Documents:
    assert origin.cluster is not None
    assert origin.metrics is not None
    cluster = files.read_document(origin.cluster, "--cluster")
    metrics_document = files.read_document(origin.metrics, "--metrics")
    usage = None if origin.pod_metrics is None else files.read_document(origin.pod_metrics, "--pod-metrics")
    return live.Documents(
        cluster,
        metrics_document,
        usage,
        f"--cluster {origin.cluster}",
        f"--metrics {origin.metrics}",
        f"--pod-metrics {origin.pod_metrics}",
    )


def _select_nodes(found: files.ClusterFile, text: str, source: str) -> files.ClusterFile:
    selector = parse(text)
    nodes = tuple(node for node in found.nodes if selector.matches(node.labels))
    if not nodes:
        raise BadFile(f"{source}: BALLAST_CLUSTER__NODE_SELECTOR = {text} selects none of the nodes.")
    return replace(found, nodes=nodes)


def _warn(found: files.ClusterFile, behind: SupportingObjects) -> None:
    if not found.pods:
        typer.echo("warning: there are no pods, so nothing can be planned.", err=True)
    elif behind.absent:
        missing = "; ".join(f"no {kind}: {ABSENT[kind]}" for kind in behind.absent)
        typer.echo(f"warning: the cluster file has {missing}.", err=True)
    for item in found.objects.get("ConfigMap", ()):
        data = item.get("data")
        if files.name_of(item) == "ballast-switches" and isinstance(data, Mapping):
            on = [key for key in ("paused", "paused.eviction") if data.get(key, "false") != "false"]
            if on:
                typer.echo(f"warning: evictions are paused by {on[0]} of ConfigMap ballast-switches.", err=True)


@contextmanager
def pause_collection() -> Iterator[None]:
    """No collection of cycles meanwhile: documents have none, and looking through millions of objects takes long."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


T = TypeVar("T")
W = TypeVar("W")

ABSENT = {
    "PodDisruptionBudget": "no disruption budget protects a pod",
    "Deployment": "rollouts and annotations of Deployments are ignored",
    "ReplicaSet": "pods of ReplicaSets are not moved",
    "StatefulSet": "pods of StatefulSets are not moved",
    "DaemonSet": "annotations of DaemonSets are ignored",
    "HorizontalPodAutoscaler": "recent scaling is ignored",
    "Namespace": "annotations of namespaces are ignored",
    "PersistentVolumeClaim": "pods with volume claims are not moved",
    "PersistentVolume": "pods with volume claims are not moved",
}
"""Kinds that the checks use, with the effect when a file has none of them."""


@dataclass(frozen=True)
class SupportingObjects:
    """Objects behind the pods. `absent` lists the kinds of `ABSENT` that the file does not have."""

    workloads: tuple[Workload, ...]
    budgets: tuple[DisruptionBudget, ...]
    autoscalers: tuple[Autoscaler, ...]
    namespaces: tuple[Namespace, ...]
    attachments: Attachments
    node_claims: tuple[NodeClaim, ...]
    quotas: tuple[Quota, ...]
    recommendations: tuple[Recommendation, ...]
    scale_ups: tuple[ScaleUp, ...]
    absent: tuple[str, ...]


def supporting_objects(cluster: ClusterFile, source: str, keep: Callable[[str], bool]) -> SupportingObjects:
    """Reads the objects of a cluster file. Raises BadFile, beginning with `source`, for an object that is invalid."""
    shared = Shared()

    def read(kind: str, form: type[W], build: Callable[[W], T]) -> Iterator[T]:
        for item in cluster.objects.get(kind, ()):
            try:
                yield build(msgspec.convert(item, form))
            except (msgspec.ValidationError, ValueError) as error:
                raise BadFile(f"{source}: {kind} {name_of(item)}: {error}.") from None

    def workloads(kind: str) -> Iterator[Workload]:
        return read(kind, wire.WireWorkload, lambda each: wire.to_workload(kind, each, shared, keep))

    def known(kind: str, form: type[W], build: Callable[[W], T]) -> tuple[T, ...] | None:
        """None where the file does not have the kind."""
        return tuple(read(kind, form, build)) if kind in cluster.objects else None

    return SupportingObjects(
        workloads=tuple(workload for kind in LISTED for workload in workloads(kind)),
        budgets=tuple(read("PodDisruptionBudget", wire.WireBudget, lambda each: wire.to_budget(each, shared))),
        autoscalers=tuple(
            read("HorizontalPodAutoscaler", wire.WireAutoscaler, lambda each: wire.to_autoscaler(each, shared, keep))
        ),
        namespaces=tuple(read("Namespace", wire.WireNamespace, lambda each: wire.to_namespace(each, keep))),
        attachments=Attachments(
            claims=known("PersistentVolumeClaim", attached.WireClaim, attached.to_claim),
            volumes=known("PersistentVolume", attached.WireVolume, attached.to_volume),
            classes=known("StorageClass", attached.WireStorageClass, attached.to_storage_class),
            csi_nodes=known("CSINode", attached.WireCsiNode, attached.to_csi_node),
            slices=known("ResourceSlice", attached.WireSlice, attached.to_slice),
        ),
        node_claims=tuple(read("NodeClaim", attached.WireNodeClaim, attached.to_node_claim)),
        quotas=tuple(read("ResourceQuota", wire.WireQuota, lambda each: wire.to_quota(each, shared))),
        recommendations=tuple(read("VerticalPodAutoscaler", attached.WireVpa, attached.to_recommendation)),
        scale_ups=tuple(read("Event", attached.WireEvent, attached.to_scale_up)),
        absent=tuple(kind for kind in ABSENT if not cluster.objects.get(kind)),
    )
