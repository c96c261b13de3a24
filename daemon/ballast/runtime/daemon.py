"""Builds the parts from the settings and owns their start, their shutdown and the jobs between."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ballast.actuation.scaling.targets import kinds_of
from ballast.clock import Clock, SystemClock
from ballast.cluster.cache import Cache
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.conditions import Conditions, SavedConditions
from ballast.cluster.decoding import annotation_filter
from ballast.cluster.events import Events
from ballast.cluster.identity import own_identity, own_namespace
from ballast.cluster.lease import AlwaysLeader, Elector
from ballast.cluster.role import RoleLabel
from ballast.cluster.state import StateStore
from ballast.cluster.switches import Switches
from ballast.cluster.workload_cache import WorkloadCache
from ballast.cluster.writer import Writer
from ballast.errors import ClusterError, SettingsError
from ballast.extender import strategies
from ballast.extender.decisions import ExtenderService
from ballast.extender.sibling_usage import SiblingUsage
from ballast.jobs import crane, sentences
from ballast.jobs.eviction import build as eviction_build
from ballast.jobs.eviction import job as eviction_job
from ballast.jobs.power import build as power_build
from ballast.jobs.telemetry import TelemetryCycle, source_title
from ballast.metrics import Metrics
from ballast.model.node import Node
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import LabelPlanner, LabelRules
from ballast.publishing.node_keys import NodeKeys
from ballast.publishing.publisher import PART, Publisher
from ballast.runtime import health
from ballast.runtime.condition_saver import ConditionSaver
from ballast.runtime.scheduler import JobScheduler
from ballast.serving.app import create_app, create_extender_app
from ballast.serving.board import Board, CycleRecord
from ballast.serving.rendering import render
from ballast.serving.server import Server
from ballast.settings import Mode, Settings, check_run
from ballast.telemetry.intake import default_max_age
from ballast.telemetry.metrics_server import MetricsServerSource
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.pod_usage_cache import PodUsageCache
from ballast.telemetry.prometheus import PrometheusSource
from ballast.telemetry.source import Source

CYCLES_KEPT = 200
CYCLES_BEFORE_ACTING = 2
SYNC_ATTEMPTS = 60
SYNC_PATIENCE = 0.5


class Daemon:
    """One replica. `start` returns once it serves; `stop` gives the Lease back and leaves nothing running.

    `clock` is the time of samples and cycles, which a demo may speed up; the Lease, the watches and the write budget
    always go by the machine's. `config` are the rows of `/api/v1/config`, already masked. `told` hears of every cycle.
    """

    def __init__(
        self, settings: Settings, *, clock: Clock | None = None, config: list[dict[str, Any]] | None = None
    ) -> None:
        check_run(settings)
        if unusable := tuple(strategies.problems(settings)):
            raise SettingsError(*unusable)
        self.settings = settings
        machine = SystemClock()
        self.clock = clock = clock or machine
        self.metrics = metrics = Metrics()
        self.conditions = Conditions(clock, metrics)
        self.keys = NodeKeys.of(settings.publishing.prefix)
        namespace = own_namespace(settings.lease.namespace)
        self.api = api = connect(settings.cluster, metrics)
        self.switches = Switches(api, machine, metrics, namespace)
        identity = own_identity()
        self.acting = any(
            part.mode is not Mode.OFF for part in (settings.publishing, settings.power, settings.eviction)
        )
        self.elector: Elector | AlwaysLeader
        if settings.lease.enabled:
            self.elector = Elector(
                api,
                machine,
                metrics,
                namespace=settings.lease.namespace or namespace,
                name=settings.lease.name,
                identity=identity,
                on_gain=self._gained,
                on_loss=self._lost,
            )
        else:
            self.elector = AlwaysLeader(metrics, on_gain=self._gained, on_loss=self._lost)
        self.events = Events(api, machine, metrics, instance=identity)
        self.writer = Writer(
            api,
            machine,
            metrics,
            qps=settings.cluster.qps,
            burst=settings.cluster.burst,
            modes={
                PART: settings.publishing.mode.value,
                "power": settings.power.mode.value,
                eviction_job.PART: settings.eviction.mode.value,
            },
            paused=self.switches.paused,
            leading=self.elector.is_leader,
            events=self.events,
        )
        self.role = RoleLabel(
            self.writer, machine, pod=os.environ.get("POD_NAME"), namespace=os.environ.get("POD_NAMESPACE")
        )
        self.namespace = namespace
        self.state = StateStore(api, self.writer, namespace)
        self._saved = SavedConditions(self.conditions, self.state, machine)
        self.saving = ConditionSaver(self._saved, self.elector.is_leader)
        interval = settings.telemetry.interval
        self.telemetry = _telemetry_cycle(settings, api, clock, metrics)
        self._names = _names((), settings)
        every = settings.publishing.every(settings.telemetry)
        self.publisher = Publisher(
            api, self.writer, clock, self.keys, LabelPlanner(self.keys, _publishing_rules(settings)), interval=every
        )
        self.freeze = Freeze(settings.publishing.max_unknown, settings.publishing.forget_after)
        self._stale_after = max(_max_age(settings), 3 * interval) + settings.telemetry.offset
        self.board = Board(
            clock=clock,
            conditions=lambda: [sentences.condition(item) for item in self.conditions.list()],
            leader=self.elector.is_leader,
            paused=lambda part: health.paused(self, part),
            ready=lambda: health.ready(self),
            alive=lambda: health.alive(self),
            config=config or [],
            max_age=self._stale_after,
        )
        self.strategies = strategies.Strategies(settings)
        self.extending = ExtenderService(
            settings.extender,
            clock,
            metrics,
            self.board,
            pods_age=lambda: self.cache.age("pods"),
            strategies=self.strategies,
            pods=lambda: self.cache.pods(),
        )
        self.board.pod_scores = self.extending.scores_of
        self.cache = Cache(
            api,
            machine,
            metrics,
            pods=True,
            node_selector=settings.cluster.node_selector,
            keep_annotation=annotation_filter(settings.publishing.prefix, foreign=self.strategies.policy.keys),
            pod_sink=self.extending,
            between=self.extending.give_way,
        )
        policies = power_build.policies(settings)
        self.feeds = power_build.client(settings, policies)
        evicts = settings.eviction.mode is not Mode.OFF
        kinds = {*(kinds_of(policies) if policies else ()), *(eviction_job.KINDS if evicts else ())}
        keep = annotation_filter(settings.publishing.prefix)
        self.workloads = WorkloadCache(api, machine, metrics, kinds, keep_annotation=keep)
        self.powering = power_build.powering(self, policies, machine) if policies else None
        self.evicting = eviction_build.evicting(self)
        self.craning = crane.craning(self)
        apart = settings.http.of_extender()
        scheduling = None if apart else self.extending
        self.servers = [Server(create_app(self.board, metrics, scheduling), settings.http)]
        if apart:
            self.servers.append(Server(create_extender_app(metrics, self.extending), apart))
        self._cycles: deque[CycleRecord] = deque(maxlen=CYCLES_KEPT)
        self._cycles_lock = threading.Lock()
        self.cycles = 0
        self._known: tuple[Snapshot, Mapping[str, int | None], Freeze] | None = None
        self._led_since: int | None = None
        self.jobs = JobScheduler(clock, metrics, self._record)
        self.jobs.every("telemetry", interval, self._watch, delay=min(0.1, 0.1 * interval))
        if settings.publishing.mode is not Mode.OFF:
            self.jobs.every("publishing", every, self._publish, delay=min(0.2 * every, 5.0))
        asking = PodUsageCache(self.telemetry.source, api.get, settings)
        self.siblings = SiblingUsage(self.extending, asking, self.cache.pods, clock)
        if self.craning is not None:
            self.jobs.every("crane", every, self._crane, delay=min(0.6 * every, 10.0))
        if self.powering is not None:
            self.jobs.every("power", interval, self.powering.cycle, delay=min(0.2 * interval, 1.0))
        if evicts:
            period = settings.eviction.interval
            self.jobs.every(eviction_job.PART, period, self._evict, delay=min(0.3 * period, 10.0))
        self.told: Callable[[CycleRecord], None] = lambda cycle: None
        self.port = 0

    @property
    def url(self) -> str:
        """Where the page is."""
        host = self.settings.http.host
        scheme = "https" if self.settings.http.tls_cert_file else "http"
        return f"{scheme}://{'127.0.0.1' if host in ('0.0.0.0', '::') else host}:{self.port}/"  # noqa: S104

    def start(self, stop: threading.Event | None = None) -> None:
        """Serves at once, so that probes get answers while the caches fill; `stop` ends the wait for them."""
        self.port = self.servers[0].start()
        for server in self.servers[1:]:
            server.start()
        self.cache.start()
        self.workloads.start()
        if self.acting:
            self.switches.start()
            self.events.start()
            self.role.start()
            self.saving.start()
            self.elector.start()
        stop = stop or threading.Event()
        for _ in range(SYNC_ATTEMPTS):
            if stop.is_set() or self.cache.wait_synced(SYNC_PATIENCE, "nodes"):
                break
        first = threading.Thread(target=self.jobs.run, args=["telemetry"], name="first-cycle", daemon=True)
        first.start()
        while first.is_alive() and not stop.is_set():
            first.join(SYNC_PATIENCE)
        if not stop.is_set():
            self.jobs.start()

    def stop(self) -> None:
        """Ends the writes, gives up the role and the Lease, then ends the cycles and closes what only reads."""
        self.publisher.stop()
        if self.craning is not None:
            self.craning.stop()
        self.writer.finish()
        if self.acting:
            _at_once(self.role.stop, self.saving.stop)
            self.writer.stop()
            _at_once(self.elector.stop, self.events.stop, self.switches.stop)
        self.telemetry.close()
        if self.feeds is not None:
            self.feeds.close()
        self.evicting.stop()
        _at_once(self.jobs.stop, self.siblings.stop, self.cache.stop, self.workloads.stop)
        if self.powering is not None:
            self.powering.close()
        for server in self.servers:
            server.stop()
        self.api.close()

    def _gained(self) -> None:
        self._led_since = self.cycles
        self._saved.forget()
        self.evicting.gained()
        if self.powering is not None:
            self.powering.gained()
        self.role.leading(True)

    def _lost(self) -> None:
        self._led_since = None
        if self.powering is not None:
            self.powering.lost()
        self.role.leading(False)

    def _watch(self) -> str:
        """The telemetry job."""
        problem = self.cache.problem("nodes")
        sentences.tell(self.conditions, "ClusterUnreachable", "WatchFailing", problem)
        sentences.tell(self.conditions, "PodsUnreadable", "WatchFailing", self.cache.problem("pods"))
        sentences.tell(self.conditions, "LeaseFailing", "RequestFailed", health.lease_problem(self))
        sentences.tell(self.conditions, "StateNotSaved", "RequestFailed", self.saving.problem)
        if not self.cache.listed("nodes"):
            raise ClusterError(problem or "the nodes have not been listed yet")
        nodes = self.cache.nodes()
        self._names = self._names.following(nodes) or _names(nodes, self.settings)
        snapshot = self.telemetry.cycle(self._names)
        self.freeze = self.freeze.after(snapshot.unknown, len(snapshot.nodes), self.clock.monotonic())
        self.extending.look(snapshot)
        scores = self.extending.node_scores(self.settings.publishing.strategy)
        self.board.rendered = render(
            snapshot,
            scores,
            source=source_title(snapshot),
            frozen=self.freeze.frozen,
            fetched=self.clock.wall(),
            prefix=self.settings.publishing.prefix,
            classes=self.publisher.classes(),
            previous=self.board.rendered,
        )
        self.board.scores = scores
        self.board.snapshot = snapshot
        self.board.frozen = self.freeze.frozen
        sentences.tell_about(snapshot, self.telemetry, self.freeze, self.conditions)
        self.evicting.look(snapshot)
        self.siblings.renew()
        self._known = snapshot, scores, self.freeze
        self.cycles += 1
        self.saving.ask()
        return sentences.telemetry_sentence(snapshot, self.telemetry)

    def _publish(self) -> str:
        """The publishing job."""
        if (reason := self._not_now()) is not None:
            return reason if reason.startswith("standing by") else f"published nothing: {reason}"
        assert self._known is not None
        snapshot, scores, freeze = self._known
        result = self.publisher.round(snapshot, scores, freeze, self.cache.node)
        sentences.tell(self.conditions, "PublishingFailing", "WriteFailed", result.problem)
        return sentences.publishing_sentence(
            result,
            snapshot,
            freeze,
            self.settings.publishing,
            self.settings.telemetry,
            self.clock.monotonic(),
            paused=self.switches.paused(PART),
        )

    def _crane(self) -> str:
        """The job that keeps crane's annotations."""
        if (reason := self._not_now()) is not None:
            return reason if reason.startswith("standing by") else f"wrote no annotations of crane: {reason}"
        assert self._known is not None
        assert self.craning is not None
        return self.craning.cycle(self._known[0], self._known[2], self._names)

    def _evict(self) -> str:
        """The eviction job."""
        if (reason := self._not_now()) is not None:
            return reason if reason.startswith("standing by") else f"planned nothing: {reason}"
        assert self._known is not None
        return self.evicting.cycle(self._known[0])

    def _not_now(self) -> str | None:
        """Why nothing may be acted upon now: whoever leads, and whatever is known."""
        if self._known is None:
            return "no cycle of telemetry has ended yet"
        if not self.elector.is_leader():
            return health.leadership(self)
        led = 0 if self._led_since is None else self.cycles - self._led_since
        if led < CYCLES_BEFORE_ACTING:
            return f"a new leader acts after {CYCLES_BEFORE_ACTING} complete cycles, {led} ended"
        age = self.clock.wall() - self._known[0].time
        return f"the newest cycle of telemetry is {sentences.duration(age)} old" if age > self._stale_after else None

    def _record(self, cycle: CycleRecord) -> None:
        with self._cycles_lock:
            self._cycles.append(cycle)
            self.board.cycles = tuple(self._cycles)
        self.told(cycle)


