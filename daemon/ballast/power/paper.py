"""The published model to the letter, with its failures, for comparison (`compat: paper`).

MENRA W. Romial, "Modèle Mathématique pour un Ordonnancement Dynamique et Adaptatif des Réplicas Kubernetes", 2025, §3;
where the text leaves something open, as its author's own implementation decides (menraromial/elara).
"""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from msgspec import structs

from ballast.power.allocation import ONE, allocate
from ballast.power.anchor import rounded, targets_of
from ballast.power.controller_state import (
    ChangeWindow,
    ControllerMode,
    ControllerResult,
    ControllerState,
    PowerPlan,
    Reason,
)
from ballast.power.policy import PowerPolicy

_FROM_NOTHING = Fraction(999)


def observe(
    policy: PowerPolicy, state: ControllerState, at: Fraction, watts: Fraction, replicas: Mapping[str, int]
) -> ControllerResult:
    """§3.1: the two ends of a window decide. The reference moves at its end, also if nothing is done."""
    if state.reference is None:
        return ControllerResult(replace(state, reference=watts, last=dict(replicas)), Reason.BOOTSTRAPPED)
    if state.mode is ControllerMode.STABLE or state.window is None:
        change = _relative(watts, state.reference)
        sign = (change >= policy.deadband) - (change <= -policy.deadband)
        if not sign:
            return ControllerResult(state, Reason.INSIDE)
        return ControllerResult(
            replace(state, mode=ControllerMode.of(sign), window=ChangeWindow.opened(at, watts)), Reason.detected(sign)
        )
    side = policy.increase if state.mode is ControllerMode.PENDING_INCREASE else policy.decrease
    if at - state.window.since < side.window:
        return ControllerResult(state, Reason.WAITING)
    if abs(_relative(watts, state.window.first)) > side.tolerance:
        return ControllerResult(replace(state.settled(), reference=watts), Reason.UNSTABLE, cancelled=True)
    return _act(policy, state, at, watts, _relative(watts, state.reference), replicas)


def _act(
    policy: PowerPolicy,
    state: ControllerState,
    at: Fraction,
    watts: Fraction,
    change: Fraction,
    replicas: Mapping[str, int],
) -> ControllerResult:
    """§3.2, equation (1): N' = round(N · (1 + change)), with change = (W - R) / R and N the present total."""
    targets = [structs.replace(target, watts=ONE) for target in targets_of(policy, replicas, {})]
    total = sum(target.current for target in targets)
    delta = rounded(total * (1 + change), total, policy.rounds) - total
    split = allocate(targets, delta, restore_first=False, inside_first=False)
    if not any(split.changes.values()):
        reason = Reason.AT_LIMIT if delta else Reason.ROUNDS_TO_ZERO
        return ControllerResult(replace(state.settled(), reference=watts), reason, unmet=split.unmet)
    counts = {target.name: target.current + split.changes[target.name] for target in targets}
    reason = Reason.scaled(1 if split.effective > 0 else -1)
    plan = PowerPlan(state.sequence + 1, at, reason, counts, watts)
    return ControllerResult(replace(state, plan=plan), reason, unmet=split.unmet)


def _relative(watts: Fraction, reference: Fraction) -> Fraction:
    """(watts - reference) / reference; from 0 W the number that the author's implementation uses."""
    if not reference:
        return _FROM_NOTHING if watts else Fraction(0)
    return (watts - reference) / reference
