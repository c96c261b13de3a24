"""Reads a load-watcher document as the Trimaran plugins do; each plugin uses other entries of a node."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ballast.base.errors import BadFile
from ballast.cli.files import ClusterFile
from ballast.model.node import Node, beside_reserve
from ballast.model.node_state import ALWAYS_NEEDED
from ballast.model.sample import Floats
from ballast.scoring.fleet import Fleet, NodeLoads, amounts
from ballast.scoring.keys import to_number

SAMPLED = 60.0
"""Seconds between samples that a document does not tell: a minute, as node-exporter and metrics-server are read."""

_KINDS = {"cpu": "CPU", "memory": "Memory", "disk": "Storage", "network": "Bandwidth"}
_RESOURCES = {kind: resource for resource, kind in _KINDS.items()}

LARGEST = 1e6
"""Percent; a document with more is in another unit, or broken."""


@dataclass(frozen=True)
class Metric:
    """One entry of a node: `kind` and `operator` as in the document, the value in percent."""

    kind: str
    operator: str
    percent: float


@dataclass(frozen=True)
class MetricsFile:
    """A load-watcher document: times in Unix seconds, or None; `nodes` has the entries of each node in order."""

    timestamp: float | None = None
    window_end: float | None = None
    window_seconds: float | None = None
    nodes: Mapping[str, Sequence[Metric]] = field(default_factory=dict)

    @property
    def resources(self) -> set[str]:
        """What it says anything of."""
        kinds = {entry.kind for entries in self.nodes.values() for entry in entries if entry.operator != "P95"}
        return {_RESOURCES.get(kind) or kind.lower() for kind in kinds}


def kind_of(resource: str) -> str:
    """The type of a resource in load-watcher documents, as the daemon writes it."""
    return _KINDS.get(resource) or resource.upper()


def metrics(document: object, source: str = "metrics") -> MetricsFile:
    """Reads a document. Raises BadFile, beginning with `source`. A value that is not a number counts as unknown."""
    if document is None:
        return MetricsFile()
    if not isinstance(document, Mapping):
        raise BadFile(f"{source}: give a load-watcher document, as GET /watcher returns it.")
    data = document.get("data") or {}
    nodes = data.get("NodeMetricsMap") if isinstance(data, Mapping) else None
    if not isinstance(nodes, Mapping | None):
        raise BadFile(f"{source}: data.NodeMetricsMap is not an object.")
    window = document.get("window") or {}
    within = window if isinstance(window, Mapping) else {}
    end, start = (_time(source, f"window.{name}", within.get(name)) for name in ("end", "start"))
    return MetricsFile(
        timestamp=_time(source, "timestamp", document.get("timestamp")),
        window_end=end,
        window_seconds=None if end is None or start is None else max(0.0, end - start),
        nodes={str(name): tuple(_metrics(source, str(name), entry)) for name, entry in (nodes or {}).items()},
    )


def fleet(cluster: ClusterFile, found: MetricsFile) -> Fleet:
    """The fleet that strategies score.

    As upstream, percent are of allocatable for load-variation and low-risk, of capacity for target-load and peaks;
    those of memory are made percent of what is left beside reserved huge pages first.
    The current time is the timestamp of the document, or else the newest time in the cluster file.
    """
    now = cluster.newest if found.timestamp is None else found.timestamp
    metrics = [found.nodes.get(node.name, ()) for node in cluster.nodes]
    further = found.resources - {"cpu", "memory"}
    return Fleet(
        nodes=cluster.nodes,
        pods=cluster.pods,
        time=now,
        window_end=now if found.window_end is None else found.window_end,
        cpu=_load(map(_statistics("CPU"), metrics)),
        memory=_load(map(_memory_beside_reserve, cluster.nodes, metrics)),
        packing_cpu=_load(_mean(reversed(entries)) for entries in metrics),
        power_cpu=_load(map(_mean, metrics)),
        cpu_base=amounts("cpu", (node.capacity for node in cluster.nodes)),
        further={name: _load(map(_statistics(kind_of(name)), metrics)) for name in sorted(further)},
    )


def loads(cluster: ClusterFile, found: MetricsFile, resources: Sequence[str], *, p95: bool = False) -> Floats:
    """Load [node, resource], NaN without a mean: fractions of allocatable from percent of capacity for cpu and memory,
    ratios for others. With `p95` the last p95 instead of the mean. The document counts reserved huge pages as used;
    they are no load."""
    return _loads(cluster, found, resources, _p95 if p95 else _percent, reserve=True)


def _loads(
    cluster: ClusterFile,
    found: MetricsFile,
    resources: Sequence[str],
    value: Callable[[Sequence[Metric], str], float | None],
    *,
    reserve: bool,
) -> Floats:
    """Without `reserve` nothing is taken off, as for deviations."""
    load = np.full((len(cluster.nodes), len(resources)), np.nan)
    for row, node in enumerate(cluster.nodes):
        for column, resource in enumerate(resources):
            percent = value(found.nodes.get(node.name, ()), kind_of(resource))
            if resource not in ALWAYS_NEEDED:
                load[row, column] = np.nan if percent is None or percent < 0 else percent / 100
                continue
            capacity, allocatable = node.capacity.get(resource, 0.0), node.allocatable.get(resource, 0.0)
            if percent is not None and percent >= 0 and allocatable > 0:
                kept = node.reserve if reserve and resource == "memory" else 0.0
                load[row, column] = float(beside_reserve(percent / 100, kept)) * (capacity or allocatable) / allocatable
    return load


def errors(cluster: ClusterFile, found: MetricsFile, resources: Sequence[str]) -> Floats:
    """The standard errors of `loads`, 0 without a deviation; its window counts as one of a sample a minute."""
    deviations = {
        name: [Metric(entry.kind, "AVG", entry.percent) for entry in entries if entry.operator == "STD"]
        for name, entries in found.nodes.items()
    }
    samples = max(1.0, (found.window_seconds or 0.0) / SAMPLED)
    load = _loads(cluster, replace(found, nodes=deviations), resources, _percent, reserve=False)
    return np.nan_to_num(load) / math.sqrt(samples)


def _percent(entries: Sequence[Metric], kind: str) -> float | None:
    """The last mean, else the last latest value."""
    means = [entry.percent for entry in entries if entry.kind == kind and entry.operator == "AVG"]
    latest = [entry.percent for entry in entries if entry.kind == kind and entry.operator in ("", "Latest")]
    values = means or latest
    return values[-1] if values else None


def _p95(entries: Sequence[Metric], kind: str) -> float | None:
    """Under its own type, as Ballast writes it, or under that of the mean."""
    values = [entry.percent for entry in entries if entry.operator == "P95" and entry.kind in (kind, f"{kind}P95")]
    return values[-1] if values else None


def _statistics(kind: str) -> Callable[[Sequence[Metric]], tuple[float, float] | None]:
    """Mean and standard deviation (source: scheduler-plugins pkg/trimaran/resourcestats.go, GetResourceData)."""

    def of(entries: Sequence[Metric]) -> tuple[float, float] | None:
        mean, std, averaged, valid = 0.0, 0.0, False, False
        for entry in entries:
            if entry.kind != kind:
                continue
            valid = True
            if entry.operator == "AVG":
                mean, averaged = entry.percent, True
            elif entry.operator == "STD":
                std = entry.percent
            elif entry.operator in ("", "Latest") and not averaged:
                mean = entry.percent
        return (mean, std) if valid else None

    return of


def _memory_beside_reserve(node: Node, entries: Sequence[Metric]) -> tuple[float, float] | None:
    """Mean and standard deviation of memory in percent of what is left beside the node's reserved huge pages."""
    found, left = _statistics("Memory")(entries), 1 - node.reserve
    return found and (100 * float(beside_reserve(found[0] / 100, node.reserve)) / left, found[1] / left)


