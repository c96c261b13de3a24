"""Whether an open plan still holds, and in which order its targets are changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from ballast.base.clock import AHEAD
from ballast.jobs.power.report import Inputs
from ballast.power.absolute import carried
from ballast.power.anchor import load_of, price, rebased
from ballast.power.controller_state import ControllerState, PowerPlan, Reason, targets_of
from ballast.power.policy import PowerPolicy
from ballast.power.sections import ForeignChanges

PLAN_LASTS = 600.0
"""Seconds after which an open plan is dropped, because the sample behind it is too old."""

ATTEMPTS = 2
"""Ticks in which an open plan is tried before it is dropped and the next one decides about the rest."""

ROUND = 100
"""Targets that a plan changes in one tick at most, so that an emergency does not wait long for it."""


def outdated(inputs: Inputs, attempts: int) -> str | None:
    """Why the open plan must be dropped after so many attempts, or None."""
    policy, state = inputs.policy, inputs.record.state
    age = inputs.now.wall - (inputs.record.planned or 0.0)
    if age > PLAN_LASTS:
        return f"the open plan is {age / 60:.0f} min old and is dropped"
    if age < -AHEAD:
        return f"the open plan is from {-age / 60:.0f} min in the future, its age is unknown; it is dropped"
    if attempts >= ATTEMPTS:
        return "the open plan could not be carried out and is dropped"
    if is_emergency(policy, state, inputs.watts.watts) and open_plan(state).reason != Reason.EMERGENCY:
        return "the open plan gives way to an emergency"
    if policy.absolute and _draws_too_much(inputs, failed=attempts > 0):
        return "the open plan gives way to what the watts carry now"
    return None


def moved_targets(state: ControllerState, counts: Mapping[str, int]) -> tuple[str, ...]:
    """Targets of the open plan that someone else changed since it was made."""
    plan = open_plan(state)
    return tuple(
        name
        for name, count in counts.items()
        if name in plan.replicas and count not in (plan.replicas[name], state.last.get(name))
    )


def leave_plan(
    policy: PowerPolicy, state: ControllerState, counts: Mapping[str, int], moved: tuple[str, ...]
) -> ControllerState:
    """The state with these targets out of the open plan: they keep what someone else gave them.

    With an anchor the reference will be the watts that carry what is reached without them.
    """
    plan = open_plan(state)
    kept = {name: counts[name] for name in moved}
    plan = replace(plan, replicas={**plan.replicas, **kept})
    if state.anchor is not None:
        if policy.on_foreign_change is ForeignChanges.REBASE:
            state = rebased(policy, state, {**state.last, **kept})
        assert state.anchor is not None
        reached = price(state.anchor, load_of(targets_of(policy, plan.replicas, {})))
        plan = replace(plan, reference=max(reached or policy.floor, policy.floor))
    return replace(state, plan=plan)


def set_by_ballast(state: ControllerState, counts: Mapping[str, int]) -> dict[str, int]:
    """With an open plan, the counts Ballast has set: the plan's where it was applied, else the last ones."""
    plan = open_plan(state)
    return {
        name: count if counts.get(name) == count else state.last.get(name, count)
        for name, count in {**state.last, **plan.replicas}.items()
    }


def is_emergency(policy: PowerPolicy, state: ControllerState, watts: Fraction | None) -> bool:
    """Whether the sample is low enough for an emergency: W <= R · (1 - emergencyDrop.relative)."""
    drop, reference = policy.emergency_drop, state.reference
    if drop is None or watts is None or reference is None:
        return False
    return max(watts - policy.base_power, policy.floor) <= reference * (1 - drop.relative)


def urgent(policy: PowerPolicy, plan: PowerPlan) -> bool:
    """Whether the plan is applied at once, eight writes at a time, the largest watts first."""
    return plan.reason == Reason.EMERGENCY or (policy.absolute and plan.reason == Reason.SCALED_DOWN)


def open_plan(state: ControllerState) -> PowerPlan:
    """The open plan of a state that has one."""
    assert state.plan is not None
    return state.plan


def _draws_too_much(inputs: Inputs, *, failed: bool) -> bool:
    """Whether what the plan leads to needs more than the sample carries; of a plan that has `failed`, what runs now."""
    policy, state, watts = inputs.policy, inputs.record.state, inputs.watts.watts
    if watts is None:
        return False
    counts = dict(inputs.counts)
    if not failed:
        moved = moved_targets(state, counts)
        left = {name: count for name, count in open_plan(state).replicas.items() if name not in moved}
        counts |= {name: count for name, count in left.items() if name in counts and inputs.statuses[name].usable}
    return policy.drawn(counts) > carried(policy, watts)
