"""The part of Prometheus' HTTP API that Ballast uses: `query`, `query_range`, build information and health."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from urllib.parse import parse_qsl

import numpy as np
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from ballast.model import duration
from ballast.model.sample import Floats
from ballast_lab.simulator import promql
from ballast_lab.simulator.faults import Faults
from ballast_lab.simulator.observations import Observations
from ballast_lab.simulator.power_feed import drawn, series

MOST_POINTS = 11_000
"""Prometheus' limit of points per series in a range query."""

MOST_CACHED = 64
"""Label sets of all nodes kept encoded, by query shape."""

PARTIAL = "No StoreAPIs matched for this query: partial response: 1 of 2 stores did not answer"
LOGIN_PAGE = "<!doctype html><html><head><title>Sign in</title></head><body><form>Sign in</form></body></html>"
VERSION = "3.15.0"


class QueryError(Exception):
    """An answer with `status: error`; `kind` is its `errorType`, `code` the HTTP status."""

    def __init__(self, message: str, kind: str = "bad_data", code: int = 400) -> None:
        super().__init__(message)
        self.kind, self.code = kind, code


@dataclass(frozen=True)
class MetricTable:
    """The result of a query: `labels` are encoded label sets, `values` and `present` are [series, time].

    `present` is true where the series has a sample.
    """

    labels: Sequence[str]
    values: Floats
    present: np.ndarray


@dataclass(frozen=True)
class _Variant:
    """Labels that a fault adds to all series, and by how much these, or those of one node, are higher."""

    labels: tuple[tuple[str, str], ...] = ()
    higher: float = 0.0
    only: int | None = None
    rows: frozenset[int] | None = None
    """The nodes that have such series; None: all."""
    silent: frozenset[int] = frozenset()


