"""Whether Ballast may act now, and on this pod."""

import math

from ballast.eviction.annotations import objection
from ballast.eviction.check_input import CheckInput, CheckResult, allow, refuse
from ballast.eviction.facts import Facts, WorkloadKey, leaving, young
from ballast.eviction.gate_rules import HOUR, GateRules
from ballast.eviction.history import History
from ballast.model.node_state import silent_share


def opt_out(case: CheckInput) -> CheckResult:
    reason = objection(case.facts, case.pod, case.rules.prefix, case.rules.operator_only)
    return allow("no annotation excludes it") if reason is None else refuse(reason)


def reservation(case: CheckInput) -> CheckResult:
    steered = case.rules.steered
    if not case.rules.moves:
        return allow("it may come back anywhere")
    if steered is None or case.pod.scheduler_name in steered:
        return allow("its landing is steered")
    if case.rules.kept_off:
        return allow("its node is tainted until its replacement is bound")
    if not case.rules.needs_landing and case.pod.node in case.history.overloaded:
        return allow("its landing is not steered, but its node is overloaded")
    return refuse(f"where {case.pod.scheduler_name} puts its replacement is not steered")


def retry(case: CheckInput) -> CheckResult:
    key = case.workload
    until = case.history.backing_off.get(key, 0.0) if key else 0.0
    if until > case.facts.now:
        return refuse("the API server recently refused an eviction of its workload", seconds=until - case.facts.now)
    return allow("the API server did not recently refuse an eviction of its workload")


def identity(case: CheckInput) -> CheckResult:
    if case.history.acting and not case.pod.uid:
        return refuse("its UID is unknown, so another pod of that name could be hit")
    if case.pod.uid in case.history.known:
        return refuse("it was evicted already, or it is unknown whether it was")
    return allow("it is named by namespace, name and UID")


def leadership(case: CheckInput) -> CheckResult:
    if case.history.acting and not case.history.leader:
        return refuse("this replica is not the leader")
    return allow("this replica leads" if case.history.acting else "it is only planned")


def paused(case: CheckInput) -> CheckResult:
    if case.history.acting and case.history.paused is not None:
        return refuse(case.history.paused)
    return allow("evictions are not paused" if case.history.acting else "it is only planned")


def cluster_health(case: CheckInput) -> CheckResult:
    trouble = cluster_trouble(case.facts, case.rules, case.history)
    return trouble or _node(case) or allow("the cluster and its node are healthy")


def loop(case: CheckInput) -> CheckResult:
    at = None if case.workload is None else _came_back(case, (case.workload, case.pod.node))
    # Nothing holds a pod on an overloaded node for a day.
    if at is not None and not (case.pod.node in case.history.overloaded and case.facts.now - at >= HOUR):
        return refuse("its node gave a pod of this workload before, and one came back", since=case.facts.now - at)
    return allow("no pod of its workload came back to this node")


def _came_back(case: CheckInput, place: tuple[WorkloadKey, str]) -> float | None:
    """Since when a pod is back. The only pod of a workload is back however it came there: by a rollout that somebody
    undid, or a drain."""
    gave = case.history.gave.get(place)
    if gave is not None and case.facts.replicas(case.pod) == 1 and case.pod.created > gave:
        return max(case.pod.created, case.history.looping.get(place, -math.inf))
    return case.history.looping.get(place)


def cluster_trouble(facts: Facts, rules: GateRules, history: History) -> CheckResult | None:
    """Why nothing at all may be evicted, or None."""
    nodes = max(1, len(facts.nodes))
    if facts.not_ready / nodes > rules.max_not_ready:
        return refuse("too many nodes are not Ready", not_ready=facts.not_ready, nodes=nodes)
    known = len(facts.nodes) - len(facts.unknown)
    if silent_share(known, facts.silent) > rules.max_unknown or (facts.nodes and not known):
        return refuse("the load of too many nodes is unknown", unknown=facts.silent, nodes=nodes)
    if history.api_errors > rules.max_api_errors:
        return refuse("the API server fails too often", share=history.api_errors, at_most=rules.max_api_errors)
    if history.replacements > rules.max_replacements:
        return refuse("too many replacements are pending", pending=history.replacements, at_most=rules.max_replacements)
    return None


def _node(case: CheckInput) -> CheckResult | None:
    node = case.node
    if node is None:
        return refuse(f"there is no node {case.pod.node}")
    if not node.ready:
        return refuse(f"{node.name} is not Ready")
    if leaving(node):
        return refuse(f"{node.name} is being removed or is cordoned")
    age = case.facts.now - node.created
    if young(node, case.facts.now, case.rules.min_node_age):
        return refuse(f"{node.name} is too young", age=age, at_least=case.rules.min_node_age)
    return None
