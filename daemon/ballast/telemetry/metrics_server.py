"""metrics-server as a source: cpu and memory of the nodes, with its own times, without history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec
import numpy as np

from ballast.base.errors import ClusterError, Forbidden, NotFound, SourceUnavailable, TelemetryError
from ballast.base.metrics import Metrics
from ballast.model.load_limits import quantity
from ballast.model.node import Node
from ballast.model.sample import Floats, Ints, Reading, ReadingProblem, Samples
from ballast.settings import Settings
from ballast.telemetry.intake import accept, allowed_skew, default_max_age, largest_ratio
from ballast.telemetry.node_names import NodeNames

PATH = "/apis/metrics.k8s.io/v1beta1/nodes"
RESOURCES = ("cpu", "memory")


class MetricsServerSource:
    """A `Source`. `get` fetches a path from the Kubernetes API and raises ClusterError.

    A ratio is usage over the node's `status.capacity`. A sample whose time was seen before is not given again.
    """

    name = "metrics-server"

    def __init__(self, get: Callable[[str], bytes], settings: Settings, metrics: Metrics) -> None:
        names = {resource.name for resource in settings.telemetry.resources}
        interval = float(settings.telemetry.interval)
        self.resources = tuple(resource for resource in RESOURCES if resource in names)
        self._get = get
        self._metrics = metrics
        self._max_age = float(settings.windows.max_age or default_max_age(interval))
        self._skew = allowed_skew(interval)
        self._given: dict[str, dict[str, float]] = {}

    def read(self, at: float, names: NodeNames, resources: Sequence[str] | None = None) -> Reading:
        """The samples that are newer than those of earlier calls; one request."""
        chosen = [resource for resource in self.resources if resources is None or resource in resources]
        if not chosen:
            return Reading(self.name, at, {})
        try:
            items = self._items()
        except TelemetryError as error:
            self._count("error")
            return Reading(
                self.name, at, {}, failed=dict.fromkeys(chosen, ReadingProblem("query", str(error))), queries=1
            )
        self._count("ok" if items else "empty")
        if not items:
            problem = ReadingProblem(
                "empty",
                f"{PATH} lists no node; metrics-server has just started, or cannot reach the kubelets: see its log",
            )
            return Reading(self.name, at, {}, failed=dict.fromkeys(chosen, problem), queries=1)
        rejected: Counter[str] = Counter()
        rows = names.rows([item.metadata.name for item in items])
        times = _times(items)
        samples = {resource: self._samples(resource, at, items, rows, times, names, rejected) for resource in chosen}
        strangers = [item.metadata.name for item, row in zip(items, rows.tolist(), strict=True) if row in (-1, -2)]
        return Reading(
            self.name,
            at,
            samples,
            rejected=+rejected,
            strangers=tuple(f"{name!r} is not a node" for name in strangers[:5]),
            queries=1,
        )

    def backfill(self, start: float, end: float, step: float, names: NodeNames) -> Iterator[Reading]:
        """Nothing: metrics-server keeps no history."""
        return iter(())

    def close(self) -> None:
        """Nothing to free: the connection is the caller's."""

    def _samples(
        self,
        resource: str,
        at: float,
        items: list[_NodeMetrics],
        rows: Ints,
        times: Floats,
        names: NodeNames,
        rejected: Counter[str],
    ) -> Samples:
        usage = [amount_of(item.usage, resource) for item in items]
        capacity = [_capacity(names.nodes, row, resource) for row in rows.tolist()]
        readable = np.array([amount is not None for amount in usage]) & np.isfinite(times)
        known = np.array([amount is not None for amount in capacity])
        rejected["unreadable"] += int(np.count_nonzero(~readable & (rows >= 0)))
        values = np.array([np.nan if value is None else value for value in usage], dtype=np.float64)
        values /= np.array([np.nan if value is None else value for value in capacity], dtype=np.float64)
        chosen = readable & (known | (rows < 0))
        samples = accept(
            at,
            rows[chosen],
            values[chosen],
            times[chosen],
            max_age=self._max_age,
            skew=self._skew,
            largest=largest_ratio(resource),
            rejected=rejected,
        )
        return self._unseen(resource, samples, names)

    def _unseen(self, resource: str, samples: Samples, names: NodeNames) -> Samples:
        given = self._given.setdefault(resource, {})
        keys = [names.nodes[row].name for row in samples.rows.tolist()]
        times = samples.times.tolist()
        fresh = np.fromiter(
            (time > given.get(key, -np.inf) for key, time in zip(keys, times, strict=True)),
            dtype=np.bool_,
            count=len(keys),
        )
        if len(given) > 4 * len(names) + 1_000:
            given.clear()
        given.update(zip(keys, times, strict=True))
        return Samples(samples.rows[fresh], samples.values[fresh], samples.times[fresh])

    def _items(self) -> list[_NodeMetrics]:
        try:
            return _decode(self._get(PATH)).items
        except NotFound as error:
            raise SourceUnavailable(
                "metrics-server is not installed: the Kubernetes API does not serve metrics.k8s.io; install it, or set "
                "BALLAST_TELEMETRY__SOURCE=prometheus"
            ) from error
        except Forbidden as error:
            raise SourceUnavailable(
                f"{error}; allow list on nodes.metrics.k8s.io to Ballast's ServiceAccount"
            ) from error
        except ClusterError as error:
            if error.status == 503:
                raise SourceUnavailable(
                    "metrics-server does not answer (503 from the Kubernetes API); check the APIService "
                    "v1beta1.metrics.k8s.io and the pods of metrics-server"
                ) from error
            raise SourceUnavailable(f"metrics.k8s.io: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TelemetryError(f"the answer of {PATH} is not a list of node metrics: {error}") from error

    def _count(self, result: str) -> None:
        self._metrics.queries.labels(self.name, result).inc()


class _MetricsName(msgspec.Struct, gc=False):
    name: str


class _NodeMetrics(msgspec.Struct, gc=False):
    """Times and amounts are read one by one: what is wrong with one node is not wrong with the answer."""

    metadata: _MetricsName
    timestamp: object = ""
    usage: object = None


class _NodeMetricsList(msgspec.Struct, gc=False):
    items: list[_NodeMetrics] = []


_decode = msgspec.json.Decoder(_NodeMetricsList).decode


def _times(items: list[_NodeMetrics]) -> Floats:
    """Unix times; NaN where unreadable."""
    stamps = [item.timestamp if isinstance(item.timestamp, str) else "" for item in items]
    read = {stamp: unix_time(stamp) for stamp in set(stamps)}
    return np.array([read[stamp] for stamp in stamps], dtype=np.float64)


def unix_time(text: str) -> float:
    """NaN where unreadable."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    return time.timestamp() if time.tzinfo is not None else np.nan


def amount_of(usage: object, resource: str) -> float | None:
    """Of a v1beta1 ResourceList; None where it does not say, or nothing useful."""
    text = usage.get(resource) if isinstance(usage, dict) else None
    try:
        return quantity(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _capacity(nodes: Sequence[Node], row: int, resource: str) -> float | None:
    """What the node has, None where it does not say or says nothing useful."""
    return (nodes[row].capacity.get(resource) or None) if row >= 0 else None
