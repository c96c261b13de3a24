"""The sentence of a power cycle, and what a policy waits for."""

from collections.abc import Sequence
from fractions import Fraction

from ballast.actuation.scaling.target_status import ObstacleKind
from ballast.base.text import duration, named
from ballast.jobs.power.tick_report import IdleReason, TickReport
from ballast.power.controller_state import ControllerMode, Reason
from ballast.power.sections import WhenSilent

NAMED = 3


def of_cycle(reports: Sequence[TickReport], besides: str | None = None) -> str:
    """Such as "power: 812 W of 900 W reference, inside the dead band (855 to 945 W); 12 replicas in 3 targets"."""
    several = len(reports) > 1
    parts = [f"{report.policy.name}: {of_tick(report)}" if several else of_tick(report) for report in reports]
    return f"power: {'; '.join(parts)}" + (f"; {besides}" if besides else "")


def waiting_for(report: TickReport) -> str:
    """One sentence: why nothing happens now, or what happened."""
    return report.words or _reasons(report)


def watts(value: Fraction | float | None) -> str:
    """Such as "1,234 W"; "no" for None."""
    if value is None:
        return "no"
    number = float(value)
    return f"{number:,.0f} W" if abs(number) >= 10 else f"{number:.3g} W"


def roughly(value: Fraction) -> str:
    """Watts in two digits, such as "1,200 W", for words that are saved whenever they change."""
    return f"{float(f'{float(value):.2g}'):,.10g} W"


def of_tick(report: TickReport) -> str:
    """What the feed gives, what that leads to, what was done, and what is wrong."""
    parts = [_level(report), waiting_for(report)]
    if report.outcome.action is not None:
        parts.append(_action(report))
    elif report.counts:
        statuses, counts = report.inputs.statuses, report.counts
        differs = statuses and any(statuses[name].count != count for name, count in counts.items())
        parts.append(f"{sum(counts.values()):,} {'shadow ' if differs else ''}replicas in {len(counts):,} targets")
    if unmet := report.decision.unmet:
        parts.append(f"{abs(unmet):,} replicas {'more' if unmet > 0 else 'fewer'} are beyond all bounds")
    if report.over is not None:
        parts.append(f"{watts(report.over)} over the feed")
    if report.problem and not report.problem_in_words:
        parts.append(report.problem)
    holds = [(name, hold) for name, status in report.left_out if (hold := status.hold) is not None]
    left_out = [f"{name} ({hold.text})" for name, hold in holds if hold.kind is not ObstacleKind.OBSERVED]
    if left_out:
        parts.append(f"left alone: {named(left_out, NAMED)}")
    return ", ".join(parts[:2]) + "".join(f"; {part}" for part in parts[2:])


def _level(report: TickReport) -> str:
    if report.inputs.watts.watts is None:
        return f"no usable sample ({report.inputs.watts.problem})"
    if report.reference is None:
        return f"{watts(report.inputs.watts.watts)}, no reference yet"
    return f"{watts(report.inputs.watts.watts)} of {watts(report.reference)} reference"


def _reasons(report: TickReport) -> str:
    reason = report.reason
    if report.inputs.watts.watts is None and reason in (Reason.INVALID, Reason.FALLBACK):
        return _silent(report)
    if report.state.mode is not ControllerMode.STABLE and reason not in (Reason.RATE_LIMITED, Reason.UNSTABLE):
        return _window(report)
    texts: dict[str, str] = {
        Reason.BOOTSTRAPPED: "the baseline is taken",
        Reason.BELOW_FLOOR: f"waiting for at least {watts(report.policy.floor)} to begin from",
        Reason.INSIDE: f"inside the dead band{_band(report)}",
        Reason.CANCELLED: f"back inside the dead band{_band(report)}",
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
    return texts.get(reason, f"the change is done{_band(report)}")


def _silent(report: TickReport) -> str:
    fallback, silent = report.policy.fallback, report.inputs.silent_for
    if silent < float(fallback.after) or fallback.policy is WhenSilent.HOLD:
        return f"everything stays as it is, for {duration(silent)} so far"
    return f"the fallback {fallback.policy.value} holds after {duration(silent)}"


def _window(report: TickReport) -> str:
    up = report.state.mode is ControllerMode.PENDING_INCREASE
    side = "above" if up else "below"
    age = report.window_age
    if age is None:
        return f"{side} the dead band{_band(report)}"
    length = duration(float(report.window_length))
    return f"{side} the dead band{_band(report)} for {duration(float(age))} of {length}"


def _band(report: TickReport) -> str:
    band = report.band
    return "" if band is None else f" ({watts(band[0])} to {watts(band[1])})"


def _action(report: TickReport) -> str:
    action = report.outcome.action
    assert action is not None
    verb = "would scale" if action.result == "dry-run" else "scaled"
    changes = [f"{name} {action.before.get(name)} → {action.after[name]}" for name in action.changes]
    return f"{verb} {named(changes, NAMED)} ({action.reason})" if changes else f"{verb} nothing"
