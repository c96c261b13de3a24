"""Nodes and pods through time, from the series of kube-state-metrics: where pods were, and who owns them.

Each query asks for the last value within every hour, so a pod that lived for a minute is there too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ballast.base.errors import TelemetryError
from ballast.settings import Settings
from ballast.telemetry import responses
from ballast.telemetry.exporters.terms import Terms
from ballast.telemetry.failed_answers import TooLarge, TooSlow
from ballast.telemetry.prometheus_client import Grid, PrometheusClient
from ballast.telemetry.responses import SeriesTable
from ballast_lab.rehearse.history import Unknown

HOUR = 3600.0
MOST_POINTS = 24
"""Times of one query; fewer where the answer is too large."""
POD = ("namespace", "pod", "uid")
NODES_HEAD = ("node", "cpu", "memory", "pods", "cpu_capacity", "memory_capacity", "taints", "address", "start", "end")
PODS_HEAD = ("namespace", "pod", "node", "kind", "workload", "cpu", "memory", "start", "end", "ready")
UNSAID = (
    Unknown("rules of pods, such as affinity, tolerations and local volumes: kube-state-metrics does not say", 1.0),
    Unknown("disruption budgets: kube-state-metrics does not say which pods they cover", 1.0),
    Unknown("labels of nodes: kube-state-metrics does not say", 1.0),
)


@dataclass
class _Series:
    """One label set, and when it was there."""

    labels: tuple[str, ...]
    first: float
    last: float
    value: float
    times: int = 1


@dataclass(frozen=True)
class KubeState:
    """Rows of the tables `nodes` and `pods`."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    pods: list[dict[str, Any]] = field(default_factory=list)


def read_kube_state(client: PrometheusClient, settings: Settings, begin: float, end: float) -> KubeState | None:
    """None where there is no kube-state-metrics. Raises TelemetryError where Prometheus does not answer."""
    reader = _Reader(client, settings, begin, end)
    pods = reader.read("kube_pod_info", (*POD, "node", "created_by_kind", "created_by_name"), 'node!=""')
    if not pods:
        return None
    return KubeState(list(_nodes(reader)), list(_pods(reader, pods)))


class _Reader:
    """Asks hour by hour."""

    def __init__(self, client: PrometheusClient, settings: Settings, begin: float, end: float) -> None:
        self._client, self._terms = client, Terms((), settings.prometheus.matchers, "")
        self.count = max(1, math.ceil((end - begin) / HOUR))
        self.start = end - (self.count - 1) * HOUR
        self._first, self._last = math.inf, -math.inf

    def read(self, metric: str, labels: Sequence[str], *matchers: str, together: str = "max") -> list[_Series]:
        """Every label set that there was."""
        by = ", ".join(labels)
        inner = f"last_over_time({self._terms.pick(metric, *matchers)}[1h])"
        if together == "sum":
            inner = f"max by ({by}, container) ({inner})"
        found: dict[tuple[str, ...], _Series] = {}
        for start, table in ask(self._client, f"{together} by ({by}) ({inner})", labels, self.start, HOUR, self.count):
            keys = list(zip(*(table.columns[label] for label in labels), strict=True))
            for row, key in enumerate(keys):
                places = np.flatnonzero(table.present[row])
                if len(places):
                    self._first = min(self._first, start + HOUR * int(places[0]))
                    self._last = max(self._last, start + HOUR * int(places[-1]))
                    self._add(found, key, start + HOUR * places, float(table.values[row, places[-1]]))
        return list(found.values())

    def _add(
        self, found: dict[tuple[str, ...], _Series], key: tuple[str, ...], times: np.ndarray[Any, Any], value: float
    ) -> None:
        first, last = float(times[0]), float(times[-1])
        before = found.get(key)
        if before is None:
            found[key] = _Series(key, first, last, value, len(times))
        else:
            before.last, before.value, before.times = last, value, before.times + len(times)

    def since(self, series: _Series) -> float | None:
        """When it began, None if it was there as long as anything; at most an hour early."""
        return None if series.first <= self._first else series.first - HOUR

    def until(self, series: _Series) -> float | None:
        """When it ended, None if it was there as long as anything was."""
        return None if series.last >= self._last else series.last


