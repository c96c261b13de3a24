"""Conditions of power policies, and one Event for each change of what they report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ballast.actuation.scaling.target_status import ObstacleKind
from ballast.cluster.conditions import Conditions
from ballast.cluster.events import Events
from ballast.cluster.state import NAME
from ballast.cluster.write import WriteTarget
from ballast.jobs.power import power_sentences
from ballast.jobs.power.tick_report import IdleReason, TickReport
from ballast.power.controller_state import Reason
from ballast.power.plausible import ENDS, ENDS_WITHIN, LITTLE, MUCH, STILL

_LIMITS = {
    "AtMin": "the targets are at their minimum, the watts carry fewer",
    "AtMax": "the targets are at their maximum, the watts carry more",
    "RateLimited": "maxStep cuts the change into steps",
    "RoundsToZero": "the change of the watts is less than one replica",
}
_AGES = {"stale": "the newest sample is older than maxAge", "future": "the samples' time is in the future"}
_SPENT = "the energy of this period is used up; targets are at their minimum until the next one begins"
_BROKEN = (IdleReason.NOT_STORED, IdleReason.PLAN_FAILED)


@dataclass(frozen=True)
class PolicyCondition:
    """A condition of power policies: a row of `CONDITIONS`."""

    type: str
    text: Callable[[TickReport], str | None]
    """What there is to say about one policy, or None. It is saved when it changes, so it has no ages."""
    reason: str | Callable[[Sequence[TickReport]], str]
    """The reason while there is something to say, or how it follows from the policies about which there is."""
    otherwise: str = "Resolved"
    """The reason while there is nothing to say."""
    good: bool = False
    """Whether the condition is True while there is nothing to say, instead of False."""


def _feed_text(report: TickReport) -> str | None:
    watts = report.inputs.watts
    return None if watts.watts is not None else _AGES.get(watts.reason, watts.problem or "no value")


def _feed_reason(reports: Sequence[TickReport]) -> str:
    first = min(report.inputs.watts.reason or "unreadable" for report in reports)
    return "".join(word.capitalize() for word in first.split("_"))


def _is_fallen_back(report: TickReport) -> bool:
    inputs = report.inputs
    return inputs.watts.watts is None and inputs.silent_for >= float(report.policy.fallback.after)


def _fallback_text(report: TickReport) -> str | None:
    return f"the feed is silent: {report.policy.fallback.policy.value}" if _is_fallen_back(report) else None


def _consumption_text(report: TickReport) -> str | None:
    unread = report.policy.consumption is not None and report.inputs.watts.consumed is None
    return "its consumption gives no usable sample" if unread else None


def _over_text(report: TickReport) -> str | None:
    if report.over is None:
        return None
    what = "the feed" if report.allowed == report.inputs.watts.watts else "what is allowed"
    return f"{power_sentences.roughly(report.over)} above {what}"


DIFFERS = 0.1
"""Relative difference between drawn and declared watts from which on it is told."""


def _differ_text(report: TickReport) -> str | None:
    factor = report.inputs.factor
    if factor is None or abs(factor - 1) <= DIFFERS:
        return None
    return f"replicas draw {factor:.1f} times their wattsPerReplica; that is what counts, correct the policy"


_DOUBTS = {MUCH: "AboveAllTargets", LITTLE: "BelowAllTargets", STILL: "Frozen"}


def _doubt_reason(reports: Sequence[TickReport]) -> str:
    return _DOUBTS.get(reports[0].inputs.watts.doubt or "", "ScheduleBelowAllTargets")


def _ends_text(report: TickReport) -> str | None:
    schedule, ahead = report.policy.schedule, report.inputs.watts.ahead
    if schedule is None or schedule.query is not None or not ahead:
        return None
    if ahead[-1][0] > report.inputs.now.wall + ENDS_WITHIN:
        return None
    return ENDS


def _effect_text(report: TickReport) -> str | None:
    return None if report.inputs.missed is None else report.inputs.missed.text


def _effect_reason(reports: Sequence[TickReport]) -> str:
    stops = any(report.inputs.missed is not None and report.inputs.missed.stops for report in reports)
    return "Stopped" if stops else "NotMeasured"


def _contended_text(report: TickReport) -> str | None:
    return "; ".join(_obstacles(report, ObstacleKind.CONTENDED)) or None


def _broken_text(report: TickReport) -> str | None:
    problems = [report.problem] if report.problem else []
    problems += _obstacles(report, ObstacleKind.PROBLEM)
    if report.reason in _BROKEN and report.words not in problems:
        problems.append(report.words)
    return "; ".join(problems) or None


def _obstacles(report: TickReport, kind: ObstacleKind) -> list[str]:
    obstacles = [(name, status.obstacle) for name, status in report.left_out]
    return [f"{name}: {obstacle.lasting}" for name, obstacle in obstacles if obstacle and obstacle.kind is kind]


CONDITIONS = (
    PolicyCondition("FeedAvailable", _feed_text, _feed_reason, "Fresh", good=True),
    PolicyCondition(
        "Limited",
        lambda report: _LIMITS.get(report.decision.limit or ""),
        lambda reports: reports[0].decision.limit or "",
    ),
    PolicyCondition("Fallback", _fallback_text, "FeedSilent"),
    PolicyCondition("Contended", _contended_text, "WrittenBack"),
    PolicyCondition("OverBudget", _over_text, "AboveFeed"),
    PolicyCondition("WattsDiffer", _differ_text, "Measured"),
    PolicyCondition("FeedImplausible", lambda report: report.inputs.watts.doubt, _doubt_reason),
    PolicyCondition("ScheduleEnds", _ends_text, "NoRowsAhead"),
    PolicyCondition(
        "ScheduleAvailable", lambda report: report.inputs.watts.schedule_problem, "Unreadable", "Read", good=True
    ),
    PolicyCondition("ConsumptionUnknown", _consumption_text, "Unreadable"),
    PolicyCondition("EnergySpent", lambda report: _SPENT if report.energy_left == 0 else None, "NothingLeft"),
    PolicyCondition("EffectMissing", _effect_text, _effect_reason),
    PolicyCondition("Rebaselined", lambda report: report.decision.rebaselining, "WaitingForBaseline"),
)
"""The conditions that each policy has a part in; `report_conditions` adds Active, Paused and Degraded."""


def report_conditions(
    conditions: Conditions, reports: Sequence[TickReport], paused: str | None, troubles: Mapping[str, str]
) -> None:
    """Sets all conditions of power. `troubles` are the problems outside any policy, by the reason for Degraded."""

    def by_policy(text: Callable[[TickReport], str | None]) -> tuple[list[TickReport], list[str]]:
        pairs = [(report, words) for report in reports if (words := text(report))]
        named = [f"{report.policy.name}: {words}" if len(reports) > 1 else words for report, words in pairs]
        return [report for report, _ in pairs], named

    for row in CONDITIONS:
        concerned, texts = by_policy(row.text)
        reason = row.otherwise
        if concerned:
            reason = row.reason if isinstance(row.reason, str) else row.reason(concerned)
        conditions.set_status(row.type, bool(concerned) is not row.good, reason, "; ".join(texts))
    held = dict.fromkeys(report.words for report in reports if report.reason == IdleReason.HELD and report.words)
    conditions.set_status("Active", not held, "Held" if held else "Following", "; ".join(held))
    conditions.set_status("Paused", paused is not None, "Switched" if paused else "Resumed", paused or "")
    broken, texts = by_policy(_broken_text)
    texts += ["; ".join(troubles.values())] if troubles else []
    reason = "CannotAct" if broken else next(iter(troubles), "Resolved")
    conditions.set_status("Degraded", bool(texts), reason, "; ".join(texts))


class PowerEvents:
    """Events on `ballast-state` of the own namespace, one for each transition of a policy."""

    def __init__(self, events: Events, namespace: str) -> None:
        self._events = events
        self._target = WriteTarget("ConfigMap", NAME, namespace)
        self._last: dict[str, frozenset[str]] = {}
        self._detected: dict[str, str] = {}
        self._paused: str | None = None

    def emit(self, reports: Sequence[TickReport], paused: str | None, *, quiet: bool) -> None:
        """Emits an Event for each change since the last call; with `quiet` the change is only remembered."""
        if bool(paused) != bool(self._paused):
            text = paused or "power changes are no longer paused"
            self._emit(quiet, "Paused" if paused else "Resumed", text)
        self._paused = paused
        for report in reports:
            reasons = self._news_of(report)
            text = (
                f"power policy {report.policy.name}: {power_sentences.of_tick(report)}" if reasons and not quiet else ""
            )
            for reason in reasons:
                self._emit(quiet, reason, text, warning=reason in _WARNINGS)

    def _news_of(self, report: TickReport) -> list[str]:
        """The reasons of the Events for what has changed since the last report of this policy."""
        name = report.policy.name
        before, now = self._last.get(name, frozenset()), {reason for reason, holds in _ONGOING.items() if holds(report)}
        self._last[name] = frozenset(now)
        reasons = sorted(now - before)
        if "FeedInvalid" in before - now:
            reasons.append("FeedRecovered")
        if report.decision.cancelled:
            reasons.append("PendingCancelled")
        # A window that opens and closes again and again is one Event until something is done or the watts come back.
        detected = _DETECTED.get(report.reason)
        if detected is not None and detected != self._detected.get(name):
            reasons.append(detected)
            self._detected[name] = detected
        if report.outcome.action is not None or report.reason in (Reason.INSIDE, Reason.CANCELLED):
            self._detected.pop(name, None)
        return reasons

    def _emit(self, quiet: bool, reason: str, text: str, *, warning: bool = False) -> None:
        if not quiet:
            self._events.emit(self._target, reason, text, part="power", warning=warning)


_DETECTED: dict[str, str] = {
    Reason.INCREASE_DETECTED: "PowerIncreaseDetected",
    Reason.DECREASE_DETECTED: "PowerDecreaseDetected",
}
_WARNINGS = ("FeedInvalid", "FallbackActivated", "PowerLimited", "Contended")


_ONGOING: Mapping[str, Callable[[TickReport], bool]] = {
    "FeedInvalid": lambda report: report.inputs.watts.watts is None,
    "FallbackActivated": _is_fallen_back,
    "PowerLimited": lambda report: report.decision.limit in ("AtMin", "AtMax"),
    "Contended": lambda report: _contended_text(report) is not None,
    "AutoscalerDetected": lambda report: any(s.autoscaler is not None for s in report.inputs.statuses.values()),
}
"""What may hold for a while, by the reason of the Event for its beginning."""
