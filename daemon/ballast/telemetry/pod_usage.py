"""Usage of pods, queried only when a part needs it. Answers are decoded later, by their user.

Source: cadvisor's metrics in Prometheus, or PodMetrics of metrics-server.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from ballast.base.errors import ClusterError, TelemetryError
from ballast.model.sample import Samples
from ballast.settings import Settings
from ballast.telemetry import responses as decoding
from ballast.telemetry.intake import accept, allowed_skew, default_max_age
from ballast.telemetry.metrics_server import amount_of, unix_time
from ballast.telemetry.responses import SeriesTable

POD_LABEL = "ballast_pod"
NEWEST = "newest"
HOUR = "hour of "
"""Begins the name of an answer about the mean over the last hour."""
_LABELS = (POD_LABEL, "container", "instance", "id")
PATH = "/apis/metrics.k8s.io/v1beta1/pods"


@dataclass(frozen=True)
class PodAnswers:
    """The undecoded answers of a source about pods."""

    at: float
    """The evaluation time, Unix seconds."""
    bodies: Mapping[str, bytes]
    """By resource, and by HOUR and a resource; NEWEST gives the times of the samples. metrics-server answers all in
    one body, under ""."""
    problems: Mapping[str, str]
    """A sentence for each query that failed."""
    resources: tuple[str, ...]
    max_age: float
    """Seconds."""
    skew: float
    """Seconds by which a sample may be ahead of `at`."""
    url: str = ""
    asked: int | None = None
    """How many pods were asked about, None for all."""


@dataclass(frozen=True)
class PodUsage:
    """Usage at the evaluation time `at`; `rows` of the samples index into `pods`, named namespace/name.

    cpu is in cores, memory in bytes, disk and network in bytes per second; `hour` has means over the last hour. A
    resource that failed is absent from `samples` or `hour` and has a sentence in `problems`.
    """

    at: float
    pods: tuple[str, ...]
    samples: Mapping[str, Samples]
    problems: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=Counter)
    warnings: tuple[str, ...] = ()
    hour: Mapping[str, Samples] = field(default_factory=dict)

    @property
    def measured(self) -> int:
        """How many pods have an accepted sample."""
        return len({row for samples in self.samples.values() for row in samples.rows.tolist()})

    def by_pod(self) -> dict[str, dict[str, float]]:
        """What each pod uses, as far as it is known."""
        return self._by_pod(self.samples)

    def over_the_hour(self) -> dict[str, dict[str, float]]:
        """What each pod used on average over the last hour, as far as it is known."""
        return self._by_pod(self.hour)

    def _by_pod(self, of_resources: Mapping[str, Samples]) -> dict[str, dict[str, float]]:
        usage: dict[str, dict[str, float]] = {}
        for resource, samples in of_resources.items():
            for row, value in zip(samples.rows.tolist(), samples.values.tolist(), strict=True):
                usage.setdefault(self.pods[row], {})[resource] = value
        return usage


def named_by_pod(query: str) -> str:
    """The same series, with namespace/name in one label."""
    return f'label_join({query}, "{POD_LABEL}", "/", "namespace", "pod")'


def ages(settings: Settings) -> tuple[float, float]:
    """How old a sample may be, and how far ahead."""
    interval = float(settings.telemetry.interval)
    return float(settings.windows.max_age or default_max_age(interval)), allowed_skew(interval)


def ask_metrics_server(
    get: Callable[[str], bytes], at: float, resources: Sequence[str], settings: Settings
) -> PodAnswers:
    """One request for all pods; `get` fetches a path from the Kubernetes API and raises ClusterError."""
    max_age, skew = ages(settings)
    known = tuple(resource for resource in resources if resource in ("cpu", "memory"))
    try:
        return PodAnswers(at, {"": get(PATH)}, {}, known, max_age, skew)
    except ClusterError as error:
        return PodAnswers(at, {}, dict.fromkeys(known, f"metrics.k8s.io: {error}"), known, max_age, skew)


def decode(said: PodAnswers) -> PodUsage:
    """Joins the answers per resource with the answer about their age. Never raises for what a source said."""
    if "" in said.bodies:
        return _from_metrics_server(said)
    problems = dict(said.problems)
    tables: dict[str, SeriesTable] = {}
    for name, body in said.bodies.items():
        try:
            tables[name] = decoding.instant(body, _LABELS, said.url)
        except TelemetryError as error:
            problems[name] = str(error)
    warnings = sorted({text for table in tables.values() for text in table.warnings})
    newest = tables.pop(NEWEST, None)
    unknown_age = problems.pop(NEWEST, "it was not queried")
    rows: dict[str, int] = {}
    samples: dict[str, Samples] = {}
    rejected: Counter[str] = Counter()
    for resource, table in tables.items():
        if resource.startswith(HOUR):
            table = _of_what_runs(table, tables.get(resource.removeprefix(HOUR)))
        if newest is None:
            problems[resource] = f"the age of the samples is unknown, so none counts: {unknown_age}"
            continue
        table = _of_most(table)
        if len(table.cluster_names()) > 1:
            problems[resource] = (
                f"the answer mixes the clusters {', '.join(table.cluster_names())}; choose one with "
                f"BALLAST_PROMETHEUS__MATCHERS"
            )
        else:
            pods, values, when = _sum_series(table, _Ages(newest), said.at - said.max_age)
            samples[resource] = _accept(said, rows, pods, values, when, rejected)
    hour = {name.removeprefix(HOUR): samples.pop(name) for name in [*samples] if name.startswith(HOUR)}
    return PodUsage(said.at, tuple(rows), samples, problems, +rejected, tuple(warnings), hour)


def _of_what_runs(hour: SeriesTable, now: SeriesTable | None) -> SeriesTable:
    """Without the series that are not there now, such as of containers that have ended, and without all of a pod of
    which a series is there now that has no mean: the sum of the others would be too little."""
    running = set() if now is None else set(_keys(now))
    keys = _keys(hour)
    lacking = {pod for pod, *_ in running.difference(keys)}
    return hour.take([row for row, key in enumerate(keys) if key in running and key[0] not in lacking])


def _of_most(table: SeriesTable) -> SeriesTable:
    """Without the series of other clusters than the most frequent one where these are a tenth at most."""
    counts = Counter(name for name in table.clusters if name)
    if len(counts) < 2:
        return table
    most = max(counts, key=lambda name: (counts[name], name))
    kept = [index for index, name in enumerate(table.clusters) if name in ("", most)]
    return table.take(kept) if len(table) - len(kept) <= len(table) / 10 else table


class _Ages:
    """When each container was last seen. Tells where its pod runs now, and which of several containers of one name."""

    def __init__(self, newest: SeriesTable) -> None:
        self._exact: dict[tuple[str, ...], float] = {}
        self._of_pod: dict[tuple[str, str], float] = {}
        self._home: dict[str, tuple[float, str]] = {}
        self._running: dict[tuple[str, str, str], tuple[float, str]] = {}
        times = np.where(newest.present & ~newest.unreadable, newest.values, math.nan)[:, 0].tolist()
        for key, time in zip(_keys(newest), times, strict=True):
            if math.isnan(time):
                continue
            pod, container, instance, identity = key
            self._exact[key] = time
            self._of_pod[pod, instance] = max(time, self._of_pod.get((pod, instance), -math.inf))
            self._home[pod] = max((time, instance), self._home.get(pod, (-math.inf, "")))
            place = pod, instance, container
            self._running[place] = max((time, identity), self._running.get(place, (-math.inf, "")))

    def of(self, key: tuple[str, str, str, str]) -> float | None:
        """The time of the newest sample, NaN if it is unknown; None for what was there before."""
        pod, container, instance, identity = key
        if pod not in self._home:
            return math.nan
        if instance != self._home[pod][1]:
            return None
        if key in self._exact:
            return self._exact[key] if self._running[pod, instance, container][1] == identity else None
        return self._of_pod[pod, instance]


def _keys(table: SeriesTable) -> list[tuple[str, str, str, str]]:
    columns = (table.columns[label] for label in _LABELS)
    return list(zip(*columns, strict=True))


def _sum_series(table: SeriesTable, ages: _Ages, oldest: float) -> tuple[list[str], list[float], list[float]]:
    """Pods, their use, and the Unix time of the newest sample in it; a container that ended does not count."""
    parts_of: dict[str, list[tuple[float, float]]] = {}
    for key, value in zip(_keys(table), table.values[:, 0].tolist(), strict=True):
        time = ages.of(key)
        if time is not None:
            parts_of.setdefault(key[0], []).append((time, value))
    pods, values, times = [], [], []
    for pod, parts in parts_of.items():
        newest = max((time for time, _ in parts if not math.isnan(time)), default=math.nan)
        live = (
            [value for time, value in parts if not time < oldest] if newest >= oldest else [part for _, part in parts]
        )
        pods.append(pod)
        values.append(sum(live))
        times.append(newest)
    return pods, values, times


def _accept(
    said: PodAnswers,
    rows: dict[str, int],
    pods: Iterable[str],
    values: Sequence[float],
    times: Sequence[float],
    rejected: Counter[str],
) -> Samples:
    return accept(
        said.at,
        np.array([rows.setdefault(pod, len(rows)) for pod in pods], dtype=np.int64),
        np.array(values, dtype=np.float64),
        np.array(times, dtype=np.float64),
        max_age=said.max_age,
        skew=said.skew,
        largest=math.inf,
        rejected=rejected,
    )


class _PodName(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""


class _ContainerMetrics(msgspec.Struct, gc=False):
    usage: object = None


class _PodMetrics(msgspec.Struct, gc=False):
    """Times and amounts are read one by one: what is wrong with one pod is not wrong with the answer."""

    metadata: _PodName
    timestamp: object = ""
    containers: list[_ContainerMetrics] | None = None


class _PodMetricsList(msgspec.Struct, gc=False):
    items: list[_PodMetrics] = []


_read = msgspec.json.Decoder(_PodMetricsList).decode


def _from_metrics_server(said: PodAnswers) -> PodUsage:
    """A pod lacks a resource if one of its containers lacks it."""
    try:
        items = _read(said.bodies[""]).items
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problem = f"the answer of {PATH} is not a list of pod metrics: {error}"
        return PodUsage(said.at, (), {}, dict.fromkeys(said.resources, problem))
    rows: dict[str, int] = {}
    samples: dict[str, Samples] = {}
    rejected: Counter[str] = Counter()
    for resource in said.resources:
        names, values, times = [], [], []
        for item in items:
            amount = _sum(item.containers, resource)
            if amount is None:
                rejected["unreadable"] += 1
                continue
            names.append(f"{item.metadata.namespace}/{item.metadata.name}")
            values.append(amount)
            times.append(unix_time(item.timestamp) if isinstance(item.timestamp, str) else math.nan)
        samples[resource] = _accept(said, rows, names, values, times, rejected)
    return PodUsage(said.at, tuple(rows), samples, rejected=+rejected)


def _sum(containers: Sequence[_ContainerMetrics] | None, resource: str) -> float | None:
    amounts = [amount_of(container.usage, resource) for container in containers or ()]
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known and len(known) == len(amounts) else None