class PrometheusApi:
    """An ASGI application for any mount path.

    It counts its requests as ("query", "prometheus") and ("query_range", "prometheus").
    """

    def __init__(self, observations: Observations, faults: Faults, requests: Counter[tuple[str, str]]) -> None:
        self._observations = observations
        self._world = observations.world
        self._faults = faults
        self._requests = requests
        self._names: dict[object, list[str]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(Request(scope, receive))
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
        if self._faults.on("prometheus_401"):
            return PlainTextResponse("Unauthorized\n", 401, {"WWW-Authenticate": "Basic"})
        if self._faults.on("prometheus_500"):
            return PlainTextResponse("Internal Server Error\n", 500)
        if self._faults.on("prometheus_html"):
            return HTMLResponse(LOGIN_PAGE)
        if path in ("/-/healthy", "/-/ready"):
            return PlainTextResponse(f"Prometheus Server is {path[3:].title()}.\n")
        if path == "/api/v1/status/buildinfo":
            data = {"version": VERSION, "revision": "simulated", "branch": "HEAD", "goVersion": "none"}
            return _json(b'{"status":"success","data":' + json.dumps(data).encode() + b"}")
        if path not in ("/api/v1/query", "/api/v1/query_range"):
            return PlainTextResponse("404 page not found\n", 404)
        values: dict[str, str] = dict(request.query_params)
        if request.method == "POST":
            values |= dict(parse_qsl((await request.body()).decode(), keep_blank_values=True))
        self._requests[path.rpartition("/")[2], "prometheus"] += 1
        try:
            return _json(self._instant(values) if path.endswith("query") else self._range(values))
        except QueryError as error:
            document = {"status": "error", "errorType": error.kind, "error": str(error)}
            return _json(json.dumps(document).encode(), error.code)

    def _instant(self, values: Mapping[str, str]) -> bytes:
        time = _time(values, "time", self._world.clock.wall())
        table = self._table(_query(values), np.array([time]))
        stamp = _number(time)
        sampled = table.present[:, 0]
        series = [
            f'{{"metric":{labels},"value":[{stamp},"{value}"]}}'
            for labels, value, present in zip(table.labels, _texts(table.values[:, 0]), sampled.tolist(), strict=True)
            if present
        ]
        return self._success("vector", series)

    def _range(self, values: Mapping[str, str]) -> bytes:
        start, end = _time(values, "start", None), _time(values, "end", None)
        step = _duration(values.get("step", ""))
        query = _query(values)
        if end < start:
            raise QueryError('invalid parameter "end": end timestamp must not be before start time')
        if (end - start) / step > MOST_POINTS:
            raise QueryError(
                "exceeded maximum resolution of 11,000 points per timeseries. "
                "Try decreasing the query resolution (?step=XX)"
            )
        times: Floats = start + step * np.arange(math.floor((end - start) / step + 1e-9) + 1, dtype=np.float64)
        table = self._table(query, times)
        stamps = [f'[{_number(time)},"' for time in times.tolist()]
        series = []
        # Lines are joined as text: a range query of a large cluster has millions of points.
        for labels, row, sampled in zip(table.labels, table.values, table.present, strict=True):
            texts = _texts(row)
            if sampled.all():
                points = '"],'.join([stamp + text for stamp, text in zip(stamps, texts, strict=True)])
            else:
                kept = zip(stamps, texts, sampled.tolist(), strict=True)
                points = '"],'.join([stamp + text for stamp, text, present in kept if present])
            if points:
                series.append(f'{{"metric":{labels},"values":[{points}"]]}}')
        return self._success("matrix", series)

    def _success(self, kind: str, series: Sequence[str]) -> bytes:
        if self._faults.on("prometheus_empty"):
            series = ()
        partial = self._faults.values("prometheus_partial")
        warnings = f',"warnings":["{PARTIAL}"]' if partial is not None else ""
        return (
            f'{{"status":"success","data":{{"resultType":"{kind}","result":[{",".join(series)}]}}{warnings}}}'.encode()
        )

    def _table(self, query: str, times: Floats) -> MetricTable:
        parsed = promql.parse(query)
        if parsed.subject.startswith("pod_"):
            return self._pods(parsed, times)
        if parsed.subject == "power":
            rows = series(self._world, self._faults, times, fresh=parsed.fresh)
            labels = ["{}", '{"feed":"second"}'][: len(rows)]
            return MetricTable(labels, rows, np.ones_like(rows, dtype=bool))
        if parsed.subject == "drawn":
            values = np.floor(times) if parsed.fresh else np.full(len(times), drawn(self._world, parsed))
            return MetricTable(["{}"], values[None, :], np.ones((1, len(times)), dtype=bool))
        if not parsed.subject:
            return MetricTable([], np.empty((0, len(times))), np.empty((0, len(times)), dtype=bool))
        newest = self._observations.newest(times)
        present = ~np.isnan(newest)
        if parsed.fresh:
            values = newest
        elif parsed.subject == "up":
            values = np.ones_like(newest)
        else:
            values = self._observations.values(parsed.subject, times)
        return self._labelled(parsed, values, present)

    def _labelled(self, parsed: promql.ParsedQuery, values: Floats, present: np.ndarray) -> MetricTable:
        """The rows that match, once for each cluster and each duplicate that a fault adds; aggregated ones once."""
        count = len(self._world.node_names)
        if (partial := self._faults.values("prometheus_partial")) is not None:
            count = int(count * partial["share"])
        labels: list[str] = []
        rows: list[int] = []
        higher: list[float] = []
        place: dict[str, int] = {}
        several = self._variants()
        for variant in several:
            names = self._series(parsed, variant)
            for row in range(count):
                text = names[row]
                if not text or row in variant.silent or (variant.rows is not None and row not in variant.rows):
                    continue
                if len(several) > 1 and text in place and parsed.labels is not None:
                    higher[place[text]] = max(higher[place[text]], variant.higher)
                    continue
                place[text] = len(labels)
                labels.append(text)
                rows.append(row)
                higher.append(variant.higher if variant.only in (None, row) else 0.0)
        if rows == list(range(len(values))) and not any(higher):
            return MetricTable(labels, values, present)
        shift = np.zeros((len(rows), 1)) if parsed.fresh else np.array(higher).reshape(-1, 1)
        return MetricTable(
            labels, np.where(shift > 0, np.minimum(values[rows] + shift, 1.0), values[rows]), present[rows]
        )

    def _variants(self) -> list[_Variant]:
        """One, without faults."""
        more = self._faults.values("prometheus_higher")
        found = [_Variant(higher=more["by"], only=more["node"]) if more else _Variant()]
        if (several := self._faults.values("prometheus_clusters")) is not None:
            label = several["label"]
            found = [_Variant(((label, name),), 0.3 * (index > 0)) for index, name in enumerate(several["names"])]
        if (doubled := self._faults.values("prometheus_duplicates")) is not None:
            label = doubled["label"]
            first, second = ("{address}:9100", "{node}") if label == "instance" else ("a", "b")
            found = [_Variant((*one.labels, (label, value)), one.higher) for one in found for value in (first, second)]
        if (forged := self._faults.values("prometheus_forged")) is not None:
            rows = frozenset(forged["nodes"])
            silent = frozenset(forged["nodes"][:1] if forged["alone"] else ())
            found = [replace(one, silent=silent) for one in found]
            found.append(_Variant(tuple(forged["labels"].items()), forged["by"], rows=rows))
        return found

    def _series(self, parsed: promql.ParsedQuery, variant: _Variant) -> list[str]:
        """Encoded label sets by row, empty where a matcher rejects the node."""
        given = self._faults.values("prometheus_labels")
        pattern = _LABELS if given is None else given["labels"]
        key = (parsed.labels, parsed.matchers, parsed.joined, variant, tuple(pattern.items()))
        if key not in self._names:
            if len(self._names) >= MOST_CACHED:
                self._names.clear()
            found = []
            for index, (name, address) in enumerate(zip(self._world.node_names, self._world.addresses, strict=True)):
                full = {
                    label: value.format(node=name, address=address, index=index)
                    for label, value in {**pattern, **dict(variant.labels)}.items()
                }
                shown = json.dumps(parsed.shown(full), separators=(",", ":"))
                found.append(shown if parsed.matches(full) else "")
            self._names[key] = found
        return self._names[key]

    def _pods(self, parsed: promql.ParsedQuery, times: Floats) -> MetricTable:
        """Usage of the pods that run now: cpu in cores, memory in bytes, disk and network in bytes per second."""
        resource = parsed.subject.removeprefix("pod_")
        world = self._world
        with world.lock:
            members = [(key, member) for key, member in world.members.items() if member.running]
            kind = {"network": "receive", "disk": "transmit"}.get(resource, resource)
            keys = [key for key, _ in members]
            used = world.use_of_pods(kind, keys, times)
            if parsed.averaged is not None:
                length, step = parsed.averaged
                points = times[:, None] - np.arange(0.0, length, step)
                used = world.use_of_pods(kind, keys, points.reshape(-1)).reshape(len(keys), *points.shape)
                used = np.nanmean(used, axis=2)
        newest = self._observations.newest(times)
        newest[times[None, :] - newest > parsed.oldest] = np.nan
        if parsed.counted is not None:
            return _counted(newest, [member.node for _, member in members])
        labels = []
        rows = []
        for row, ((namespace, name), member) in enumerate(members):
            node = world.node_names[member.node]
            full = {
                "namespace": namespace,
                "pod": name,
                "container": "app",
                "node": node,
                "instance": f"{world.addresses[member.node]}:10250",
                "id": f"/kubepods/{namespace}/{name}",
            }
            if parsed.matches(full):
                labels.append(json.dumps(parsed.shown(full), separators=(",", ":")))
                rows.append(row)
        if not rows:
            return MetricTable([], np.empty((0, len(times))), np.empty((0, len(times)), dtype=bool))
        ages = newest[[members[row][1].node for row in rows]]
        values = ages if parsed.fresh else np.round(used[rows], 4)
        return MetricTable(labels, values, ~np.isnan(ages))


def _counted(newest: Floats, nodes: Sequence[int]) -> MetricTable:
    """How many pods have a sample at each time; the cluster has no name."""
    values: Floats = np.count_nonzero(~np.isnan(newest[list(nodes)]), axis=0).astype(np.float64)[None, :]
    rows = int(values.any())
    return MetricTable(["{}"][:rows], values[:rows], values[:rows] > 0)


_LABELS = {"instance": "{address}:9100", "job": "node-exporter", "node": "{node}", "nodename": "{node}"}


def _texts(values: Floats) -> list[str]:
    return ["NaN" if value != value else repr(value) for value in values.tolist()]


def _number(time: float) -> str:
    return f"{time:.3f}".rstrip("0").rstrip(".")


def _query(values: Mapping[str, str]) -> str:
    query = values.get("query", "")
    if (problem := promql.problem(query)) is not None:
        raise QueryError(f'invalid parameter "query": {problem}')
    return query


def _time(values: Mapping[str, str], name: str, default: float | None) -> float:
    text = values.get(name, "")
    if not text and default is not None:
        return default
    try:
        return float(text)
    except ValueError:
        try:
            return datetime.fromisoformat(text).timestamp()
        except ValueError as error:
            message = f'invalid parameter "{name}": cannot parse "{text}" to a valid timestamp'
            raise QueryError(message) from error


def _duration(text: str) -> float:
    try:
        written = duration.seconds(text)
        seconds = float(text if written is None else written)
    except ValueError as error:
        raise QueryError(f'invalid parameter "step": cannot parse "{text}" to a valid duration') from error
    if seconds <= 0:
        raise QueryError(
            'invalid parameter "step": zero or negative query resolution step widths are not accepted. '
            "Try a positive integer"
        )
    return seconds


def _json(body: bytes, code: int = 200) -> Response:
    return Response(body, code, media_type="application/json")