def _mean(entries: Iterable[Metric]) -> tuple[float, float] | None:
    """The first cpu mean. TargetLoadPacking uses the last one (pass the entries in reverse), Peaks the first."""
    return next(((e.percent, 0.0) for e in entries if e.kind == "CPU" and e.operator in ("AVG", "Latest")), None)


def _load(values: Iterable[tuple[float, float] | None]) -> NodeLoads:
    pairs = list(values)
    mean, std = (np.array([pair[part] if pair else 0.0 for pair in pairs], float) for part in (0, 1))
    return NodeLoads(mean, std, np.array([pair is not None for pair in pairs], bool))


def _metrics(source: str, node: str, entry: object) -> Iterable[Metric]:
    entries = entry.get("metrics") if isinstance(entry, Mapping) else None
    if not isinstance(entries, list | None):
        raise BadFile(f"{source}: the metrics of node {node} are not a list.")
    for metric in entries or ():
        if not isinstance(metric, Mapping):
            raise BadFile(f"{source}: a metric of node {node} is not an object.")
        value = metric.get("value")
        percent = None if isinstance(value, str) else to_number(value)
        if percent is not None and abs(percent) > LARGEST:
            raise BadFile(
                f"{source}: {metric.get('type')} of node {node} is {percent:g} percent; at most {LARGEST:g} can be."
            )
        if percent is not None:
            yield Metric(str(metric.get("type", "")), str(metric.get("operator", "")), percent)


def _time(source: str, key: str, value: object) -> float | None:
    if value is None:
        return None
    seconds = None if isinstance(value, str) else to_number(value)
    if seconds is None:
        raise BadFile(f"{source}: {key} is {str(value)[:40]!r}; give Unix seconds.")
    return seconds
