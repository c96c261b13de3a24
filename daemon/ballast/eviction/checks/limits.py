"""Limits per cycle, times, rates, and rests after an eviction."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ballast.eviction.check_input import CheckInput, CheckResult, allow, refuse
from ballast.eviction.facts import Facts
from ballast.eviction.gate_rules import HOUR, MINUTE, EvictionBudget, EvictionLimit, GateRules
from ballast.eviction.history import History
from ballast.eviction.price import DEAREST
from ballast.eviction.time_windows import closed
from ballast.model.duration import DAY

_ROUNDING = 1e-9
_SET_BACK = "ballast-state was set back, so its evictions count as used up"
_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"))


OVERLOADED = "overloaded"
"""The rate of their own of evictions from overloaded nodes."""

BURST = 0.25
"""Share of a rate that may be used at once; what is used comes back evenly over the time of the rate."""

LEAST_BURST = 2.0
"""Evictions of a rate that may be used at once, however small it is."""


def own_rate(rules: GateRules, node: str, history: History) -> str:
    """The rate of its own that an eviction from this node counts against, "" for the common ones.

    Relief of overloaded nodes has one, and planners that move nothing.
    """
    if not rules.moves:
        return rules.planner
    return OVERLOADED if rules.needs_confirmation and node in history.overloaded else ""


def over_budget(case: CheckInput, scope: str) -> CheckResult | None:
    """The refusal of the first budget of this scope that is used up; None where each has room."""
    for number, budget in enumerate(case.rules.budgets):
        if budget.scope != scope or not budget.holds(case.rules.planner, case.facts.now):
            continue
        if case.facts.now - case.history.set_back < budget.per:
            return refuse(_SET_BACK, window=budget.per)
        recent, planned, total = _spent(case, budget, number)
        most = budget.limit.of(total)
        if most is not None and recent + planned >= most:
            why = f"a budget of BALLAST_EVICTION__BUDGETS is used up: {budget.text}"
            return refuse(why, recent=recent, planned=planned, at_most=most)
    return None


def _spent(case: CheckInput, budget: EvictionBudget, number: int) -> tuple[int, int, int]:
    """What a budget has spent lately, what the plan so far spends of it, and of how many pods its share is."""
    facts, tally, key, node = case.facts, case.tally, case.workload, case.pod.node
    recent = tally.spent.get(number)
    if recent is None:
        recent = tally.spent[number] = _recent(case, budget)
    if budget.of_nodes:
        # A node that gave a pod is one of those it permits.
        return len({*recent, *+tally.nodes} - {node}), 0, len(facts.nodes)
    if budget.scope == "node":
        return recent[node], tally.nodes[node], facts.pods
    if budget.scope == "namespace":
        return recent[case.pod.namespace], tally.namespaces[case.pod.namespace], facts.pods
    if budget.scope == "workload":
        return recent[key], 0 if key is None else tally.workloads[key], facts.replicas(case.pod) or 1
    return recent.total(), tally.total, facts.pods


def _recent(case: CheckInput, budget: EvictionBudget) -> Counter[object]:
    """Evictions that a budget counts, by what it counts them of."""
    found: Counter[object] = Counter()
    for at, node, workload, planner in case.history.past:
        if at > case.facts.now - budget.per and (not budget.planners or planner in budget.planners):
            namespace = None if workload is None else workload[0]
            found[{"workload": workload, "namespace": namespace}.get(budget.scope, node)] += 1
    return found


def limit_node(case: CheckInput) -> CheckResult:
    if (spent := over_budget(case, "node")) is not None:
        return spent
    if own_rate(case.rules, case.pod.node, case.history) == OVERLOADED:
        return allow("its node is overloaded")
    return _limit(case.tally.nodes[case.pod.node], case.rules.limit_node.of(case.facts.pods), "from this node")


def limit_namespace(case: CheckInput) -> CheckResult:
    if (spent := over_budget(case, "namespace")) is not None:
        return spent
    most = case.rules.limit_namespace.of(case.facts.pods)
    return _limit(case.tally.namespaces[case.pod.namespace], most, "from this namespace")


def limit_total(case: CheckInput) -> CheckResult:
    return _limit(case.tally.total, case.rules.limit_total.of(case.facts.pods), "in this cycle")


def limit_workload(case: CheckInput) -> CheckResult:
    key = case.workload
    if key is None:
        return allow("it belongs to no workload")
    return _limit(case.tally.workloads[key], _most(case), "from this workload")


def workload_window(case: CheckInput) -> CheckResult:
    key, most = case.workload, _most(case)
    if (spent := over_budget(case, "workload")) is not None:
        return spent
    if key is None or most is None:
        return allow("its workload has no limit")
    if case.facts.now - case.history.set_back < case.rules.workload_window:
        return refuse(_SET_BACK)
    recent = _since(case.history.workload_evictions.get(key, ()), case.facts.now - case.rules.workload_window)
    if recent and recent + case.tally.workloads[key] >= most:
        return refuse("too many recent evictions of its workload", recent=recent, at_most=most)
    return allow("few recent evictions of its workload", recent=recent)


def window(case: CheckInput) -> CheckResult:
    waits = closed(case.rules.windows, case.rules.planner, case.facts.now) if case.rules.windows else None
    if waits is None:
        return allow("evictions may happen now")
    if waits.until is None:
        return refuse("outside its windows; no opening is in sight")
    return refuse(f"outside its windows; opens at {datetime.fromtimestamp(waits.until, UTC):%Y-%m-%d %H:%M} UTC")


def rate(case: CheckInput) -> CheckResult:
    if (spent := over_budget(case, "cluster")) is not None:
        return spent
    own = own_rate(case.rules, case.pod.node, case.history)
    times = case.history.of_own_rate.get(own, ()) if own else case.history.evictions
    planned = case.tally.total
    if case.rules.needs_confirmation:
        overloaded = sum(case.tally.nodes[node] for node in case.history.overloaded)
        planned = overloaded if own == OVERLOADED else planned - overloaded
    for limit, seconds in case.rules.rates:
        most = _at_most(limit, case.rules, case.facts.pods)
        if most is None or (own == OVERLOADED and seconds > HOUR):
            continue
        if case.facts.now - case.history.set_back < seconds:
            return refuse(_SET_BACK, window=seconds)
        recent = _since(times, case.facts.now - seconds)
        kept = {} if own else _kept(case.rules, case.history, case.facts.now, most, seconds)
        numbers = {"recent": recent, "planned": planned, "at_most": most, **kept}
        if recent + planned >= most - sum(kept.values()):
            return refuse(_used_up(case, times, seconds, kept), **numbers)
        # Each planner may use what its share lets it, at its own pace.
        share = (most - sum(kept.values())) / most if kept else 1.0
        key = own, seconds, most * share
        if key not in case.tally.held:
            case.tally.held[key] = _held(times, most * share, seconds, case.facts.now)
        lacking = planned + 1 - case.tally.held[key]
        if own != OVERLOADED and lacking > _ROUNDING:
            wait = lacking * seconds / (most * share) / MINUTE
            return refuse(f"{_setting(seconds)} is paced; the next in {wait:.0f} minutes", **numbers)
    return allow("few recent evictions")


def scarcity(facts: Facts, rules: GateRules, history: History) -> float:
    """By how much the price of an eviction rises while its rate is used up: 1 / (1 - share used), at most DEAREST.

    So what is left of a day goes to what is worth most.
    """
    if not facts.pods or not rules.rates:
        return 1.0
    used = 0.0
    for limit, seconds in rules.rates:
        most = _at_most(limit, rules, facts.pods)
        if most is None:
            continue
        left = most - sum(_kept(rules, history, facts.now, most, seconds).values())
        used = max(used, _since(history.evictions, facts.now - seconds) / max(left, 1))
    return 1.0 / max(1.0 - used, 1.0 / DEAREST)


def _held(times: Sequence[float], most: float, seconds: float, now: float) -> float:
    """How many evictions the pace of a rate permits at once.

    A token bucket: it holds a BURST of the rate, and refills over the time of the rate.
    """
    held = full = min(max(LEAST_BURST, most * BURST), most)
    before = now - seconds
    for at in times[bisect_right(times, before) :]:
        held, before = max(0.0, min(full, held + (at - before) * most / seconds) - 1), at
    return min(full, held + (now - before) * most / seconds)


def cooldown(case: CheckInput) -> CheckResult:
    node, rules = case.pod.node, case.rules
    overloaded = own_rate(rules, node, case.history) == OVERLOADED
    # A node too loaded waits for the effect of its own relief, never for what another planner took from it.
    own = case.history.node_planners.get((node, rules.planner))
    last = own if rules.needs_confirmation and rules.planner else case.history.node_evictions.get(node)
    if last is not None and case.facts.now - last < rules.cooldown and not overloaded:
        return refuse("its node was just relieved", ago=case.facts.now - last, at_least=case.rules.cooldown)
    why = case.history.useless(node) if rules.needs_confirmation else None
    if why is not None:
        return refuse(why)
    return allow("its node was not relieved recently")


def _at_most(limit: EvictionLimit, rules: GateRules, pods: int) -> int | None:
    """A share of few pods permits as many as the largest count among the rates."""
    most = limit.of(pods)
    if most is None or not limit.percent:
        return most
    return max(most, *(other.number for other, _ in rules.rates if not other.percent), 0)


def _kept(rules: GateRules, history: History, now: float, most: int, seconds: float) -> dict[str, int]:
    """{kept_for_planner: evictions}: what other planners have not used of their shares."""
    left_by_planner = {}
    for planner, share in sorted(rules.rate_shares.items()):
        used = _since(history.by_planner.get(planner, ()), now - seconds)
        left = math.ceil(most * share) - used
        if planner != rules.planner and left > 0:
            left_by_planner[f"kept_for_{planner}"] = left
    return left_by_planner


def _used_up(case: CheckInput, times: Sequence[float], seconds: float, kept: Mapping[str, int]) -> str:
    who = case.rules.planner or "evictions"
    ends = [at + seconds for at in times if at > case.facts.now - seconds]
    wait = f"; the oldest eviction counts for another {(ends[0] - case.facts.now) / 60:.0f} minutes" if ends else ""
    share = f"the share of {who} in " if kept else ""
    return f"{share}{_setting(seconds)} is used up{wait}"


def _setting(seconds: float) -> str:
    within = next((f"{seconds / unit:g} {name}" for unit, name in _UNITS if seconds % unit == 0), f"{seconds:g} s")
    return f"BALLAST_EVICTION__RATE for {within}"


def _since(times: Sequence[float], since: float) -> int:
    return len(times) - bisect_right(times, since)


def _most(case: CheckInput) -> int | None:
    replicas = case.facts.replicas(case.pod)
    key = case.workload
    if replicas is None and key is not None:
        replicas = case.facts.numbers(key).there
    return case.rules.limit_workload.of(replicas or 0)


def _limit(planned: int, most: int | None, where: str) -> CheckResult:
    if most is not None and planned >= most:
        return refuse(f"the limit of evictions {where} is reached", planned=planned, at_most=most)
    return allow(f"the limit of evictions {where} is not reached", planned=planned)
