"""Builds the document of one policy for `/api/v1/power`, with its recent past."""

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from itertools import islice
from operator import is_

from ballast.answers.api import (
    ACTIONS_KEPT,
    HISTORY_POINTS,
    TARGET_POINTS,
    Draw,
    EnergyUse,
    Feed,
    LearnedWatts,
    OpenWindow,
    Point,
    Policy,
    PolicyState,
    PowerAction,
    PowerPledge,
    RiseWindow,
    Target,
    TargetNeeds,
)
from ballast.jobs.power import power_sentences
from ballast.jobs.power.falls import Falls
from ballast.jobs.power.tick_report import Action, IdleReason, TickReport
from ballast.power.pledge import pledges
from ballast.telemetry.feeds.budget_feed import Watts


@dataclass
class PolicyHistory:
    """Bounded; the oldest goes first."""

    points: deque[Point] = field(default_factory=lambda: deque(maxlen=HISTORY_POINTS))
    """Unix time, watts, reference, low and high end of the dead band, replicas, state."""
    draws: deque[Draw] = field(default_factory=lambda: deque(maxlen=HISTORY_POINTS))
    """Unix time, watts of what runs, watts measured, watts above the feed, replicas that autoscalers lack."""
    actions: deque[PowerAction] = field(default_factory=lambda: deque(maxlen=ACTIONS_KEPT))
    counts: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)
    """Unix time and replicas whenever they changed, by namespace/name."""
    falls: Falls | None = None
    """None: they are not kept."""
    newest: Mapping[str, int] = field(default_factory=dict)
    """The counts of the newest tick, by namespace/name."""
    seen: float | None = None
    """Unix time of the newest usable sample."""

    def add(self, report: TickReport) -> None:
        """Takes the report of a tick."""
        if report.inputs.watts.watts is not None:
            self.seen = report.inputs.watts.time
        self.points.append(_point(report))
        if self.falls is not None:
            self.falls.add(report)
        over = Fraction(0) if report.over is None and report.outcome.load is not None else report.over
        drawn = _float(report.outcome.load), _float(report.inputs.watts.consumed), _float(over)
        self.draws.append((round(report.inputs.now.wall, 1), *drawn, report.outcome.unmet_demand))
        for name, count in report.counts.items() if report.counts != self.newest else ():
            past = self.counts.setdefault(name, deque(maxlen=TARGET_POINTS))
            if not past or past[-1][1] != count:
                past.append((round(report.inputs.now.wall, 1), count))
        self.newest = report.counts
        if report.outcome.action is not None:
            self.actions.append(_action(report.outcome.action))


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _point(report: TickReport) -> Point:
    low, high = report.band or (None, None)
    total = sum(report.counts.values()) if report.counts else None
    levels = _float(report.inputs.watts.watts), _float(report.reference), _float(low), _float(high)
    return (round(report.inputs.now.wall, 1), *levels, total, report.state.mode.value)


def _action(action: Action) -> PowerAction:
    return PowerAction(
        time=action.time,
        reason=action.reason,
        changes=action.changes,
        replicas=dict(action.after),
        result=action.result,
    )


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

    def of(self, report: TickReport, history: PolicyHistory) -> list[Target]:
        """One for each target; the same list as before where nothing has changed."""
        last, self._last = self._last, report
        if last is None or not _same_targets(last, report):
            self._rows = [_target(report, name, history, shadow=self._shadow) for name in report.policy.places]
        return self._rows


def policy_document(
    report: TickReport,
    history: PolicyHistory,
    semantics: str,
    rows: TargetRows,
    *,
    shadow: bool,
    interval: Fraction = Fraction(0),
) -> Policy:
    """The newest report and the recent past; `interval` are the seconds between ticks."""
    return Policy(
        name=report.policy.name,
        feed=Feed(
            semantics=semantics,
            watts=_number(report.inputs.watts.watts),
            time=history.seen,
            problem=report.inputs.watts.problem,
            bound=_number(report.inputs.watts.bound),
            consumed=_number(report.inputs.watts.consumed),
        ),
        state=_state(report),
        reference=_number(report.reference),
        deadband=None if report.band is None else (float(report.band[0]), float(report.band[1])),
        window=_open_window(report),
        waiting_for=power_sentences.waiting_for(report),
        unmet=abs(report.decision.unmet),
        budget="absolute" if report.policy.absolute else "anchor",
        load=_number(report.outcome.load),
        over=_number(report.over),
        unmet_demand=report.outcome.unmet_demand,
        shadow=shadow,
        missing_effect=None if report.inputs.missed is None else report.inputs.missed.text,
        energy=_energy(report),
        schedule=_schedule(report.inputs.watts),
        schedule_problem=report.inputs.watts.schedule_problem,
        targets=rows.of(report, history),
        history=list(history.points),
        draws=list(history.draws),
        actions=list(history.actions),
        falls=[] if history.falls is None else history.falls.newest_first,
        increase=[RiseWindow(**asdict(price)) for price in report.inputs.prices],
        pledge=_pledge(report, history, interval),
    )


