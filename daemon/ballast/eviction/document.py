"""Plans as JSON shows them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ballast.eviction.plan import EvictionPlan
from ballast.eviction.planners.planner import Effect
from ballast.eviction.planners.registry import planner


def as_json(plan: EvictionPlan) -> dict[str, Any]:
    """A plan as `/api/v1/plans` and `ballast plan -o json` show it; a gain that counts pods is an integer."""
    counts = planner(plan.kind).effect is Effect.STARTS
    return {
        "kind": plan.kind,
        "steps": [
            {
                "pod": move.pod,
                "from": move.source,
                "to": move.target,
                "gain": int(move.gain) if counts else move.gain,
                "gain_error": move.gain_error,
                "cost": move.cost,
                "reason": move.reason,
            }
            for move in plan.steps
        ],
        "before": numbers(plan.before),
        "after": numbers(plan.after),
        "refused": dict(plan.refused),
        "placed": list(plan.placed),
        **({"empty": list(plan.empty)} if plan.empty is not None else {}),
    }


def numbers(values: Mapping[str, float]) -> dict[str, float | None]:
    """NaN becomes None, as JSON has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
