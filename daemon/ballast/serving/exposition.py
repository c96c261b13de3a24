"""`/metrics`: the counters of `base.metrics`, gauges about the snapshot, the process, and the per-node families."""

from collections.abc import Iterable, Iterator

import numpy as np
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ballast import __version__
from ballast.base.condition_types import OF_THE_LEADER
from ballast.base.metrics import Metrics
from ballast.base.parts import Part
from ballast.model.snapshot import Snapshot
from ballast.serving.board import Board
from ballast.serving.rendering import LOADS, SCORE, SPREAD

BOUNDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Upper bounds of the buckets of ballast_load."""

OF_LEADER = ("ballast_eviction", "ballast_planning_", "ballast_power_", "ballast_batch_")
"""Beginnings of the names of families that a standby leaves out: it would show 0 for what it does not know."""

_EOF = b"# EOF\n"
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}


class Exposition:
    """Renders `/metrics`. It takes milliseconds at 5,000 nodes: call it in a worker thread."""

    def __init__(self, board: Board, metrics: Metrics) -> None:
        self._board = board
        self._metrics = metrics
        self._own = CollectorRegistry()
        self._own.register(_BoardCollector(board))
        ProcessCollector(registry=self._own)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The exposition and its content type: OpenMetrics where `Accept` names it, else Prometheus' text format."""
        self._metrics.leader.set(self._board.leader())
        encode, content_type = choose_encoder(accept)
        rendered = self._board.current()
        counted = _Standbys(self._metrics.registry) if self._board.follows() else self._metrics.registry
        parts = [encode(counted), encode(self._own)]
        level = self._board.node_metrics
        shown = rendered is not None and (level == "all" or (level == "primary" and self._board.leader()))
        families = rendered.families[level == "all"].plain() if rendered is not None and shown else b""
        end = _EOF if parts[0].endswith(_EOF) else b""
        return b"".join([*(part.removesuffix(_EOF) for part in parts), families, end]), content_type


def exported_names() -> frozenset[str]:
    """Every series name that `/metrics` can show, as a dashboard writes it."""
    board, metrics = Board(), Metrics()
    own = _BoardCollector(board).describe()
    families = [*metrics.registry.collect(), *own]
    names = {family.name + suffix for family in families for suffix in _SUFFIXES.get(family.type, ("",))}
    return frozenset({*names, *LOADS, SPREAD[0], SCORE[0], *_PROCESS})


class _Standbys:
    """What a registry has without that of which only the leader knows."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            if family.name.startswith(OF_LEADER):
                continue
            if family.name == "ballast_condition":
                family.samples = [each for each in family.samples if each.labels["type"] not in OF_THE_LEADER]
            yield family


class _BoardCollector(Collector):
    """Gauges about the snapshot; without a snapshot they are absent."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def describe(self) -> Iterable[Metric]:
        histogram = HistogramMetricFamily("ballast_load", GAUGES["ballast_load"], labels=["resource"])
        return [histogram if name == "ballast_load" else _gauge(name) for name in GAUGES]

    def collect(self) -> Iterator[Metric]:
        board = self._board
        build = _gauge("ballast_build_info", "version")
        build.add_metric([__version__], 1)
        yield build
        yield _modes(board)
        yield _gauge("ballast_frozen", value=float(board.frozen))
        snapshot = board.snapshot
        if snapshot is not None:
            yield from _states(snapshot)
            unknown = len(snapshot.nodes) if board.current() is None else snapshot.unknown
            yield _gauge("ballast_nodes_unknown", value=unknown)
            yield _gauge("ballast_snapshot_age_seconds", value=max(0.0, board.clock.wall() - snapshot.time))


def _states(snapshot: Snapshot) -> Iterator[Metric]:
    nodes = _gauge("ballast_nodes", "state")
    for state, count in snapshot.states.counts.items():
        nodes.add_metric([state.value], count)
    yield nodes
    paces = _gauge("ballast_scrape_interval_seconds", "resource")
    for resource, seconds in snapshot.scrape_intervals.items():
        paces.add_metric([resource], seconds)
    yield paces
    yield _distribution(snapshot)


def _modes(board: Board) -> GaugeMetricFamily:
    family = _gauge("ballast_settings_info", "part", "mode")
    modes = {entry["name"]: entry["value"] for entry in board.config}
    for part in Part:
        if mode := modes.get(f"BALLAST_{part.value.upper()}__MODE"):
            family.add_metric([part.value, str(mode)], 1)
    return family


def _distribution(snapshot: Snapshot) -> HistogramMetricFamily:
    """How many known nodes have at most which mean load over the first window."""
    family = HistogramMetricFamily("ballast_load", GAUGES["ballast_load"], labels=["resource"])
    for row, resource in enumerate(snapshot.resources):
        values = snapshot.primary.mean[row]
        values = np.sort(values[np.isfinite(values)])
        counts = np.searchsorted(values, BOUNDS, side="right").tolist()
        buckets = [(str(bound), float(count)) for bound, count in zip(BOUNDS, counts, strict=True)]
        family.add_metric([resource], [*buckets, ("+Inf", float(len(values)))], float(values.sum()))
    return family


def _gauge(name: str, *labels: str, value: float | None = None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, GAUGES[name], value=value, labels=labels or None)


GAUGES = {
    "ballast_build_info": "Always 1; the version is a label.",
    "ballast_frozen": "1 while much of the cluster is silent: nothing is published and /watcher answers 500.",
    "ballast_nodes": "Selected nodes by state: known, young, down, unmeasured, silent or disputed.",
    "ballast_nodes_unknown": "Selected nodes that are not known, for whatever reason; all while cycles have stopped.",
    "ballast_settings_info": "Always 1; the mode of each part is a label.",
    "ballast_load": "Known nodes by their mean load over the first window.",
    "ballast_scrape_interval_seconds": "Median distance of successive newest samples, by resource, once measured.",
    "ballast_snapshot_age_seconds": "Seconds since the evaluation time of the data that is served.",
}
_PROCESS = (
    "process_virtual_memory_bytes",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_max_fds",
)
