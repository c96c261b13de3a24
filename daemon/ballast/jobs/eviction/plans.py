"""Chooses which plans a cycle asks for, and by which rules."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from ballast.eviction.gate_rules import UNLIMITED, GateRules
from ballast.planners.built_in import planner, planners
from ballast.planners.planner import Planner, PlanningDemand
from ballast.planning.from_settings import aims_of, limit, rules_of
from ballast.planning.moment import Moment
from ballast.planning.request import RequestedPlan
from ballast.settings import Settings


@dataclass(frozen=True)
class Choice:
    """The plans to make, the most urgent first."""

    plans: tuple[RequestedPlan, ...] = ()
    skipped: tuple[str, ...] = ()
    """Why other planners make no plan."""
    unsteered: str | None = None
    """Why nothing decides where replacements go."""
    concerned: tuple[str, ...] | None = None
    """namespace/name of the pods whose usage matters: those on hot nodes if no other may be moved. None for all."""


def choose(
    moment: Moment, settings: Settings, stopped: Callable[[str], str | None], names: Collection[str] | None = None
) -> Choice:
    """Out of the planners of these `names`, or of all that run. `stopped` says why one makes no moves for a while."""
    pods, hot = moment.objects.pods, {*(moment.history.confirmed or ()), *moment.history.overloaded}
    removes = settings.eviction.tidy is not None
    demand = PlanningDemand(hot=bool(hot), waiting=any(not pod.node and pod.waiting for pod in pods), removes=removes)
    schedulers = frozenset(pod.scheduler_name for pod in pods)
    why = unsteered(settings.eviction.landing, schedulers, moment.steered)
    plans: list[RequestedPlan] = []
    skipped: list[str] = []
    for candidate in planners():
        if candidate.name not in (settings.eviction.running if names is None else names):
            continue
        reason = candidate.idle(demand) or stopped(candidate.name) or (why if candidate.needs_landing else None)
        if reason is None:
            plans.append(request_plan(candidate, settings, moment.steered))
        else:
            skipped.append(f"{candidate.name}: {reason}")
    concerned = None
    if all(planner(plan.kind).needs_confirmation or not planner(plan.kind).moves for plan in plans):
        concerned = tuple(f"{pod.namespace}/{pod.name}" for pod in pods if pod.node in hot)
    return Choice(tuple(plans), tuple(skipped), why, concerned)


def request_plan(planner: Planner, settings: Settings, steered: frozenset[str]) -> RequestedPlan:
    """A plan that spans cycles has no limits of its own: what limits one cycle holds back its steps."""
    rules, most = rules_for(planner, rules_of(settings, planner.name), steered), limit(settings.eviction.max_moves)
    if planner.spans_cycles:
        most = UNLIMITED
        rules = replace(rules, rates=(), budgets=())
        rules = replace(rules, limit_total=UNLIMITED, limit_namespace=UNLIMITED, limit_workload=UNLIMITED)
    return RequestedPlan(planner.name, rules, aims_of(settings, planner.name), most)


def explaining_rules(node: str, settings: Settings, moment: Moment) -> GateRules:
    """Those of the planner that would move a pod off this node: relieve where it is overloaded, else another."""
    chosen = [candidate for candidate in planners() if candidate.name in settings.eviction.running] or list(planners())
    hot = node in (moment.history.confirmed or ()) or node in moment.history.overloaded
    fitting = next((candidate for candidate in chosen if candidate.needs_confirmation == hot), chosen[0])
    return rules_for(fitting, rules_of(settings, fitting.name), moment.steered)


def rules_for(planner: Planner, rules: GateRules, steered: frozenset[str]) -> GateRules:
    """The rules of a planner; `steered` are the schedulers whose placements the extender decides.

    A node that is being emptied does not rest between two evictions.
    """
    rules = replace(
        rules,
        planner=planner.name,
        steered=steered,
        needs_landing=planner.needs_landing,
        moves=planner.moves,
        needs_confirmation=planner.needs_confirmation,
    )
    return replace(rules, limit_node=UNLIMITED, cooldown=0.0) if planner.whole_nodes else rules


def unsteered(landing: str, schedulers: frozenset[str], steered: frozenset[str]) -> str | None:
    """Why nothing decides where replacements go, or None; `schedulers` are those of all pods."""
    if landing == "none":
        return "nothing decides where replacements go: BALLAST_EVICTION__LANDING is none"
    if landing != "extender" or not schedulers or steered:
        return None
    who = " and ".join(sorted(schedulers))
    return f"where {who} puts replacements is not steered: it has not asked the extender in the last 10 minutes"
