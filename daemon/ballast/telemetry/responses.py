"""Answers of Prometheus' HTTP API, decoded into arrays: only the labels that are needed, warnings kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from ballast.base.answer_budget import ANSWERS, WORTH_DECODED, AnswerBudget
from ballast.base.errors import TelemetryError
from ballast.base.text import printable
from ballast.model.sample import Bools, Floats
from ballast.telemetry.exporters.terms import REPLICA_LABELS, UNIT_LABEL, WITNESS_LABEL
from ballast.telemetry.failed_answers import FailedAnswer, not_decoded
from ballast.telemetry.node_names import SEPARATOR

GROUP_LABEL = "ballast_group"

SERIES, POINT, STRING, LABEL = 80, 150, 16, 128
"""Bytes that these become while an answer is decoded, measured; a label only where all of them are asked for."""

REMARKS = 2**20
"""Bytes of warnings, and of infos, that are read."""

LONGEST = 300
"""Characters of an error text that are quoted."""

CELL = 10
"""Bytes of a series at one time of a range."""


@dataclass(frozen=True)
class SeriesTable:
    """The series of an answer by evaluation times."""

    columns: Mapping[str, list[str]]
    """[series] the values of each requested label, "" without it."""
    clusters: list[str]
    """[series] the value of `cluster`."""
    groups: list[str]
    """[series] the value of GROUP_LABEL."""
    amounts: Bools
    """[series] an amount such as bytes instead of a ratio."""
    values: Floats
    """[series, time], NaN where there is no number."""
    present: Bools
    """[series, time] whether there is a sample."""
    unreadable: Bools
    """[series, time] whether the sample is no number."""
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    every: list[dict[str, str]] | None = None
    """[series] all labels, where they were asked for."""
    replicas: list[str] = field(default_factory=list)
    """[series] the replica of Prometheus that gave it, "" without one; empty where none has any."""
    witness: Bools | None = None
    """[series] a witness beside the load; None where there is none."""

    def __len__(self) -> int:
        return len(self.clusters)

    @cached_property
    def nodes(self) -> list[str]:
        """[series] the value of the first of the requested labels that the series has, "" without any."""
        first, *others = self.columns.values() or ([""] * len(self),)
        series = first
        for column in others:
            series = [node or value for node, value in zip(series, column, strict=True)]
        return series

    def named(self, labels: Sequence[str]) -> list[str]:
        """[series] the values of these labels that the series has, joined; of another requested label without any."""
        if not self.columns:
            return [""] * len(self)
        if len(labels) == 1 and len(self.columns) == 1:
            return self.columns[labels[0]]
        rest = [label for label in self.columns if label not in labels]
        first = list(zip(*(self.columns[label] for label in labels), strict=True))
        others = list(zip(*(self.columns[label] for label in rest), strict=True)) if rest else [()] * len(self)
        return [
            SEPARATOR.join(dict.fromkeys(filter(None, some))) or next(filter(None, other), "")
            for some, other in zip(first, others, strict=True)
        ]

    def cluster_names(self) -> list[str]:
        """The distinct values of the label `cluster`, sorted."""
        return sorted(set(self.clusters) - {""})

    def group(self, name: str) -> SeriesTable:
        """The series of one group; those without a group belong to every one."""
        rows = [row for row, group in enumerate(self.groups) if group in ("", name)]
        part = replace(self.take(rows), groups=[name] * len(rows))
        return part if name == "0" else replace(part, warnings=(), infos=())

    def take(self, rows: Sequence[int]) -> SeriesTable:
        """Some of the series, with all remarks."""
        return SeriesTable(
            {label: [values[row] for row in rows] for label, values in self.columns.items()},
            [self.clusters[row] for row in rows],
            [self.groups[row] for row in rows],
            self.amounts[rows],
            self.values[rows],
            self.present[rows],
            self.unreadable[rows],
            self.warnings,
            self.infos,
            None if self.every is None else [self.every[row] for row in rows],
            [self.replicas[row] for row in rows] if self.replicas else [],
            None if self.witness is None else self.witness[rows],
        )


def instant(
    body: bytes, labels: Sequence[str], url: str, *, every: bool = False, budget: AnswerBudget = ANSWERS
) -> SeriesTable:
    """Decodes the answer to an instant query, with all labels if they are wanted.

    Raises TelemetryError, TooLarge where `budget` has no room for what it becomes.
    """
    with _room(body, url, budget, quote=LABEL // 4 if every else STRING // 2):
        envelope = _envelope(body, url)
        series = _series(envelope, "vector", tuple(labels), every=every)
        values, unreadable = _floats([None if (point := one.value) is None else point.value for one in series])
        present = np.ones(len(series), dtype=np.bool_)
        return _table(series, tuple(labels), values[:, None], present[:, None], unreadable[:, None], envelope)


def grid(
    body: bytes,
    labels: Sequence[str],
    url: str,
    start: float,
    step: float,
    count: int,
    *,
    budget: AnswerBudget = ANSWERS,
) -> SeriesTable:
    """Decodes the answer to a range query over `count` times from `start` on. Raises as `instant`."""
    with _room(body, url, budget, times=count):
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


@contextmanager
def _room(body: bytes, url: str, budget: AnswerBudget, *, times: int = 0, quote: int = STRING // 2) -> Iterator[None]:
    """Holds room for what the answer becomes, beside its own bytes, while it is decoded. Raises TooLarge.

    It counts signs: a series has two braces, a point one bracket, a string two quotes.
    """
    series, points = body.count(b"{") // 2, body.count(b"[")
    size = series * (SERIES + CELL * times) + points * POINT + body.count(b'"') * quote
    if not budget.take(size):
        raise not_decoded(url, (len(body), series, points), size, budget.limit)
    try:
        yield
    finally:
        budget.give_back(size, WORTH_DECODED)


class _Point(msgspec.Struct, array_like=True, gc=False):
    """The garbage collector does not track it, unlike a tuple: a million of them cost no collection."""

    time: float
    value: str


class _Data(msgspec.Struct, gc=False):
    result_type: str = msgspec.field(name="resultType", default="")
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Envelope(msgspec.Struct, gc=False):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: msgspec.Raw = msgspec.Raw(b"[]")
    infos: msgspec.Raw = msgspec.Raw(b"[]")


_decode_remarks = msgspec.json.Decoder(list[str]).decode
_decode_envelope = msgspec.json.Decoder(_Envelope).decode


_BEGINNING = b'{"status":"success"'
_CUT_OFF = re.compile(rb'\s*\{\s*"status"\s*:\s*"error"(?:[^{}]*?"error"\s*:\s*"((?:[^"\\]|\\.)*))?', re.DOTALL)
"""An error whose end was not read."""
_WIDEST = 12
"""Bytes of the widest character in JSON: two escapes."""


def _envelope(body: bytes, url: str) -> _Envelope:
    try:
        envelope = _decode_envelope(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if (cut_off := _CUT_OFF.match(body)) is not None:
            raise _refusal(url, _beginning_of(cut_off[1])) from None
        if body.startswith(_BEGINNING):
            text = f"the answer of {url} ends after {len(body):,} bytes; look at the server's log and at proxies"
            raise FailedAnswer(f"{text} before it") from None
        raise TelemetryError(_not_prometheus(body, url)) from None
    if envelope.status != "success" or envelope.data is None:
        raise _refusal(url, envelope.error or envelope.status)
    return envelope


def _refusal(url: str, said: str) -> FailedAnswer:
    return FailedAnswer(f"{url} answers an error: {printable(said, LONGEST)}")


def _beginning_of(escaped: bytes | None) -> str:
    """What can be read of a JSON text that was cut off: it may end within a character or an escape."""
    kept = (escaped or b"error")[: 4 * LONGEST]
    for end in range(len(kept), max(0, len(kept) - _WIDEST), -1):
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.json.decode(b'"%b"' % kept[:end], type=str)
    return "error"


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
    fields = {label: f"node{index}" for index, label in enumerate(dict.fromkeys(labels))}
    names = (
        fields
        | {"cluster": fields.get("cluster", "cluster"), GROUP_LABEL: "group", UNIT_LABEL: "unit"}
        | {WITNESS_LABEL: "witness"}
    )
    names |= {label: fields.get(label, f"replica{index}") for index, label in enumerate(REPLICA_LABELS)}
    metric = msgspec.defstruct(
        "Metric", [(name, str, msgspec.field(name=label, default="")) for label, name in names.items()], gc=False
    )
    points: tuple[str, Any, Any] = ("value", _Point | None, None) if kind == "vector" else ("values", list[_Point], [])
    return msgspec.json.Decoder(list[msgspec.defstruct("Series", [("metric", metric), points], gc=False)])  # type: ignore[misc]


class _Labelled(msgspec.Struct, gc=False):
    metric: dict[str, str] = {}
    value: _Point | None = None


_decode_labelled = msgspec.json.Decoder(list[_Labelled]).decode


def _series(envelope: _Envelope, kind: str, labels: tuple[str, ...], *, every: bool = False) -> list[Any]:
    assert envelope.data is not None
    if envelope.data.result_type != kind:
        raise TelemetryError(
            f"the query gives a {envelope.data.result_type or 'result'} without labels instead of one value per node; "
            f"correct it in BALLAST_TELEMETRY__RESOURCES"
        )
    try:
        return (_decode_labelled if every else _decoder(kind, labels).decode)(envelope.data.result)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TelemetryError(f"the answer cannot be read: {error}") from None


def _table(
    series: list[Any], labels: tuple[str, ...], values: Floats, present: Bools, unreadable: Bools, envelope: _Envelope
) -> SeriesTable:
    metrics = [one.metric for one in series]
    every = metrics if metrics and isinstance(metrics[0], dict) else None

    def column(label: str, field: str) -> list[str]:
        if every is not None:
            return [metric.get(label, "") for metric in every]
        return list(map(attrgetter(field), metrics))

    witness = np.fromiter(map(bool, column(WITNESS_LABEL, "witness")), dtype=np.bool_, count=len(metrics))
    columns = {label: column(label, f"node{index}") for index, label in enumerate(dict.fromkeys(labels))}
    each = [
        [""] * len(metrics) if label in labels else column(label, f"replica{index}")
        for index, label in enumerate(REPLICA_LABELS)
    ]
    replicas = [one or other for one, other in zip(*each, strict=True)]
    return SeriesTable(
        columns,
        [""] * len(metrics) if "cluster" in labels else column("cluster", "cluster"),
        column(GROUP_LABEL, "group"),
        np.fromiter(map(bool, column(UNIT_LABEL, "unit")), dtype=np.bool_, count=len(metrics)),
        values,
        present,
        unreadable,
        _remarks(envelope.warnings),
        _remarks(envelope.infos),
        every,
        replicas if any(replicas) else [],
        witness if witness.any() else None,
    )


def _remarks(said: msgspec.Raw) -> tuple[str, ...]:
    if len(bytes(said)) > REMARKS:
        return (f"the answer has remarks of more than {REMARKS / 2**20:g} MiB, which are not read",)
    try:
        return tuple(map(printable, _decode_remarks(said)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TelemetryError(f"the remarks of the answer cannot be read: {error}") from None


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
