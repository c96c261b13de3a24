"""The dashboard of evictions: what was planned, refused and evicted, and what came of it."""

from __future__ import annotations

from typing import Any

from .panels import OF, Panel, built, lines, started, stat, variable

RATE = "[$__rate_interval]"


def evictions() -> dict[str, Any]:
    """What was planned, refused, evicted, and what came of it."""
    board = started("evictions", "Evictions", "Pods that were moved or not, why, and what came of it.")
    board.with_variable(variable("namespace", "ballast_leader", multi=True))
    rows = (("Now", _now()), ("Plans and refusals", _plans()), ("Evictions and what came of them", _evicted()))
    return built(board, rows)


def _now() -> list[Panel]:
    def lately(name: str, result: str) -> str:
        return f'round(sum(increase(ballast_{name}_total{{{OF},result="{result}"}}[1h])))'

    return [
        stat("Evicted in the last hour", lately("evictions", "evicted")),
        stat("Refused at the last moment", lately("evictions", "refused")),
        stat("Replacements ready", lately("eviction_effects", "ready")),
        stat("Replacements late", lately("eviction_effects", "late"), limits=(1, 3)),
        stat("Plans without effect", lately("eviction_effects", "without-effect"), limits=(1, 2)),
        stat("Halted", f'max(ballast_condition{{{OF},type="EvictionsHalted"}})', limits=(0.5, 1)),
    ]


def _plans() -> list[Panel]:
    refused = f'sum by (check) (rate(ballast_eviction_verdicts_total{{{OF},verdict="refused"}}{RATE}))'
    allowed = f'sum by (check) (rate(ballast_eviction_verdicts_total{{{OF},verdict="allowed"}}{RATE}))'
    plans = f"sum by (kind, result) (increase(ballast_eviction_plans_total{{{OF}}}{RATE}))"
    buckets = f"sum by (le) (rate(ballast_planning_seconds_bucket{{{OF}}}{RATE}))"
    return [
        lines("Plans by kind", [("{{kind}}: {{result}}", plans)], unit="none", stacked=True),
        lines("Pods refused, by check", [("{{check}}", refused)], unit="cps", stacked=True),
        lines("Checks passed on the way to an eviction", [("{{check}}", allowed)], unit="cps", stacked=True),
        lines("Time to plan, 99th percentile", [("99 %", f"histogram_quantile(0.99, {buckets})")], unit="s"),
        lines("Memory of the planner", [("most", f"max(ballast_planning_memory_bytes{{{OF}}})")], unit="bytes"),
    ]


def _evicted() -> list[Panel]:
    steps = f"sum by (planner, result) (increase(ballast_evictions_total{{{OF}}}{RATE}))"
    effects = f"sum by (planner, result) (increase(ballast_eviction_effects_total{{{OF}}}{RATE}))"
    spread = f"max by (pool, resource) (ballast_pool_load_stddev{{{OF}}})"
    return [
        lines("Steps by planner and outcome", [("{{planner}} {{result}}", steps)], unit="none", stacked=True),
        lines("What came of them", [("{{planner}} {{result}}", effects)], unit="none", stacked=True),
        lines("Spread of the load between nodes (σ)", [("{{pool}} {{resource}}", spread)], unit="none"),
        lines("Reservations of room", [("{{pod}}", f"ballast_extender_reserved{{{OF}}}")], unit="none", stacked=True),
    ]
