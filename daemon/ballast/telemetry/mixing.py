"""Series of one node that are not the same thing: two clusters in one store, or two exporters on one node.

Series that differ only in SAME_THING are one thing seen twice. All others must not be merged: the larger value would be
that of another machine. Of the labels that could tell them apart, the one is proposed whose values keep the most nodes.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ballast.settings.prometheus import promql_string, quoted_label

SAME_THING = frozenset(
    ("job", "prometheus_replica", "replica", "pod", "container", "endpoint", "service", "namespace", "uid")
)
"""Labels in which two series of one exporter may differ."""

MOST_LINES = 8
_CHOOSABLE = ("job", "service", "endpoint", "namespace", "container")
"""Of SAME_THING those whose values hold for all nodes."""

_ADDRESS = r"[0-9.]+|\[[0-9a-fA-F:.]+\]"

_COPIED = r"(?:(?:exported|k8s|kubernetes|node|labels?|annotations?)_)*"
"""What exporters and relabelling put before the name of a label or an annotation of a node."""

Labels = Mapping[str, str]


class OwnLabels:
    """Ballast's own labels and annotations of nodes where somebody copied them onto series: `ballast_dev_score`.

    They change with the score and tell no two things apart.
    """

    def __init__(self, prefixes: Iterable[str]) -> None:
        self._begins = re.compile(f"{_COPIED}(?:{'|'.join(_as_label(prefix) for prefix in prefixes)})_(?=.)")

    def patterns(self, names: Iterable[str]) -> dict[str, str]:
        """Those of the names that are own ones, with the pattern of their kind: `ballast_dev_.+`."""
        found = {name: self._begins.match(_as_label(name)) for name in names}
        return {name: f"{re.escape(name[: match.end()])}.+" for name, match in found.items() if match}


def _as_label(name: str) -> str:
    """With as many characters."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


@dataclass(frozen=True)
class Difference:
    """What tells series of the same node apart."""

    label: str
    values: tuple[str, ...]
    """A few of its values, sorted; "" is a series without the label."""
    nodes: frozenset[str]
    matchers: tuple[str, ...]
    """Label matchers. Each leaves one thing per node; the one that keeps the most nodes comes first."""


@dataclass(frozen=True)
class _Choice:
    label: str
    value: Callable[[Labels], str]
    matcher: Callable[[str], str]


def difference(series: Mapping[str, Sequence[Labels]], own: Iterable[str] = ()) -> Difference | None:
    """What the series of a node differ in, besides SAME_THING and the exporter's `own` labels; None if in nothing.

    `series` are those of each node.
    """
    ignored = SAME_THING.union(own, ("__name__",))
    mixed = {
        node: label_sets
        for node, label_sets in series.items()
        if len(label_sets) > 1 and len(_things(label_sets, ignored)) > 1
    }
    if not mixed:
        return None
    counts: dict[str, int] = defaultdict(int)
    for label_sets in mixed.values():
        for label in _differing(label_sets, ignored):
            counts[label] += 1
    choice = _best(series, mixed, counts, ignored)
    label = choice.label if choice and choice.label in counts else min(counts, key=lambda name: (-counts[name], name))
    values = sorted({labels.get(label, "") for label_sets in mixed.values() for labels in label_sets})
    choice = choice or _plain(label)
    kept: dict[str, set[str]] = defaultdict(set)
    for node, label_sets in series.items():
        for labels in label_sets:
            kept[choice.value(labels)].add(node)
    chosen = {choice.value(labels) for label_sets in mixed.values() for labels in label_sets}
    ordered = sorted(chosen, key=lambda value: (-len(kept[value]), value))
    return Difference(
        label, tuple(values[:MOST_LINES]), frozenset(mixed), tuple(map(choice.matcher, ordered[:MOST_LINES]))
    )


def exactly(label: str, value: str) -> str:
    """A matcher."""
    return f"{quoted_label(label)}={promql_string(value)}"


def _things(found: Sequence[Labels], ignored: frozenset[str]) -> set[frozenset[tuple[str, str]]]:
    return {
        frozenset((name, value) for name, value in labels.items() if value and name not in ignored) for labels in found
    }


def _differing(found: Sequence[Labels], ignored: frozenset[str]) -> list[str]:
    names = {name for labels in found for name in labels} - ignored
    return [name for name in names if len({labels.get(name, "") for labels in found}) > 1]


def _best(
    series: Mapping[str, Sequence[Labels]],
    mixed: Mapping[str, Sequence[Labels]],
    differing: Iterable[str],
    ignored: frozenset[str],
) -> _Choice | None:
    """The choice whose best value keeps the most nodes; among equal ones, that with the fewest values."""
    ranked = []
    names = sorted(differing)
    for rank, choice in enumerate([*map(_plain, (*names, *_CHOOSABLE)), *_of_instances(names)]):
        if not all(_separates(choice, label_sets, ignored) for label_sets in mixed.values()):
            continue
        kept: dict[str, set[str]] = defaultdict(set)
        for node, label_sets in series.items():
            for labels in label_sets:
                kept[choice.value(labels)].add(node)
        most = max(len(nodes) for nodes in kept.values())
        ranked.append((-most, len(kept), rank, choice))
    return min(ranked, key=lambda each: each[:3])[3] if ranked else None


def _separates(choice: _Choice, found: Sequence[Labels], ignored: frozenset[str]) -> bool:
    by_value: dict[str, list[Labels]] = defaultdict(list)
    for labels in found:
        by_value[choice.value(labels)].append(labels)
    return len(by_value) > 1 and all(len(_things(group, ignored)) == 1 for group in by_value.values())


def _plain(label: str) -> _Choice:
    return _Choice(label, lambda labels: labels.get(label, ""), lambda value: exactly(label, value))


def _of_instances(names: Sequence[str]) -> list[_Choice]:
    """Instances are called by their port, or by address and by name."""
    if "instance" not in names:
        return []

    def port(labels: Labels) -> str:
        _, colon, number = labels.get("instance", "").rpartition(":")
        return number if colon and number.isdigit() else ""

    def kind(labels: Labels) -> str:
        return "=~" if re.fullmatch(rf"({_ADDRESS})(:\w+)?", labels.get("instance", "")) else "!~"

    def of_port(number: str) -> str:
        return f'instance=~".+:{number}"' if number else 'instance!~".+:[0-9]+"'

    escaped = _ADDRESS.replace("\\", "\\\\")
    return [
        _Choice("instance", port, of_port),
        _Choice("instance", kind, lambda operator: f'instance{operator}"({escaped})(:.+)?"'),
    ]
