"""What `/api/v1/power` says of one policy."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from typing import Any

from ballast.jobs.power import sentences
from ballast.jobs.power.history import PolicyHistory
from ballast.jobs.power.view import TickReport, Why

AHEAD = 100
"""Rows of a schedule that are shown."""

JOULES = 3_600_000
"""Of a kWh."""


def policy_document(view: TickReport, history: PolicyHistory, semantics: str, *, shadow: bool) -> dict[str, Any]:
    """The newest report and the recent past."""
    window = view.state.window
    opened = view.window_age is not None and window is not None
    return {
        "name": view.policy.name,
        "feed": {
            "semantics": semantics,
            "watts": _number(view.watts.watts),
            "time": history.seen,
            "problem": view.watts.problem,
            "bound": _number(view.watts.bound),
            "consumed": _number(view.watts.consumed),
        },
        "state": None if view.reason == Why.HELD and view.reference is None else view.state.mode.value,
        "reference": _number(view.reference),
        "deadband": None if view.band is None else [float(each) for each in view.band],
        "window": {"since": view.now.wall - float(view.window_age or 0), "length": float(view.window_length)}
        if opened
        else None,
        "waiting_for": sentences.waiting_for(view),
        "unmet": abs(view.unmet),
        "budget": "absolute" if view.policy.absolute else "anchor",
        "load": _number(view.load),
        "over": _number(view.over),
        "unmet_demand": view.unmet_demand,
        "shadow": shadow,
        "missing_effect": None if view.missed is None else view.missed.text,
        "energy": _energy(view),
        "schedule": [[float(time), float(watts)] for time, watts in islice(view.watts.ahead, AHEAD)],
        "schedule_problem": view.watts.schedule_problem,
        "targets": [_target(view, name, history, shadow=shadow) for name in sorted(view.policy.places)],
        "history": list(history.points),
        "draws": list(history.draws),
        "actions": list(history.actions),
    }


def _target(view: TickReport, name: str, history: PolicyHistory, *, shadow: bool) -> dict[str, Any]:
    member, status = view.policy.places[name].member, view.statuses.get(name)
    need = view.needs.get(name)
    return {
        "ref": name,
        "kind": member.kind if status is None else status.kind,
        "actuator": None if status is None else str(status.actuator),
        "replicas": None if status is None else status.count if shadow else view.counts.get(name, status.count),
        "potential": view.counts.get(name) if shadow else None,
        "min": member.min,
        "max": member.max,
        "original": None if status is None else status.original,
        "priority": view.policy.places[name].priority,
        "rolling": status is not None and status.rolling,
        "watts": None if view.learned is None else dict(zip(("value", "error"), view.learned.watts[name], strict=True)),
        "needs": None if need is None else {"least": need.least, "most": need.most},
        "history": [list(each) for each in history.counts.get(name, ())],
        "excluded": None if status is None else status.excluded,
        "problem": None if status is None else status.problem or status.note,
    }


def _energy(view: TickReport) -> dict[str, float] | None:
    budget, use = view.policy.energy, view.state.energy
    if budget is None or use is None:
        return None
    return {
        "kwh": float(budget.kwh),
        "used_kwh": float(use.used) / JOULES,
        "ends_in": float(budget.per - use.at + use.since),
    }


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
