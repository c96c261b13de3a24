"""Which nodes may be emptied, and what of them counts."""

from __future__ import annotations

from ballast.eviction.facts import Facts, leaving, young
from ballast.eviction.rules import GateRules
from ballast.model.marks import MIRROR
from ballast.model.node import HARD_EFFECTS, Node
from ballast.model.pod import Pod

EMPTY = "empty"
"""Name, under Ballast's prefix, of the taint of nodes that are to be empty, and of the label of those that are."""

_ROLES = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_KEPT = (
    ("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true"),
    ("karpenter.sh/do-not-disrupt", "true"),
)


def handed_over(node: Node, prefix: str) -> bool:
    """Whether Ballast has handed the node over, or is emptying it."""
    key = f"{prefix}/{EMPTY}"
    return key in node.labels or any(taint.key == key for taint in node.taints)


def may_empty(node: Node, facts: Facts, rules: GateRules) -> bool:
    """Not control planes, nodes that are there for something, nodes that somebody keeps, or young ones."""
    if handed_over(node, rules.prefix) or not node.ready or leaving(node) or node.name in facts.unknown:
        return False
    if young(node, facts.now, rules.min_node_age) or any(role in node.labels for role in _ROLES):
        return False
    if any(node.annotations.get(key) == value for key, value in _KEPT):
        return False
    if node.annotations.get(f"{rules.prefix}/exclude", "false") != "false":
        return False
    return not any(taint.effect in HARD_EFFECTS for taint in node.taints)


def ends_with_its_node(pod: Pod) -> bool:
    """Pods of DaemonSets and static pods need no other node."""
    owned = pod.owner is not None and pod.owner.kind in ("DaemonSet", "Node")
    return owned or MIRROR in pod.annotations
