"""The job `power`: one tick of every policy in parallel, with its metrics, conditions, Events and JSON."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any, Protocol

import structlog

from ballast.cluster.context import Context
from ballast.jobs.power import sentences
from ballast.jobs.power.budget import PolicyController
from ballast.jobs.power.conditions import PowerEvents, tell_conditions
from ballast.jobs.power.departed import DepartedTargets
from ballast.jobs.power.metrics import PowerMetrics
from ballast.jobs.power.view import Action, TickContext, TickReport, Why
from ballast.jobs.progress import settling
from ballast.power.values import exact
from ballast.serving.activity import ACTIONS_KEPT, HISTORY_POINTS
from ballast.settings import Mode
from ballast.telemetry.budget_feed import Watts
from ballast.telemetry.power_schedule import ScheduleReader

REBASELINE = "power.rebaseline"
log = structlog.get_logger("ballast.power")


class WattsFeed(Protocol):
    """The feed of a policy (see `BudgetFeed`)."""

    @property
    def semantics(self) -> str:
        """What the watts mean, such as available."""

    def read(self, at: float, own: Fraction | None = None) -> Watts:
        """The watts at Unix time `at`; `own` are those of the policy's own targets."""

    def close(self) -> None:
        """Ends connections."""


@dataclass
class PolicyRun:
    """One policy at run time: its controller, its feed, and its recent history."""

    budget: PolicyController
    feed: WattsFeed
    own: Callable[[], Fraction | None] = lambda: None
    """Watts that the policy's own targets use now; None where unknown."""
    schedule: ScheduleReader | None = None
    """What is known beforehand."""
    consumed: Callable[[float], Fraction | None] = lambda at: None
    """The measured consumption at a Unix time; None where unknown."""
    close: Callable[[], None] = lambda: None
    """Ends connections beside those of the feed."""
    history: deque[list[Any]] = field(default_factory=lambda: deque(maxlen=HISTORY_POINTS))
    actions: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=ACTIONS_KEPT))
    seen: float | None = None
    """Unix time of the newest usable sample."""
    view: TickReport | None = None
    """The report of the newest tick."""

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.budget.policy.name


