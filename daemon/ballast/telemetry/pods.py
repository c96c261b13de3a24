"""Usage of pods, queried only when a part needs it. Answers are decoded later, by their user.

Source: cadvisor's metrics in Prometheus, or PodMetrics of metrics-server.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
import numpy as np

from ballast.errors import ClusterError, TelemetryError
from ballast.model.quantity import quantity
from ballast.model.sample import Samples
from ballast.settings import Settings
from ballast.telemetry import responses as decoding
from ballast.telemetry.freshness import newest_by_label
from ballast.telemetry.intake import accept, allowed_skew, default_max_age
from ballast.telemetry.responses import SeriesTable

POD_LABEL = "ballast_pod"
NEWEST = "newest"
PATH = "/apis/metrics.k8s.io/v1beta1/pods"


@dataclass(frozen=True)
class PodAnswers:
    """The undecoded answers of a source about pods."""

    at: float
    """The evaluation time, Unix seconds."""
    bodies: Mapping[str, bytes]
    """By resource; NEWEST gives the times of the samples. metrics-server answers all in one body, under ""."""
    problems: Mapping[str, str]
    """A sentence for each query that failed."""
    resources: tuple[str, ...]
    max_age: float
    """Seconds."""
    skew: float
    """Seconds by which a sample may be ahead of `at`."""
    url: str = ""


@dataclass(frozen=True)
class PodUsage:
    """Usage at the evaluation time `at`; `rows` of the samples index into `pods`, named namespace/name.

    cpu is in cores, memory in bytes, disk and network in bytes per second. A resource that failed is absent from
    `samples` and has a sentence in `problems`.
    """

    at: float
    pods: tuple[str, ...]
    samples: Mapping[str, Samples]
    problems: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, int] = field(default_factory=Counter)
    warnings: tuple[str, ...] = ()

    def by_pod(self) -> dict[str, dict[str, float]]:
        """What each pod uses, as far as it is known."""
        found: dict[str, dict[str, float]] = {}
        for resource, samples in self.samples.items():
            for row, value in zip(samples.rows.tolist(), samples.values.tolist(), strict=True):
                found.setdefault(self.pods[row], {})[resource] = value
        return found


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
            tables[name] = decoding.instant(body, (POD_LABEL,), said.url)
        except TelemetryError as error:
            problems[name] = str(error)
    warnings = sorted({text for table in tables.values() for text in table.warnings})
    newest = tables.pop(NEWEST, None)
    unknown_age = problems.pop(NEWEST, "it was not queried")
    rows: dict[str, int] = {}
    samples: dict[str, Samples] = {}
    rejected: Counter[str] = Counter()
    for resource, table in tables.items():
        if newest is None:
            problems[resource] = f"the age of the samples is unknown, so none counts: {unknown_age}"
        elif len(table.cluster_names()) > 1:
            problems[resource] = (
                f"the answer mixes the clusters {', '.join(table.cluster_names())}; choose one with "
                f"BALLAST_PROMETHEUS__MATCHERS"
            )
        else:
            labels, times = newest_by_label(newest)
            found = [labels.get(pod) for pod in table.nodes]
            when = [math.nan if row is None else float(times[row, 0]) for row in found]
            samples[resource] = _accepted(said, rows, table.nodes, table.values[:, 0].tolist(), when, rejected)
    return PodUsage(said.at, tuple(rows), samples, problems, +rejected, tuple(warnings))


def _accepted(
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


class _Metadata(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""


class _Container(msgspec.Struct, gc=False):
    usage: dict[str, str] = {}


class _Item(msgspec.Struct, gc=False):
    metadata: _Metadata
    timestamp: datetime | None = None
    containers: list[_Container] = []


class _List(msgspec.Struct, gc=False):
    items: list[_Item] = []


_read = msgspec.json.Decoder(_List).decode


def _from_metrics_server(said: PodAnswers) -> PodUsage:
    """A pod of which a container lacks a resource lacks that resource."""
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
            times.append(item.timestamp.timestamp() if item.timestamp else math.nan)
        samples[resource] = _accepted(said, rows, names, values, times, rejected)
    return PodUsage(said.at, tuple(rows), samples, rejected=+rejected)


def _sum(containers: Sequence[_Container], resource: str) -> float | None:
    try:
        return sum(quantity(each.usage[resource]) for each in containers) if containers else None
    except (KeyError, ValueError):
        return None
