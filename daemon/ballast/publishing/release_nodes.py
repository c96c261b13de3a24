"""Takes back everything Ballast ever wrote on nodes."""

from collections.abc import Iterable

from ballast.cluster.client import KubeApi
from ballast.cluster.node_writes import node_metadata, replace_taints, with_taint, with_values
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import Writer
from ballast.model.node import Node
from ballast.publishing.crane_plan import is_written
from ballast.publishing.label_plan import PublishedKeys
from ballast.publishing.node_keys import NodeKeys
from ballast.publishing.publisher import PART

REASON = "released"


def release(
    api: KubeApi, writer: Writer, nodes: Iterable[Node], keys: NodeKeys, *, crane: bool = False
) -> list[WriteOutcome]:
    """Removes the labels, the annotations and the taints from every node that carries one of them.

    With `crane` also the annotations of crane-scheduler, whoever wrote them. Ends where the writer refuses; that
    outcome is the last.
    """
    outcomes: list[WriteOutcome] = []
    for node in nodes:
        if outcomes and outcomes[-1].result is Result.REFUSED:
            break
        carried = PublishedKeys.of(node, keys)
        labels: dict[str, str | None] = {
            key: None for key in (keys.score, keys.load, *keys.former) if key in node.labels
        }
        present = [key for key in node.annotations if key == keys.window or (crane and is_written(key))]
        annotations: dict[str, str | None] = dict.fromkeys(present)
        if labels or annotations:
            outcomes.append(writer.submit(node_metadata(node.name, labels, annotations, part=PART, reason=REASON)))
        if carried.tainted or carried.load_taints:
            outcomes.append(
                replace_taints(
                    api,
                    writer,
                    node.name,
                    lambda taints: with_values(with_taint(taints, keys.taint, False), keys.load_taint, ()),
                    part=PART,
                    reason=REASON,
                )
            )
    return outcomes
