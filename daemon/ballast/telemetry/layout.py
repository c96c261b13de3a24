"""Which label of the series names the nodes, where the configured one does not."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from ballast.telemetry.node_names import NodeNames

ENOUGH = 0.5
"""Share of the nodes that a label has to name before it is proposed."""

_LOOKED_AT = 2_000
_SHOWN = 8


def advice(series: Sequence[Mapping[str, str]], labels: Sequence[str], names: NodeNames) -> str:
    """What to set so that the series find their nodes, as a sentence part; "" where nothing was seen."""
    seen = series[:_LOOKED_AT]
    found = sorted({name for each in seen for name in each} - {"__name__", *labels})
    if not seen or not len(names):
        return ""
    shares = {name: _share(seen, name, names) for name in found}
    best = max(found, key=lambda name: (shares[name], name in ("node", "nodename"), name), default=None)
    if best is not None and shares[best] >= ENOUGH:
        return f"the label {best} names them: BALLAST_TELEMETRY__NODE_LABEL={best}"
    for name in (*labels, *found):
        if rewrite := _rewrite([each.get(name, "") for each in seen], names):
            where = "" if name in labels else f" with BALLAST_TELEMETRY__NODE_LABEL={name}"
            return f"names have more than the node's{where}: BALLAST_TELEMETRY__NODE_REWRITE='{rewrite}'"
    shown = ", ".join(found[:_SHOWN])
    return (
        f"no label names a node (labels: {shown}); add one where the exporter is scraped, then set "
        "BALLAST_TELEMETRY__NODE_LABEL=node: "
        "relabel_configs: [{source_labels: [__meta_kubernetes_pod_node_name], target_label: node}]"
    )


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
