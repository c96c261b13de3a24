"""Usage of pods, queried only when a part needs it. Answers are decoded later, by their user.

Source: cadvisor's metrics in Prometheus, or PodMetrics of metrics-server.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
import numpy as np

from ballast.base.errors import ClusterError, TelemetryError
from ballast.base.text import printable
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.sample import Samples
from ballast.settings import Settings
from ballast.telemetry import responses as decoding
from ballast.telemetry.intake import accept, allowed_skew, default_max_age
from ballast.telemetry.metrics_server import amount_of, unix_time
from ballast.telemetry.node_names import Naming
from ballast.telemetry.responses import SeriesTable

POD_LABEL = "ballast_pod"
NEWEST = "newest"
HOUR = "hour of "
"""Begins the name of an answer about the mean over the last hour."""
_LABELS = (POD_LABEL, "container", "id", "job")
"""Beside the labels that may name the node."""
_AGREE = 0.25
_NEGLIGIBLE = {"cpu": 0.05}
_FEW_BYTES = 32.0 * 2**20
"""Two jobs agree about a pod whose use differs by at most this share of the larger one, or by this little."""
GROUP = "/apis/metrics.k8s.io/v1beta1/"
PATH = f"{GROUP}pods"
FEW_NAMESPACES = 20
"""The most namespaces of which metrics-server lists the pods one by one: of a large cluster it tells 50 MB."""


_Teller: TypeAlias = tuple[str, ...]
"""The job and what may name the node."""
_Key: TypeAlias = tuple[str, _Teller, str, str]


@dataclass(frozen=True)
class PodAnswers:
    """The undecoded answers of a source about pods."""

    at: float
    """The evaluation time, Unix seconds."""
    bodies: Mapping[str, bytes]
    """By resource, and by HOUR and a resource; NEWEST gives the times of the samples. Lists of metrics-server
    tell all at once, and stand under their paths."""
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
    places: tuple[str, ...] = ()
    """Labels of the series that may name the node they come from."""
    naming: Naming = field(default_factory=Naming)
    """How these labels name nodes."""


class Homes:
    """Where pods run, as the watch shows it: a pod's use is told by the kubelet of its node, and by nobody else."""

    def __init__(self, nodes: Sequence[Node], pods: Iterable[Pod], elsewhere: Mapping[str, str] | None = None) -> None:
        """`elsewhere` are pods, namespace/name, with the node that counts instead of their own."""
        self.nodes = nodes
        self._node_of = {f"{pod.namespace}/{pod.name}": pod.node for pod in pods if pod.node} | dict(elsewhere or {})
        self._rows = {node.name: row for row, node in enumerate(nodes)}

    def row(self, pod: str) -> int | None:
        """Of the node that has this pod, named namespace/name; None where it is not known."""
        return self._rows.get(self._node_of.get(pod, ""))


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
    get: Callable[[str], bytes],
    at: float,
    resources: Sequence[str],
    settings: Settings,
    about: Iterable[str] | None = None,
) -> PodAnswers:
    """One request for all pods, or one for each namespace of those it is `about` where these are few. `get` fetches a
    path from the Kubernetes API and raises ClusterError."""
    max_age, skew = ages(settings)
    known = tuple(resource for resource in resources if resource in ("cpu", "memory"))
    namespaces = sorted({name.partition("/")[0] for name in about or ()})
    few = 0 < len(namespaces) <= FEW_NAMESPACES
    paths = [f"{GROUP}namespaces/{name}/pods" for name in namespaces] if few else [PATH]
    try:
        return PodAnswers(at, {path: get(path) for path in paths}, {}, known, max_age, skew)
    except ClusterError as error:
        return PodAnswers(at, {}, dict.fromkeys(known, f"metrics.k8s.io: {error}"), known, max_age, skew)


