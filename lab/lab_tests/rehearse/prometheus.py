"""A Prometheus that has the series of a small world: node_exporter, cadvisor and, if wanted, kube-state-metrics."""

import json
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from lab_tests.rehearse.worlds import BEGIN, GIB, RecordedPod, World

Series = tuple[dict[str, str], list[tuple[float, float]]]
TOO_MANY = "query processing would load too many samples into memory"
READY_AFTER = 45.0
"""Seconds from the creation of a pod."""
TOO_FINE = "exceeded maximum resolution of 11,000 points per timeseries"


@dataclass
class FakePrometheus:
    """Answers by the metric that a query names. `most` is how many points an answer may have.

    Times are Unix seconds. It has no samples of its `downtimes`, and answers 503 once it was asked `asked_until` times.
    Exporters call the nodes by other names from `renamed` on.
    """

    server: HTTPServer
    world: World
    kube_state: bool = True
    most: int = 10**9
    refusal: tuple[int, str] = (422, TOO_MANY)
    until: float = math.inf
    downtimes: tuple[tuple[float, float], ...] = ()
    asked_until: float = math.inf
    renamed: float = math.inf
    clusters: tuple[str, ...] = ()
    slowly: float = 0.0
    """Seconds that each answer takes."""
    queries: list[tuple[str, int]] = field(default_factory=list)
    """(query, times) of each."""

    def __post_init__(self) -> None:
        self.server.expect_request("/api/v1/query").respond_with_handler(self._answer)
        self.server.expect_request("/api/v1/query_range").respond_with_handler(self._answer)

    @property
    def url(self) -> str:
        return self.server.url_for("").rstrip("/")

    def _answer(self, request: Request) -> Response:
        asked = dict(request.args.items()) | dict(parse_qsl(request.get_data(as_text=True)))
        if "time" in asked:
            times = [float(asked["time"])]
        else:
            start, end, step = (float(asked[name]) for name in ("start", "end", "step"))
            times = [start + number * step for number in range(math.floor((end - start) / step + 1e-9) + 1)]
        if len(self.queries) >= self.asked_until:
            return Response("", 503)
        self.queries.append((asked["query"], len(times)))
        time.sleep(self.slowly)
        series = [(labels, points) for labels, points in self._series(asked["query"], times) if points]
        if len(times) > 1 and sum(len(points) for _, points in series) > self.most:
            code, text = self.refusal
            kind = "bad_data" if code == 400 else "execution"
            return _json({"status": "error", "errorType": kind, "error": text}, code)
        kind, key = ("vector", "value") if "time" in asked else ("matrix", "values")
        result = [
            {"metric": labels, key: [[at, str(value)] for at, value in points][0 if key == "value" else slice(None)]}
            for labels, points in series
        ]
        return _json({"status": "success", "data": {"resultType": kind, "result": result}})

    def _series(self, query: str, times: list[float]) -> Iterable[Series]:
        down = [*self.downtimes, (self.until, math.inf)]
        times = [time for time in times if not any(begin < time <= end for begin, end in down)]
        if "kube_" in query:
            yield from self._objects(query, times) if self.kube_state else ()
        elif "container_" in query:
            part, unit = (0, "cpu") if "cpu" in query else (1, "memory")
            assert unit in query
            for pod in self.world.pods:
                labels = {"namespace": pod.namespace, "pod": pod.name}
                yield labels, [(t, pod.used(t - BEGIN)[part]) for t in times if pod.there(t - BEGIN)]
        elif "timestamp(" in query:
            yield from (({"instance": name}, [(t, t) for t in here]) for name, _, here in self._named(times))
        else:
            part, whole = (0, self.world.cores) if "cpu" in query else (1, 40 * GIB)
            for cluster in self.clusters or ("",):
                for name, node, here in self._named(times):
                    labels = {"instance": name, **({"cluster": cluster} if cluster else {})}
                    yield labels, [(t, self._used(node, t - BEGIN)[part] / whole) for t in here]

    def _named(self, times: list[float]) -> Iterator[tuple[str, str, list[float]]]:
        """(name of the exporter, node, its times)"""
        for node in self.world.nodes:
            yield node, node, [time for time in times if time < self.renamed]
            yield f"renamed-{node}", node, [time for time in times if time >= self.renamed]

    def _used(self, node: str, at: float) -> tuple[float, float]:
        used = [pod.used(at) for pod in self.world.pods if pod.node == node and pod.there(at)]
        return sum(each[0] for each in used), sum(each[1] for each in used)

    def _objects(self, query: str, times: list[float]) -> Iterator[Series]:
        """Where `last_over_time` looks back an hour."""
        if "kube_pod_info" in query:
            for pod in self.world.pods:
                labels = {**_pod(pod), "node": pod.node, "created_by_kind": "ReplicaSet"}
                yield {**labels, "created_by_name": f"{pod.workload}-5d"}, _within(pod, times, 1.0)
        elif "kube_replicaset_owner" in query:
            for workload in {pod.workload for pod in self.world.pods}:
                labels = {"namespace": "default", "replicaset": f"{workload}-5d", "owner_name": workload}
                yield labels, [(t, 1.0) for t in times]
        elif "kube_pod_container_resource_requests" in query:
            for pod in self.world.pods:
                for name, amount in zip(("cpu", "memory"), pod.requests, strict=True):
                    yield {**_pod(pod), "resource": name}, _within(pod, times, amount)
        elif "kube_pod_created" in query:
            for pod in self.world.pods:
                yield _pod(pod), _within(pod, times, BEGIN + pod.start)
        elif "kube_pod_status_ready_time" in query:
            for pod in self.world.pods:
                yield _pod(pod), _within(pod, times, BEGIN + pod.start + READY_AFTER)
        elif "kube_node_status_" in query:
            amounts = {"cpu": self.world.cores, "memory": 40 * GIB, "pods": 110.0}
            for node in self.world.nodes:
                yield from (({"node": node, "resource": name}, [(t, v) for t in times]) for name, v in amounts.items())
        elif "kube_node_info" in query:
            yield from (
                ({"node": node, "internal_ip": "10.0.0.1"}, [(t, 1.0) for t in times]) for node in self.world.nodes
            )


def _pod(pod: RecordedPod) -> dict[str, str]:
    return {"namespace": pod.namespace, "pod": pod.name, "uid": f"u-{pod.name}"}


def _within(pod: RecordedPod, times: list[float], value: float) -> list[tuple[float, float]]:
    end = math.inf if pod.end is None else BEGIN + pod.end + 3600
    return [(t, value) for t in times if BEGIN + pod.start <= t < end]


def _json(document: Any, code: int = 200) -> Response:
    return Response(json.dumps(document), code, content_type="application/json")
