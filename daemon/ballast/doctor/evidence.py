"""What the checks go by, asked once each and only when a check needs it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ballast.answers.evictions import Plan
from ballast.base.clock import Clock
from ballast.base.errors import BallastError, ClusterError, TelemetryError
from ballast.base.metrics import Metrics
from ballast.cluster.client import KubeApi
from ballast.cluster.listing import list_all
from ballast.cluster.objects.decoding import node_reader, pod_reader
from ballast.doctor.cluster_view import CheckNotPossible, ClusterView
from ballast.doctor.scheduler_files import SchedulerFiles, scheduler_files
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Floats, Reading
from ballast.settings import Duration, Settings
from ballast.telemetry import responses as decoding
from ballast.telemetry.exporters.terms import CONTAINERS, Terms
from ballast.telemetry.failed_answers import NotAllowed
from ballast.telemetry.metrics_server import MetricsServerSource
from ballast.telemetry.node_names import Naming, NodeNames
from ballast.telemetry.pod_usage import Homes, ages, ask_metrics_server, decode
from ballast.telemetry.prometheus_source import PrometheusSource

PATIENCE = 3.0
"""Seconds that one answer may take where the settings name no timeout."""

PASTS = (300.0, 900.0)
"""Seconds of the past that tell how far apart scrapes are."""

FEWEST = 4
"""Readings that these are, at least."""


_POD = "namespace, pod, cluster"


@dataclass(frozen=True)
class PodCounts:
    """`measured` pods have a sample of cpu and one of memory that is not too old; `problems` by resource."""

    measured: int
    problems: Mapping[str, str]


class Evidence:
    """Of the settings and the clusters they name. Raises CheckNotPossible for what does not apply or cannot be had."""

    def __init__(self, settings: Settings, api: KubeApi, clock: Clock) -> None:
        timeout = settings.prometheus.timeout
        if "timeout" not in settings.prometheus.model_fields_set:
            timeout = min(timeout, Duration(f"{PATIENCE:g}s"))
        prometheus = settings.prometheus.model_copy(update={"timeout": timeout})
        self.settings = settings.model_copy(update={"prometheus": prometheus})
        self.clock = clock
        self.slow = 0.0
        """Seconds beyond PATIENCE that the cheapest question took."""
        self.cluster = ClusterView(api, settings)
        self._api = api
        self._metrics = Metrics()
        self._readings: dict[str, Reading] = {}
        self.at = _time(settings, clock)
        self.plans: Callable[[], Sequence[Plan]] = _no_daemon
        """The newest plans of evictions of the daemon that runs. Raises CheckNotPossible where none answers."""

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The selected nodes."""
        self.cluster.require_answer()
        query = {"labelSelector": self.settings.cluster.node_selector} if self.settings.cluster.node_selector else {}
        try:
            listed = list_all(self._api, "/api/v1/nodes", node_reader(lambda key: False), query, self.cluster.stop)
        except ClusterError as error:
            raise CheckNotPossible(f"the nodes cannot be read: {error}") from error
        if listed is None:
            raise CheckNotPossible("the list of nodes takes too long")
        return tuple(sorted(listed[0], key=lambda node: node.name))

    @cached_property
    def names(self) -> NodeNames:
        """The look-up of the nodes."""
        return Naming.of(self.settings).over(self.nodes)

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """All pods that run."""
        self.cluster.require_answer()
        try:
            listed = list_all(self._api, "/api/v1/pods", pod_reader(lambda key: False), {}, self.cluster.stop)
        except ClusterError as error:
            raise CheckNotPossible(f"the pods cannot be read: {error}") from error
        if listed is None:
            raise CheckNotPossible("the list of pods takes too long")
        return tuple(pod for pod in listed[0] if pod.phase == "Running" and pod.node)

    @cached_property
    def schedulers(self) -> SchedulerFiles:
        """What schedulers are told, as far as it can be seen."""
        return scheduler_files(self.cluster)

    @cached_property
    def working_set_gap(self) -> Floats:
        """[node]: our working set less that of metrics-server, NaN where one of them is missing."""
        ours, theirs = self.reading.working_set, self.witness.samples.get("memory")
        one, other = np.full(len(self.nodes), np.nan), np.full(len(self.nodes), np.nan)
        for values, samples in ((one, ours), (other, theirs)):
            if samples is not None:
                values[samples.rows] = samples.values
        return np.asarray(one - other)

    @cached_property
    def source(self) -> PrometheusSource:
        """Prometheus, as the daemon asks it."""
        if self.settings.telemetry.source != "prometheus":
            raise CheckNotPossible("BALLAST_TELEMETRY__SOURCE is not prometheus")
        return PrometheusSource(self.settings, self._metrics, self._listed_pods)

    def _listed_pods(self) -> tuple[Pod, ...]:
        """None where they cannot be listed: then no label of a pod says anything."""
        try:
            return self.pods
        except CheckNotPossible:
            return ()

    @cached_property
    def answer(self) -> BallastError | None:
        """What the cheapest question to Prometheus fails with, in the time that the settings give it."""
        begun = self.clock.monotonic()
        try:
            self.source.probe(self.at)
        except CheckNotPossible:
            raise
        except BallastError as error:
            return error
        self.slow = max(0.0, self.clock.monotonic() - begun - PATIENCE)
        return None

    def require_answer(self) -> None:
        """Raises CheckNotPossible where Prometheus does not answer."""
        if self.answer is not None:
            what = "refuses these credentials" if isinstance(self.answer, NotAllowed) else "does not answer"
            raise CheckNotPossible(f"Prometheus {what}")

    @cached_property
    def reading(self) -> Reading:
        """What a cycle of the daemon would read now."""
        self.require_answer()
        return self.source.read(self.at, self.names)

    @cached_property
    def scrape_interval(self) -> dict[str, float]:
        """Seconds between scrapes by resource: of the last minutes, and of more where these do not tell."""
        self.require_answer()
        step = float(self.settings.telemetry.interval)
        intervals: dict[str, float] = {}
        for span in PASTS:
            intervals = self.source.scrape_intervals(self.at - max(span, FEWEST * step), self.at, step)
            if len(intervals) == len(self.settings.telemetry.resources):
                break
        return intervals

    def reading_with(self, settings: Settings) -> Reading:
        """What a cycle would read now with other settings of telemetry."""
        if settings.telemetry.source == "metrics-server":
            return self.witness
        self.require_answer()
        asked = repr((settings.prometheus, settings.telemetry))
        if asked not in self._readings:  # Several checks may propose the same line.
            other = PrometheusSource(settings, self._metrics, self._listed_pods)
            try:
                self._readings[asked] = other.read(_time(settings, self.clock), Naming.of(settings).over(self.nodes))
            finally:
                other.close()
        return self._readings[asked]

    @cached_property
    def witness(self) -> Reading:
        """What metrics-server says."""
        return MetricsServerSource(self._api.get, self.settings, self._metrics).read(self.at, self.names)

    @cached_property
    def usage(self) -> PodCounts:
        """Of how many pods the use is known."""
        if self.settings.telemetry.source == "prometheus":
            self.require_answer()
            return count_pods(*self.source.ask_about_pods(count_queries(self.settings), self.at))
        usage = decode(ask_metrics_server(self._api.get, self.at, ("cpu", "memory"), self.settings), Homes((), ()))
        return PodCounts(usage.measured, usage.problems)

    def close(self) -> None:
        """Frees the connections."""
        if "source" in vars(self):
            self.source.close()


