"""Where one pod could go, what is wrong where it is, and which nodes may be emptied."""

from collections.abc import Iterator

import numpy as np

from ballast.eviction.check_input import Feasibility
from ballast.eviction.facts import CONTROL_PLANE, Facts, leaving, young
from ballast.eviction.gate_rules import GateRules
from ballast.eviction.upgrade_front import upgrade_front
from ballast.model.load_limits import Limit, limits
from ballast.model.marks import MIRROR
from ballast.model.node import HARD_EFFECTS, Node
from ballast.model.pod import Pod
from ballast.model.sample import Bools
from ballast.placement.layout import Layout
from ballast.placement.simulated_placement import SimulatedPlacement

EMPTY = "empty"
"""Name, under Ballast's prefix, of the taint of nodes that are to be empty, and of the label of those that are."""

_KEPT = (("cluster-autoscaler.kubernetes.io/scale-down-disabled", "true"), ("karpenter.sh/do-not-disrupt", "true"))


BEHIND = "older version during an upgrade"


def targets(layout: Layout, facts: Facts, rules: GateRules) -> Bools:
    """[node]: those that a moved pod may go to."""
    usable = np.array([not unusable(node, facts, rules) for node in layout.nodes], bool)
    return np.asarray(usable & ~upgrade_front(layout.nodes, layout.pool, facts.now).older)


def unusable(node: Node, facts: Facts, rules: GateRules) -> str:
    """The first thing that keeps all moved pods off a node, "" for none."""
    for why, applies in (
        ("not Ready", not node.ready),
        ("leaving", leaving(node)),
        ("to be removed by an autoscaler", facts.removable(node)),
        ("to be emptied", handed_over(node, rules.prefix)),
        ("younger than MIN_NODE_AGE", young(node, facts.now, rules.min_node_age)),
        ("nothing starts there", node.name in facts.barren),
    ):
        if applies:
            return why
    return ""


def standing_of(arranged: Layout, facts: Facts, rules: GateRules, ceiling: Limit) -> SimulatedPlacement:
    """`ceiling` is the load a target may reach."""
    open_nodes = targets(arranged, facts, rules)
    most = limits(ceiling, arranged.resources)
    return SimulatedPlacement(
        arranged, targets=open_nodes, ceiling=most, namespaces=facts.namespace_labels(), attachments=facts.attachments
    )


def feasibility(placement: SimulatedPlacement, pod: int, facts: Facts, rules: GateRules) -> Feasibility:
    """`pod` is its row in the layout, and on a node."""
    layout = placement.layout
    if not np.isfinite(layout.used[pod]).all():
        return Feasibility(used=False)
    fits = bool(placement.open_to(pod).any())
    unknown = targets(layout, facts, rules) & ~layout.known
    hidden = not fits and bool((placement.feasible(pod) & unknown).any())
    return Feasibility(fits=None if hidden else fits, only_unknown=hidden, crowded=not fits and placement.crowded(pod))


def misplaced(placement: SimulatedPlacement, pod: int) -> Iterator[str]:
    """One sentence for each reason why it would not be put again where it is, with who sees to that."""
    layout = placement.layout
    row, subject = int(layout.on[pod]), layout.pods[pod]
    node, template = layout.nodes[row], subject.template
    if not node.ready:
        yield (
            f"{node.name} is not Ready: the node lifecycle controller evicts its pods once their tolerations of that "
            "end, after 5 minutes unless they say otherwise"
        )
    if subject.phase == "Failed":
        yield "it has failed: the planner `tidy` removes such pods where BALLAST_EVICTION__TIDY says so"
    if not placement.sites.chosen(template)[row]:
        yield f"{node.name} is none of the nodes it asks for: {_REPAIRED}"
    if not placement.sites.tolerated(template.tolerations)[row]:
        yield (
            f"it does not tolerate the taints of {node.name}: {_REPAIRED}, and the node lifecycle controller evicts "
            "those that do not tolerate NoExecute"
        )
    near = placement.neighbours.broken(pod) if placement.neighbours.matters(pod) else ()
    if near:
        yield f"{node.name} no longer satisfies the {' and the '.join(dict.fromkeys(near))} of pods: {_REPAIRED}"


_REPAIRED = "the planner `repair` moves such pods"


def handed_over(node: Node, prefix: str) -> bool:
    """Whether Ballast has handed the node over, or is emptying it."""
    key = f"{prefix}/{EMPTY}"
    return key in node.labels or any(taint.key == key for taint in node.taints)


def may_empty(node: Node, facts: Facts, rules: GateRules) -> bool:
    """Not control planes, nodes that are there for something, nodes that somebody keeps, or young ones."""
    if handed_over(node, rules.prefix) or not node.ready or leaving(node) or node.name in facts.unknown:
        return False
    if young(node, facts.now, rules.min_node_age) or any(role in node.labels for role in CONTROL_PLANE):
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
