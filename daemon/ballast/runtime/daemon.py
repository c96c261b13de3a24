"""Builds the parts from the settings; owns their start, their shutdown and the jobs between."""

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import structlog

from ballast.actuation.scaling.targets import kinds_of
from ballast.base.clock import Clock
from ballast.base.condition_types import OF_THE_LEADER
from ballast.base.errors import SettingsError
from ballast.cluster.conditions import SavedConditions
from ballast.cluster.context import Context
from ballast.cluster.leader_endpoint import LeaderEndpoint, OwnPlace
from ballast.cluster.objects.object_budget import too_large
from ballast.extender import strategies
from ballast.extender.decisions import ExtenderService
from ballast.extender.sibling_usage import SiblingUsage
from ballast.jobs import crane_job, telemetry_cycle
from ballast.jobs.batch import batch_job
from ballast.jobs.eviction import build_eviction
from ballast.jobs.eviction.moment_taker import FURTHER_KINDS, KINDS
from ballast.jobs.power import build_power
from ballast.jobs.progress import Hold, Known, Progress
from ballast.jobs.publishing import PublishingJob
from ballast.jobs.snapshot_job import CLAIM_KINDS, ResourceClaims, SnapshotJob
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.runtime.build_context import StateAgeReport, StateSaver, build_context
from ballast.runtime.health import Alive, Health, Loop, LoopKind
from ballast.runtime.ledger_reader import LedgerReader
from ballast.runtime.listeners import board_of, leader_of, listeners
from ballast.runtime.scheduler import JobScheduler
from ballast.serving.board import CycleRecord, DaemonAnswers
from ballast.serving.fleet_history import hot_of
from ballast.serving.pods_on import NodePods
from ballast.serving.server import Server
from ballast.settings import Mode, Settings, check_run
from ballast.telemetry.pod_usage import Homes, decode
from ballast.telemetry.pod_usage_cache import PodUsageCache

CYCLES_KEPT = 200
SYNC_ATTEMPTS = 60
SYNC_PATIENCE = 0.5

log = structlog.get_logger("ballast.daemon")


