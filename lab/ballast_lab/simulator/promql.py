"""Recognises what a query asks for: metric names, `timestamp(`, output labels and simple matchers.

It is no PromQL engine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

_BY = re.compile(r"\bby\s*\(([^)]*)\)")
_MATCHER = re.compile(r'([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_JOIN = re.compile(r'label_join\(.*?,\s*"([^"]*)",\s*"([^"]*)"((?:,\s*"[^"]*")+)\s*\)\s*$', re.DOTALL)
_MEAN = re.compile(r"(.*)avg_over_time\(\((.*)\)\[([0-9]+)s:([0-9]+)s\]\)(.*)", re.DOTALL)
_COUNT = re.compile(r"\s*count by \(([^)]*)\) \((.*)\)\s*", re.DOTALL)
_NOT_BEFORE = re.compile(r">= time\(\) - ([0-9.]+)")
_NAMES = re.compile(r"[a-zA-Z_:][\w:]*")

_SUBJECTS = (
    ("pod_cpu", ("container_cpu_usage_seconds_total",)),
    ("pod_memory", ("container_memory_working_set_bytes",)),
    ("pod_disk", ("container_fs_reads_bytes_total", "container_fs_writes_bytes_total")),
    ("pod_network", ("container_network_receive_bytes_total", "container_network_transmit_bytes_total")),
    ("cpu", ("node_cpu_seconds_total", "instance:node_cpu:ratio", "instance:node_cpu_utilisation:rate5m")),
    (
        "memory",
        ("node_memory_MemAvailable_bytes", "node_memory_MemTotal_bytes", "instance:node_memory_utilisation:ratio"),
    ),
    (
        "disk",
        (
            "node_disk_io_time_seconds_total",
            "instance:node_disk_io_time_seconds:rate5m",
            "instance_device:node_disk_io_time_seconds:rate5m",
        ),
    ),
    (
        "network",
        (
            "node_network_receive_bytes_total",
            "node_network_transmit_bytes_total",
            "instance:node_network_receive_bytes:rate:sum",
            "instance:node_network_transmit_bytes:rate:sum",
            "instance:node_network_receive_bytes_excluding_lo:rate5m",
            "instance:node_network_transmit_bytes_excluding_lo:rate5m",
        ),
    ),
    ("up", ("up",)),
    ("power", ("simulated_power_watts",)),
    ("drawn", ("simulated_drawn_watts",)),
)


@dataclass(frozen=True)
class ParsedQuery:
    """The parts of a query that decide its answer."""

    subject: str
    """What is measured, one of `_SUBJECTS`; empty if no metric is recognised."""

    fresh: bool
    """Whether the query asks for the Unix time of the newest sample."""

    labels: tuple[str, ...] | None
    """The output labels; None for all."""

    matchers: tuple[tuple[str, str, str], ...]
    """(label, operator, value)."""

    joined: tuple[str, str, tuple[str, ...]] | None = None
    """Of `label_join`: the new label, the separator, the labels it joins."""

    counted: tuple[str, ...] | None = None
    """Labels by which the series of the answer are counted; None where the query asks for these."""
    averaged: tuple[float, float] | None = None
    """Of `avg_over_time`: the seconds that it is over, and those between two points."""
    oldest: float = math.inf
    """Seconds; what is older is left out."""

    def shown(self, series: Mapping[str, str]) -> dict[str, str]:
        """The labels of the answer."""
        kept = dict(series) if self.labels is None else {name: series[name] for name in self.labels if name in series}
        if self.joined is not None:
            label, separator, names = self.joined
            kept[label] = separator.join(series.get(name, "") for name in names)
        return kept

    def matches(self, series: Mapping[str, str]) -> bool:
        """Whether a series passes the matchers; those on labels it lacks count only for `cluster`."""
        return all(
            _match(*matcher, series) for matcher in self.matchers if matcher[0] in series or matcher[0] == "cluster"
        )


def parse(query: str) -> ParsedQuery:
    """Finds the parts of a query by regular expressions."""
    if (counted := _COUNT.fullmatch(query)) is not None:
        return replace(parse(counted.group(2)), counted=_split(counted.group(1)))
    if (mean := _MEAN.fullmatch(query)) is not None:
        before, inner, length, step, after = mean.groups()
        return replace(parse(before + inner + after), averaged=(float(length), float(step)))
    matchers = tuple(_MATCHER.findall(query))
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", query)
    names = set(_NAMES.findall(bare))
    subject = next((subject for subject, metrics in _SUBJECTS if names.intersection(metrics)), "")
    by = _BY.search(query)
    labels = _split(by.group(1)) if by else None
    found = _JOIN.search(query)
    joined = (found.group(1), found.group(2), tuple(re.findall(r'"([^"]*)"', found.group(3)))) if found else None
    since = _NOT_BEFORE.search(query)
    oldest = float(since.group(1)) if since else math.inf
    return ParsedQuery(subject, "timestamp" in names, labels, matchers, joined, oldest=oldest)


def _split(labels: str) -> tuple[str, ...]:
    return tuple(label.strip() for label in labels.split(",") if label.strip())


def problem(query: str) -> str | None:
    """Prometheus' parse error for an empty query or unbalanced brackets, or None."""
    if not query.strip():
        return "unknown position: parse error: no expression found in input"
    for opening, closing, name in (("(", ")", "parenthesis"), ("{", "}", "brace"), ("[", "]", "bracket")):
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", query)
        if bare.count(opening) > bare.count(closing):
            return f"1:{len(query) + 1}: parse error: unclosed left {name}"
        if bare.count(opening) < bare.count(closing):
            return f"1:{bare.rfind(closing) + 1}: parse error: unexpected right {name} '{closing}'"
    return None


_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "=": lambda pattern, value: value == pattern,
    "!=": lambda pattern, value: value != pattern,
    "=~": lambda pattern, value: re.fullmatch(pattern, value) is not None,
    "!~": lambda pattern, value: re.fullmatch(pattern, value) is None,
}


def _match(label: str, operator: str, pattern: str, series: Mapping[str, str]) -> bool:
    return _TESTS[operator](pattern, series.get(label, ""))
