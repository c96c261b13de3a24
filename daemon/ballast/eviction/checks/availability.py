"""Disruption budgets and the replicas of its workload."""

from ballast.eviction.check_input import CheckInput, CheckResult, allow, refuse
from ballast.eviction.facts import Facts
from ballast.eviction.gate_rules import GateRules
from ballast.model.marks import EVICTION_UNDER_WAY, EVICTS_ITSELF
from ballast.model.pod import Pod
from ballast.model.workload import Workload


def without_pdb(case: CheckInput) -> CheckResult:
    if case.rules.needs_budget and not case.facts.budgets(case.pod):
        return refuse("no disruption budget covers it")
    return allow("no disruption budget is required, or one covers it")


def pdb(case: CheckInput) -> CheckResult:
    budgets = case.facts.budgets(case.pod)
    if budgets and _follows(case):
        return allow("its replacement is Ready first, so no disruption budget is spent")
    if len(budgets) > 1:
        names = " and ".join(budget.name for budget in budgets)
        return refuse(
            f"the disruption budgets {names} both cover it, so the API server refuses to evict it", budgets=len(budgets)
        )
    for budget in budgets:
        if _broken(case):
            return allow(f"it is not Ready, and disruption budget {budget.name} lets such pods go")
        if not budget.settled:
            return refuse(
                f"disruption budget {budget.name} is stale: the disruption controller has not processed its last change"
            )
        spent = case.tally.budgets[budget.namespace, budget.name]
        if budget.allowed - spent < 1:
            return refuse(f"disruption budget {budget.name} is used up", allowed=budget.allowed, planned=spent)
        return allow(f"disruption budget {budget.name} has room", allowed=budget.allowed, planned=spent)
    return allow("no disruption budget covers it")


def single_replica(case: CheckInput) -> CheckResult:
    replicas, least = case.facts.replicas(case.pod), case.rules.min_replicas
    counted = case.facts.counted(case.pod)
    if least <= 1:
        return allow("any number of replicas is enough")
    if _follows(case):
        return allow("its replacement is Ready first")
    if EVICTS_ITSELF in case.pod.annotations:
        return allow(f"it has {EVICTS_ITSELF}: it ends once its replacement runs")
    if replicas is None:
        owner = case.pod.owner
        return refuse(f"{owner.kind} {owner.name} is unknown" if owner else "its workload is unknown")
    if counted and replicas == least:
        owner = case.pod.owner
        kind = owner.kind if owner else "its owner"
        return refuse(f"how many replicas {kind} asks for is unknown", pods=replicas, at_least=least + 1)
    if replicas < least:
        return refuse("its workload has too few replicas", replicas=replicas, at_least=least)
    return allow("its workload has enough replicas", replicas=replicas)


def min_ready(case: CheckInput) -> CheckResult:
    key = case.workload
    if key is None:
        return allow("it belongs to no workload")
    numbers = case.facts.numbers(key)
    replicas = case.facts.replicas(case.pod)
    size = numbers.there if replicas is None else replicas
    most = case.rules.max_unavailable.of(size)
    if most is None:
        return allow("any number of replicas may be unavailable")
    missing = max(0, size - case.facts.ready(key))
    if missing and not case.pod.ready:
        missing -= 1
    planned = case.tally.workloads[key] - case.tally.shown[key]
    if _broken(case):
        return allow("it is not Ready itself", unavailable=missing, planned=planned)
    if missing + planned + 1 > most:
        return refuse("too few of its replicas are ready", unavailable=missing, planned=planned, at_most=most)
    return allow("enough of its replicas are ready", unavailable=missing, planned=planned, at_most=most)


def returnable(case: CheckInput) -> CheckResult:
    why = case.facts.uncreatable(case.pod)
    if why is not None:
        return refuse(f"a replacement could not be created: {why}")
    chain = case.facts.chain(case.pod)
    if len({workload.key for workload in chain}) < len(chain):
        return refuse("its owners own each other in a circle, so nobody knows what would create it again")
    if (other := case.facts.revisions.refusal(case.pod)) is not None:
        return refuse(other)
    key = case.workload
    for workload in chain:
        if workload.ordered and key is not None:
            unready = (workload.replicas or 0) - case.facts.ready(key) - (not case.pod.ready)
            if unready > 0:
                why = f"StatefulSet {workload.name} creates it only while its other pods are ready"
                return refuse(f"a replacement could not be created: {why}", unready=unready)
    return allow("nothing is known to keep it from coming back as it is")


def replacement(case: CheckInput) -> CheckResult:
    if EVICTION_UNDER_WAY in case.pod.annotations:
        return refuse(f"its eviction is under way already: it has {EVICTION_UNDER_WAY}")
    for workload in case.facts.chain(case.pod):
        if workload.rolling and not (workload.stalled and workload.kind == "StatefulSet"):
            return refuse(f"{workload.kind} {workload.name} is in a rollout")
    key = case.workload
    if key in case.history.awaited:
        return refuse("the last replacement of its workload is not Ready yet")
    if key in case.history.planned:
        return refuse("a power plan is changing its workload")
    scaled = case.facts.scaled_at(case.pod)
    if scaled is not None and case.facts.now - scaled < case.rules.quiet_after_scale:
        ago = case.facts.now - scaled
        return refuse("its workload was just scaled", ago=ago, at_least=case.rules.quiet_after_scale)
    return allow("its workload is not changing")


def _broken(case: CheckInput) -> bool:
    """Whether its budget (AlwaysAllow) lets it go because it is not Ready. A pod that just started has `min-age`."""
    budgets = case.facts.budgets(case.pod)
    return not case.pod.ready and len(budgets) == 1 and budgets[0].frees_unready


def _follows(case: CheckInput) -> bool:
    """Whether it goes only once its replacement is Ready."""
    surges = case.rules.surge and case.facts.surging(case.pod) is not None
    return surges or restarting(case.facts, case.rules, case.pod) is not None


def restarting(facts: Facts, rules: GateRules, pod: Pod) -> Workload | None:
    """The Deployment whose rollout moves its only pod, where the rules ask for that and it leaves no gap."""
    return facts.restarting(pod) if rules.restart and rules.moves else None