class PowerJob:
    """Ticks every policy, whether this replica leads or not; only the leader acts."""

    def __init__(
        self,
        context: Context,
        courses: Sequence[PolicyRun],
        news: PowerEvents,
        show: Callable[[Mapping[str, Any]], None],
        leavers: DepartedTargets | None = None,
    ) -> None:
        """`show` gets the document of `/api/v1/power` after each cycle."""
        settings = context.settings
        self.courses = courses
        self._context = context
        self._mode = settings.power.mode.value
        self._shadow = settings.power.mode is not Mode.ON
        self._clock = clock = context.clock
        self._conditions = context.conditions
        self._news = news
        self._interval = settings.telemetry.interval
        self._every = exact(float(self._interval))
        self._offset = settings.telemetry.offset
        self._show = show
        self._leavers = leavers
        self._facts = PowerMetrics(context.metrics.registry)
        self._would = PowerMetrics(context.metrics.registry, potential=True) if self._shadow else None
        for metrics in self._all_metrics():
            metrics.begin(course.name for course in courses)
        self._wall, self._steady = clock.wall(), clock.monotonic()
        self._led: int | None = None
        self._new = False

    @property
    def changing(self) -> frozenset[str]:
        """Namespace/name of the targets of all open plans."""
        return frozenset().union(*(course.budget.changing for course in self.courses))

    def gained(self) -> None:
        """This replica leads from now on; it acts after two complete cycles."""
        self._new = True
        self._led = 0

    def lost(self) -> None:
        """This replica no longer leads."""
        self._led = None

    def close(self) -> None:
        """Closes all feeds."""
        for course in self.courses:
            course.feed.close()
            if course.schedule is not None:
                course.schedule.close()
            course.close()

    def cycle(self) -> str:
        """One tick of every policy; a failure of one does not stop the others. Returns the sentence of the cycle."""
        if self._new:
            self._new = False
            for course in self.courses:
                course.budget.forget()
            if self._leavers is not None:
                self._leavers.forget()
        paused, hold = self._context.switches.paused("power"), self._hold()
        wall = self._clock.wall()
        confirmed, unreadable = self._confirmed()
        leaving = self._leavers.cycle() if self._leavers is not None and (hold or paused) is None else None
        now = TickContext(
            at=math.floor((self._wall + self._clock.monotonic() - self._steady) / self._interval) * self._every,
            wall=wall,
            hold=hold or paused,
            confirmed=confirmed,
        )
        asked = math.floor(wall / self._interval) * self._interval - self._offset
        views: list[TickReport] = []
        with ThreadPoolExecutor(max_workers=min(8, len(self.courses))) as pool:
            read: dict[Future[Watts], PolicyRun] = {
                pool.submit(_read, course, asked, _own(course)): course for course in self.courses
            }
            views.extend(self._tick(read[each], now, each.result()) for each in as_completed(read))
        if self._led is not None:
            self._led += 1
        views.sort(key=lambda view: view.policy.name)
        troubles = {"SwitchUnreadable": unreadable, "CapsNotGivenBack": leaving}
        tell_conditions(self._conditions, views, paused, {reason: text for reason, text in troubles.items() if text})
        self._news.about(views, paused if hold is None else None, quiet=self._shadow or hold is not None)
        for metrics in self._all_metrics():
            metrics.leader.set(hold is None)
        self._show(self._document(paused))
        return sentences.sentence(views, leaving)

    def _tick(self, course: PolicyRun, now: TickContext, watts: Watts) -> TickReport:
        try:
            view = course.budget.cycle(now, watts)
        except Exception as error:
            log.exception("a power policy failed unexpectedly", policy=course.name)
            course.budget.forget()
            text = f"failed unexpectedly: {type(error).__name__}: {error}"
            view = TickReport(course.budget.policy, now, watts, words=text, problem=text)
        course.view = view
        if watts.watts is not None:
            course.seen = watts.time
        self._count(course, view)
        course.history.append(_point(view))
        if view.action is not None:
            course.actions.append(_action(view.action))
        return view

    def _hold(self) -> str | None:
        return self._context.leadership.standing_by() or settling(self._led or 0)

    def _confirmed(self) -> tuple[float | None, str | None]:
        """The Unix time for which a new baseline was confirmed, and what is wrong with the switch."""
        text = self._context.switches.values.get(REBASELINE)
        if text is None:
            return None, None
        try:
            moment = datetime.fromisoformat(text.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), None
        except (ValueError, OverflowError):
            return None, f"key {REBASELINE} of ballast-switches is {text!r}, expected a time in RFC 3339"

    def _all_metrics(self) -> Iterable[PowerMetrics]:
        return (self._facts, self._would) if self._would else (self._facts,)

    def _count(self, course: PolicyRun, view: TickReport) -> None:
        name, found = course.name, {n: each.count for n, each in view.statuses.items() if each.count is not None}
        for metrics in self._all_metrics():
            watts, reference = view.watts.watts, view.reference
            metrics.put(metrics.available, name, _float(watts))
            metrics.put(metrics.reference, name, _float(reference))
            change = watts / reference - 1 if watts is not None and reference else None
            metrics.put(metrics.change, name, _float(change))
            metrics.put_state(name, view.state.mode)
            metrics.put(metrics.window, name, float(view.window_age or 0))
            metrics.put(metrics.target, name, _float(view.ideal))
            counts = found if self._shadow and metrics is self._facts else view.counts
            metrics.put(metrics.current, name, sum(counts.values()) if counts else None)
            metrics.put_workloads(name, counts)
            metrics.put(metrics.unmet, name, abs(view.unmet))
            metrics.put(metrics.demand, name, view.unmet_demand)
            metrics.put(metrics.load, name, _float(view.load))
            known = view.load is not None and watts is not None
            metrics.put(metrics.over, name, _float(view.over or Fraction(0)) if known else None)
            metrics.put(metrics.age, name, None if course.seen is None else max(0.0, view.now.wall - course.seen))
            if view.watts.watts is None:
                metrics.invalid.labels(name, view.watts.reason or "unreadable").inc()
            if view.cancelled:
                metrics.cancellations.labels(name, str(view.reason)).inc()
            metrics.foreign.labels(name).inc(view.foreign)
            if view.action is not None:
                direction = "up" if sum(view.action.changes.values()) > 0 else "down"
                result = "failed" if view.action.codes else view.action.result
                metrics.actions.labels(name, direction, result).inc()
                for code in view.action.codes:
                    metrics.patch_errors.labels(name, str(code)).inc()

    def _document(self, paused: str | None) -> dict[str, Any]:
        policies = [_policy(course, shadow=self._shadow) for course in self.courses if course.view is not None]
        return {"mode": self._mode, "paused": paused, "policies": policies}