def decode(said: PodAnswers, homes: Homes) -> PodUsage:
    """Joins the answers per resource with the answer about their age. Never raises for what a source said.

    A series counts where its labels name the node that has the pod. Where several jobs tell of the pod from there and
    do not agree, nobody can say which is the kubelet's, so the pod is not measured.
    """
    if lists := [body for path, body in said.bodies.items() if path.startswith(GROUP)]:
        return _from_metrics_server(said, lists)
    problems = dict(said.problems)
    tables: dict[str, SeriesTable] = {}
    for name, body in said.bodies.items():
        try:
            tables[name] = decoding.instant(body, (*_LABELS, *said.places), said.url)
        except TelemetryError as error:
            problems[name] = str(error)
    warnings = sorted({text for table in tables.values() for text in table.warnings})
    newest = tables.pop(NEWEST, None)
    unknown_age = problems.pop(NEWEST, "it was not queried")
    rows: dict[str, int] = {}
    samples: dict[str, Samples] = {}
    rejected: Counter[str] = Counter()
    home = _Home(said, homes)
    ages = None if newest is None else _Ages(home.of(newest), said.places)
    for resource, table in tables.items():
        if ages is None:
            problems[resource] = f"the age of the samples is unknown, so none counts: {unknown_age}"
            continue
        table = _of_most(table)
        if len(table.cluster_names()) > 1:
            problems[resource] = (
                f"the answer mixes the clusters {', '.join(table.cluster_names())}; choose one with "
                f"BALLAST_PROMETHEUS__MATCHERS"
            )
            continue
        found = home.of(table)
        if len(table) and not len(found):
            problems[resource] = home.none_at_home(table)
        if resource.startswith(HOUR):
            now = tables.get(resource.removeprefix(HOUR))
            found = _of_what_runs(found, None if now is None else home.of(now), said.places)
        told = _sum_series(found, ages, said)
        pods, values, when = _agreed(told, resource.removeprefix(HOUR), said, rejected)
        samples[resource] = _accept(said, rows, pods, values, when, rejected)
    hour = {name.removeprefix(HOUR): samples.pop(name) for name in [*samples] if name.startswith(HOUR)}
    return PodUsage(said.at, tuple(rows), samples, problems, +rejected, tuple(warnings), hour)


def _of_what_runs(hour: SeriesTable, now: SeriesTable | None, places: tuple[str, ...]) -> SeriesTable:
    """Without the series that are not there now, such as of containers that have ended, and without all of a pod of
    which a series is there now that has no mean: the sum of the others would be too little."""
    running = set() if now is None else set(_keys(now, places))
    keys = _keys(hour, places)
    lacking = {key[:2] for key in running.difference(keys)}
    return hour.take([row for row, key in enumerate(keys) if key in running and key[:2] not in lacking])


def _of_most(table: SeriesTable) -> SeriesTable:
    """Without the series of other clusters than the most frequent one where these are a tenth at most."""
    counts = Counter(name for name in table.clusters if name)
    if len(counts) < 2:
        return table
    most = max(counts, key=lambda name: (counts[name], name))
    kept = [index for index, name in enumerate(table.clusters) if name in ("", most)]
    return table.take(kept) if len(table) - len(kept) <= len(table) / 10 else table


class _Home:
    """Which series come from where their pod runs."""

    def __init__(self, said: PodAnswers, homes: Homes) -> None:
        self._homes, self._places = homes, said.places
        self._names = said.naming.over(homes.nodes)

    def of(self, table: SeriesTable) -> SeriesTable:
        """The series of which a label names the node that has the pod, and none another one."""
        columns = [self._names.rows(table.columns[label]).tolist() for label in self._places]
        kept = []
        for index, (pod, *rows) in enumerate(zip(table.columns[POD_LABEL], *columns, strict=True)):
            if (home := self._homes.row(pod)) is not None and {row for row in rows if row >= 0} == {home}:
                kept.append(index)
        return table.take(kept)

    def none_at_home(self, table: SeriesTable) -> str:
        """A sentence where no series is."""
        told = " ".join(f"{label}={table.columns[label][0]!r}" for label in self._places if table.columns[label][0])
        return printable(
            f"no series comes from the node that has its pod, such as {told or 'one without labels of a node'} of "
            f"{table.columns[POD_LABEL][0]}; name the label of the node in BALLAST_TELEMETRY__NODE_LABEL"
        )


