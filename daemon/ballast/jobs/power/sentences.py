"""The sentence of a power cycle, and what a policy waits for."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ballast.actuation.scaling.target_status import ObstacleKind
from ballast.base.words import duration, named
from ballast.jobs.power.view import IdleReason, TickReport
from ballast.power.controller_result import Reason
from ballast.power.controller_state import ControllerMode
from ballast.power.sections.choices import WhenSilent

NAMED = 3


def sentence(views: Sequence[TickReport], besides: str | None = None) -> str:
    """Such as "power: 812 W of 900 W reference, inside the dead band (855 to 945 W); 12 replicas in 3 targets"."""
    several = len(views) > 1
    parts = [f"{view.policy.name}: {_one(view)}" if several else _one(view) for view in views]
    return f"power: {'; '.join(parts)}" + (f"; {besides}" if besides else "")


def waiting_for(view: TickReport) -> str:
    """One sentence: why nothing happens now, or what happened."""
    return view.words or _reasons(view)


def watts(value: Fraction | float | None) -> str:
    """Such as "1,234 W"; "no" for None."""
    if value is None:
        return "no"
    number = float(value)
    return f"{number:,.0f} W" if abs(number) >= 10 else f"{number:.3g} W"


def roughly(value: Fraction) -> str:
    """Watts in two digits, such as "1,200 W", for words that are saved whenever they change."""
    return f"{float(f'{float(value):.2g}'):,.10g} W"


def _one(view: TickReport) -> str:
    parts = [_level(view), waiting_for(view)]
    if view.action is not None:
        parts.append(_action(view))
    elif view.counts:
        differs = view.statuses and any(view.statuses[name].count != count for name, count in view.counts.items())
        would = "shadow " if differs else ""
        parts.append(f"{sum(view.counts.values()):,} {would}replicas in {len(view.counts):,} targets")
    if view.unmet:
        parts.append(f"{abs(view.unmet):,} replicas {'more' if view.unmet > 0 else 'fewer'} are beyond all bounds")
    if view.over is not None:
        parts.append(f"{watts(view.over)} over the feed")
    if view.problem and not view.problem_in_words:
        parts.append(view.problem)
    holds = [(name, hold) for name, status in view.left_out if (hold := status.hold) is not None]
    left_out = [f"{name} ({hold.text})" for name, hold in holds if hold.kind is not ObstacleKind.OBSERVED]
    if left_out:
        parts.append(f"left alone: {named(left_out, NAMED)}")
    return ", ".join(parts[:2]) + "".join(f"; {part}" for part in parts[2:])


def _level(view: TickReport) -> str:
    if view.watts.watts is None:
        return f"no usable sample ({view.watts.problem})"
    if view.reference is None:
        return f"{watts(view.watts.watts)}, no reference yet"
    return f"{watts(view.watts.watts)} of {watts(view.reference)} reference"


def _reasons(view: TickReport) -> str:
    reason = view.reason
    if view.watts.watts is None and reason in (Reason.INVALID, Reason.FALLBACK):
        return _silent(view)
    if view.state.mode is not ControllerMode.STABLE and reason not in (Reason.RATE_LIMITED, Reason.UNSTABLE):
        return _window(view)
    texts: dict[str, str] = {
        Reason.BOOTSTRAPPED: "the baseline is taken",
        Reason.BELOW_FLOOR: f"waiting for at least {watts(view.policy.floor)} to begin from",
        Reason.INSIDE: f"inside the dead band{_band(view)}",
        Reason.CANCELLED: f"back inside the dead band{_band(view)}",
        Reason.UNSTABLE: "the window confirmed no change",
        Reason.RATE_LIMITED: "the next step of the change follows",
        Reason.ROUNDS_TO_ZERO: "the change rounds to no replica",
        Reason.AT_LIMIT: "all targets are at their bounds",
        Reason.FOREIGN_CHANGE: "someone else's change is undone",
        Reason.OUT_OF_BOUNDS: "replicas outside min and max are brought back",
        Reason.UNCONFIRMED: "a fall of more than half waits for a second sample",
        Reason.CAPS_MOVED: "caps follow what the autoscalers want",
        Reason.INVALID: "the sample is not newer than the last one",
        IdleReason.RESUMED: "the open plan of the previous leader is finished",
    }
    return texts.get(reason, f"the change is done{_band(view)}")


def _silent(view: TickReport) -> str:
    fallback, silent = view.policy.fallback, view.silent_for
    if silent < float(fallback.after) or fallback.policy is WhenSilent.HOLD:
        return f"everything stays as it is, for {duration(silent)} so far"
    return f"the fallback {fallback.policy.value} holds after {duration(silent)}"


def _window(view: TickReport) -> str:
    up = view.state.mode is ControllerMode.PENDING_INCREASE
    side = "above" if up else "below"
    age = view.window_age
    if age is None:
        return f"{side} the dead band{_band(view)}"
    length = duration(float(view.window_length))
    return f"{side} the dead band{_band(view)} for {duration(float(age))} of {length}"


def _band(view: TickReport) -> str:
    band = view.band
    return "" if band is None else f" ({watts(band[0])} to {watts(band[1])})"


def _action(view: TickReport) -> str:
    action = view.action
    assert action is not None
    verb = "would scale" if action.result == "dry-run" else "scaled"
    changes = [f"{name} {action.before.get(name)} → {action.after[name]}" for name in action.changes]
    return f"{verb} {named(changes, NAMED)} ({action.reason})" if changes else f"{verb} nothing"
