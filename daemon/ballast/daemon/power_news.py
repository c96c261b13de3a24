"""Power budgets for people and alerts: conditions that hold, and an Event for each thing that begins or ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ballast.cluster.conditions import Conditions
from ballast.cluster.events import Events
from ballast.cluster.state import NAME
from ballast.cluster.write import Target
from ballast.daemon import power_words
from ballast.daemon.budget import View, Why
from ballast.power.outcome import Reason
from ballast.power.policy import WhenSilent

_LIMITED = {
    Reason.AT_LIMIT: "AtLimit",
    Reason.RATE_LIMITED: "RateLimited",
    Reason.ROUNDS_TO_ZERO: "RoundsToZero",
}
_BROKEN = (Why.NOT_STORED, Why.PLAN_FAILED)


def tell_conditions(conditions: Conditions, views: Sequence[View], paused: str | None) -> None:
    """FeedAvailable, Active, Limited, Fallback, Paused, Contended, Degraded and Rebaselined, over all policies."""

    def say(kind: str, found: Mapping[str, str], reason: str, otherwise: str = "Resolved") -> None:
        text = "; ".join(f"{name}: {words}" if len(views) > 1 else words for name, words in found.items())
        conditions.say(kind, bool(found), reason if found else otherwise, text)

    dead = {view.policy.name: view.watts.problem or "no value" for view in views if view.watts.watts is None}
    reasons = {view.watts.reason or "unreadable" for view in views if view.watts.watts is None}
    text = "; ".join(f"{name}: {words}" if len(views) > 1 else words for name, words in dead.items())
    conditions.say("FeedAvailable", not dead, _camel(min(reasons)) if dead else "Fresh", text)
    held = {view.policy.name: view.words for view in views if view.reason == Why.HELD and view.words}
    active = not held and not paused
    conditions.say("Active", active, "Following" if active else "Held", "; ".join(dict.fromkeys(held.values())))
    limits = {view.policy.name: limit for view in views if (limit := _limit(view))}
    say("Limited", {name: words for name, (_, words) in limits.items()}, next(iter(limits.values()), ("", ""))[0])
    fallen = {
        view.policy.name: power_words.waiting_for(view)
        for view in views
        if view.watts.watts is None and view.silent_for >= float(view.policy.fallback.after)
    }
    say("Fallback", fallen, "FeedSilent")
    conditions.say("Paused", paused is not None, "Switched" if paused else "Resumed", paused or "")
    contended = {view.policy.name: words for view in views if (words := _contended(view))}
    say("Contended", contended, "WrittenBack")
    broken = {view.policy.name: words for view in views if (words := _broken(view))}
    say("Degraded", broken, "CannotAct")
    say("Rebaselined", {v.policy.name: v.rebaselining for v in views if v.rebaselining}, "WaitingForBaseline")


class News:
    """Events on `ballast-state` of the own namespace, one for each transition of a policy."""

    def __init__(self, events: Events, namespace: str) -> None:
        self._events = events
        self._target = Target("ConfigMap", NAME, namespace)
        self._last: dict[str, frozenset[str]] = {}
        self._paused: str | None = None

    def about(self, views: Sequence[View], paused: str | None, *, quiet: bool) -> None:
        """`quiet`: remembers, but tells nobody."""
        if bool(paused) != bool(self._paused):
            self._tell(quiet, "Paused" if paused else "Resumed", paused or "power acts again", warning=False)
        self._paused = paused
        for view in views:
            name = view.policy.name
            before, now = self._last.get(name, frozenset()), _standing(view)
            self._last[name] = now
            words = f"power policy {name}: {power_words.sentence([view]).removeprefix('power: ')}"
            for reason in sorted(now - before):
                if reason in _BEGINS:
                    self._tell(quiet, reason, words, warning=reason in _WARNINGS)
            if "FeedInvalid" in before - now:
                self._tell(quiet, "FeedRecovered", words, warning=False)
            for reason in _moments(view):
                self._tell(quiet, reason, words, warning=False)

    def _tell(self, quiet: bool, reason: str, words: str, *, warning: bool) -> None:
        if not quiet:
            self._events.tell(self._target, reason, words, part="power", warning=warning)


_BEGINS = ("FeedInvalid", "FallbackActivated", "PowerLimited", "Contended", "AutoscalerDetected")
_WARNINGS = ("FeedInvalid", "FallbackActivated", "PowerLimited", "Contended")


def _standing(view: View) -> frozenset[str]:
    """What holds now, by the name of the Event that tells of its beginning."""
    silent = view.watts.watts is None
    limit = _limit(view)
    holds: Mapping[str, Callable[[], bool]] = {
        "FeedInvalid": lambda: silent,
        "FallbackActivated": lambda: silent and view.silent_for >= float(view.policy.fallback.after),
        "PowerLimited": lambda: limit is not None and limit[0] in ("AtMin", "AtMax"),
        "Contended": lambda: _contended(view) is not None,
        "AutoscalerDetected": lambda: any(each.autoscaler is not None for each in view.standings.values()),
    }
    return frozenset(reason for reason, test in holds.items() if test())


def _moments(view: View) -> list[str]:
    told = []
    if view.cancelled:
        told.append("PendingCancelled")
    if view.reason == Reason.INCREASE_DETECTED:
        told.append("PowerIncreaseDetected")
    if view.reason == Reason.DECREASE_DETECTED:
        told.append("PowerDecreaseDetected")
    return told


def _limit(view: View) -> tuple[str, str] | None:
    """(reason, words) of what keeps replicas from following the watts."""
    if view.policy.fallback.policy is WhenSilent.HOLD and view.watts.watts is None:
        return None
    if view.unmet:
        return ("AtMax" if view.unmet > 0 else "AtMin"), f"{abs(view.unmet)} replicas are beyond the bounds"
    for reason, word in _LIMITED.items():
        if view.reason == reason and word != "AtLimit":
            return word, power_words.waiting_for(view)
    return None


def _contended(view: View) -> str | None:
    found = [f"{name}: {each.problem}" for name, each in view.standings.items() if "contended" in (each.problem or "")]
    return "; ".join(found) or None


def _broken(view: View) -> str | None:
    problems = [view.problem] if view.problem else []
    problems += [
        f"{name}: {each.problem}"
        for name, each in sorted(view.standings.items())
        if each.problem and "contended" not in each.problem
    ]
    if view.reason in _BROKEN and view.words not in problems:
        problems.append(view.words)
    return "; ".join(problems) or None


def _camel(text: str) -> str:
    return "".join(word.capitalize() for word in text.split("_"))
