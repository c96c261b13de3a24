"""The recent past of one policy, for the API and the page."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from ballast.answers.api import ACTIONS_KEPT, HISTORY_POINTS, TARGET_POINTS, Draw, Point, PowerAction
from ballast.jobs.power.report import Action, TickReport


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
    newest: Mapping[str, int] = field(default_factory=dict)
    """The counts of the newest tick, by namespace/name."""
    seen: float | None = None
    """Unix time of the newest usable sample."""

    def add(self, report: TickReport) -> None:
        """Takes the report of a tick."""
        if report.inputs.watts.watts is not None:
            self.seen = report.inputs.watts.time
        self.points.append(_point(report))
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
