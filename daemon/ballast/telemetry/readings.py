"""From decoded answers to readings: the node and the age of each value, and whether it is accepted."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import nsmallest

import numpy as np
import structlog

from ballast.base.errors import TelemetryError
from ballast.base.metrics import Metrics
from ballast.base.text import printable
from ballast.model.node import beside_reserve
from ballast.model.sample import Bools, Floats, Ints, Mixture, Reading, ReadingProblem, Samples
from ballast.settings import Settings
from ballast.telemetry.impossible import find_impossible, none_can_be
from ballast.telemetry.intake import (
    COPIES,
    LARGEST_SHARE,
    SUSPICIOUS_RATIO,
    accept,
    allowed_skew,
    default_max_age,
    largest_ratio,
    no_ratios,
    rounded,
)
from ballast.telemetry.node_names import AMBIGUOUS, NOT_SELECTED, SEPARATOR, UNMATCHED, NodeNames
from ballast.telemetry.prometheus_client import Grid
from ballast.telemetry.queries import Query, QuerySet
from ballast.telemetry.responses import SeriesTable
from ballast.telemetry.sample_times import newest_replicas, sample_times, times_of
from ballast.telemetry.scrapes import LOOKED_AT, ScrapeIntervals
from ballast.telemetry.series_check import Pods, SeriesCheck
from ballast.telemetry.value_units import not_ratios

_NAMED_STRANGERS = 5

log = structlog.get_logger("ballast.telemetry")

LONGEST_WARNING = 200
"""Characters of the longest warning; longer ones are cut."""

MOST_WARNINGS = 5
"""Warnings of one reading that are kept."""

MOST_LOGGED = 20
"""Lines of the log that the remarks of one reading may take."""

_REMEMBERED = 1_000


class QueryWarnings:
    """Warnings and infos in the answers of one source, logged once each.

    A warning means that an answer may be incomplete; an info only comments on the query.
    """

    def __init__(self, source: str, metrics: Metrics) -> None:
        self._source = source
        self._metrics = metrics
        self._logged: set[str] = set()

    def collect(self, tables: Iterable[SeriesTable]) -> set[str]:
        """The distinct warnings of some answers, all of them counted; infos go to the log and no further."""
        warnings: set[str] = set()
        for table in tables:
            if table.warnings:
                self._metrics.query_warnings.labels(self._source).inc(len(table.warnings))
                warnings.update(map(_short, table.warnings))
            for text in map(_short, table.infos[:MOST_LOGGED]):
                if self._new(text):
                    log.info("a remark in an answer", source=self._source, remark=text)
        return warnings

    def log_new(self, warnings: Iterable[str]) -> tuple[str, ...]:
        """The first MOST_WARNINGS by their text. Of the first MOST_LOGGED each is logged when it is new."""
        ordered = sorted(warnings)
        for text in ordered[:MOST_LOGGED]:
            if self._new(text):
                log.warning("a warning about an answer", source=self._source, warning=text)
        return tuple(ordered[:MOST_WARNINGS])

    def _new(self, text: str) -> bool:
        if text in self._logged:
            return False
        if len(self._logged) >= _REMEMBERED:
            self._logged.clear()
        self._logged.add(text)
        return True


def _short(text: str) -> str:
    return printable(text, LONGEST_WARNING)


@dataclass(frozen=True)
class Answers:
    """Per question and per freshness expression a table or what went wrong; `queries` counts what was asked.

    `lowest` is what QuerySet.lowest asks, as far as it was asked.
    """

    values: Mapping[Query, SeriesTable | TelemetryError]
    newest: Mapping[str, SeriesTable | TelemetryError]
    queries: int
    lowest: Mapping[Query, SeriesTable | TelemetryError] = field(default_factory=dict)

    def failures(self, questions: QuerySet) -> dict[Query, str]:
        """A sentence for each question with a failed query."""
        queries = [
            (question, _failure(self.values[question], self.newest[question.freshness])) for question in questions.asked
        ]
        return {question: problem for question, problem in queries if problem is not None}


@dataclass
class _Found:
    times: int
    samples: list[dict[str, Samples]] = field(init=False)
    rejected: list[Counter[str]] = field(init=False)
    impossible: list[dict[str, str]] = field(init=False)
    warnings: set[str] = field(default_factory=set)
    strangers: set[str] = field(default_factory=set)
    mixtures: list[Mixture] = field(default_factory=list)
    matched_by: dict[str, tuple[str, bool]] = field(default_factory=dict)
    witnesses: dict[str, list[Samples]] = field(default_factory=dict)
    """By resource, for each time."""

    def __post_init__(self) -> None:
        self.samples = [{} for _ in range(self.times)]
        self.rejected = [Counter() for _ in range(self.times)]
        self.impossible = [{} for _ in range(self.times)]


class ReadingBuilder:
    """Turns the answers of one source into readings."""

    def __init__(self, source: str, settings: Settings, remarks: QueryWarnings, pods: Pods = tuple) -> None:
        self._source = source
        self._settings = settings
        self._remarks = remarks
        self._interval = float(settings.telemetry.interval)
        self._skew = allowed_skew(self._interval)
        self.check = SeriesCheck(settings, pods)
        self.scrapes = ScrapeIntervals()
        self._exactly = (
            ""
            if settings.cluster.node_selector is None
            else ", or rewrite its values with BALLAST_TELEMETRY__NODE_REWRITE: with BALLAST_CLUSTER__NODE_SELECTOR "
            "they have to be whole names or addresses"
        )

    def readings(self, grid: Grid, questions: QuerySet, answers: Answers, names: NodeNames) -> Iterator[Reading]:
        """One reading per time of the grid."""
        answers = self._observe(grid, questions, answers, names)
        samples = _Found(grid.count)
        failed = {name: ReadingProblem("query", text) for name, text in questions.problems.items()}
        failed |= self._resources(questions, answers, grid, names, samples)
        tables = [
            table for table in (*answers.values.values(), *answers.newest.values()) if isinstance(table, SeriesTable)
        ]
        warnings = self._remarks.log_new(self._remarks.collect(tables) | samples.warnings)
        mixtures = (*self.check.mixtures, *dict.fromkeys(samples.mixtures))
        scrapes = self.scrapes.by_resource(questions.asked)
        spans: dict[str, float] = {}
        for question in questions.asked:
            spans[question.resource] = max(question.span, spans.get(question.resource, 0.0))
        for index in range(grid.count):
            yield Reading(
                source=self._source,
                at=grid.time(index),
                samples=samples.samples[index],
                failed=failed,
                rejected=+samples.rejected[index],
                impossible=samples.impossible[index],
                matched_by=samples.matched_by,
                strangers=tuple(sorted(samples.strangers)[:_NAMED_STRANGERS]),
                warnings=warnings,
                queries=answers.queries if index == 0 else 0,
                mixtures=mixtures,
                several_jobs=self.check.several_jobs,
                doubtful=self.check.doubtful,
                scrape_interval=scrapes,
                spans=spans,
                working_set=samples.witnesses["memory"][index] if "memory" in samples.witnesses else None,
                starved=samples.witnesses["cpu"][index] if "cpu" in samples.witnesses else None,
            )

    def _observe(self, grid: Grid, questions: QuerySet, answers: Answers, names: NodeNames) -> Answers:
        """What the times of the raw series tell beside the age of samples; the answers without jobs left out."""
        for freshness, table in answers.newest.items():
            if isinstance(table, SeriesTable) and len(table):
                self.scrapes.add(freshness, table.nodes[:LOOKED_AT], table.values[:LOOKED_AT])
        if any(isinstance(table, SeriesTable) and table.every is not None for table in answers.newest.values()):
            agreed = {question: self._agreed(question, answers, names) for question in answers.lowest}
            self.check.check(grid.start, questions, answers.newest, names, self.scrapes.slowest(), agreed)
            return replace(answers, newest=self.check.counted(questions, answers.newest))
        return answers

    def _agreed(self, question: Query, answers: Answers, names: NodeNames) -> frozenset[str]:
        """The nodes of which all series tell one number, so they are copies, whatever their labels."""
        least, most = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        for table in (answers.values[question], answers.lowest[question]):
            if isinstance(table, TelemetryError):
                return frozenset()
            rows = names.rows(table.named(question.labels))
            values = self._ratios(question, table, rows, names).values[:, 0]
            np.minimum.at(least, rows[rows >= 0], values[rows >= 0])
            np.maximum.at(most, rows[rows >= 0], values[rows >= 0])
        return frozenset(names.nodes[row].name for row in np.flatnonzero(most - least <= COPIES).tolist())

    def _resources(
        self, questions: QuerySet, answers: Answers, grid: Grid, names: NodeNames, found: _Found
    ) -> dict[str, ReadingProblem]:
        """Adds the samples of each resource, per node of the first preset that has any; says why there are none."""
        problems: dict[str, ReadingProblem] = {}
        for resource in dict.fromkeys(question.resource for question in questions.asked):
            said = []
            for question in questions.asked:
                if question.resource != resource:
                    continue
                samples: list[Samples] = []
                problem = self._resource(question, answers, grid, names, found, samples)
                if problem:
                    said.append(problem)
                if samples and resource == "memory" and not question.holds_reserve:
                    self._witnessed(question, found, samples)
                for already, more in zip(found.samples, samples, strict=False):
                    already[resource] = _first(already[resource], more) if resource in already else more
            if any(sample.get(resource) is not None and sample[resource].rows.size for sample in found.samples):
                found.warnings.update(problem.text for problem in said if problem.reason == "query")
            elif said:
                problems[resource] = min(said, key=lambda problem: problem.reason == "empty")
        return problems

    def _resource(
        self, question: Query, answers: Answers, grid: Grid, names: NodeNames, found: _Found, samples: list[Samples]
    ) -> ReadingProblem | None:
        """Gives the samples of one question, one for each time of the grid, or says why there are none."""
        table, newest = answers.values[question], answers.newest[question.freshness]
        if isinstance(table, TelemetryError) or isinstance(newest, TelemetryError):
            return ReadingProblem("query", _failure(table, newest) or "")
        if table.witness is not None:
            table = self._without_witnesses(question, table, newest, grid, names, found)
        if not len(table):
            return ReadingProblem("empty", _nothing(question, newest, grid))
        table = _of_our_cluster(table, question, names, found)
        if len(clusters := table.cluster_names()) > 1:
            summary = f"the answer mixes the clusters {', '.join(clusters)}"
            fix = tuple(self.check.line(f'cluster="{name}"') for name in clusters)
            found.mixtures.append(Mixture(summary, "\n".join((f"{summary}:", *fix)), fix))
            return ReadingProblem("clusters", f"{summary}; choose one: {fix[0]}", fix)
        nodes = table.named(question.labels)
        rows = names.rows(nodes)
        _note_names(question, nodes, rows, names, found)
        largest = largest_ratio(question.resource)
        table = newest_replicas(self._ratios(question, table, rows, names), newest, question.labels, largest)
        if no_ratios(table.values[table.present], largest):
            unit = not_ratios(question.resource, table.values[:, -1], self._capacity(question.resource, rows, names))
            return ReadingProblem(
                "unit",
                f"most values of {question.resource} are above {largest:g}, so they are not ratios 0..1 but {unit}",
            )
        times = sample_times(table, rows, newest, names, question.labels)
        rejected = [Counter[str]() for _ in range(grid.count)]
        impossible: list[dict[str, str]] = [{} for _ in range(grid.count)]
        samples += self._accept(question, table, rows, times, grid, names, rejected, impossible)
        found.impossible = [new | told for told, new in zip(found.impossible, impossible, strict=True)]
        for counted, more in zip(found.rejected, rejected, strict=True):
            counted.update(more)
        highest = max((float(sample.values.max(initial=0.0)) for sample in samples), default=0.0)
        if highest > SUSPICIOUS_RATIO:
            limit = f"ratios 0..1 are expected, values above {largest:g} do not count"
            found.warnings.add(f"{question.resource} goes above {SUSPICIOUS_RATIO:g}; {limit}")
        if len(names) and np.all(rows < 0):
            samples.clear()
            said = self.check.advice(question.labels)
            return ReadingProblem(
                "unnamed",
                f"no series matches a node, for example {_shown(question.label, min(nodes))}; "
                f"set BALLAST_TELEMETRY__NODE_LABEL to the label that names the node{self._exactly}"
                f"{f' ({said.text})' if said.text else ''}",
                said.fix,
            )
        if grid.count == 1 and not samples[0].rows.size:
            return self._wholesale(question, rejected[0], newest, grid.start, impossible[0])
        return None

    def _without_witnesses(
        self, question: Query, table: SeriesTable, newest: SeriesTable, grid: Grid, names: NodeNames, found: _Found
    ) -> SeriesTable:
        """Takes the witnesses out of the answer; those that count become samples of their own."""
        assert table.witness is not None
        witnesses = newest_replicas(table.take(np.flatnonzero(table.witness).tolist()), newest, question.labels, 1.5)
        rows = names.rows(witnesses.named(question.labels))
        witnesses = self._ratios(question, witnesses, rows, names)
        times = sample_times(witnesses, rows, newest, names, question.labels)
        uncounted = [Counter[str]() for _ in range(grid.count)]
        samples = list(self._accept(question, witnesses, rows, times, grid, names, uncounted, None))
        self._witnessed(question, found, samples)
        return table.take(np.flatnonzero(~table.witness).tolist())

    def _witnessed(self, question: Query, found: _Found, samples: list[Samples]) -> None:
        already = found.witnesses.get(question.resource)
        found.witnesses[question.resource] = (
            samples if already is None else [_first(*both) for both in zip(already, samples, strict=True)]
        )

    def _wholesale(
        self, question: Query, rejected: Counter[str], newest: SeriesTable, at: float, impossible: Mapping[str, str]
    ) -> ReadingProblem | None:
        if self.check.excluded(question.family):
            return ReadingProblem("differing", f"{self.check.mixtures[0].summary}: see SeriesDiffer")
        if impossible and rejected["unreadable"] == max(rejected.values()):
            return none_can_be(question, impossible)
        return explain_rejection(question, +rejected, newest, at, self._max_age(question))

    def _max_age(self, question: Query) -> float:
        configured = self._settings.windows.max_age
        return float(configured or default_max_age(self._interval, self.scrapes.of(question.freshness) or 0.0))

    def _accept(
        self,
        question: Query,
        table: SeriesTable,
        rows: Ints,
        times: Floats,
        grid: Grid,
        names: NodeNames,
        rejected: list[Counter[str]],
        impossible: list[dict[str, str]] | None,
    ) -> Iterator[Samples]:
        """`impossible` takes up, by node, what cannot be; None for witnesses, which no query holds to be shares."""
        excluded = self.check.excluded(question.family)
        mixed = np.array([row >= 0 and names.nodes[row].name in excluded for row in rows.tolist()], np.bool_)
        for index in range(grid.count):
            present = table.present[:, index]
            wrong = present & table.unreadable[:, index]
            rejected[index]["unreadable"] += int(np.count_nonzero(wrong & (rows != NOT_SELECTED)))
            chosen = present & ~wrong
            if excluded:
                rejected[index]["duplicate"] += int(np.count_nonzero(chosen & mixed))
                chosen &= ~mixed
            if impossible is not None:
                values = table.values[:, index]
                impossible[index], reasons = find_impossible(question, rows, values, chosen, names)
                rejected[index]["unreadable"] += int(np.count_nonzero(reasons))
                chosen &= ~reasons
            if question.preset is not None and len(question.labels) > 1:
                chosen &= _newest_of_each(rows, times[:, index], chosen)
            yield accept(
                grid.time(index),
                rows[chosen],
                table.values[chosen, index],
                times[chosen, index],
                max_age=self._max_age(question),
                skew=self._skew,
                largest=largest_ratio(question.resource),
                rejected=rejected[index],
                same=COPIES if question.preset is not None and question.preset.lowest is not None else 0.0,
            )

    def _ratios(self, question: Query, table: SeriesTable, rows: Ints, names: NodeNames) -> SeriesTable:
        """Amounts as shares of what the node has; values of a preset that rounding brought below 0 are 0."""
        if table.amounts.any():
            table = _in_ratios(table, self._capacity(question.resource, rows, names))
        if question.preset is not None:
            table = replace(table, values=rounded(table.values))
        if question.resource == "memory" and question.holds_reserve:
            return replace(table, values=_beside_reserve(table.values, rows, names))
        return table

    def _capacity(self, resource: str, rows: Ints, names: NodeNames) -> Floats:
        """[series] cores, bytes, pods, or bytes per second of the link by NETWORK_SPEED; NaN where it is unknown."""
        known = np.full(len(names) + 1, np.nan)
        for index, node in enumerate(names.nodes):
            amount = node.capacity.get(resource) if resource in ("cpu", "memory") else None
            if resource == "pods":
                amount = node.allocatable.get(resource)
            elif resource == "network":
                amount = self._settings.telemetry.speed_of(node.name)
            known[index] = np.nan if amount is None else amount
        return known[np.where(rows >= 0, rows, len(names))]


def _in_ratios(table: SeriesTable, capacity: Floats) -> SeriesTable:
    """Divides amounts by what the node has; where that is unknown there is no sample."""
    divisor = np.where(table.amounts, capacity, 1.0)
    known = np.isfinite(divisor) & (divisor > 0)
    return replace(
        table, values=table.values / np.where(known, divisor, np.nan)[:, None], present=table.present & known[:, None]
    )


def _beside_reserve(values: Floats, rows: Ints, names: NodeNames) -> Floats:
    """[series, time]: what is used beside reserved huge pages; what no ratio can be stays as it is, to be named."""
    reserve = np.array([*(node.reserve for node in names.nodes), 0.0])[np.where(rows >= 0, rows, len(names))][:, None]
    possible = (values >= 0) & (values <= LARGEST_SHARE)
    return np.where(possible, beside_reserve(values, reserve), values)


def _newest_of_each(rows: Ints, times: Floats, chosen: Bools) -> Bools:
    """[series] whether none of the same node is newer: an exporter that came back under another name counts once."""
    newest = np.full(int(rows.max(initial=0)) + 1, -np.inf)
    known = chosen & (rows >= 0) & np.isfinite(times)
    np.fmax.at(newest, rows[known], times[known])
    return ~known | (times >= newest[np.maximum(rows, 0)])


def _first(samples: Samples, others: Samples) -> Samples:
    """`samples`, and those of `others` for nodes without one."""
    new = ~np.isin(others.rows, samples.rows)
    rows = np.r_[samples.rows, others.rows[new]]
    order = np.argsort(rows, kind="stable")
    return Samples(
        rows[order], np.r_[samples.values, others.values[new]][order], np.r_[samples.times, others.times[new]][order]
    )


def _failure(table: SeriesTable | TelemetryError, newest: SeriesTable | TelemetryError) -> str | None:
    if isinstance(table, TelemetryError):
        return str(table)
    if isinstance(newest, TelemetryError):
        return f"the age of the samples is unknown, so none counts: {newest}"
    return None


_OFTEN = 4
"""Scrapes within the range of a rate."""


def _nothing(question: Query, newest: SeriesTable, grid: Grid) -> str:
    """Where the samples are there, but so old that scrapes may be rarer than a rate needs, that is the likely cause."""
    known = times_of(newest)[:, -1]
    ages = grid.time(grid.count - 1) - known[np.isfinite(known)]
    if question.span and ages.size and float(np.median(ages)) > question.span / _OFTEN:
        return (
            f"the query of {question.resource} gives no series, since a rate needs two samples within "
            f"{question.span:g} s and the newest are {float(np.median(ages)):.0f} s old; once the distance of scrapes "
            "is known, the range follows it: scrape more often if this stays"
        )
    speeds = ", and set BALLAST_TELEMETRY__NETWORK_SPEED where link speeds are not reported"
    return (
        f"the query of {question.resource} gives no series; check that Prometheus has what BALLAST_PROMETHEUS__PRESET "
        f"or BALLAST_TELEMETRY__RESOURCES asks for, and BALLAST_PROMETHEUS__MATCHERS; `ballast doctor` finds a preset"
        f"{speeds if question.resource == 'network' else ''}"
    )


def _of_our_cluster(table: SeriesTable, question: Query, names: NodeNames, found: _Found) -> SeriesTable:
    """Without the series of other clusters where these are a tenth at most: a few exporters do not stop the others.

    Ours is the cluster that names the most nodes.
    """
    if len(table.cluster_names()) < 2:
        return table
    rows = names.rows(table.named(question.labels)).tolist()
    ours = Counter(name for name, row in zip(table.clusters, rows, strict=True) if name and row >= 0)
    own = max(ours, key=lambda name: (ours[name], name), default="")
    kept = [index for index, name in enumerate(table.clusters) if name in ("", own)]
    if len(table) - len(kept) > len(table) / 10:
        return table
    others = ", ".join(name for name in table.cluster_names() if name != own)
    found.warnings.add(f"{len(table) - len(kept)} series name the cluster {others} instead of {own}: they do not count")
    return table.take(kept)


def _note_names(question: Query, nodes: list[str], rows: Ints, names: NodeNames, found: _Found) -> None:
    """What names each node, and the first few that name none, whatever the order of the answer."""
    for value, row in zip(nodes, rows.tolist(), strict=True):
        # Of several series of a node that which is the least of a guess.
        if row >= 0 and found.matched_by.get(name := names.nodes[row].name, ("", True))[1]:
            found.matched_by[name] = names.matched_by(value)
    strange: dict[str, int] = {
        nodes[index]: rows[index] for index in np.flatnonzero((rows == UNMATCHED) | (rows == AMBIGUOUS)).tolist()
    }
    for name in nsmallest(_NAMED_STRANGERS, strange):
        what = " could be several nodes" if strange[name] == AMBIGUOUS else " is not a node"
        if (row := names.named(name)[0]) >= 0:
            what = (
                f" is like node {names.nodes[row].name} in its host name alone, and nothing confirms it; if it is that "
                "node, say so in BALLAST_TELEMETRY__NODE_REWRITE"
            )
        found.strangers.add(_shown(question.label, name) + what)


def _shown(label: str, value: str) -> str:
    return f"{label}={value.replace(SEPARATOR, ' or ')!r}" if value else f"a series without the label {label}"


_OFFSET_STEP = 30


_LONGEST_DELAY = 1800.0
"""Seconds. What is later than that has stopped."""

_REASONS = {"unreadable": "unreadable: histograms, text or far too large"}


def explain_rejection(
    question: Query, rejected: Counter[str], newest: SeriesTable, at: float, max_age: float
) -> ReadingProblem | None:
    """What rejected the most of them; None where nothing was rejected. `at` is the evaluation time, Unix seconds."""
    if not rejected:
        return None
    reason = max(sorted(rejected), key=lambda each: rejected[each])
    resource = question.resource
    if reason == "stale":
        return _stale(question, newest, at, max_age)
    if reason == "future":
        ahead = _newest(newest) - at
        return ReadingProblem(
            "future",
            f"all samples of {resource} are ahead of the query, by {ahead:.0f} s; the clock of this machine is late "
            "or that of the exporters' Prometheus is ahead: synchronise them (NTP)",
        )
    if reason == "duplicate":
        return ReadingProblem(
            "duplicate",
            f"each node has several values of {resource} that differ, so none counts; aggregate them in "
            f"BALLAST_TELEMETRY__RESOURCES: max by ({', '.join(question.labels)}) (<query>), or choose with "
            "BALLAST_PROMETHEUS__MATCHERS",
        )
    if reason in ("unmatched", "ambiguous"):
        what = "no node" if reason == "unmatched" else "several nodes at once"
        return ReadingProblem(
            "unnamed",
            f"the series of {resource} name {what} by {question.label}; set BALLAST_TELEMETRY__NODE_LABEL or "
            "BALLAST_TELEMETRY__NODE_REWRITE",
        )
    return ReadingProblem(
        "unreadable",
        f"no value of {resource} is a number from 0 on ({_REASONS.get(reason, reason)}); look at the exporters, or at "
        "its query in BALLAST_TELEMETRY__RESOURCES",
    )


def _stale(question: Query, newest: SeriesTable, at: float, max_age: float) -> ReadingProblem:
    age = at - _newest(newest)
    if math.isnan(age):
        fix: tuple[str, ...] = ()
        advice = "give it a `freshness` in BALLAST_TELEMETRY__RESOURCES that has samples"
        if question.preset is not None and question.preset.rules:
            cpu, memory = question.preset.rules
            fix = (
                f'BALLAST_TELEMETRY__RESOURCES=\'{{"cpu": {{"query": "{cpu}"}}, "memory": {{"query": "{memory}"}}}}\'',
            )
            advice = f"where only recording rules are stored, read these by themselves: {fix[0]}"
        elif question.preset is not None:
            advice = "store its raw metrics, or choose another BALLAST_PROMETHEUS__PRESET"
        text = f"the age of {question.resource} is unknown: {question.freshness} gives nothing; {advice}"
        return ReadingProblem("ageless", text, fix)
    if age > _LONGEST_DELAY:
        text = f"all samples of {question.resource} are {age:.0f} s old: exporters or their Prometheus stopped then"
        return ReadingProblem("stale", f"{text}, or these times are no Unix seconds; look at its targets")
    earlier = f"BALLAST_TELEMETRY__OFFSET={math.ceil(age / _OFFSET_STEP) * _OFFSET_STEP}s"
    return ReadingProblem(
        "stale",
        f"all samples of {question.resource} are older than {max_age:g} s; if exporters are scraped, they arrive late "
        f"or this machine's clock is ahead: synchronise the clocks, or query that much earlier: {earlier}",
        (earlier,),
    )


def _newest(newest: SeriesTable) -> float:
    times = newest.values[newest.present & ~newest.unreadable]
    return float(np.nanmax(times)) if np.isfinite(times).any() else math.nan
