"""Where pods of a workload can run, by what is there: systems that it runs on, and signs that its own node has too."""

from collections.abc import Sequence

import msgspec

from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.template import RunsOn, Template
from ballast.placement.node_constraints import tolerates


def with_evidence(nodes: Sequence[Node], pods: Sequence[Pod], prefix: str) -> Sequence[Pod]:
    """The pods with what is known of where they can run; the same ones where all nodes are alike.

    A pod goes to nodes of its own node's system, or of one on which a Ready pod of its owner is. It goes to no node
    with a standing sign that its own node does not have. Keys under `prefix`/ are Ballast's own and no signs.
    """
    own_keys = f"{prefix}/"
    signs = {node.name: frozenset(sign for sign in node.standing_signs if own_keys not in sign) for node in nodes}
    systems = {node.name: node.system for node in nodes}
    unpulled = any(pod.template.unpulled for pod in pods)
    if len({*systems.values()}) < 2 and not any(signs.values()) and not unpulled:
        return pods
    seen: dict[tuple[str, str, str], set[str]] = {}
    holders: dict[tuple[str, ...], set[str]] = {}
    for pod in pods:
        if pod.ready and not pod.deleting and pod.owner is not None and pod.node in systems:
            seen.setdefault((pod.namespace, pod.owner.kind, pod.owner.name), set()).add(systems[pod.node])
            if pod.template.unpulled:
                holders.setdefault(pod.template.unpulled, set()).add(pod.node)
    harmless = {sign for node in nodes for sign in node.standing_signs if own_keys in sign}
    soft = {taint for node in nodes for taint in node.taints if taint.soft}
    known: dict[tuple[int, str, frozenset[str], frozenset[str]], tuple[Template, Template]] = {}
    changed = list(pods)
    for row, pod in enumerate(pods):
        if pod.node in systems:
            there = seen.get((pod.namespace, pod.owner.kind, pod.owner.name)) if pod.owner is not None else None
            key = (id(pod.template), systems[pod.node], signs[pod.node], frozenset(there or ()))
            if key not in known:
                tolerated = {t.sign for t in soft if any(tolerates(each, t) for each in pod.template.tolerations)}
                held = frozenset(holders.get(pod.template.unpulled, ()) if pod.template.unpulled else ())
                runs_on = RunsOn(key[3] | {key[1]}, key[2] | harmless | tolerated, held)
                known[key] = (pod.template, msgspec.structs.replace(pod.template, runs_on=runs_on))
            changed[row] = msgspec.structs.replace(pod, template=known[key][1])
    return changed
