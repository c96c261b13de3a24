"""Connects to the cluster: builds what every part is given."""

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol

import structlog

from ballast.base.clock import Clock, SystemClock
from ballast.base.errors import ClusterError
from ballast.base.metrics import Metrics
from ballast.base.parts import Part
from ballast.cluster.cache import Cache
from ballast.cluster.client import KubeApi, connect
from ballast.cluster.conditions import Conditions
from ballast.cluster.context import Context
from ballast.cluster.events import Events
from ballast.cluster.identity import own_identity, own_namespace
from ballast.cluster.lease import AlwaysLeader, Elector, Leadership
from ballast.cluster.ledger_book import LedgerBook
from ballast.cluster.objects.decoding import annotation_filter
from ballast.cluster.state import NAME, StateAge, StateStore
from ballast.cluster.switches import Switches
from ballast.cluster.threads import going
from ballast.cluster.versions import Versions
from ballast.cluster.workload_cache import WorkloadCache
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Pace, Writer
from ballast.settings import Mode, Settings


def build_context(settings: Settings, clock: Clock | None, *, kinds: Iterable[str], foreign: Iterable[str]) -> Context:
    """`clock` is that of samples, by default the machine's; `kinds` are those of the workload cache; `foreign` are
    annotations of nodes that others write and Ballast reads."""
    machine = SystemClock()
    metrics = Metrics()
    namespace = own_namespace(settings.lease.namespace)
    api = connect(settings.cluster, metrics)
    identity = own_identity()
    prefix = settings.publishing.prefix
    age, versions = StateAge(), Versions()
    leadership = _leadership(settings, api, machine, metrics, namespace, identity, age)
    leadership.versions = versions
    switches = Switches(api, machine, metrics, namespace)
    events = Events(api, machine, metrics, instance=identity)
    writer = Writer(
        api,
        machine,
        metrics,
        pace=Pace(machine, settings.cluster.qps, settings.cluster.burst),
        modes={
            Part.PUBLISHING: settings.publishing.mode.value,
            Part.POWER: settings.power.mode.value,
            Part.EVICTION: settings.eviction.mode.value,
            Part.BATCH: settings.batch.mode.value,
        },
        paused=switches.paused,
        leading=leadership.is_leader,
        events=events,
    )
    state = StateStore(api, writer, namespace, clock or machine, age)
    cache = Cache(
        api,
        machine,
        metrics,
        pods=True,
        node_selector=settings.cluster.node_selector,
        keep_annotation=annotation_filter(prefix, foreign=foreign),
        whole=any(part.mode is not Mode.OFF for part in (settings.eviction, settings.power, settings.batch)),
    )
    workloads = WorkloadCache(api, machine, metrics, kinds, keep_annotation=annotation_filter(prefix))
    for watches in (cache, workloads, switches):
        watches.share(versions)
    return Context(
        settings=settings,
        clock=clock or machine,
        machine_clock=machine,
        metrics=metrics,
        conditions=Conditions(clock or machine, metrics),
        namespace=namespace,
        api=api,
        cache=cache,
        workloads=workloads,
        switches=switches,
        leadership=leadership,
        events=events,
        writer=writer,
        state=state,
        ledger=LedgerBook(state, machine, gap=GAP_INTERVALS * settings.telemetry.interval),
    )


def _leadership(
    settings: Settings, api: KubeApi, clock: Clock, metrics: Metrics, namespace: str, identity: str, age: StateAge
) -> Leadership:
    lease = settings.lease
    if not lease.enabled:
        return AlwaysLeader(metrics)
    where = lease.namespace or namespace
    return Elector(api, clock, metrics, namespace=where, name=lease.name, identity=identity, age=age)


log = structlog.get_logger("ballast")

_PATIENCE = 1.0

GAP_INTERVALS = 2.5
"""Intervals; snapshots that are further apart are not successive."""


class Savable(Protocol):
    """What is kept in `ballast-state`."""

    def save(self) -> WriteOutcome | None:
        """Writes it if that is due, else returns None. Raises ClusterError."""


class StateAgeReport:
    """Looks whether the state was set back, and says so for as long as rates count as used up."""

    def __init__(self, context: Context) -> None:
        eviction = context.settings.eviction
        self._context = context
        self._spent_for = max([float(eviction.workload_window), *(float(rate.per) for rate in eviction.rate)])

    def save(self) -> None:
        """Raises ClusterError."""
        context = self._context
        context.state.check_age()
        since, message = context.state.set_back, None
        if since is not None and context.clock.wall() - since < self._spent_for:
            noticed, until = (_stamp(time) for time in (since, since + self._spent_for))
            message = (
                f"ConfigMap {context.namespace}/{NAME} was set back to an older copy, noticed {noticed}. What was "
                "evicted or begun after that copy is forgotten; the rates of evictions count as used up, the longest "
                f"until {until}"
            )
        context.conditions.report("StateRolledBack", "OlderCopy", message)
        # A key was saved again by then, or its times are over.
        ahead = [text for at, text in context.state.ahead.values() if context.clock.wall() - at < self._spent_for]
        context.conditions.report("StateAheadOfTime", "LaterThanNow", "; ".join(ahead))


def _stamp(time: float) -> str:
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC"


class StateSaver:
    """`ask` after each cycle: only the leader saves, and only what changed.

    `problem` is why it failed last, if so; a standby has none.
    """

    def __init__(self, saved: Sequence[Savable], leading: Callable[[], bool]) -> None:
        self._saved = saved
        self._leading = leading
        self._asked = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="saving", daemon=True)
        self.problem: str | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._asked.set()
        if self._thread.is_alive():
            self._thread.join(_PATIENCE)

    @property
    def alive(self) -> bool:
        return going(self._thread, self._stop)

    def ask(self) -> None:
        self._asked.set()

    def _run(self) -> None:
        while self._asked.wait() and not self._stop.is_set():
            self._asked.clear()
            try:
                if not self._leading():
                    self.problem = None
                    continue
                problem = "; ".join(filter(None, map(self._save, self._saved))) or None
            except Exception as error:
                log.exception("saving the state failed unexpectedly")
                problem = f"{type(error).__name__}: {error}"
            if problem and problem != self.problem:
                log.warning("the state is not saved", problem=problem)
            self.problem = problem

    @staticmethod
    def _save(saved: Savable) -> str | None:
        try:
            outcome = saved.save()
        except ClusterError as error:
            return str(error)
        return outcome.reason if outcome is not None and outcome.result is Result.FAILED else None
