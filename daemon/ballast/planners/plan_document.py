"""Plans as the API and the command line show them."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from ballast.answers.evictions import Siblings, Step
from ballast.planners.built_in import planner
from ballast.planners.eviction_plan import EvictionPlan
from ballast.planners.planner import Effect


def as_json(plan: EvictionPlan) -> dict[str, Any]:
    """A plan as `ballast plan -o json` shows it."""
    return {
        "kind": plan.kind,
        "steps": msgspec.to_builtins(steps(plan)),
        "before": numbers(plan.before),
        "after": numbers(plan.after),
        "refused": dict(plan.refused),
        "placed": list(plan.placed),
        "concentration": dict(zip(("before", "after"), plan.concentration, strict=True)),
        **({"note": plan.note} if plan.note else {}),
        **({"empty": list(plan.empty)} if plan.empty is not None else {}),
    }


def steps(plan: EvictionPlan) -> list[Step]:
    """The evictions of a plan; a gain that counts pods is an integer."""
    counts = planner(plan.kind).effect is Effect.STARTS
    return [
        Step(
            pod=move.pod,
            source=move.source,
            to=move.target,
            gain=int(move.gain) if counts else move.gain,
            gain_error=move.gain_error,
            cost=move.cost,
            reason=move.reason,
            siblings=Siblings(*move.siblings),
        )
        for move in plan.steps
    ]


def numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    """NaN becomes None, as JSON has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
