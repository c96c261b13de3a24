"""What is known of a step right before it is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.follow_up import SKEW
from ballast.actuation.eviction.records import StepRecord
from ballast.actuation.eviction.requests import EvictionResponse, answer
from ballast.cluster.write import WriteOutcome
from ballast.eviction.check_input import LOOKED_NOWHERE, Feasibility
from ballast.eviction.facts import Facts, leaving
from ballast.eviction.gate import Gate
from ballast.eviction.plan import Move
from ballast.eviction.recent_evictions import PastEviction
from ballast.model.marks import EVICTION_UNDER_WAY, EVICTS_ITSELF
from ballast.model.node import Node
from ballast.model.pod import Pod
from ballast.model.shape import Shape
from ballast.placement.planners.node_constraints import NodeConstraints


def prepared(move: Move, pod: Pod, facts: Facts, pods: Iterable[Pod], now: float, *, probe: bool) -> StepRecord:
    """The step as it is written down; `pods` are those of a moment ago."""
    owner = pod.owner.uid if pod.owner else ""
    siblings = (each for each in pods if owner and each.owner is not None and each.owner.uid == owner)
    return StepRecord(
        pod=move.pod,
        uid=pod.uid,
        source=move.source,
        target=move.target,
        time=now,
        workload=facts.key(pod),
        owner=owner,
        scheduler=pod.scheduler_name,
        gain=move.gain,
        reason=move.reason,
        used=effect.known(move.used),
        load=effect.predicted(move, facts.nodes),
        starts=move.starts,
        starts_on=move.starts_on,
        replicas=facts.replicas(pod) or 0,
        besides=tuple(each.uid for each in siblings if each.created >= now - SKEW),
        prefers=move.aim if move.target is None else "",
        probe=probe,
    )


def other(pod: Pod, move: Move) -> str | None:
    """Why this pod is not the one that was planned for."""
    if move.uid and pod.uid != move.uid:
        return f"another pod is called {move.pod} now"
    if pod.node != move.source:
        return f"{move.pod} is not on {move.source} any more"
    return None


def outlook(move: Move, pod: Pod, facts: Facts, fits: Callable[[str, Shape], bool | None]) -> Feasibility:
    """Whether the target still is one."""
    if move.target is None:
        return LOOKED_NOWHERE
    node = facts.nodes.get(move.target)
    usable = node is not None and node.ready and not leaving(node)
    if not usable or fits(move.target, pod.shape) is False:
        return Feasibility(fits=False)
    return Feasibility(fits=True, only_unknown=move.target in facts.unknown)


def evicts_itself(pod: Pod, outcome: WriteOutcome) -> bool:
    """Whether a refusal for now means that the pod's owner carries the eviction out by itself, as KubeVirt does by
    moving the machine: descheduler counts such a pod as evicted."""
    return outcome.status == 429 and (EVICTS_ITSELF in pod.annotations or EVICTION_UNDER_WAY in pod.annotations)


def leaves(now: Pod | None, evicted: Pod) -> bool:
    """Whether the watch has shown the eviction."""
    return now is None or now.uid != evicted.uid or now.deleting


def past_eviction(step: StepRecord, planner: str, at_once: int, *, imagined: bool = False) -> PastEviction:
    """The step as limits and rests count it."""
    return PastEviction(step.time, step.uid, step.source, step.workload, at_once, imagined, planner)


def at_once(judge: Gate, pod: Pod) -> int:
    """How many pods of its workload may be moved at once."""
    replicas = judge.facts.replicas(pod) or 1
    most = judge.rules.limit_workload.of(replicas)
    return max(1, replicas if most is None else most)


def budgets(outcome: WriteOutcome, pod: Pod, facts: Facts) -> str:
    """What the API server said of disruption budgets, with their names where it does not tell them."""
    names = [budget.name for budget in facts.budgets(pod)]
    if answer(outcome) is EvictionResponse.BUDGET or len(names) < 2:
        return outcome.reason
    return f"the disruption budgets {' and '.join(names)} both cover it: {outcome.reason}"


def had_a_choice(
    step: StepRecord, pods: Iterable[Pod], nodes: Sequence[Node], fits: Callable[[str, Shape], bool | None]
) -> bool:
    """Whether the replacement could have gone to another node than it did, as far as nodes and requests tell.

    False where other pods may have decided: kube-scheduler scores nothing while one node is feasible.
    """
    pod = next((each for each in pods if each.uid == step.replacement), None)
    if pod is None or pod.template.looks_at_pods:
        return False
    allowed = NodeConstraints(nodes).allowed(pod.template).tolist()
    open_nodes = (node for node, may in zip(nodes, allowed, strict=True) if may and node.name != step.landed_on)
    return any(fits(node.name, pod.shape) for node in open_nodes)
