"""The queries of a cycle: one per resource and preset, and one for the freshness of all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ballast.settings import ResourceSetting, Settings
from ballast.telemetry import presets
from ballast.telemetry.presets import PresetQueries
from ballast.telemetry.responses import GROUP_LABEL

FRESHNESS = "freshness"

_RANGE = re.compile(r"\[\s*(\d+(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*)\s*[\]:]")
_STEP = re.compile(r"(\d+)(ms|[smhdwy])")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0, "y": 31_536_000.0}
_RULE = re.compile(r"[a-zA-Z_][\w]*:[\w:]+")
_RULE_SPAN = 300.0
"""Seconds: kube-prometheus' recording rules look back so far at most."""

_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`"""
_PLAIN_SELECTOR = re.compile(
    rf"""\s*(?:[a-zA-Z_:][a-zA-Z0-9_:]*\s*(?:\{{(?:[^{{}}"'`]|{_QUOTED})*\}})?|\{{(?:[^{{}}"'`]|{_QUOTED})+\}})\s*"""
)


@dataclass(frozen=True)
class Query:
    """One resource as one preset or the user asks it; `labels` name the node, any of them."""

    resource: str
    query: str
    labels: tuple[str, ...]
    freshness: str
    raw: str | None = None
    """The freshness per series with all labels, where that can be asked."""
    preset: PresetQueries | None = None
    """None for a query of the user."""

    @property
    def family(self) -> str:
        """What tells its series from those of other questions, whichever jobs are left out."""
        return self.raw or self.freshness

    @property
    def holds_reserve(self) -> bool:
        """Whether memory reserved for huge pages is part of what it tells as used.

        What is not available holds it. A working set, of which kubelets tell, is that of cgroups and does not.
        """
        return "working_set" not in self.query

    @property
    def label(self) -> str:
        """The labels, separated by commas."""
        return ",".join(self.labels)

    @property
    def span(self) -> float:
        """Seconds of the past that a value tells of: the longest range of the query; 0 for an instant."""
        unquoted = re.sub(_QUOTED, "", self.query)
        ranges = [
            sum(int(count) * _SECONDS[unit] for count, unit in _STEP.findall(text)) for text in _RANGE.findall(unquoted)
        ]
        return max(*ranges, _RULE_SPAN if _RULE.search(unquoted) else 0.0, 0.0)


@dataclass(frozen=True)
class QuerySet:
    """The queries that can be sent, by resource in the order of their presets; a sentence per resource without one."""

    asked: tuple[Query, ...]
    problems: dict[str, str] = field(default_factory=dict)

    def only(self, resources: Sequence[str]) -> QuerySet:
        """The part about `resources`."""
        return QuerySet(
            tuple(question for question in self.asked if question.resource in resources),
            {resource: problem for resource, problem in self.problems.items() if resource in resources},
        )

    def without(self, failed: Mapping[Query, str]) -> QuerySet:
        """The queries without those that failed; a resource that is left without one has its sentence."""
        questions = tuple(question for question in self.asked if question not in failed)
        left = {question.resource for question in questions}
        lost = {question.resource: problem for question, problem in failed.items() if question.resource not in left}
        return QuerySet(questions, {**self.problems, **lost})

    @property
    def freshness(self) -> tuple[str, ...]:
        """The distinct freshness expressions."""
        return tuple(dict.fromkeys(question.freshness for question in self.asked))

    @property
    def raw(self) -> dict[str, str]:
        """The freshness expressions that can be asked with all labels, and how."""
        return {question.freshness: question.raw for question in self.asked if question.raw is not None}

    @property
    def lowest(self) -> dict[Query, str]:
        """What tells copies of one number from several things, where a question has that."""
        return {
            question: question.preset.lowest
            for question in self.asked
            if question.preset is not None and question.preset.lowest is not None
        }

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels under which a freshness series may name its node."""
        return tuple(dict.fromkeys((*(label for question in self.asked for label in question.labels), "instance")))


def questions(
    settings: Settings, window: str | None = None, without: Mapping[str, tuple[str, ...]] | None = None
) -> QuerySet:
    """From the presets and RESOURCES; `window` is the range of every `rate` of a preset, `without` are more matchers by
    what `PresetQueries.raw` asks."""
    queries: list[Query] = []
    problems: dict[str, str] = {}
    for resource in settings.telemetry.resources:
        query = _queries_of(resource, settings, window, without)
        if isinstance(query, str):
            problems[resource.name] = query
        else:
            queries += query
    return QuerySet(tuple(queries), problems)


def join_queries(expressions: Sequence[str]) -> str:
    """One query for several freshness expressions. GROUP_LABEL of a series is the number of its expression."""
    if len(expressions) == 1:
        return expressions[0]
    return " or ".join(
        f'label_replace({expression}, "{GROUP_LABEL}", "{number}", "", "")'
        for number, expression in enumerate(expressions)
    )


def is_plain_selector(query: str) -> bool:
    """Whether `timestamp(query)` is the time of the raw samples."""
    return _PLAIN_SELECTOR.fullmatch(query) is not None


def _queries_of(
    resource: ResourceSetting, settings: Settings, window: str | None, without: Mapping[str, tuple[str, ...]] | None
) -> list[Query] | str:
    if resource.query is None:
        known = [
            preset
            for preset in presets.chosen(settings, resource.node_label, window, without)
            if resource.name in preset.queries
        ]
        return [_of_preset(resource, preset) for preset in known] or (
            f"BALLAST_TELEMETRY__RESOURCES: {resource.name} is not in BALLAST_PROMETHEUS__PRESET = "
            f"{settings.prometheus.preset}; give it a `query`"
        )
    labels = tuple((resource.node_label or presets.node_label(settings)).split(","))
    if resource.freshness is not None:
        return [Query(resource.name, resource.query, labels, resource.freshness)]
    if is_plain_selector(resource.query):
        return [Query(resource.name, resource.query, labels, f"timestamp({resource.query.strip()})")]
    return (
        f"BALLAST_TELEMETRY__RESOURCES: the query of {resource.name} is more than a selector, so the age "
        f"of its samples cannot be queried; add `freshness` beside `query`, such as "
        f'"freshness": "max by ({", ".join(labels)}) (timestamp(<a metric of the same exporter>))"'
    )


def _of_preset(resource: ResourceSetting, preset: PresetQueries) -> Query:
    query = preset.queries[resource.name]
    if resource.freshness is not None:
        return Query(resource.name, query, preset.labels, resource.freshness, preset=preset)
    return Query(resource.name, query, preset.labels, preset.freshness, preset.raw, preset)
