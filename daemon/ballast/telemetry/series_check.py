"""Looks at all labels of the raw series once a minute: what must not be merged, which jobs count, what names nodes."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from ballast.base.text import named, printable
from ballast.model.pod import Pod
from ballast.model.sample import Mixture
from ballast.settings import PublishingSettings, Settings
from ballast.telemetry.mixing import MOST_LINES, Difference, OwnLabels, difference
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.origins import JobNaming, Told
from ballast.telemetry.queries import Query, QuerySet
from ballast.telemetry.responses import GROUP_LABEL, SeriesTable
from ballast.telemetry.several_jobs import Job, JobsOfNodes, SeveralJobs, Teller, pod_of, teller_of

T = TypeVar("T")
Pods: TypeAlias = Callable[[], Iterable[Pod]]

EVERY, PER_NODE = 60.0, 0.02
"""Seconds between two checks, and per node: the larger one holds. While something differs, or nothing was found, every
reading is checked."""

NAMED = 5

_PREFIX = str(PublishingSettings.model_fields["prefix"].default)


class SeriesCheck:
    """The check costs no query of its own: the freshness of one reading is asked with all labels."""

    def __init__(self, settings: Settings, pods: Pods = tuple) -> None:
        """`pods` are those that the watch shows."""
        self._pods = pods
        self._matchers = settings.prometheus.matchers
        self._lag = 15.0 + float(settings.telemetry.interval)
        publishing = settings.publishing
        self._own = OwnLabels(dict.fromkeys((_PREFIX, publishing.prefix, publishing.label_prefix or _PREFIX)))
        self.copied: dict[str, str] = {}
        """Labels of Ballast that series of the last check carry, with the pattern that drops them."""
        self._due = -np.inf
        self._every = EVERY
        self._found: dict[str, Difference] = {}
        self._jobs: dict[str, JobsOfNodes] = {}
        self._naming: dict[str, JobNaming] = {}
        self._advice: dict[tuple[str, ...], Advice] = {}
        self._resources: dict[str, list[str]] = {}

    def due(self, at: float) -> bool:
        """Whether the reading at this Unix time is one."""
        return at >= self._due or at < self._due - self._every

    def check(
        self,
        at: float,
        asked: QuerySet,
        newest: Mapping[str, object],
        names: NodeNames,
        scrapes: float,
        agreed: Mapping[Query, frozenset[str]],
    ) -> None:
        """`newest` are the tables with all labels by freshness expression, `scrapes` the seconds between scrapes.

        `agreed` are nodes of which all series tell one number: their copies do no harm, whoever reports them.
        """
        checked = False
        self.copied = {}
        for freshness in asked.raw:
            table = newest[freshness]
            if not isinstance(table, SeriesTable) or not table.every:
                continue
            question = next(candidate for candidate in asked.asked if candidate.freshness == freshness)
            checked = True
            lag = max(self._lag, scrapes + 15.0)
            self._compare(at, question, table, names, lag, agreed.get(question, frozenset()))
            self._resources[question.family] = [
                candidate.resource for candidate in asked.asked if candidate.freshness == freshness
            ]
        self._every = max(EVERY, PER_NODE * len(names))
        self._due = at + self._every if checked and not self._found else at

    def counted(self, asked: QuerySet, newest: Mapping[str, T]) -> dict[str, T | SeriesTable]:
        """`newest` without the series of jobs that are left out."""
        tables: dict[str, T | SeriesTable] = dict(newest)
        for question in asked.asked:
            table, jobs = newest[question.freshness], self._jobs.get(_metrics(question))
            if not isinstance(table, SeriesTable) or table.every is None or not jobs or not jobs.several:
                continue
            several, namespaces = jobs.several, _has_namespaces(question)
            kept = [
                row for row, labels in enumerate(table.every) if not several.leaves_out(labels, namespaces=namespaces)
            ]
            tables[question.freshness] = table.take(kept)
        return tables

    @property
    def without(self) -> dict[str, tuple[str, ...]]:
        """By `PresetQueries.raw` the matchers that leave out jobs that do not count."""
        return {
            metrics: tuple(dict.fromkeys(jobs.several.left_out.values()))
            for metrics, jobs in self._jobs.items()
            if jobs.several is not None and jobs.several.left_out
        }

    @property
    def several_jobs(self) -> Mixture | None:
        """The nodes that several jobs report, in words; None where there are none."""
        several = [jobs.several for jobs in self._jobs.values() if jobs.several is not None]
        if not several:
            return None
        summary = "; ".join(dict.fromkeys(map(_jobs_summary, several)))
        fix = tuple(dict.fromkeys(self.line(matcher) for found in several for matcher in found.matchers[:MOST_LINES]))
        choose = "to settle it" if all(found.left_out for found in several) else "choose one"
        return Mixture(summary, "\n".join((f"{summary}; {choose}:", *fix)), fix)

    @property
    def doubtful(self) -> frozenset[str]:
        """The nodes of which it is not known which job to believe."""
        return frozenset().union(*(jobs.several.doubtful for jobs in self._jobs.values() if jobs.several is not None))

    def excluded(self, family: str) -> frozenset[str]:
        """The nodes whose series must not be merged."""
        kept = self._found.get(family)
        return frozenset() if kept is None else kept.nodes

    def advice(self, labels: tuple[str, ...]) -> Advice:
        """What to set where these labels name no node; empty if it is not known."""
        return self._advice.get(labels, Advice())

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What differs."""
        return tuple(self._found.values())

    @property
    def mixtures(self) -> tuple[Mixture, ...]:
        """What differs, in words."""
        return tuple(self._mixture(*mixture) for mixture in self._found.items())

    def line(self, matcher: str) -> str:
        """The setting with this matcher beside those that are set."""
        return matchers_line(self._matchers, matcher)

    def _compare(
        self, at: float, question: Query, table: SeriesTable, names: NodeNames, lag: float, agreed: frozenset[str]
    ) -> None:
        assert table.every is not None
        namespaces = _has_namespaces(question)
        values, places = table.named(question.labels), self._places(table.every)
        naming = self._naming.setdefault(_metrics(question), JobNaming())
        told = (_told(value, labels, names, namespaces) for value, labels in zip(values, table.every, strict=True))
        names.observe(_metrics(question), naming.judge(at, told, places.get))
        rows = names.rows(values)
        times = np.where(table.present[:, 0] & ~table.unreadable[:, 0], table.values[:, 0], np.nan)
        newest = np.full(len(names), -np.inf)
        known = rows >= 0
        np.fmax.at(newest, rows[known], times[known])
        live = known & (times >= newest[np.maximum(rows, 0)] - lag)
        series: dict[str, list[dict[str, str]]] = defaultdict(list)
        fading: dict[str, list[dict[str, str]]] = defaultdict(list)
        for index in np.flatnonzero(known).tolist():
            (series if live[index] else fading)[names.nodes[rows[index]].name].append(table.every[index])
        own = question.preset.own if question.preset else frozenset()
        jobs = self._jobs.setdefault(_metrics(question), JobsOfNodes())
        several = jobs.judge(at, series, places.get, fading=fading, namespaces=namespaces, agreed=agreed)
        believed = {
            node: [
                labels
                for labels in label_sets
                if several is None or not several.leaves_out(labels, namespaces=namespaces)
            ]
            for node, label_sets in series.items()
            if node not in agreed
        }
        copied = self._own.patterns(set[str]().union(*table.every))
        self.copied |= copied
        mixture = difference(believed, (*own, GROUP_LABEL, *copied))
        if mixture is None:
            self._found.pop(question.family, None)
        else:
            self._found[question.family] = mixture
        if len(series) < len(names):
            self._advice[question.labels] = advice(table.every, question.labels, names)

    def _places(self, series: Iterable[Mapping[str, str]]) -> dict[str, str]:
        """The nodes of the pods, namespace/name, that the series name."""
        named_pods = {pod for labels in series if (pod := pod_of(labels))}
        if not named_pods:
            return {}
        short = {pod.partition("/")[2] for pod in named_pods}
        candidates = (pod for pod in self._pods() if pod.name in short)  # of 150,000 a few are exporters
        return {name: pod.node for pod in candidates if (name := f"{pod.namespace}/{pod.name}") in named_pods}

    def _mixture(self, family: str, found: Difference) -> Mixture:
        values = ", ".join(repr(value) if value else "none" for value in found.values)
        nodes = named(sorted(found.nodes), NAMED)
        resources = ", ".join(dict.fromkeys(self._resources.get(family, ())))
        summary = (
            f"several series of one node differ in {found.label} ({values}), so {resources} of {nodes} are not known"
        )
        fix = tuple(map(self.line, found.matchers))
        return Mixture(summary, "\n".join((f"{summary}; choose one:", *fix)), fix)


