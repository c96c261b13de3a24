"""Chooses which plans a cycle asks for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ballast.eviction.planners.planner import Planner, PlanningDemand
from ballast.eviction.planners.registry import planner, planners
from ballast.eviction.rules import UNLIMITED, GateRules
from ballast.planning.moment import Moment
from ballast.planning.request import RequestedPlan
from ballast.planning.rules import aims_of, limit, rules_for, rules_of
from ballast.settings import Settings


def choose(
    moment: Moment, settings: Settings, stopped: Callable[[str], str | None], unsteered: str | None
) -> tuple[list[RequestedPlan], list[str]]:
    """The plans to make, the most urgent first, and why others are not made.

    `stopped` says why a planner makes no moves for a while, `unsteered` why nothing decides where replacements go.
    """
    demand = PlanningDemand(hot=bool(moment.history.confirmed), waiting=any(pod.waiting for pod in moment.objects.pods))
    plans, skipped = [], []
    for each in planners():
        if each.name not in settings.eviction.planners:
            continue
        reason = each.idle(demand) or stopped(each.name) or (unsteered if each.needs_landing else None)
        if reason is None:
            plans.append(request_plan(each, settings, moment.steered))
        else:
            skipped.append(f"{each.name}: {reason}")
    return plans, skipped


def request_plan(planner: Planner, settings: Settings, steered: frozenset[str]) -> RequestedPlan:
    """A plan that spans cycles has no limits of its own: what limits one cycle holds back its steps."""
    rules, most = rules_for(planner, rules_of(settings), steered), limit(settings.eviction.max_moves)
    if planner.spans_cycles:
        most = UNLIMITED
        rules = replace(rules, rates=(), limit_total=UNLIMITED, limit_namespace=UNLIMITED, limit_workload=UNLIMITED)
    return RequestedPlan(planner.name, rules, aims_of(settings), most)


def concerned(plans: Sequence[RequestedPlan], moment: Moment) -> list[str] | None:
    """namespace/name of the pods whose usage matters: those on hot nodes if no other may be moved. None for all."""
    if not all(planner(plan.kind).needs_confirmation for plan in plans):
        return None
    hot: Collection[str] = moment.history.confirmed or ()
    return [f"{pod.namespace}/{pod.name}" for pod in moment.objects.pods if pod.node in hot]


def explaining_rules(node: str, settings: Settings, moment: Moment) -> GateRules:
    """Those of the planner that would move a pod off this node: relieve where it is overloaded, else another."""
    chosen = [each for each in planners() if each.name in settings.eviction.planners] or list(planners())
    hot = node in (moment.history.confirmed or ())
    fitting = next((each for each in chosen if each.needs_confirmation == hot), chosen[0])
    return rules_for(fitting, rules_of(settings), moment.steered)