def _no_daemon() -> Sequence[Plan]:
    raise CheckNotPossible("no running daemon shows its plans")


def _time(settings: Settings, clock: Clock) -> float:
    """Of the newest reading."""
    interval = float(settings.telemetry.interval)
    return math.floor((clock.wall() - settings.telemetry.offset) / interval) * interval


def count_queries(settings: Settings) -> dict[str, str]:
    """Resource → PromQL that counts the pods that have it, by cluster. The ages are those of memory, as in a cycle."""
    terms = Terms((), settings.prometheus.matchers, "")
    max_age, skew = ages(settings)
    newest = terms.pick("container_memory_working_set_bytes", *CONTAINERS)
    fresh = f"max by ({_POD}) (timestamp({newest})) >= time() - {max_age:g} <= time() + {skew:g}"
    cpu = f"max by ({_POD}) ({terms.pick('container_cpu_usage_seconds_total', *CONTAINERS)})"
    return {"cpu": f"count by (cluster) ({cpu})", "memory": f"count by (cluster) ({fresh})"}


def count_pods(bodies: Mapping[str, bytes], problems: Mapping[str, str]) -> PodCounts:
    """From the answers to `count_queries`. Never raises for what a source said."""
    counts: dict[str, int] = {}
    failed = dict(problems)
    for resource, body in bodies.items():
        try:
            table = decoding.instant(body, ("namespace",), "Prometheus")
        except TelemetryError as error:
            failed[resource] = str(error)
            continue
        if len(clusters := table.cluster_names()) > 1:
            failed[resource] = (
                f"the answer mixes the clusters {', '.join(clusters)}; choose one with BALLAST_PROMETHEUS__MATCHERS"
            )
        else:
            counts[resource] = int(np.nansum(table.values[:, 0]))
    return PodCounts(min(counts.values(), default=0), failed)
