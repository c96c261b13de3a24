"""The telemetry cycle: readings enter the windows, the windows become a snapshot."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import structlog

from ballast.base.clock import Clock
from ballast.base.metrics import Metrics
from ballast.cluster.context import Context
from ballast.jobs.witnesses import Disputes, Witness, disagreements, paired_gap, unexplained
from ballast.model.node import Node
from ballast.model.node_state import NodeEvidence, NodeStates, node_states
from ballast.model.sample import REJECTION_REASONS, Bools, Floats, Ints, Reading
from ballast.model.snapshot import Snapshot, Window, mixed
from ballast.settings import Settings
from ballast.telemetry.intake import default_max_age
from ballast.telemetry.metrics_server import MetricsServerSource
from ballast.telemetry.node_claims import Contest
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast.telemetry.source import Source
from ballast.windows.node_lives import NodeLives
from ballast.windows.ring import Ring
from ballast.windows.statistics import WindowRules, summarise_all

log = structlog.get_logger("ballast.telemetry")

DECIDING = ("cpu", "memory")
STARVED_FROM = 0.2
"""Share of the first window that a node may lose to its hypervisor, or waiting for disks or memory."""
BACKFILL_ATTEMPTS = 3


@dataclass(frozen=True)
class TelemetryRules:
    """What is read, and when it counts. Times in seconds."""

    resources: Sequence[str]
    interval: float
    lengths: Mapping[str, float]
    """The windows by name; the first is the primary one."""
    min_coverage: float
    min_samples: int
    max_age: float | None = None
    """None: it follows the scrapes."""
    offset: float = 0.0
    """The least age of an evaluation time."""
    forget_after: float = 3600.0
    """How long a resource that a node may lack is missed, once it was there."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """By resource; without any, cpu and memory alone are needed."""
    pool_label: str | None = None


class TelemetryCycle:
    """One ring per source. The primary source is asked for every resource; the fallback for those it could not give.

    Prometheus is read on the grid of the interval; metrics-server has new samples at its own pace, told by their gaps.
    A resource is taken from the fallback only while the primary knows it for no node at all, so windows of the two
    never mix, neither in one node nor across nodes.
    """

    def __init__(
        self, primary: Source, fallback: Source | None, rules: TelemetryRules, *, clock: Clock, metrics: Metrics
    ) -> None:
        self._primary = primary
        self._fallback = fallback
        self._rules = rules
        self._resources = tuple(rules.resources)
        self._clock = clock
        self._metrics = metrics
        for reason in REJECTION_REASONS:
            metrics.samples_rejected.labels(reason)
        span = max(rules.lengths.values())
        sources = [source.name for source in (primary, fallback) if source is not None]
        self._rings = {name: Ring(self._resources, rules.interval, span) for name in sources}
        self._starved = Ring(("starved",), rules.interval, span)
        self._working_set = Ring(("memory",), rules.interval, span)
        self._paces: dict[str, dict[str, float]] = {name: {} for name in sources}
        self._read_until = dict.fromkeys(self._resources, -math.inf)
        self._attempts = 0
        self._lives = NodeLives()
        self._witness = Witness()
        self.disputes = Disputes(rules.forget_after)
        self.disagreements: tuple[str, ...] = ()
        self._claimed: frozenset[Contest] = frozenset()
        self.contests: tuple[Contest, ...] = ()
        """What several nodes claim, in this cycle and the one before: two that swap addresses do for a moment."""
        self._matched_by: dict[str, tuple[str, bool]] = {}
        self.last: Reading | None = None
        self.witness_problem = ""
        """Why metrics-server could not be read when it was asked last."""

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
        return math.floor((self._clock.wall() - self._rules.offset) / self._rules.interval) * self._rules.interval

    def cycle(self, names: NodeNames) -> Snapshot:
        """Reads, ingests and summarises the nodes of `names`, which are sorted by name."""
        at = self.due()
        self._lives.observe(names.nodes, self._clock.monotonic())
        for ring in (*self._rings.values(), self._starved, self._working_set):
            ring.advance(at)
        reading = self._primary.read(at, names)
        self._backfill(reading, names)
        self._ingest(self._primary, reading, names)
        self.last = reading
        if self._fallback is not None:
            measured = {name for name, samples in reading.samples.items() if samples.rows.size}
            able = [name for name in self._fallback.resources if name in self._resources]
            needed = self.disputes.suspects or any(name not in measured for name in able)
            if resources := self._witness.choose(at, able, needed=needed):
                spare = self._fallback.read(at, names, resources)
                self.witness_problem = "; ".join(sorted(set(spare.problems.values())))
                self._witness.record_answer(at, failed=bool(spare.problems))
                self._ingest(self._fallback, spare, names)
        claimed = names.contests()
        self.contests = tuple(each for each in claimed if each in self._claimed)
        self._claimed = frozenset(claimed)
        return self._snapshot(at, names.nodes)

    def close(self) -> None:
        self._primary.close()
        if self._fallback is not None:
            self._fallback.close()

    def _backfill(self, reading: Reading, names: NodeNames) -> None:
        """Asks for what the resources of `reading` have missed: everything at the start, the gap after an outage.

        A clock that was set back starts again too: what was read before was stamped by another time.
        """
        measured = [resource for resource, samples in reading.samples.items() if samples.rows.size]
        if not measured:
            return
        interval = self._rules.interval
        oldest = reading.at - max(self._rules.lengths.values()) + interval
        since = min(self._read_until[resource] for resource in measured)
        start = max(oldest, since + interval) if since <= reading.at else oldest
        end = reading.at - interval
        if start <= end:
            self._attempts += 1
            problems: set[str] = set()
            for past in self._primary.backfill(start, end, interval, names):
                self._ingest(self._primary, past, names)
                problems.update(past.problems.values())
            if problems:
                log.warning("the past could not be read", attempt=self._attempts, error="; ".join(sorted(problems)))
                if self._attempts < BACKFILL_ATTEMPTS:
                    return
        self._attempts = 0
        self._read_until.update(dict.fromkeys(measured, reading.at))

    def _ingest(self, source: Source, reading: Reading, names: NodeNames) -> None:
        """What is older than the node was of another node of that name, whose counters are in the next rates too."""
        ring, born = self._rings[source.name], self._lives.born
        columns = ring.columns(self._lives.keys)
        rejected = dict(reading.rejected)
        for resource, samples in reading.samples.items():
            rows, values, times = samples.rows, samples.values, samples.times
            self._lives.heir[rows[times < born[rows]]] = True
            own = times >= self._since(rows, reading.spans.get(resource, 0.0))
            if not own.all():
                rejected["stale"] = rejected.get("stale", 0) + int(np.count_nonzero(~own))
                rows, values, times = rows[own], values[own], times[own]
            ring.write(resource, reading.at, columns[rows], values, times)
        span = max(reading.spans.values(), default=0.0)
        for ring, name, witness in (
            (self._starved, "starved", reading.starved),
            (self._working_set, "memory", reading.working_set),
        ):
            if witness is not None:
                own = witness.times >= self._since(witness.rows, span)
                at = ring.columns(self._lives.keys)[witness.rows[own]]
                ring.write(name, reading.at, at, witness.values[own], witness.times[own])
        self._paces[source.name].update(reading.scrape_interval)
        for reason, count in rejected.items():
            self._metrics.samples_rejected.labels(reason).inc(count)

    def _since(self, rows: Ints, span: float) -> Floats:
        """From when on these nodes' values over `span` seconds tell nothing of another node of that name."""
        return np.asarray(self._lives.born[rows] + np.where(self._lives.heir[rows], span, 0.0))

    def _snapshot(self, at: float, nodes: Sequence[Node]) -> Snapshot:
        share = _allocatable_share(nodes, self._resources)
        scale = np.divide(1.0, share)
        windows, newest = self._summarise(self._primary.name, at, scale)
        sources = dict.fromkeys(self._resources, self._primary.name)
        if self._fallback is not None:
            windows, newest = self._lend(self._fallback, windows, newest, sources, at, scale)
            if self._witness.asked == at:
                theirs = self._rings[self._fallback.name]
                self.disagreements = tuple(disagreements(self._resources, self._gap(theirs, at, below=True), sources))
                self.disputes.compare(at, self._lives.keys, self._resources, self._gap(theirs, at))
        if self.last is not None:
            found = {**self._matched_by, **self.last.matched_by}
            self._matched_by = {node.name: found[node.name] for node in nodes if node.name in found}
        states = self._states(at, nodes, windows, newest, sources)
        doubtful = self.last.doubtful if self.last is not None else frozenset()
        doubtful |= {name for each in self.contests for name in each.liars}
        several = np.array([node.name in doubtful for node in nodes], bool)
        states = states.dispute(self.disputes.disputed(self._lives.keys) | several)
        label = self._rules.pool_label
        known = states.known
        states = replace(states, starved=self._starving(at, known))
        return Snapshot(
            time=at,
            nodes=tuple(nodes),
            resources=self._resources,
            windows={name: window.of(known) for name, window in windows.items()},
            newest=newest,
            allocatable_share=share,
            states=states,
            sources=sources,
            matched_by=self._matched_by,
            pools=tuple(node.labels.get(label, "") for node in nodes) if label else (),
            scrape_intervals={
                name: pace for name, source in sources.items() if (pace := self._paces[source].get(name)) is not None
            },
        )

    def _gap(self, theirs: Ring, at: float, *, below: bool = False) -> Floats:
        """[resource, node]: ours less what metrics-server says, each in its measure."""
        keys = self._lives.keys
        gap = paired_gap(self._rings[self._primary.name], theirs, keys, at)
        if "memory" in self._resources:
            row = self._resources.index("memory")
            same = paired_gap(self._working_set, theirs, keys, at, slice(row, row + 1))
            gap[row] = unexplained(gap[row], same[0], below=below)
        return gap

    def _summarise(self, source: str, at: float, scale: Floats) -> tuple[dict[str, Window], Floats]:
        ring = self._rings[source]
        columns: Ints = ring.columns(self._lives.keys)
        resolution = self._pace(source) if source == "prometheus" else None
        windows = summarise_all(
            ring,
            columns,
            lengths=self._rules.lengths,
            end=at,
            rules=WindowRules(self._rules.min_coverage, self._rules.min_samples, self._max_age(source), resolution),
            scale=scale,
            born=self._lives.born,
        )
        return dict(windows), ring.newest[:, columns]

    def _starving(self, at: float, known: Bools) -> Bools | None:
        """[node]: known, and over the first window its share of lost time is STARVED_FROM or more; None if none is."""
        name, seconds = next(iter(self._rules.lengths.items()))
        windows = summarise_all(
            self._starved,
            self._starved.columns(self._lives.keys),
            lengths={name: seconds},
            end=at,
            rules=WindowRules(self._rules.min_coverage, 1, self._max_age(self.primary)[:1], None),
            born=self._lives.born,
        )
        starved: Bools = known & (np.nan_to_num(windows[name].mean[0]) >= STARVED_FROM)
        return starved if starved.any() else None

    def _pace(self, source: str) -> Floats:
        """[resource]: how far samples are apart, by the interval and the scrapes."""
        paces, interval = self._paces[source], self._rules.interval
        return np.array([max(interval, paces.get(name, 0.0)) for name in self._resources])

    def _max_age(self, source: str) -> Floats:
        """[resource]: the age from which a sample says nothing about now."""
        rules, paces = self._rules, self._paces[source]
        ages = [rules.max_age or default_max_age(rules.interval, paces.get(name, 0.0)) for name in self._resources]
        return np.array(ages, float)

    def max_age(self, resource: str) -> float:
        """Seconds from which a sample of the primary source says nothing about now."""
        return float(self._max_age(self.primary)[self._resources.index(resource)])

    def _lend(
        self,
        fallback: Source,
        windows: dict[str, Window],
        newest: Floats,
        sources: dict[str, str],
        at: float,
        scale: Floats,
    ) -> tuple[dict[str, Window], Floats]:
        silent = [
            index
            for index, name in enumerate(self._resources)
            if name in fallback.resources and not any(window.known[index].any() for window in windows.values())
        ]
        if not silent and self._witness.asked != at:
            return windows, newest
        spare, spare_newest = self._summarise(fallback.name, at, scale)
        useful = [index for index in silent if any(window.known[index].any() for window in spare.values())]
        for index in useful:
            sources[self._resources[index]] = fallback.name
        newest = mixed(newest, spare_newest, useful)
        return {name: window.with_rows(spare[name], useful) for name, window in windows.items()}, newest

    def _states(
        self,
        at: float,
        nodes: Sequence[Node],
        windows: Mapping[str, Window],
        newest: Floats,
        sources: Mapping[str, str],
    ) -> NodeStates:
        lives, now = self._lives, self._clock.monotonic()
        primary = next(iter(windows.values()))
        states = node_states(
            nodes,
            self._resources,
            self._rules.weights,
            NodeEvidence(at, primary.known, newest, now - lives.first_seen, now - lives.last_down, lives.was_known),
            window=primary.seconds,
            max_age=np.array([self._max_age(sources[name])[row] for row, name in enumerate(self._resources)]),
            forget_after=self._rules.forget_after,
        )
        lives.learn(states.known)
        return states


def build(context: Context) -> TelemetryCycle:
    """Of the settings; metrics-server stands in for Prometheus where that is silent."""
    settings = context.settings
    metrics_server = MetricsServerSource(context.api.get, settings, context.metrics)
    primary: Source = metrics_server
    fallback: Source | None = None
    if settings.telemetry.source == "prometheus":
        primary, fallback = PrometheusSource(settings, context.metrics, context.cache.pods), metrics_server
    return TelemetryCycle(primary, fallback, rules_of(settings), clock=context.clock, metrics=context.metrics)


def rules_of(settings: Settings) -> TelemetryRules:
    """As the settings have it."""
    return TelemetryRules(
        resources=[resource.name for resource in settings.telemetry.resources],
        interval=settings.telemetry.interval,
        lengths={length.text: float(length) for length in settings.windows.lengths},
        min_coverage=settings.windows.min_coverage,
        min_samples=settings.windows.min_samples,
        max_age=settings.windows.max_age,
        offset=settings.telemetry.offset,
        forget_after=settings.publishing.forget_after,
        weights=settings.scoring.resources,
        pool_label=settings.cluster.pool_label,
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
