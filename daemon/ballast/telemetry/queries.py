"""The queries of a cycle: one per resource, and one for the freshness of all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ballast.settings import ResourceSetting, Settings
from ballast.telemetry import presets
from ballast.telemetry.responses import GROUP_LABEL

FRESHNESS = "freshness"

_QUOTED = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|`[^`]*`"""
_PLAIN_SELECTOR = re.compile(
    rf"""\s*(?:[a-zA-Z_:][a-zA-Z0-9_:]*\s*(?:\{{(?:[^{{}}"'`]|{_QUOTED})*\}})?|\{{(?:[^{{}}"'`]|{_QUOTED})+\}})\s*"""
)


@dataclass(frozen=True)
class Query:
    """One resource: its PromQL, the series label that names the node, the PromQL of its freshness."""

    resource: str
    query: str
    label: str
    freshness: str


@dataclass(frozen=True)
class QuerySet:
    """The queries that can be sent, and a sentence for each resource without one."""

    asked: tuple[Query, ...]
    problems: dict[str, str] = field(default_factory=dict)

    def only(self, resources: Sequence[str]) -> QuerySet:
        """The part about `resources`."""
        return QuerySet(
            tuple(question for question in self.asked if question.resource in resources),
            {resource: problem for resource, problem in self.problems.items() if resource in resources},
        )

    def without(self, problems: Mapping[str, str]) -> QuerySet:
        """The queries without those of the resources that failed."""
        return QuerySet(
            tuple(question for question in self.asked if question.resource not in problems),
            {**self.problems, **problems},
        )

    @property
    def freshness(self) -> tuple[str, ...]:
        """The distinct freshness expressions."""
        return tuple(dict.fromkeys(question.freshness for question in self.asked))

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels under which a freshness series may name its node."""
        return tuple(dict.fromkeys((*(question.label for question in self.asked), "instance")))


def questions(settings: Settings) -> QuerySet:
    """From the preset and RESOURCES."""
    asked, problems = [], {}
    for resource in settings.telemetry.resources:
        question = _question(resource, settings)
        if isinstance(question, Query):
            asked.append(question)
        else:
            problems[resource.name] = question
    return QuerySet(tuple(asked), problems)


def joined(expressions: Sequence[str]) -> str:
    """One query for several freshness expressions; each series says in GROUP_LABEL which one it belongs to."""
    if len(expressions) == 1:
        return expressions[0]
    return " or ".join(
        f'label_replace({expression}, "{GROUP_LABEL}", "{number}", "", "")'
        for number, expression in enumerate(expressions)
    )


def is_plain_selector(query: str) -> bool:
    """Whether `timestamp(query)` is the time of the raw samples."""
    return _PLAIN_SELECTOR.fullmatch(query) is not None


def _question(resource: ResourceSetting, settings: Settings) -> Query | str:
    label = resource.node_label or presets.node_label(settings)
    if resource.query is None:
        preset = presets.queries(settings, label)
        if resource.name not in preset:
            return f"BALLAST_TELEMETRY__RESOURCES: {resource.name} is not in the preset; give it a `query`"
        newest = resource.freshness or presets.freshness(settings, label)
        return Query(resource.name, preset[resource.name], label, newest)
    if resource.freshness is not None:
        return Query(resource.name, resource.query, label, resource.freshness)
    if is_plain_selector(resource.query):
        return Query(resource.name, resource.query, label, f"timestamp({resource.query.strip()})")
    return (
        f"BALLAST_TELEMETRY__RESOURCES: the query of {resource.name} is more than a selector, so the age "
        f"of its samples cannot be queried; add `freshness` beside `query`, such as "
        f'"freshness": "max by ({label}) (timestamp(<a metric of the same exporter>))"'
    )