def ask(
    client: PrometheusClient,
    query: str,
    labels: Sequence[str],
    start: float,
    step: float,
    count: int,
    most: int = MOST_POINTS,
) -> Iterator[tuple[float, SeriesTable]]:
    """Answers in pieces, smaller ones where the server or the memory allows no more. Raises TelemetryError."""
    done = 0
    while done < count:
        grid = Grid(start + done * step, step, min(most, count - done))
        try:
            if grid.count == 1:
                table = responses.instant(client.ask(query, grid), labels, client.url)
            else:
                table = responses.grid(client.ask(query, grid), labels, client.url, grid.start, step, grid.count)
        except TelemetryError as error:
            if grid.count == 1 or not isinstance(error, TooLarge | TooSlow):
                raise
            most = grid.count // 2
            continue
        yield grid.start, table
        done += grid.count


def _pods(reader: _Reader, pods: Sequence[_Series]) -> Iterator[dict[str, Any]]:
    owners = {
        (namespace, replicaset): owner
        for namespace, replicaset, owner in (
            series.labels
            for series in reader.read(
                "kube_replicaset_owner", ("namespace", "replicaset", "owner_name"), 'owner_kind="Deployment"'
            )
        )
    }
    requests: dict[tuple[str, ...], dict[str, float]] = {}
    named = (*POD, "resource")
    for series in reader.read("kube_pod_container_resource_requests", named, 'resource=~"cpu|memory"', together="sum"):
        requests.setdefault(series.labels[:3], {})[series.labels[3]] = series.value
    created = _values(reader.read("kube_pod_created", POD))
    ready = _values(reader.read("kube_pod_status_ready_time", POD))
    completed = _values(reader.read("kube_pod_completion_time", POD))
    for series in pods:
        namespace, name, uid, node, kind, owner = series.labels
        key = (namespace, name, uid)
        if kind == "ReplicaSet" and (namespace, owner) in owners:
            kind, owner = "Deployment", owners[namespace, owner]
        asked = requests.get(key, {})
        if kind in ("", "<none>"):
            kind = owner = ""
        yield {
            "namespace": namespace,
            "pod": name,
            "node": node,
            "kind": kind,
            "workload": owner,
            "cpu": asked.get("cpu", ""),
            "memory": asked.get("memory", ""),
            "start": _text(created.get(key, reader.since(series))),
            "end": _text(completed.get(key, reader.until(series))),
            "ready": ready[key] - created[key] if key in ready and key in created else "",
        }


def _nodes(reader: _Reader) -> Iterator[dict[str, Any]]:
    there = {series.labels: series for series in reader.read("kube_node_info", ("node", "internal_ip"))}
    amounts: dict[str, Mapping[tuple[str, ...], float]] = {
        kind: _values(reader.read(f"kube_node_status_{kind}", ("node", "resource"), 'resource=~"cpu|memory|pods"'))
        for kind in ("allocatable", "capacity")
    }
    created = _values(reader.read("kube_node_created", ("node",)))
    taints: dict[str, list[dict[str, str]]] = {}
    for series in reader.read("kube_node_spec_taint", ("node", "key", "value", "effect")):
        if 2 * series.times > reader.count:
            node, key, value, effect = series.labels
            taints.setdefault(node, []).append({"key": key, "value": value, "effect": effect})
    newest = {labels[0]: series for labels, series in sorted(there.items(), key=lambda item: item[1].last)}
    for name, series in sorted(newest.items()):
        of = {
            kind: {resource: values.get((name, resource), "") for resource in ("cpu", "memory", "pods")}
            for kind, values in amounts.items()
        }
        if of["allocatable"]["cpu"] == "" or of["allocatable"]["memory"] == "":
            continue
        yield {
            "node": name,
            **of["allocatable"],
            "cpu_capacity": of["capacity"]["cpu"],
            "memory_capacity": of["capacity"]["memory"],
            "taints": json.dumps(taints.get(name, [])),
            "address": series.labels[1],
            "start": _text(created.get((name,), reader.since(series))),
            "end": _text(reader.until(series)),
        }


def _values(series: Sequence[_Series]) -> dict[tuple[str, ...], float]:
    return {one.labels: one.value for one in series}


def _text(time: float | None) -> str:
    return "" if time is None else f"{time:.0f}"