def _metrics(question: Query) -> str:
    """What jobs are judged by: another metric may come from other targets, by another job."""
    return (question.preset.raw if question.preset else None) or ""


def _has_namespaces(question: Query) -> bool:
    """Whether `namespace` is that of the job: an exporter with labels of its own may report those of workloads."""
    return not (question.preset and question.preset.own)


def _told(value: str, labels: Mapping[str, str], names: NodeNames, namespaces: bool) -> Told:
    row, how = names.named(value)
    teller = teller_of(labels, namespaces=namespaces)
    return Told(value, teller.job, teller.pod, names.nodes[row].name if row >= 0 else "", how)


def _jobs_summary(several: SeveralJobs) -> str:
    jobs = named([f"{printable(job)} ({count:,} nodes)" for job, count in several.jobs.items()], NAMED)
    summary = f"{named(sorted(several.shared), NAMED)}: reported by the scrape jobs {jobs}"
    if not several.shared:
        summary = f"seen before: nodes reported by the scrape jobs {jobs}"
    if several.left_out:
        whom = named([printable(_whom(who)) for who in several.left_out], NAMED)
        summary += f"; left out, since another's pod runs on the node or its own runs elsewhere: {whom}"
    if several.doubtful:
        summary += f"; disputed, since no label tells whose target runs there: {named(sorted(several.doubtful), NAMED)}"
    return summary


