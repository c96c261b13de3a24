"""Which nodes a template allows by what nodes are: selectors, required node affinity, taints.

Source: kubernetes pkg/scheduler/framework/plugins nodeaffinity, tainttoleration, nodeunschedulable.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from ballast.model.node import HARD_EFFECTS, Node, Taint
from ballast.model.sample import Bools, Ints
from ballast.model.template import NodeTerm, Template, Toleration

_INTEGER = re.compile("0|-?[1-9][0-9]*")


class NodeConstraints:
    """Answers are [node] and kept per template; do not write into them."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._schedulable = np.array([node.schedulable and not node.deleting for node in nodes], bool)
        self._tainted = [row for row, node in enumerate(nodes) if any(t.effect in HARD_EFFECTS for t in node.taints)]
        self._allowed: dict[Template, Bools] = {}
        self._chosen: dict[object, Bools] = {}
        self._tolerated: dict[tuple[Toleration, ...], Bools] = {}
        self._preferences: dict[tuple[tuple[int, NodeTerm], ...], Ints] = {}
        self._by_id: dict[int, tuple[Template, Bools]] = {}

    def allowed(self, template: Template) -> Bools:
        """Schedulable nodes that are chosen and whose taints are tolerated."""
        known = self._by_id.get(id(template))
        if known is not None:
            return known[1]
        mask = self._allowed.get(template)
        if mask is None:
            mask = self._schedulable & self.chosen(template) & self.tolerated(template.tolerations)
            if template.runs_on is not None or template.unpulled:
                mask &= np.array([not lacks(template, node) for node in self._nodes], bool)
            self._allowed[template] = mask
        self._by_id[id(template)] = (template, mask)
        return mask

    def chosen(self, template: Template) -> Bools:
        """By node selector and required node affinity."""
        key = (template.node_selector, template.node_affinity)
        mask = self._chosen.get(key)
        if mask is None:
            if template.node_selector or template.node_affinity is not None:
                mask = np.array([_chosen(template, node) for node in self._nodes], bool)
            else:
                mask = np.ones(len(self._nodes), bool)
            self._chosen[key] = mask
        return mask

    def preference(self, template: Template) -> Ints:
        """[node]: the weights of the preferred node affinities that it meets."""
        preference = self._preferences.get(template.preferred)
        if preference is None:
            weights = [sum(w for w, term in template.preferred if holds(term, node)) for node in self._nodes]
            preference = self._preferences[template.preferred] = np.array(weights, np.int64)
        return preference

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> Bools:
        mask = self._tolerated.get(tolerations)
        if mask is None:
            mask = np.ones(len(self._nodes), bool)
            for row in self._tainted:
                mask[row] = all(_tolerated(taint, tolerations) for taint in self._nodes[row].taints)
            self._tolerated[tolerations] = mask
        return mask


def allows(node: Node, template: Template) -> bool:
    """Whether one node is schedulable and chosen, and its taints are tolerated."""
    tolerated = all(_tolerated(taint, template.tolerations) for taint in node.taints)
    return node.schedulable and not node.deleting and tolerated and _chosen(template, node)


def lacks(template: Template, node: Node) -> str:
    """What a pod needs that kube-scheduler does not look at, and the node lacks; "" where it lacks nothing."""
    known = template.runs_on
    if known is not None and node.system not in known.systems:
        return "another system or architecture"
    if known is not None and not known.signs.issuperset(node.standing_signs):
        return "a standing sign"
    there = {*template.unpulled} <= {*node.images} or (known is not None and node.name in known.holders)
    return "" if there else "an image that is not there"


def _chosen(template: Template, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in template.node_selector):
        return False
    return template.node_affinity is None or any(holds(term, node) for term in template.node_affinity)


def holds(term: NodeTerm, node: Node) -> bool:
    """Whether a node meets one alternative of a node selector."""
    if not (term.labels or term.names):
        return False
    name: Mapping[str, str] = {"metadata.name": node.name}
    return all(r.matches(node.labels) for r in term.labels) and all(r.matches(name) for r in term.names)


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return taint.effect not in HARD_EFFECTS or any(tolerates(toleration, taint) for toleration in tolerations)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether it matches the taint.

    Source: staging/src/k8s.io/component-helpers/scheduling/corev1/helpers.go and core/v1 ToleratesTaint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("Lt", "Gt"):
        return bool(toleration.key) and _compares(toleration, taint.value)
    return toleration.operator in ("", "Equal") and bool(toleration.key) and toleration.value == taint.value


def _compares(toleration: Toleration, value: str) -> bool:
    """Lt: the taint's number is below the toleration's; Gt: above. Both are decimal integers of 64 bits."""
    if not (_INTEGER.fullmatch(toleration.value) and _INTEGER.fullmatch(value)):
        return False
    ours, theirs = int(value), int(toleration.value)
    if max(abs(ours), abs(theirs)) >= 2**63:
        return False
    return ours < theirs if toleration.operator == "Lt" else ours > theirs
