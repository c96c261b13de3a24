"""Builds the document of one policy for `/api/v1/power`."""

from __future__ import annotations

from fractions import Fraction
from itertools import islice
from operator import is_

from ballast.answers.api import (
    EnergyUse,
    Feed,
    LearnedWatts,
    OpenWindow,
    Policy,
    PolicyState,
    Target,
    TargetNeeds,
)
from ballast.jobs.power import sentences
from ballast.jobs.power.history import PolicyHistory
from ballast.jobs.power.view import IdleReason, TickReport

AHEAD = 100
"""Rows of a schedule that are shown."""

JOULES = 3_600_000
"""Of a kWh."""


class TargetRows:
    """The targets of one policy in its document; built again when something about one of them has changed."""

    def __init__(self, *, shadow: bool) -> None:
        self._shadow = shadow
        self._last: TickReport | None = None
        self._rows: list[Target] = []

    def of(self, view: TickReport, history: PolicyHistory) -> list[Target]:
        """One for each target; the same list as before where nothing has changed."""
        last, self._last = self._last, view
        if last is None or not _same_targets(last, view):
            self._rows = [_target(view, name, history, shadow=self._shadow) for name in view.policy.places]
        return self._rows


def policy_document(
    view: TickReport, history: PolicyHistory, semantics: str, rows: TargetRows, *, shadow: bool
) -> Policy:
    """The newest report and the recent past."""
    return Policy(
        name=view.policy.name,
        feed=Feed(
            semantics=semantics,
            watts=_number(view.watts.watts),
            time=history.seen,
            problem=view.watts.problem,
            bound=_number(view.watts.bound),
            consumed=_number(view.watts.consumed),
        ),
        state=_state(view),
        reference=_number(view.reference),
        deadband=None if view.band is None else (float(view.band[0]), float(view.band[1])),
        window=_open_window(view),
        waiting_for=sentences.waiting_for(view),
        unmet=abs(view.unmet),
        budget="absolute" if view.policy.absolute else "anchor",
        load=_number(view.load),
        over=_number(view.over),
        unmet_demand=view.unmet_demand,
        shadow=shadow,
        missing_effect=None if view.missed is None else view.missed.text,
        energy=_energy(view),
        schedule=[(float(time), float(watts)) for time, watts in islice(view.watts.ahead, AHEAD)],
        schedule_problem=view.watts.schedule_problem,
        targets=rows.of(view, history),
        history=list(history.points),
        draws=list(history.draws),
        actions=list(history.actions),
    )


def _state(view: TickReport) -> PolicyState | None:
    if view.reason == IdleReason.HELD and view.reference is None:
        return None
    return view.state.mode.value


def _open_window(view: TickReport) -> OpenWindow | None:
    if view.window_age is None or view.state.window is None:
        return None
    return OpenWindow(since=view.now.wall - float(view.window_age), length=float(view.window_length))


def _same_targets(last: TickReport, view: TickReport) -> bool:
    return (
        last.policy.places is view.policy.places
        and last.counts == view.counts
        and last.needs == view.needs
        and last.learned == view.learned
        and len(last.statuses) == len(view.statuses)
        and all(map(is_, last.statuses.values(), view.statuses.values()))
    )


def _target(view: TickReport, name: str, history: PolicyHistory, *, shadow: bool) -> Target:
    place, status = view.policy.places[name], view.statuses.get(name)
    member = place.member
    need = view.needs.get(name)
    return Target(
        ref=name,
        kind=member.kind if status is None else status.kind,
        actuator=None if status is None else status.actuator.value,
        replicas=None if status is None else status.count if shadow else view.counts.get(name, status.count),
        potential=view.counts.get(name) if shadow else None,
        min=member.min,
        max=member.max,
        original=None if status is None else status.original,
        priority=place.priority,
        rolling=status is not None and status.rolling,
        watts=None if view.learned is None else LearnedWatts(*view.learned.watts[name]),
        needs=None if need is None else TargetNeeds(least=need.least, most=need.most),
        history=list(history.counts.get(name, ())),
        excluded=None if status is None else status.excluded,
        problem=None if status is None else status.problem or status.note,
    )


def _energy(view: TickReport) -> EnergyUse | None:
    budget, use = view.policy.energy, view.state.energy
    if budget is None or use is None:
        return None
    return EnergyUse(
        kwh=float(budget.kwh),
        used_kwh=float(use.used) / JOULES,
        ends_in=float(budget.per - use.at + use.since),
    )


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
