"""From decoded answers to readings: the node and the age of each value, and whether it is accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest

import numpy as np

from ballast.errors import TelemetryError
from ballast.model.sample import Ints, Reading, Samples
from ballast.settings import Settings
from ballast.telemetry.freshness import sample_times
from ballast.telemetry.intake import (
    SUSPICIOUS_RATIO,
    accept,
    allowed_skew,
    default_max_age,
    largest_ratio,
    looks_like_percent,
)
from ballast.telemetry.node_names import AMBIGUOUS, NOT_SELECTED, UNMATCHED, NodeNames
from ballast.telemetry.prometheus_client import Grid
from ballast.telemetry.queries import Query, QuerySet
from ballast.telemetry.responses import SeriesTable
from ballast.telemetry.warnings import Remarks

_NAMED_STRANGERS = 5


@dataclass(frozen=True)
class Answers:
    """Per resource and per freshness expression a table or what went wrong; `queries` counts what was asked."""

    values: Mapping[str, SeriesTable | TelemetryError]
    newest: Mapping[str, SeriesTable | TelemetryError]
    queries: int

    def failures(self, questions: QuerySet) -> dict[str, str]:
        """A sentence for each resource of which a query failed."""
        asked = [
            (question.resource, _failure(self.values[question.resource], self.newest[question.freshness]))
            for question in questions.asked
        ]
        return {resource: problem for resource, problem in asked if problem is not None}


@dataclass
class _Found:
    samples: list[dict[str, Samples]]
    rejected: list[Counter[str]]
    problems: dict[str, str]
    warnings: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)


class ReadingBuilder:
    """Turns the answers of one source into readings."""

    def __init__(self, source: str, settings: Settings, remarks: Remarks) -> None:
        interval = float(settings.telemetry.interval)
        self._source = source
        self._settings = settings
        self._remarks = remarks
        self._max_age = float(settings.windows.max_age or default_max_age(interval))
        self._skew = allowed_skew(interval)
        self._exactly = (
            ""
            if settings.cluster.node_selector is None
            else ", or rewrite its values with BALLAST_TELEMETRY__NODE_REWRITE: with BALLAST_CLUSTER__NODE_SELECTOR "
            "they have to be whole names or addresses"
        )

    def readings(self, grid: Grid, questions: QuerySet, answers: Answers, names: NodeNames) -> Iterator[Reading]:
        """One reading per time of the grid."""
        found = _Found(
            [{} for _ in range(grid.count)], [Counter() for _ in range(grid.count)], dict(questions.problems)
        )
        for question in questions.asked:
            problem = self._resource(question, answers, grid, names, found)
            if problem:
                found.problems[question.resource] = problem
        tables = [
            table for table in (*answers.values.values(), *answers.newest.values()) if isinstance(table, SeriesTable)
        ]
        warnings = self._remarks.kept(self._remarks.heard(tables) | found.warnings)
        for index in range(grid.count):
            yield Reading(
                source=self._source,
                at=grid.time(index),
                samples=found.samples[index],
                problems=found.problems,
                rejected=+found.rejected[index],
                strangers=tuple(sorted(found.strangers)[:_NAMED_STRANGERS]),
                warnings=warnings,
                queries=answers.queries if index == 0 else 0,
            )

    def _resource(self, question: Query, answers: Answers, grid: Grid, names: NodeNames, found: _Found) -> str | None:
        """Adds the samples of one resource, or says why there are none."""
        table, newest = answers.values[question.resource], answers.newest[question.freshness]
        if isinstance(table, TelemetryError) or isinstance(newest, TelemetryError):
            return _failure(table, newest)
        if not len(table):
            return _nothing(question)
        if len(table.cluster_names()) > 1:
            return _several_clusters(table.cluster_names())
        rows = names.rows(table.nodes)
        _note_strangers(question, table, rows, found)
        table = self._in_ratios(table, rows, names)
        largest = largest_ratio(question.resource)
        if looks_like_percent(table.values, largest):
            return (
                f"a tenth of the values of {question.resource} or more are above {largest:g}, so they are not ratios "
                f"0..1 but look like percent; divide by 100 in BALLAST_TELEMETRY__RESOURCES"
            )
        self._accept(question.resource, table, rows, sample_times(table, rows, newest, names), grid, found)
        if len(names) and np.all(rows < 0):
            for samples in found.samples:
                del samples[question.resource]
            return (
                f"no series matches a node, for example {_shown(question.label, min(table.nodes))}; "
                f"set BALLAST_TELEMETRY__NODE_LABEL to the label that names the node{self._exactly}"
            )
        return None

    def _accept(
        self, resource: str, table: SeriesTable, rows: Ints, times: np.ndarray, grid: Grid, found: _Found
    ) -> None:
        largest, highest = largest_ratio(resource), 0.0
        for index in range(grid.count):
            rejected, present = found.rejected[index], table.present[:, index]
            wrong = present & table.unreadable[:, index]
            rejected["unreadable"] += int(np.count_nonzero(wrong & (rows != NOT_SELECTED)))
            chosen = present & ~wrong
            samples = accept(
                grid.time(index),
                rows[chosen],
                table.values[chosen, index],
                times[chosen, index],
                max_age=self._max_age,
                skew=self._skew,
                largest=largest,
                rejected=rejected,
            )
            found.samples[index][resource] = samples
            highest = max(highest, float(samples.values.max(initial=0.0)))
        if highest > SUSPICIOUS_RATIO:
            limit = f"ratios 0..1 are expected, values above {largest:g} do not count"
            found.warnings.add(f"{resource} goes above {SUSPICIOUS_RATIO:g}; {limit}")

    def _in_ratios(self, table: SeriesTable, rows: Ints, names: NodeNames) -> SeriesTable:
        """Divides bytes per second by NETWORK_SPEED; without one for the node there is no sample."""
        if not table.in_bytes.any():
            return table
        speeds = np.ones(len(table))
        for index in np.flatnonzero(table.in_bytes & (rows >= 0)).tolist():
            speed = self._settings.telemetry.speed_of(names.nodes[rows[index]].name)
            speeds[index] = np.nan if speed is None else speed
        return SeriesTable(
            table.nodes,
            table.clusters,
            table.groups,
            table.in_bytes,
            table.values / speeds[:, None],
            table.present & np.isfinite(speeds)[:, None],
            table.unreadable,
        )


def _failure(table: SeriesTable | TelemetryError, newest: SeriesTable | TelemetryError) -> str | None:
    if isinstance(table, TelemetryError):
        return str(table)
    if isinstance(newest, TelemetryError):
        return f"the age of the samples is unknown, so none counts: {newest}"
    return None


def _nothing(question: Query) -> str:
    speeds = ", and set BALLAST_TELEMETRY__NETWORK_SPEED where link speeds are not reported"
    return (
        f"the query of {question.resource} gives no series; check that Prometheus has what BALLAST_PROMETHEUS__PRESET "
        f"or BALLAST_TELEMETRY__RESOURCES asks for, and BALLAST_PROMETHEUS__MATCHERS"
        f"{speeds if question.resource == 'network' else ''}"
    )


def _several_clusters(names: list[str]) -> str:
    return (
        f"the answer mixes the clusters {', '.join(names)}; choose one: "
        f"BALLAST_PROMETHEUS__MATCHERS='cluster=\"{names[0]}\"'"
    )


def _note_strangers(question: Query, table: SeriesTable, rows: Ints, found: _Found) -> None:
    """The first few by name, whatever the order of the answer."""
    strange: dict[str, int] = {
        table.nodes[index]: rows[index] for index in np.flatnonzero((rows == UNMATCHED) | (rows == AMBIGUOUS)).tolist()
    }
    for name in nsmallest(_NAMED_STRANGERS, strange):
        what = " could be several nodes" if strange[name] == AMBIGUOUS else " is not a node"
        found.strangers.add(_shown(question.label, name) + what)


def _shown(label: str, value: str) -> str:
    return f"{label}={value!r}" if value else f"a series without the label {label}"