def _whom(who: Job | Teller) -> str:
    return f"pod {who.pod} of {who.job}" if isinstance(who, Teller) else str(who)


def matchers_line(present: tuple[str, ...], matcher: str) -> str:
    """BALLAST_PROMETHEUS__MATCHERS with one more matcher, to be copied."""
    return _line("BALLAST_PROMETHEUS__MATCHERS", ",".join((*present, matcher)))


ENOUGH = 0.5
"""Share of the nodes that a label has to name before it is proposed."""

_LOOKED_AT = 2_000
_SHOWN = 8


class Advice(NamedTuple):
    """What to set so that the series find their nodes."""

    text: str = ""
    """A sentence part; "" where nothing was seen."""
    fix: tuple[str, ...] = ()
    """The settings in it, as lines to copy."""


def advice(series: Sequence[Mapping[str, str]], labels: Sequence[str], names: NodeNames) -> Advice:
    """From the labels of some series that do not find their nodes by `labels`."""
    sample = series[:_LOOKED_AT]
    # Whoever is scraped chooses the names of its labels too; one with a line end cannot stand in a line to copy.
    candidates = sorted(
        {name for labels_of in sample for name in labels_of if name.isprintable()} - {"__name__", GROUP_LABEL, *labels}
    )
    if not sample or not len(names):
        return Advice()
    shares = {name: _share(sample, name, names) for name in candidates}
    best = max(candidates, key=lambda name: (shares[name], name in ("node", "nodename"), name), default=None)
    if best is not None and shares[best] >= ENOUGH:
        line = _node_label(best)
        return Advice(f"the label {best} names them: {line}", (line,))
    for name in (*labels, *candidates):
        if rewrite := _rewrite([labels_of.get(name, "") for labels_of in sample], names):
            line = _line("BALLAST_TELEMETRY__NODE_REWRITE", rewrite)
            before = () if name in labels else (_node_label(name),)
            where = "".join(f" with {text}" for text in before)
            return Advice(f"names have more than the node's{where}: {line}", (*before, line))
    shown = ", ".join(candidates[:_SHOWN])
    relabel = "relabel_configs: [{source_labels: [__meta_kubernetes_pod_node_name], target_label: node}]"
    # A preset that reads `node` beside others needs no setting, which would take other presets their labels.
    then = "" if "node" in labels else f", then set {_node_label('node')}"
    return Advice(
        f"no label names a node (labels: {shown}); add one where the exporter is scraped{then}: {relabel}", (relabel,)
    )


def _node_label(name: str) -> str:
    return f"BALLAST_TELEMETRY__NODE_LABEL={name}"


def _share(seen: Sequence[Mapping[str, str]], label: str, names: NodeNames) -> float:
    rows = {names.row(value) for labels_of in seen if (value := labels_of.get(label))}
    return len([row for row in rows if row >= 0]) / min(len(names), len(seen))


def _rewrite(values: Sequence[str], names: NodeNames) -> str:
    """A rewrite as JSON where values are a node's name between the same texts."""
    known = sorted((node.name for node in names.nodes[:_LOOKED_AT]), key=len, reverse=True)
    frames: Counter[tuple[str, str]] = Counter()
    for value in values[:50]:
        node = next((name for name in known if name in value and name != value), None)
        if node is not None:
            before, _, after = value.partition(node)
            frames[before, after] += 1
    if not frames or frames.most_common(1)[0][1] < ENOUGH * len(values[:50]):
        return ""
    (before, after), _ = frames.most_common(1)[0]
    return json.dumps({f"{re.escape(before)}(.+){re.escape(after)}": "$1"})


def _line(setting: str, value: str) -> str:
    """A setting as a shell takes it, on one line: what is not printable was escaped before."""
    quoted = value.replace("'", "'\\''")
    return f"{setting}='{quoted}'"