class Daemon:
    """One replica. `start` returns once it serves; `stop` gives the Lease back and leaves nothing running.

    `clock` is the time of samples and cycles, which a demo may speed up; the Lease, the watches and the write budget
    always go by the machine's. `config` are the rows of `/api/v1/config`, already masked.
    """

    def __init__(
        self, settings: Settings, *, clock: Clock | None = None, config: list[dict[str, Any]] | None = None
    ) -> None:
        """Raises SettingsError for what cannot run."""
        check_run(settings)
        if unusable := tuple(strategies.problems(settings)):
            raise SettingsError(*unusable)
        chosen, policies = strategies.Strategies(settings), build_power.policies(settings)
        kinds = {*CLAIM_KINDS, *(kinds_of(policies) if policies else ())}
        kinds |= {*((*KINDS, *FURTHER_KINDS) if settings.eviction.mode is not Mode.OFF else ())}
        kinds |= {*(batch_job.KINDS if settings.batch.mode is not Mode.OFF else ())}
        self.context = context = build_context(settings, clock, kinds=kinds, foreign=chosen.policy.keys)
        self.on_cycle: Callable[[CycleRecord], None] = lambda cycle: None
        """Called after every cycle, in the job's thread."""
        self.port = self.health_port = 0
        self._cycles: deque[CycleRecord] = deque(maxlen=CYCLES_KEPT)
        self._cycles_lock = threading.Lock()

        reader = telemetry_cycle.build(context)
        stale_after = telemetry_cycle.stale_after(settings)
        self.progress = Progress(context, stale_after)
        self.board = board = board_of(context, config or [], stale_after)
        claims = ResourceClaims(context.workloads)
        self.extender = ExtenderService(
            settings.extender,
            context.clock,
            context.metrics,
            board,
            pods_age=partial(context.cache.age, "pods"),
            strategies=chosen,
            pods=context.cache.pods,
            claim=lambda pod: claims.now().of(pod),
        )
        context.cache.follow_pods(self.extender, self.extender.give_way)
        usage = PodUsageCache(reader.source, context.api.get, settings)
        self.siblings = SiblingUsage(self.extender, usage, context.cache.pods, context.cache.nodes, context.clock)
        board.pods_on = NodePods(context.cache.pods_on, partial(_usage, context, usage), context.clock)

        self._feeds = build_power.client(settings, policies)
        self.power = build_power.build(context, policies, board, self._feeds) if policies else None
        outside = build_eviction.outside_of(context, reader.source, board)
        self.eviction = build_eviction.build(context, self.extender.reservations, outside, board, self.power)
        self.batch = batch_job.build(context, self.extender.reservations, board)
        self.publishing = PublishingJob(context, self.extender.give_way, self.extender.in_use)
        context.cache.follow_nodes(self.publishing.publisher.noticed)
        self.crane = crane_job.build(context, chosen.policy, reader.source)
        self._reader = reader
        self._snapshots = SnapshotJob(
            context,
            reader,
            self.extender,
            board,
            self.progress,
            classes=self.publishing.publisher.classes,
            observers=(self.eviction.observe, self._renew_siblings, self._observe_heat),
            claims=claims,
        )

        self._endpoint = _endpoint(context)
        self._saved = SavedConditions(context.conditions, context.state, context.machine_clock)
        self.state_saver = StateSaver(
            (StateAgeReport(context), self._saved, context.ledger), context.leadership.is_leader
        )
        self.scheduler = JobScheduler(context.clock, context.metrics, self._record)
        self.publishing.publisher.alarm = partial(self.scheduler.soon, "publishing")
        self._schedule()
        health = Health(context, board, self._with_threads, self.scheduler.overdue, self._loops)
        answers = DaemonAnswers(
            health.ready,
            health.alive,
            self.extender.scores_of,
            self.eviction.explain,
            partial(self.extender.node_score, settings.publishing.strategy),
            LedgerReader(context, self.eviction.tally),
            leader_of(context, board),
        )
        self.servers = listeners(context, board, self.extender, answers)
        context.leadership.subscribe(self._gained, self._lost)

    @property
    def url(self) -> str:
        """Where the page is."""
        http = self.context.settings.http
        scheme = "https" if http.tls_cert_file else "http"
        return f"{scheme}://{'127.0.0.1' if http.host in ('0.0.0.0', '::') else http.host}:{self.port}/"  # noqa: S104

    def start(self, stop: threading.Event | None = None) -> None:
        """Serves at once, so that probes get answers while the caches fill; `stop` ends the wait for them."""
        context = self.context
        page, health, *others = self.servers
        self.port = page.start()
        self.health_port = self._start_health(health)
        extender = [self.port, *(server.start() for server in others)][-1]
        context.cache.start()
        context.workloads.start()
        if context.acting:
            context.switches.start()
            context.events.start()
            self._endpoint.start(extender, self.port)
            self.state_saver.start()
            context.leadership.start()
        stop = stop or threading.Event()
        for _ in range(SYNC_ATTEMPTS):
            if stop.is_set():
                return
            if context.cache.wait_synced(SYNC_PATIENCE, "nodes"):
                break
        first = threading.Thread(target=self.scheduler.run, args=["telemetry"], name="first-cycle", daemon=True)
        first.start()
        while first.is_alive() and not stop.is_set():
            first.join(SYNC_PATIENCE)
        if not stop.is_set():
            self.scheduler.start()

    def stop(self) -> None:
        """Ends the writes, gives up the endpoint and the Lease, then ends the cycles and closes what only reads."""
        context = self.context
        self.scheduler.ending()
        self.publishing.stop()
        if self.crane is not None:
            self.crane.stop()
        if self.batch is not None:
            self.batch.stop()
        context.writer.finish()
        if context.acting:
            _at_once(self._endpoint.stop, self.state_saver.stop, self.eviction.give_back)
            context.writer.stop()
            _at_once(context.leadership.stop, context.events.stop, context.switches.stop)
        self._reader.close()
        if self._feeds is not None:
            self._feeds.close()
        self.eviction.stop()
        _at_once(self.scheduler.stop, self.siblings.stop, context.cache.stop, context.workloads.stop)
        if self.power is not None:
            self.power.close()
        for server in self.servers:
            server.stop()
        context.api.close()

    def _start_health(self, server: Server) -> int:
        """The port of the probes; 0 where the default one is taken, for the page's port answers probes too."""
        try:
            return server.start()
        except SettingsError as error:
            if "health_port" in self.context.settings.http.model_fields_set:
                raise
            self.servers.remove(server)
            log.warning("probes have no port of their own", problem=str(error))
            return 0

    def _schedule(self) -> None:
        settings = self.context.settings
        interval, every = settings.telemetry.interval, settings.publishing.every(settings.telemetry)
        jobs = self.scheduler
        jobs.every("telemetry", interval, self._watch, delay=min(0.1, 0.1 * interval))
        if settings.publishing.mode is not Mode.OFF:
            publish = partial(self._act, self.publishing.cycle, "published nothing")
            jobs.every("publishing", every, publish, delay=min(0.2 * every, 5.0))
        if self.crane is not None:
            annotate = partial(self._act, self.crane.cycle, "wrote no annotations of crane")
            jobs.every("crane", every, annotate, delay=min(0.6 * every, 10.0))
        if self.power is not None:
            jobs.every("power", interval, self.power.cycle, delay=min(0.2 * interval, 1.0))
        if settings.eviction.mode is not Mode.OFF:
            period = settings.eviction.interval
            evict = partial(self._act, lambda known: self.eviction.cycle(known.snapshot), "planned nothing")
            jobs.every("eviction", period, evict, delay=min(0.3 * period, 10.0))
        if self.batch is not None:
            jobs.every("batch", settings.batch.interval, self.batch.cycle)

    def _with_threads(self) -> dict[str, Alive]:
        context = self.context
        return {
            "lease": context.leadership,
            "endpoint": self._endpoint,
            "saving": self.state_saver,
            "supervisor": self.scheduler,
            "events": context.events,
            "switches": context.switches,
            "watches": context.cache,
            "workload watches": context.workloads,
            **{f"listener {server.name}": server for server in self.servers},
        }

    def _loops(self) -> list[Loop]:
        context = self.context
        watches = {**context.cache.beats, **context.workloads.beats}
        return [
            Loop("lease", LoopKind.LEASE, context.leadership.beat),
            Loop("supervisor", LoopKind.SUPERVISOR, self.scheduler.supervised),
            Loop("endpoint", LoopKind.ENDPOINT, self._endpoint.beat),
            *(Loop(f"watch of {kind}", LoopKind.WATCH, beat) for kind, beat in watches.items()),
            *(Loop(f"listener {server.name}", LoopKind.LISTENER, server.beat) for server in self.servers),
        ]

    def _gained(self) -> None:
        self.progress.gained()
        self._saved.forget()
        self.context.ledger.forget()
        self.publishing.gained()
        self.eviction.gained()
        if self.batch is not None:
            self.batch.gained()
        if self.power is not None:
            self.power.gained()
        self._endpoint.leading(True)
        self.state_saver.ask()

    def _lost(self) -> None:
        self.progress.lost()
        self.context.conditions.forget(OF_THE_LEADER)
        self.context.ledger.forget()
        self.eviction.lost()
        if self.power is not None:
            self.power.lost()
        self._endpoint.leading(False)

    def _watch(self) -> str:
        """The telemetry job; the conditions it leaves are saved from a thread of their own."""
        self.context.conditions.report("StateNotSaved", "RequestFailed", self.state_saver.problem)
        opaque = too_large(self.context.cache.opaque(), self.context.workloads.opaque())
        self.context.conditions.report("ObjectsTooLarge", "Opaque", opaque)
        sentence = self._snapshots.cycle()
        self.state_saver.ask()
        return sentence

    def _act(self, cycle: Callable[[Known], str], otherwise: str) -> str:
        """A cycle of a job that acts, or why it does not now."""
        known = self.progress.actionable()
        return known.sentence(otherwise) if isinstance(known, Hold) else cycle(known)

    def _renew_siblings(self, snapshot: Snapshot) -> None:
        self.siblings.renew()

    def _observe_heat(self, snapshot: Snapshot) -> None:
        """Where no node is known, nobody knows how many are hot."""
        if snapshot.known.any():
            high, eviction, would, without = self.board.high, self.context.settings.eviction, None, None
            if eviction.imagining and self.context.leadership.is_leader():
                would = int(hot_of(snapshot, high, self.eviction.imagined()).sum())
            if eviction.acting and self.context.leadership.is_leader():
                without = int(hot_of(snapshot, high, self.eviction.undone()).sum())
            self.context.ledger.observe(snapshot.time, int(hot_of(snapshot, high).sum()), would, without)

    def _record(self, cycle: CycleRecord) -> None:
        with self._cycles_lock:
            self._cycles.append(cycle)
            self.board.cycles = tuple(self._cycles)
        self.on_cycle(cycle)


def _usage(context: Context, cache: PodUsageCache, at: float, pods: Sequence[Pod]) -> Mapping[str, Mapping[str, float]]:
    names = [f"{pod.namespace}/{pod.name}" for pod in pods]
    return decode(cache.ask(at, ("cpu", "memory"), names), Homes(context.cache.nodes(), pods)).by_pod()


def _endpoint(context: Context) -> LeaderEndpoint:
    place = OwnPlace(*map(os.environ.get, ("POD_NAME", "POD_NAMESPACE", "POD_IP")))
    return LeaderEndpoint(context.api, context.writer, context.machine_clock, context.settings.extender.service, place)


def _at_once(*stops: Callable[[], None]) -> None:
    """Each may wait for a slow API server; together they wait as long as the slowest."""
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda stop: stop(), stops))
