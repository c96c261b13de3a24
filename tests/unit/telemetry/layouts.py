"""Prometheus servers as users label them: `Layout.evaluate` answers queries of the presets over plain series."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ballast.model.node import Node
from tests.unit.telemetry.fake_prometheus import Series

TRUTH = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
COUNT = len(TRUTH)
NAMES = tuple(f"node-{index}" for index in range(COUNT))
CORES, MEMORY = 8.0, 32e9

_MATCHER = re.compile(r"""("[^"]+"|[a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)\"""")
_EXPORTER = "node_cpu_seconds_total|node_memory_Mem\\w+"

Labels = Callable[[int], Mapping[str, str]]


def nodes() -> list[Node]:
    return [
        Node(
            name=name,
            addresses=(("InternalIP", f"10.0.0.{index}"), ("ExternalIP", f"52.0.0.{index}"), ("Hostname", name)),
            capacity={"cpu": CORES, "memory": MEMORY},
        )
        for index, name in enumerate(NAMES)
    ]


@dataclass(frozen=True)
class Exporter:
    """Series of six nodes: `labels` by the number of the node, of the metrics that `metrics` matches."""

    labels: Labels
    more: float = 0.0
    age: float = 5.0
    metrics: str = _EXPORTER
    scale: float = 1.0
    unaged: bool = False
    """Whether the raw metric that freshness asks for is missing."""


@dataclass(frozen=True)
class Layout:
    exporters: Sequence[Exporter]
    settings: Mapping[str, str] = field(default_factory=dict)

    def evaluate(self, query: str, time: float) -> list[Series]:
        if "ballast_group" not in query:
            return self._evaluate(query, time)
        parts = re.findall(r'label_replace\((.*?), "ballast_group", "(\d+)", "", ""\)', query)
        return [
            ({**labels, "ballast_group": group}, value)
            for part, group in parts
            for labels, value in self._evaluate(part, time)
        ]

    def _evaluate(self, query: str, time: float) -> list[Series]:
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', '""', query)
        fresh, by = "timestamp(" in query, re.search(r"\bby \(([^)]*)\)", query)
        kept = None if by is None else [label.strip().strip('"') for label in by.group(1).split(",")]
        matchers = [found for found in _MATCHER.findall(query) if found[0] not in ("mode", "device", "id", "cpu")]
        found: dict[tuple[tuple[str, str], ...], float] = {}
        for exporter in self.exporters:
            if not re.search(rf"\b({exporter.metrics})", bare) or (fresh and exporter.unaged):
                continue
            for index, truth in enumerate(TRUTH):
                full = {**exporter.labels(index)}
                if not all(_matches(matcher, full) for matcher in matchers):
                    continue
                shown = full if kept is None else {label: full[label] for label in kept if label in full}
                if "ballast_unit" in query:
                    shown = {**shown, "ballast_unit": "amount"}
                value = time - exporter.age if fresh else exporter.scale * min(truth + exporter.more, 1.0)
                key = tuple(sorted(shown.items()))
                found[key] = max(value, found.get(key, -1.0))
        return [(dict(key), value) for key, value in found.items()]


def _matches(matcher: tuple[str, str, str], labels: Mapping[str, str]) -> bool:
    name, operator, text = matcher
    value, pattern = labels.get(name.strip('"'), ""), text.replace("\\\\", "\\")
    if operator in ("=", "!="):
        return (value == pattern) is (operator == "=")
    return (re.fullmatch(pattern, value) is not None) is (operator == "=~")