ENDS = 30.0
"""Seconds in which pods end, where no fall has shown it: Kubernetes' grace period."""


def _pledge(report: TickReport, history: PolicyHistory, interval: Fraction) -> list[PowerPledge]:
    inputs = report.inputs
    falls = [] if history.falls is None else history.falls.newest_first
    took = max((fall.seconds_to_comply for fall in falls if fall.seconds_to_comply is not None), default=ENDS)
    scaled = {name: each.running for name, each in inputs.autoscaled.items()}
    # A fall is seen at the next tick; what it took to comply was counted from then on.
    delay = Fraction(took) + interval
    metered = inputs.learned is not None and report.policy.places.keys() <= inputs.learned.watts.keys()
    return [
        PowerPledge(
            within=each.within,
            watts=float(each.watts),
            by_priority={str(priority): float(watts) for priority, watts in each.by_priority.items()},
            rests_on="meter" if metered else "declared",
        )
        for each in pledges(report.policy, {**report.counts, **scaled}, inputs.participants.changeable, delay)
    ]


def _state(report: TickReport) -> PolicyState | None:
    if report.reason == IdleReason.HELD and report.reference is None:
        return None
    return report.state.mode.value


def _open_window(report: TickReport) -> OpenWindow | None:
    if report.window_age is None or report.state.window is None:
        return None
    return OpenWindow(since=report.inputs.now.wall - float(report.window_age), length=float(report.window_length))


def _same_targets(last: TickReport, report: TickReport) -> bool:
    return (
        last.policy.places is report.policy.places
        and last.counts == report.counts
        and last.inputs.needs == report.inputs.needs
        and last.inputs.learned == report.inputs.learned
        and len(last.inputs.statuses) == len(report.inputs.statuses)
        and all(map(is_, last.inputs.statuses.values(), report.inputs.statuses.values()))
    )


def _target(report: TickReport, name: str, history: PolicyHistory, *, shadow: bool) -> Target:
    place, status = report.policy.places[name], report.inputs.statuses.get(name)
    member = place.member
    need = report.inputs.needs.get(name)
    return Target(
        ref=name,
        kind=member.kind if status is None else status.kind,
        actuator=None if status is None else status.actuator.value,
        replicas=None if status is None else status.count if shadow else report.counts.get(name, status.count),
        potential=report.counts.get(name) if shadow else None,
        min=member.min,
        max=member.max,
        original=None if status is None else status.original,
        priority=place.priority,
        rolling=status is not None and status.rolling,
        watts=None if report.inputs.learned is None else LearnedWatts(*report.inputs.learned.watts[name]),
        needs=None if need is None else TargetNeeds(least=need.least, most=need.most),
        history=list(history.counts.get(name, ())),
        excluded=None if status is None else status.excluded,
        problem=None if status is None else status.problem or status.note,
    )


def _schedule(watts: Watts) -> list[tuple[float, float]]:
    """The next rows, where they are watts."""
    priced = watts.forecast is not None and watts.forecast.priced
    return [] if priced else [(float(row.time), float(row.watts)) for row in islice(watts.ahead, AHEAD)]


def _energy(report: TickReport) -> EnergyUse | None:
    budget, use = report.policy.energy, report.state.energy
    if budget is None or use is None:
        return None
    return EnergyUse(
        kwh=float(budget.kwh), used_kwh=float(use.used) / JOULES, ends_in=float(budget.period(use.at)[1] - use.at)
    )


def _number(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