def _at_once(*stops: Callable[[], None]) -> None:
    """Each may wait for a slow API server; together they wait as long as the slowest."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda stop: stop(), stops))


def _max_age(settings: Settings) -> float:
    return settings.windows.max_age or default_max_age(settings.telemetry.interval)


def _names(nodes: Sequence[Node], settings: Settings) -> NodeNames:
    return NodeNames(
        nodes,
        selecting=settings.cluster.node_selector is not None,
        identity=settings.telemetry.node_identity,
        rewrite=settings.telemetry.node_rewrite,
    )


def _telemetry_cycle(settings: Settings, api: KubeApi, clock: Clock, metrics: Metrics) -> TelemetryCycle:
    metrics_server = MetricsServerSource(api.get, settings, metrics)
    primary: Source = metrics_server
    fallback: Source | None = None
    if settings.telemetry.source == "prometheus":
        primary, fallback = PrometheusSource(settings, metrics), metrics_server
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
        clock=clock,
        metrics=metrics,
    )


def _publishing_rules(settings: Settings) -> LabelRules:
    publishing = settings.publishing
    return LabelRules(
        low=publishing.low,
        high=publishing.high,
        overloaded=publishing.overloaded,
        hysteresis=publishing.class_hysteresis,
        refresh=publishing.refresh,
        jitter=publishing.jitter,
        forget_after=publishing.forget_after,
        interval=max(publishing.every(settings.telemetry), settings.telemetry.interval),
        taint=publishing.taint,
    )
