"""Which label of the series names the nodes, where the configured one does not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ballast.telemetry.node_names import NodeNames

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
    seen = series[:_LOOKED_AT]
    found = sorted({name for each in seen for name in each} - {"__name__", *labels})
    if not seen or not len(names):
        return Advice()
    shares = {name: _share(seen, name, names) for name in found}
    best = max(found, key=lambda name: (shares[name], name in ("node", "nodename"), name), default=None)
    if best is not None and shares[best] >= ENOUGH:
        line = _node_label(best)
        return Advice(f"the label {best} names them: {line}", (line,))
    for name in (*labels, *found):
        if rewrite := _rewrite([each.get(name, "") for each in seen], names):
            line = f"BALLAST_TELEMETRY__NODE_REWRITE='{rewrite}'"
            before = () if name in labels else (_node_label(name),)
            where = "".join(f" with {each}" for each in before)
            return Advice(f"names have more than the node's{where}: {line}", (*before, line))
    shown = ", ".join(found[:_SHOWN])
    line = _node_label("node")
    return Advice(
        f"no label names a node (labels: {shown}); add one where the exporter is scraped, then set {line}: "
        "relabel_configs: [{source_labels: [__meta_kubernetes_pod_node_name], target_label: node}]",
        (line,),
    )


def _node_label(name: str) -> str:
    return f"BALLAST_TELEMETRY__NODE_LABEL={name}"


def _share(seen: Sequence[Mapping[str, str]], label: str, names: NodeNames) -> float:
    rows = {names.row(value) for each in seen if (value := each.get(label))}
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
    pattern = f"{re.escape(before)}(.+){re.escape(after)}".replace("\\", "\\\\")
    return f'{{"{pattern}": "$1"}}'