def _read(course: PolicyRun, at: float, own: Fraction | None) -> Watts:
    try:
        watts = replace(course.feed.read(at, own), consumed=course.consumed(at))
        if course.schedule is None:
            return watts
        bound, ahead = course.schedule.bound(at), course.schedule.ahead(at)
        return replace(watts, bound=bound, ahead=ahead, schedule_problem=course.schedule.problem)
    except Exception as error:
        log.exception("a power feed failed unexpectedly", policy=course.name)
        return Watts(None, None, f"{type(error).__name__}: {error}", "unreadable")


def _own(course: PolicyRun) -> Fraction | None:
    try:
        return course.own()
    except Exception:
        log.exception("the consumption of the targets is unknown, unexpectedly", policy=course.name)
        return None


def _float(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _point(view: TickReport) -> list[Any]:
    low, high = view.band or (None, None)
    total = sum(view.counts.values()) if view.counts else None
    levels = [_float(each) for each in (view.watts.watts, view.reference, low, high)]
    return [round(view.now.wall, 1), *levels, total, view.state.mode.value]


def _action(action: Action) -> dict[str, Any]:
    return {
        "time": action.time,
        "reason": action.reason,
        "changes": action.changes,
        "replicas": dict(action.after),
        "result": action.result,
    }


def _policy(course: PolicyRun, *, shadow: bool) -> dict[str, Any]:
    view = course.view
    assert view is not None
    window = view.state.window
    opened = view.window_age is not None and window is not None
    return {
        "name": course.name,
        "feed": {
            "semantics": course.feed.semantics,
            "watts": _float(view.watts.watts),
            "time": course.seen,
            "problem": view.watts.problem,
            "bound": _float(view.watts.bound),
            "consumed": _float(view.watts.consumed),
        },
        "state": None if view.reason == Why.HELD and view.reference is None else view.state.mode.value,
        "reference": _float(view.reference),
        "deadband": None if view.band is None else [float(each) for each in view.band],
        "window": {"since": view.now.wall - float(view.window_age or 0), "length": float(view.window_length)}
        if opened
        else None,
        "waiting_for": sentences.waiting_for(view),
        "unmet": abs(view.unmet),
        "budget": "absolute" if view.policy.absolute else "anchor",
        "load": _float(view.load),
        "over": _float(view.over),
        "unmet_demand": view.unmet_demand,
        "shadow": shadow,
        "targets": [_target(view, name, shadow=shadow) for name in sorted(view.policy.places)],
        "history": list(course.history),
        "actions": list(course.actions),
    }


def _target(view: TickReport, name: str, *, shadow: bool) -> dict[str, Any]:
    member, status = view.policy.places[name].member, view.statuses.get(name)
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
        "excluded": None if status is None else status.excluded,
        "problem": None if status is None else status.problem or status.note,
    }
