"""Conditions of power policies, and one Event for each change of what they report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ballast.actuation.scaling.target_status import ObstacleKind
from ballast.cluster.conditions import Conditions
from ballast.cluster.events import Events
from ballast.cluster.state import NAME
from ballast.cluster.write import WriteTarget
from ballast.jobs.power import sentences
from ballast.jobs.power.view import IdleReason, TickReport
from ballast.power.controller_result import Reason

_LIMITS = {
    "AtMin": "the targets are at their minimum, the watts carry fewer",
    "AtMax": "the targets are at their maximum, the watts carry more",
    "RateLimited": "maxStep cuts the change into steps",
    "RoundsToZero": "the change of the watts is less than one replica",
}
_AGES = {"stale": "the newest sample is older than maxAge", "future": "the samples' time is in the future"}
_SPENT = "the energy of this period is used up; targets are at their minimum until the next one begins"
_BROKEN = (IdleReason.NOT_STORED, IdleReason.PLAN_FAILED)


def report_conditions(
    conditions: Conditions, views: Sequence[TickReport], paused: str | None, troubles: Mapping[str, str]
) -> None:
    """Sets FeedAvailable, Active, Limited, OverBudget, Fallback, Paused, Contended, Degraded, EffectMissing,
    ScheduleAvailable, ConsumptionUnknown, EnergySpent, Rebaselined.

    `troubles` are the problems outside any policy, by the reason that condition Degraded gets.

    A changed message is saved, so messages are built without ages and remaining times.
    """

    def joined(found: Mapping[str, str]) -> str:
        texts = (f"{name}: {words}" if len(views) > 1 and name else words for name, words in found.items())
        return "; ".join(texts)

    def set_status(kind: str, found: Mapping[str, str], reason: str) -> None:
        conditions.set_status(kind, bool(found), reason if found else "Resolved", joined(found))

    silent = [view for view in views if view.watts.watts is None]
    dead = {view.policy.name: _AGES.get(view.watts.reason, view.watts.problem or "no value") for view in silent}
    reasons = sorted(view.watts.reason or "unreadable" for view in silent)
    conditions.set_status("FeedAvailable", not dead, _camel(reasons[0]) if dead else "Fresh", joined(dead))
    held = dict.fromkeys(view.words for view in views if view.reason == IdleReason.HELD and view.words)
    conditions.set_status(
        "Active", not held, "Held" if held else "Following", joined({"": "; ".join(held)}) if held else ""
    )
    limits = {view.policy.name: view.limit for view in views if view.limit}
    set_status("Limited", {name: _LIMITS[limit] for name, limit in limits.items()}, next(iter(limits.values()), ""))
    fallen = [view for view in silent if view.silent_for >= float(view.policy.fallback.after)]
    set_status(
        "Fallback",
        {v.policy.name: f"the feed is silent: {v.policy.fallback.policy.value}" for v in fallen},
        "FeedSilent",
    )
    conditions.set_status("Paused", paused is not None, "Switched" if paused else "Resumed", joined({"": paused or ""}))
    set_status("Contended", {view.policy.name: words for view in views if (words := _contended(view))}, "WrittenBack")
    broken = {view.policy.name: words for view in views if (words := _broken(view))}
    found = broken | ({"": "; ".join(troubles.values())} if troubles else {})
    set_status("Degraded", found, "CannotAct" if broken else next(iter(troubles), ""))
    over = {v.policy.name: f"{sentences.roughly(v.over)} above the feed" for v in views if v.over is not None}
    conditions.set_status("OverBudget", bool(over), "AboveFeed" if over else "Resolved", joined(over))
    unread = {view.policy.name: view.watts.schedule_problem for view in views if view.watts.schedule_problem}
    conditions.set_status("ScheduleAvailable", not unread, "Unreadable" if unread else "Read", joined(unread))
    unmetered = {
        view.policy.name: "its consumption gives no usable sample"
        for view in views
        if view.policy.consumption is not None and view.watts.consumed is None
    }
    set_status("ConsumptionUnknown", unmetered, "Unreadable")
    spent = {view.policy.name: _SPENT for view in views if view.energy_left == 0}
    set_status("EnergySpent", spent, "NothingLeft")
    missed = {view.policy.name: view.missed for view in views if view.missed is not None}
    stops = any(each.stops for each in missed.values())
    set_status(
        "EffectMissing", {name: each.text for name, each in missed.items()}, "Stopped" if stops else "NotMeasured"
    )
    set_status("Rebaselined", {v.policy.name: v.rebaselining for v in views if v.rebaselining}, "WaitingForBaseline")


class PowerEvents:
    """Events on `ballast-state` of the own namespace, one for each transition of a policy."""

    def __init__(self, events: Events, namespace: str) -> None:
        self._events = events
        self._target = WriteTarget("ConfigMap", NAME, namespace)
        self._last: dict[str, frozenset[str]] = {}
        self._detected: dict[str, str] = {}
        self._paused: str | None = None

    def about(self, views: Sequence[TickReport], paused: str | None, *, quiet: bool) -> None:
        """Emits an Event for each change since the last call; with `quiet` the change is only remembered."""
        if bool(paused) != bool(self._paused):
            self._emit(
                quiet, "Paused" if paused else "Resumed", paused or "power changes are no longer paused", warning=False
            )
        self._paused = paused
        for view in views:
            name = view.policy.name
            before, now = self._last.get(name, frozenset()), _ongoing(view)
            self._last[name] = now
            for reason in sorted(now - before):
                if reason in _BEGINS:
                    self._emit(quiet, reason, view, warning=reason in _WARNINGS)
            if "FeedInvalid" in before - now:
                self._emit(quiet, "FeedRecovered", view, warning=False)
            for reason in _moments(view):
                if reason != self._detected.get(name):
                    self._emit(quiet, reason, view, warning=False)
                if reason in _DETECTED.values():
                    self._detected[name] = reason
            if view.action is not None or view.reason in (Reason.INSIDE, Reason.CANCELLED):
                self._detected.pop(name, None)

    def _emit(self, quiet: bool, reason: str, about: TickReport | str, *, warning: bool) -> None:
        if quiet:
            return
        if isinstance(about, TickReport):
            about = f"power policy {about.policy.name}: {sentences.sentence([about]).removeprefix('power: ')}"
        self._events.emit(self._target, reason, about, part="power", warning=warning)


_BEGINS = ("FeedInvalid", "FallbackActivated", "PowerLimited", "Contended", "AutoscalerDetected")
_DETECTED: dict[str, str] = {
    Reason.INCREASE_DETECTED: "PowerIncreaseDetected",
    Reason.DECREASE_DETECTED: "PowerDecreaseDetected",
}
_WARNINGS = ("FeedInvalid", "FallbackActivated", "PowerLimited", "Contended")


def _ongoing(view: TickReport) -> frozenset[str]:
    """What holds now, by the reason of the Event for its beginning."""
    silent = view.watts.watts is None
    holds: Mapping[str, Callable[[], bool]] = {
        "FeedInvalid": lambda: silent,
        "FallbackActivated": lambda: silent and view.silent_for >= float(view.policy.fallback.after),
        "PowerLimited": lambda: view.limit in ("AtMin", "AtMax"),
        "Contended": lambda: _contended(view) is not None,
        "AutoscalerDetected": lambda: any(each.autoscaler is not None for each in view.statuses.values()),
    }
    return frozenset(reason for reason, test in holds.items() if test())


def _moments(view: TickReport) -> list[str]:
    """Reasons of the Events for what happened in this tick alone."""
    detected = _DETECTED.get(view.reason)
    return ["PendingCancelled"] * view.cancelled + ([detected] if detected else [])


def _contended(view: TickReport) -> str | None:
    return "; ".join(_obstacles(view, ObstacleKind.CONTENDED)) or None


def _obstacles(view: TickReport, kind: ObstacleKind) -> list[str]:
    found = [(name, status.obstacle) for name, status in view.left_out]
    return [f"{name}: {obstacle.lasting}" for name, obstacle in found if obstacle and obstacle.kind is kind]


def _broken(view: TickReport) -> str | None:
    problems = [view.problem] if view.problem else []
    problems += _obstacles(view, ObstacleKind.PROBLEM)
    if view.reason in _BROKEN and view.words not in problems:
        problems.append(view.words)
    return "; ".join(problems) or None


def _camel(text: str) -> str:
    return "".join(word.capitalize() for word in text.split("_"))
