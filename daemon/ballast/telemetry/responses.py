"""Answers of Prometheus' HTTP API, decoded into arrays: only the labels that are needed, warnings kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np

from ballast.errors import TelemetryError
from ballast.model.sample import Bools, Floats
from ballast.telemetry.presets import BYTES, UNIT_LABEL

GROUP_LABEL = "ballast_group"


@dataclass(frozen=True)
class SeriesTable:
    """The series of an answer by evaluation times."""

    nodes: list[str]
    """[series] the value of the first of the requested labels that the series has, "" without any."""
    clusters: list[str]
    """[series] the value of `cluster`."""
    groups: list[str]
    """[series] the value of GROUP_LABEL."""
    in_bytes: Bools
    """[series] bytes per second instead of a ratio."""
    values: Floats
    """[series, time], NaN where there is no number."""
    present: Bools
    """[series, time] whether there is a sample."""
    unreadable: Bools
    """[series, time] whether the sample is no number."""
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.nodes)

    def cluster_names(self) -> list[str]:
        """The distinct values of the label `cluster`, sorted."""
        return sorted(set(self.clusters) - {""})

    def group(self, name: str) -> SeriesTable:
        """The series of one group; those without a group belong to every one."""
        rows = [row for row, group in enumerate(self.groups) if group in ("", name)]
        return SeriesTable(
            [self.nodes[row] for row in rows],
            [self.clusters[row] for row in rows],
            [name] * len(rows),
            self.in_bytes[rows],
            self.values[rows],
            self.present[rows],
            self.unreadable[rows],
            self.warnings if name == "0" else (),
            self.infos if name == "0" else (),
        )


def instant(body: bytes, labels: Sequence[str], url: str) -> SeriesTable:
    """Decodes the answer to an instant query. Raises TelemetryError."""
    envelope = _envelope(body, url)
    series = _series(envelope, "vector", tuple(labels))
    points = [one.value for one in series]
    values, unreadable = _floats([None if point is None else point.value for point in points])
    present = np.ones(len(series), dtype=np.bool_)
    return _table(series, tuple(labels), values[:, None], present[:, None], unreadable[:, None], envelope)


def grid(body: bytes, labels: Sequence[str], url: str, start: float, step: float, count: int) -> SeriesTable:
    """Decodes the answer to a range query over `count` times from `start` on. Raises TelemetryError."""
    envelope = _envelope(body, url)
    series = _series(envelope, "matrix", tuple(labels))
    sizes = np.fromiter((len(one.values) for one in series), dtype=np.int64, count=len(series))
    total = int(sizes.sum())
    times = np.fromiter((point.time for one in series for point in one.values), dtype=np.float64, count=total)
    flat, wrong = _floats([point.value for one in series for point in one.values])
    rows = np.repeat(np.arange(len(series)), sizes)
    columns = np.rint((times - start) / step).astype(np.int64)
    inside = (columns >= 0) & (columns < count)
    rows, columns, flat, wrong = rows[inside], columns[inside], flat[inside], wrong[inside]
    shape = (len(series), count)
    values, present, unreadable = np.full(shape, np.nan), np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    values[rows, columns] = flat
    present[rows, columns] = True
    unreadable[rows, columns] = wrong
    return _table(series, tuple(labels), values, present, unreadable, envelope)


class _Point(msgspec.Struct, array_like=True, gc=False):
    """Unlike a tuple no concern of the garbage collector, which a million of them would keep busy."""

    time: float
    value: str


class _Data(msgspec.Struct, gc=False):
    result_type: str = msgspec.field(name="resultType", default="")
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Envelope(msgspec.Struct, gc=False):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] = []
    infos: list[str] = []


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


def _envelope(body: bytes, url: str) -> _Envelope:
    try:
        envelope = _decode_envelope(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise TelemetryError(_not_prometheus(body, url)) from None
    if envelope.status != "success" or envelope.data is None:
        raise TelemetryError(f"{url} answers an error: {envelope.error or envelope.status}")
    return envelope


def _not_prometheus(body: bytes, url: str) -> str:
    if body.lstrip()[:1] == b"<":
        return (
            f"{url} answers HTML instead of JSON, a login or another page; check host and path prefix in "
            f"BALLAST_PROMETHEUS__URL, and credentials in BALLAST_PROMETHEUS__TOKEN_FILE"
        )
    return f"the answer of {url} is not JSON of Prometheus; check BALLAST_PROMETHEUS__URL"


@lru_cache(maxsize=64)
def _decoder(kind: str, labels: tuple[str, ...]) -> msgspec.json.Decoder[list[Any]]:
    """Only the needed labels become objects; everything else in a series is skipped."""
    wanted = {label: f"node{index}" for index, label in enumerate(dict.fromkeys(labels))}
    names = wanted | {"cluster": wanted.get("cluster", "cluster"), GROUP_LABEL: "group", UNIT_LABEL: "unit"}
    metric = msgspec.defstruct(
        "Metric", [(name, str, msgspec.field(name=label, default="")) for label, name in names.items()], gc=False
    )
    points: tuple[str, Any, Any] = ("value", _Point | None, None) if kind == "vector" else ("values", list[_Point], [])
    return msgspec.json.Decoder(list[msgspec.defstruct("Series", [("metric", metric), points], gc=False)])  # type: ignore[misc]


def _series(envelope: _Envelope, kind: str, labels: tuple[str, ...]) -> list[Any]:
    assert envelope.data is not None
    if envelope.data.result_type != kind:
        raise TelemetryError(
            f"the query gives a {envelope.data.result_type or 'result'} without labels instead of one value per node; "
            f"correct it in BALLAST_TELEMETRY__RESOURCES"
        )
    try:
        return _decoder(kind, labels).decode(envelope.data.result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TelemetryError(f"the answer cannot be read: {error}") from None


def _table(
    series: list[Any], labels: tuple[str, ...], values: Floats, present: Bools, unreadable: Bools, envelope: _Envelope
) -> SeriesTable:
    metrics = [one.metric for one in series]
    nodes = [""] * len(metrics)
    for index in range(len(dict.fromkeys(labels))):
        name = f"node{index}"
        nodes = [node or getattr(metric, name) for node, metric in zip(nodes, metrics, strict=True)]
    clusters = [""] * len(metrics) if "cluster" in labels else [metric.cluster for metric in metrics]
    return SeriesTable(
        nodes,
        clusters,
        [metric.group for metric in metrics],
        np.fromiter((metric.unit == BYTES for metric in metrics), dtype=np.bool_, count=len(metrics)),
        values,
        present,
        unreadable,
        tuple(envelope.warnings),
        tuple(envelope.infos),
    )


def _floats(texts: Sequence[str | None]) -> tuple[Floats, Bools]:
    """The numbers, and where a text is none (NaN there)."""
    wrong = np.zeros(len(texts), dtype=np.bool_)
    try:
        return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts)), wrong  # type: ignore[arg-type]
    except (TypeError, ValueError):
        values = np.full(len(texts), np.nan)
        for index, text in enumerate(texts):
            try:
                values[index] = float(text)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                wrong[index] = True
        return values, wrong
