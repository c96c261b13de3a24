"""Limits per cycle, times, rates, and rests after an eviction."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ballast.eviction.check_input import CheckInput, CheckResult, allow, refuse
from ballast.eviction.rules import HOUR, MINUTE, EvictionLimit
from ballast.eviction.time_windows import closed
from ballast.model.duration import DAY

_UNITS = ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"))


def limit_node(case: CheckInput) -> CheckResult:
    return _limit(case.tally.nodes[case.pod.node], case.rules.limit_node.of(case.facts.pods), "from this node")


def limit_namespace(case: CheckInput) -> CheckResult:
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
    if key is None or most is None:
        return allow("its workload has no limit")
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
    for limit, seconds in case.rules.rates:
        most = _at_most(limit, case)
        if most is None:
            continue
        recent = _since(case.history.evictions, case.facts.now - seconds)
        kept = _kept(case, most, seconds)
        if recent + case.tally.total >= most - sum(kept.values()):
            return refuse(_used_up(case, seconds, kept), recent=recent, planned=case.tally.total, at_most=most, **kept)
    return allow("few recent evictions")


def cooldown(case: CheckInput) -> CheckResult:
    node, rules = case.pod.node, case.rules
    # A node too loaded waits for the effect of its own relief, never for what another planner took from it.
    own = case.history.node_planners.get((node, rules.planner))
    last = own if rules.needs_confirmation and rules.planner else case.history.node_evictions.get(node)
    if last is not None and case.facts.now - last < rules.cooldown:
        return refuse("its node was just relieved", ago=case.facts.now - last, at_least=case.rules.cooldown)
    why = case.history.useless(node) if rules.needs_confirmation else None
    if why is not None:
        return refuse(why)
    return allow("its node was not relieved recently")


def _at_most(limit: EvictionLimit, case: CheckInput) -> int | None:
    """A share of few pods permits as many as the largest count among the rates."""
    most = limit.of(case.facts.pods)
    if most is None or not limit.percent:
        return most
    return max(most, *(other.number for other, _ in case.rules.rates if not other.percent), 0)


def _kept(case: CheckInput, most: int, seconds: float) -> dict[str, int]:
    """{kept_for_planner: evictions}: what other planners have not used of their shares."""
    rules, left_by_planner = case.rules, {}
    for planner, share in sorted(rules.rate_shares.items()):
        used = _since(case.history.by_planner.get(planner, ()), case.facts.now - seconds)
        left = math.ceil(most * share) - used
        if planner != rules.planner and left > 0:
            left_by_planner[f"kept_for_{planner}"] = left
    return left_by_planner


def _used_up(case: CheckInput, seconds: float, kept: Mapping[str, int]) -> str:
    who = case.rules.planner or "evictions"
    within = next((f"{seconds / unit:g} {name}" for unit, name in _UNITS if seconds % unit == 0), f"{seconds:g} s")
    ends = [at + seconds for at in case.history.evictions if at > case.facts.now - seconds]
    wait = f"; the oldest eviction counts for another {(ends[0] - case.facts.now) / 60:.0f} minutes" if ends else ""
    share = f"the share of {who} in " if kept else ""
    return f"{share}BALLAST_EVICTION__RATE for {within} is used up{wait}"


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
