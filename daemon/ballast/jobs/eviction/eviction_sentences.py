"""What the job of evictions says, in words."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from ballast.actuation.eviction.evictor import SURGING, Attempt
from ballast.base.text import duration, pods
from ballast.eviction.recent_evictions import PlannerStop
from ballast.model.workload import DisruptionBudget
from ballast.planners.eviction_plan import EvictionPlan

UNHELD = (
    "reserved room is not protected: the extender is configured without filterVerb. Add `filterVerb: filter`, as "
    "`ballast profile extender` prints it"
)
NAMED = 5
"""Disruption budgets that are named."""


def stops(stopped: Mapping[str, PlannerStop]) -> str | None:
    """Which planners make no moves, until when, and why."""
    parts = [
        f"{stop.why}; it goes on at {datetime.fromtimestamp(stop.until, UTC):%H:%M} UTC"
        for _, stop in sorted(stopped.items())
    ]
    if not parts:
        return None
    return f"{'. '.join(parts)}, or at once after `ballast pause eviction` and `ballast resume eviction`"


def rate_used_up(plans: Iterable[EvictionPlan], attempts: Mapping[str, int]) -> str | None:
    """What the rates left undone of what pays, by planner; None for nothing.

    `attempts` are the pods that a planner was refused at the last moment.
    """
    parts = []
    for plan in plans:
        left, step = attempts.get(plan.kind, 0), plan.held_back
        if left or step is not None:
            why = next((refusal.reason for refusal in plan.refusals if refusal.check == "rate"), "")
            what = pods(left) if step is None else f"{step.pod} (gain {step.gain:.3f}: {step.reason})"
            parts.append(f"{plan.kind}: the rate leaves {what} in place" + (f": {why}" if why else ""))
    return "; ".join(parts) or None


def never_allowing(budgets: Iterable[DisruptionBudget]) -> str | None:
    """The first disruption budgets that can never allow an eviction, and why."""
    never = sorted((f"{budget.namespace}/{budget.name}", budget.never) for budget in budgets if budget.never)
    if not never:
        return None
    more = f" and {len(never) - NAMED:,} more" if len(never) > NAMED else ""
    return "; ".join(f"{name}: {why}" for name, why in never[:NAMED]) + more


def not_watched(kind: str, age: float, problem: str | None) -> str:
    """ "the pods were last seen 2 min ago: connection refused"."""
    last = "have never been seen" if math.isinf(age) else f"were last seen {duration(age)} ago"
    return f"the {kind} {last}" + (f": {problem}" if problem else "")


def plan_sentence(plan: EvictionPlan, attempts: Sequence[Attempt], *, acts: bool) -> str:
    """ "relieve: evicted 1 of 2 pods; refused at the last moment by cooldown 1"."""
    note = f"; {plan.note}" if plan.note else ""
    if not plan.steps:
        waits = next((refusal.reason for refusal in plan.refusals if refusal.check == "window"), "")
        costs = [f"; {price.keeps(check)}: {price.setting}" for check, price in plan.prices.items()][:1]
        return "".join(
            [f"{plan.kind}: nothing to move{_refused(plan.refused)}", f"; {waits}" if waits else "", *costs, note]
        )
    done = sum(attempt.permitted for attempt in attempts)
    verb = "evicted" if acts else "would evict"
    first_starts = sum(attempt.status == SURGING for attempt in attempts)
    done -= first_starts
    first = next((attempt.pod for attempt in attempts if attempt.permitted), None)
    text = f"{plan.kind}: {verb} {done} of {pods(len(plan.steps))}"
    if first:
        text += f", {first}" if done == 1 else f", {first} first"
    refused = Counter(attempt.check or attempt.why for attempt in attempts if attempt.status == "refused")
    if refused:
        text += f"; refused at the last moment by {_counts(refused)}"
    if first_starts:
        text += f"; {first_starts} wait for one more replica"
    failed = [attempt for attempt in attempts if attempt.status in ("failed", "recorded")]
    if failed:
        text += f"; {len(failed)} failed: {failed[0].why}"
    return text + note


def _refused(refused: Mapping[str, int]) -> str:
    return f"; {sum(refused.values()):,} pods refused, by {_counts(refused)}" if refused else ""


def _counts(counts: Mapping[str, int], most: int = 3) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    text = ", ".join(f"{name} {count:,}" for name, count in ordered[:most])
    return text + (f" and {len(ordered) - most} more checks" if len(ordered) > most else "")