class _Ages:
    """When each container was last seen, and which of several containers of one name runs."""

    def __init__(self, newest: SeriesTable, places: tuple[str, ...]) -> None:
        self._exact: dict[_Key, float] = {}
        self._of_pod: dict[tuple[str, _Teller], float] = {}
        self._running: dict[tuple[str, _Teller, str], tuple[float, str]] = {}
        times = np.where(newest.present & ~newest.unreadable, newest.values, math.nan)[:, 0].tolist()
        for key, time in zip(_keys(newest, places), times, strict=True):
            if math.isnan(time):
                continue
            pod, teller, container, identity = key
            self._exact[key] = time
            self._of_pod[pod, teller] = max(time, self._of_pod.get((pod, teller), -math.inf))
            place = pod, teller, container
            self._running[place] = max((time, identity), self._running.get(place, (-math.inf, "")))

    def of(self, key: _Key) -> float | None:
        """The time of the newest sample, NaN if it is unknown; None for what was there before."""
        pod, teller, container, identity = key
        if key in self._exact:
            return self._exact[key] if self._running[pod, teller, container][1] == identity else None
        return self._of_pod.get((pod, teller), math.nan)


def _keys(table: SeriesTable, places: tuple[str, ...]) -> list[_Key]:
    """By series: the pod, who tells of it, the container, and its id."""
    pods, containers, identities, *tellers = (table.columns[label] for label in (*_LABELS, *places))
    return list(zip(pods, zip(*tellers, strict=True), containers, identities, strict=True))


def _sum_series(table: SeriesTable, ages: _Ages, said: PodAnswers) -> dict[str, list[tuple[float, float]]]:
    """By pod: (its use, the Unix time of the newest sample in it), as each teller says; a container that ended does
    not count."""
    oldest = said.at - said.max_age
    parts_of: dict[tuple[str, _Teller], list[tuple[float, float]]] = {}
    for key, value in zip(_keys(table, said.places), table.values[:, 0].tolist(), strict=True):
        time = ages.of(key)
        if time is not None:
            parts_of.setdefault(key[:2], []).append((time, value))
    told: dict[str, list[tuple[float, float]]] = {}
    for (pod, _), parts in parts_of.items():
        newest = max((time for time, _ in parts if not math.isnan(time)), default=math.nan)
        live = (
            [value for time, value in parts if not time < oldest] if newest >= oldest else [part for _, part in parts]
        )
        told.setdefault(pod, []).append((sum(live), newest))
    return told


def _agreed(
    told: Mapping[str, list[tuple[float, float]]], resource: str, said: PodAnswers, rejected: Counter[str]
) -> tuple[list[str], list[float], list[float]]:
    """Pods, the largest use that is told of each, and its time. Who is late, ahead of time or
    gives no number contradicts nobody."""
    pods, values, times = [], [], []
    for pod, of in told.items():
        current = [
            each for each in of if 0 <= each[0] < math.inf and said.at - said.max_age <= each[1] <= said.at + said.skew
        ] or of[:1]
        most, time = max(current)
        if most - min(current)[0] > max(_AGREE * most, _NEGLIGIBLE.get(resource, _FEW_BYTES)):
            rejected["duplicate"] += 1
            continue
        pods.append(pod)
        values.append(most)
        times.append(time)
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


def _from_metrics_server(said: PodAnswers, lists: Sequence[bytes]) -> PodUsage:
    """A pod lacks a resource if one of its containers lacks it."""
    try:
        items = [item for body in lists for item in _read(body).items]
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
