"""A Prometheus that answers from functions: query and time → {label values: value}."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import requests
from responses import RequestsMock

from ballast.base.metrics import Metrics
from ballast.model.node import Node
from ballast.settings import PrometheusSettings, Settings, TelemetrySettings, WindowSettings
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_source import PrometheusSource

URL = "http://prometheus.test:9090"

Series = tuple[Mapping[str, str], object]
Evaluate = Callable[[str, float], list[Series]]


@dataclass
class FakePrometheus:
    """`evaluate` gives the series of a query at a time; a value may also be an HTTP status with a message."""

    evaluate: Evaluate
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    queries: list[str] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)

    def serve(self, mock: RequestsMock) -> None:
        mock.add_callback("POST", f"{URL}/api/v1/query", callback=self._instant)
        mock.add_callback("POST", f"{URL}/api/v1/query_range", callback=self._range)

    def _instant(self, request: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        form = self._form(request)
        return self._answer(lambda: vector(self.evaluate(form["query"], float(form["time"])), float(form["time"])))

    def _range(self, request: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        form = self._form(request)
        start, end, step = (float(form[name]) for name in ("start", "end", "step"))
        times = [start + index * step for index in range(round((end - start) / step) + 1)]
        return self._answer(lambda: matrix([(time, self.evaluate(form["query"], time)) for time in times]))

    def _form(self, request: requests.PreparedRequest) -> dict[str, str]:
        body = request.body
        text = body.decode() if isinstance(body, bytes) else str(body)
        form = {name: values[0] for name, values in parse_qs(text).items()}
        self.queries.append(form["query"])
        self.forms.append(form)
        return form

    def _answer(self, make: Callable[[], dict[str, Any]]) -> tuple[int, dict[str, str], str]:
        try:
            answer = make()
        except QueryRefused as refused:
            status, message = refused.args
            return status, {}, json.dumps({"status": "error", "errorType": "bad_data", "error": message})
        if self.warnings:
            answer["warnings"] = list(self.warnings)
        if self.infos:
            answer["infos"] = list(self.infos)
        return 200, {}, json.dumps(answer)


class QueryRefused(Exception):
    """`status, message`."""


def vector(series: list[Series], time: float) -> dict[str, Any]:
    result = [{"metric": dict(labels), "value": [time, str(value)]} for labels, value in series]
    return {"status": "success", "data": {"resultType": "vector", "result": result}}


def matrix(columns: list[tuple[float, list[Series]]]) -> dict[str, Any]:
    rows: dict[str, dict[str, Any]] = {}
    for time, series in columns:
        for labels, value in series:
            row = rows.setdefault(json.dumps(dict(labels)), {"metric": dict(labels), "values": []})
            row["values"].append([time, str(value)])
    return {"status": "success", "data": {"resultType": "matrix", "result": list(rows.values())}}


def settings(telemetry: Mapping[str, Any] | None = None, prometheus: Mapping[str, Any] | None = None) -> Settings:
    return Settings(
        prometheus=PrometheusSettings(**{"url": URL, **(prometheus or {})}),
        telemetry=TelemetrySettings(**{"interval": "30s", **(telemetry or {})}),
        windows=WindowSettings(),
    )


def source(chosen: Settings | None = None, metrics: Metrics | None = None) -> PrometheusSource:
    return PrometheusSource(chosen or settings(), metrics or Metrics())


def nodes(count: int) -> list[Node]:
    return [Node(name=f"node-{index}", addresses=(("InternalIP", f"10.0.0.{index}"),)) for index in range(count)]


def named(count: int) -> NodeNames:
    return NodeNames(nodes(count))


def by_instance(value: object, count: int = 3, **labels: str) -> list[Series]:
    return [({"instance": f"10.0.0.{index}:9100", **labels}, value) for index in range(count)]


def healthy(query: str, time: float) -> list[Series]:
    """Three nodes at 0.25, scraped five seconds ago."""
    return by_instance(time - 5 if "timestamp(" in query else 0.25)
