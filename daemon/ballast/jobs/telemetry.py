"""The telemetry cycle: readings enter the windows, the windows become a snapshot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import structlog

from ballast.clock import Clock
from ballast.cluster.context import Context
from ballast.jobs.witnesses import Witness, disagreements
from ballast.metrics import Metrics
from ballast.model.node import Node
from ballast.model.sample import Bools, Floats, Ints, Reading
from ballast.model.snapshot import Snapshot, Window
from ballast.settings import Settings
from ballast.telemetry.intake import default_max_age
from ballast.telemetry.metrics_server import MetricsServerSource
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus import PrometheusSource
from ballast.telemetry.source import Source
from ballast.windows.ring import Ring
from ballast.windows.statistics import WindowRules, summarise_all

log = structlog.get_logger("ballast.telemetry")

DECIDING = ("cpu", "memory")
BACKFILL_ATTEMPTS = 3

Array = TypeVar("Array", Floats, Ints, Bools)


class TelemetryCycle:
    """One ring per source. The primary source is asked for every resource; the fallback for those it could not give.

    Prometheus is read on the grid of the interval; metrics-server has new samples at its own pace, told by their gaps.
    A resource is taken from the fallback only while the primary knows it for no node at all, so windows of the two
    never mix, neither in one node nor across nodes.
    """

    def __init__(
        self,
        primary: Source,
        fallback: Source | None,
        *,
        resources: Sequence[str],
        interval: float,
        lengths: Mapping[str, float],
        min_coverage: float,
        min_samples: int,
        max_age: float,
        offset: float,
        pool_label: str | None = None,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._primary = primary
        self._fallback = fallback
        self._resources = tuple(resources)
        self._interval = interval
        self._lengths = dict(lengths)
        self._max_age = max_age
        self._offset = offset
        self._pool_label = pool_label
        self._clock = clock
        self._metrics = metrics
        self._rules = {
            source.name: WindowRules(
                min_coverage, min_samples, max_age, interval if source.name == "prometheus" else None
            )
            for source in (primary, fallback)
            if source is not None
        }
        span = max(self._lengths.values())
        self._rings = {name: Ring(self._resources, interval, span) for name in self._rules}
        self._read_until = dict.fromkeys(self._resources, -math.inf)
        self._attempts = 0
        self._first_seen: dict[str, float] = {}
        self._witness = Witness()
        self.disagreements: tuple[str, ...] = ()
        self.last: Reading | None = None
        self.fallback_reading: Reading | None = None

    @property
    def source(self) -> Source:
        """The primary source."""
        return self._primary

    @property
    def primary(self) -> str:
        """Name of the primary source."""
        return self._primary.name

    def due(self) -> float:
        """The evaluation time of a cycle that starts now: the newest multiple of the interval as old as the offset."""
        return math.floor((self._clock.wall() - self._offset) / self._interval) * self._interval

    def cycle(self, names: NodeNames) -> Snapshot:
        """Reads, ingests and summarises the nodes of `names`, which are sorted by name."""
        at = self.due()
        for ring in self._rings.values():
            ring.advance(at)
        reading = self._primary.read(at, names)
        self._ingest(self._primary, reading, names)
        self._backfill(reading, names)
        self.last = reading
        self.fallback_reading = None
        if self._fallback is not None:
            given = {name for name, samples in reading.samples.items() if samples.rows.size}
            able = [name for name in self._fallback.resources if name in self._resources]
            needed = [name for name in able if name not in given]
            if wanted := self._witness.wanted(at, able, needed):
                spare = self._fallback.read(at, names, wanted)
                self._witness.answered(at, failed=bool(spare.problems))
                self._ingest(self._fallback, spare, names)
                self.fallback_reading = spare if needed else None
        return self._snapshot(at, names.nodes)

    def close(self) -> None:
        self._primary.close()
        if self._fallback is not None:
            self._fallback.close()

    def _backfill(self, reading: Reading, names: NodeNames) -> None:
        """Asks for what the resources of `reading` have missed: everything at the start, the gap after an outage.

        A clock that was set back starts anew too: what was read before was stamped by another time.
        """
        given = [resource for resource, samples in reading.samples.items() if samples.rows.size]
        if not given:
            return
        oldest = reading.at - max(self._lengths.values()) + self._interval
        since = min(self._read_until[resource] for resource in given)
        start = max(oldest, since + self._interval) if since <= reading.at else oldest
        end = reading.at - self._interval
        if start <= end:
            self._attempts += 1
            problems: set[str] = set()
            for past in self._primary.backfill(start, end, self._interval, names):
                self._ingest(self._primary, past, names)
                problems.update(past.problems.values())
            if problems:
                log.warning("the past could not be read", attempt=self._attempts, error="; ".join(sorted(problems)))
                if self._attempts < BACKFILL_ATTEMPTS:
                    return
        self._attempts = 0
        self._read_until.update(dict.fromkeys(given, reading.at))

    def _ingest(self, source: Source, reading: Reading, names: NodeNames) -> None:
        ring = self._rings[source.name]
        columns = ring.columns([node.name for node in names.nodes])
        for resource, samples in reading.samples.items():
            ring.write(resource, reading.at, columns[samples.rows], samples.values, samples.times)
        for reason, count in reading.rejected.items():
            self._metrics.samples_rejected.labels(reason).inc(count)

    def _snapshot(self, at: float, nodes: Sequence[Node]) -> Snapshot:
        node_names = [node.name for node in nodes]
        share = _allocatable_share(nodes, self._resources)
        scale = np.divide(1.0, share)
        windows, newest = self._summarise(self._primary.name, node_names, at, scale)
        sources = dict.fromkeys(self._resources, self._primary.name)
        if self._fallback is not None:
            windows, newest = self._lend(windows, newest, sources, node_names, at, scale)
        known, young = self._states(at, node_names, windows, newest)
        return Snapshot(
            time=at,
            nodes=tuple(nodes),
            resources=self._resources,
            windows=windows,
            newest=newest,
            allocatable_share=share,
            known=known,
            young=young,
            sources=sources,
            pools=tuple(node.labels.get(self._pool_label, "") for node in nodes) if self._pool_label else (),
        )

    def _summarise(
        self, source: str, names: Sequence[str], at: float, scale: Floats
    ) -> tuple[dict[str, Window], Floats]:
        ring = self._rings[source]
        columns: Ints = ring.columns(names)
        windows = summarise_all(ring, columns, lengths=self._lengths, end=at, rules=self._rules[source], scale=scale)
        return dict(windows), ring.newest[:, columns]

    def _lend(
        self,
        windows: dict[str, Window],
        newest: Floats,
        sources: dict[str, str],
        names: Sequence[str],
        at: float,
        scale: Floats,
    ) -> tuple[dict[str, Window], Floats]:
        fallback = self._fallback
        assert fallback is not None
        silent = [
            index
            for index, name in enumerate(self._resources)
            if name in fallback.resources and not any(window.known[index].any() for window in windows.values())
        ]
        if not silent and self._witness.asked != at:
            return windows, newest
        spare, spare_newest = self._summarise(fallback.name, names, at, scale)
        primary = next(iter(windows))
        self.disagreements = tuple(disagreements(self._resources, windows[primary], spare[primary], sources))
        useful = [index for index in silent if any(window.known[index].any() for window in spare.values())]
        for index in useful:
            sources[self._resources[index]] = fallback.name
        newest = _mixed(newest, spare_newest, useful)
        return {name: _with_rows(window, spare[name], useful) for name, window in windows.items()}, newest

    def _states(
        self, at: float, names: Sequence[str], windows: Mapping[str, Window], newest: Floats
    ) -> tuple[Bools, Bools]:
        """Which nodes are known, and which are young: not known yet, but not silent for MAX_AGE either."""
        deciding = [index for index, name in enumerate(self._resources) if name in DECIDING] or list(
            range(len(self._resources))
        )
        primary = next(iter(windows.values()))
        known: Bools = np.array(primary.known[deciding].any(axis=0), np.bool_)
        now = self._clock.monotonic()
        self._first_seen = {name: self._first_seen.get(name, now) for name in names}
        waited = np.array([now - self._first_seen[name] for name in names])
        latest = newest[deciding]
        ever = ~np.isnan(latest).all(axis=0)
        fresh = (np.nan_to_num(latest, nan=-np.inf) >= at - self._max_age).any(axis=0)
        young: Bools = np.array(~known & np.where(ever, fresh, waited < self._max_age), np.bool_)
        return known, young


def build(context: Context) -> TelemetryCycle:
    """Of the settings; metrics-server stands in for Prometheus where that is silent."""
    settings = context.settings
    metrics_server = MetricsServerSource(context.api.get, settings, context.metrics)
    primary: Source = metrics_server
    fallback: Source | None = None
    if settings.telemetry.source == "prometheus":
        primary, fallback = PrometheusSource(settings, context.metrics), metrics_server
    return TelemetryCycle(
        primary,
        fallback,
        resources=[resource.name for resource in settings.telemetry.resources],
        interval=settings.telemetry.interval,
        lengths={length.text: float(length) for length in settings.windows.lengths},
        min_coverage=settings.windows.min_coverage,
        min_samples=settings.windows.min_samples,
        max_age=_max_age(settings),
        offset=settings.telemetry.offset,
        pool_label=settings.cluster.pool_label,
        clock=context.clock,
        metrics=context.metrics,
    )


def stale_after(settings: Settings) -> float:
    """Seconds from which a snapshot is too old to be served as current, or to be acted upon."""
    return max(_max_age(settings), 3 * settings.telemetry.interval) + settings.telemetry.offset


def _max_age(settings: Settings) -> float:
    return settings.windows.max_age or default_max_age(settings.telemetry.interval)


def source_title(snapshot: Snapshot) -> str:
    """Where cpu and memory come from, as load-watcher calls it: metrics-server only where Prometheus gives neither."""
    sources = {snapshot.sources[name] for name in DECIDING if name in snapshot.sources}
    return "KubernetesMetricsServer" if sources == {"metrics-server"} else "Prometheus"


def _allocatable_share(nodes: Sequence[Node], resources: Sequence[str]) -> Floats:
    """allocatable / capacity for cpu and memory, 1 for ratios of time or link speed and where capacity is not told."""
    share = np.ones((len(resources), len(nodes)))
    for index, resource in enumerate(resources):
        if resource in DECIDING:
            capacity = np.array([node.capacity.get(resource, 0.0) for node in nodes])
            allocatable = np.array([node.allocatable.get(resource, 0.0) for node in nodes])
            np.divide(allocatable, capacity, out=share[index], where=(capacity > 0) & (allocatable > 0))
    return share


def _with_rows(window: Window, other: Window, rows: list[int]) -> Window:
    return replace(
        window,
        mean=_mixed(window.mean, other.mean, rows),
        std=_mixed(window.std, other.std, rows),
        p95=_mixed(window.p95, other.p95, rows),
        count=_mixed(window.count, other.count, rows),
        coverage=_mixed(window.coverage, other.coverage, rows),
        known=_mixed(window.known, other.known, rows),
    )


def _mixed(array: Array, other: Array, rows: list[int]) -> Array:
    result = array.copy()
    result[rows] = other[rows]
    return result
