"""Writes the dashboards that the chart ships. With `--check` it only tells whether they are in step.

All replicas export the per-node metrics, so node series are reduced with `max by`, and counters summed over replicas.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from compact_json import compact_json
from extender_dashboard import extender
from node_dashboard import node
from panels import OF, Panel, built, lines, spread, started, stat, table, variable

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "charts" / "ballast" / "dashboards"

WINDOW = f'{OF},resource="$resource",window="$window"'
POLICY = f'{OF},policy=~"$policy"'
RATE = "[$__rate_interval]"


def fleet() -> dict[str, Any]:
    """Every node by its load, and whether what Ballast says about it can be trusted."""
    board = started("fleet", "Fleet", "How loaded every node is, what was published about it, and how fresh that is.")
    board.with_variable(variable("namespace", "ballast_leader", multi=True))
    board.with_variable(variable("resource", "ballast_node_load_mean"))
    board.with_variable(variable("window", "ballast_node_load_mean"))
    rows = (
        ("Now", _now()),
        ("Load", _load()),
        ("Scores and writes", _publishing()),
        ("Where the data comes from", _telemetry()),
        ("Ballast itself", _itself()),
    )
    return built(board, rows)


def power() -> dict[str, Any]:
    """What each power policy sees, decides and changes."""
    board = started("power", "Power", "The power that is available, and the replicas that are kept inside it.")
    board.with_variable(variable("namespace", "ballast_power_leader", multi=True))
    board.with_variable(variable("policy", "ballast_power_feed_age_seconds", multi=True))
    rows = (
        ("Now", _power_now()),
        ("Power and replicas", _power_replicas()),
        ("What was done", _power_actions()),
        ("The feed", _power_feed()),
    )
    return built(board, rows)


def evictions() -> dict[str, Any]:
    """What was planned, refused, evicted, and what came of it."""
    board = started("evictions", "Evictions", "Pods that were moved or not, why, and what came of it.")
    board.with_variable(variable("namespace", "ballast_leader", multi=True))
    rows = (
        ("Now", _evictions_now()),
        ("Plans and refusals", _eviction_plans()),
        ("Evictions and what came of them", _evicted()),
    )
    return built(board, rows)


def _power_now() -> list[Panel]:
    return [
        stat("Available", f"sum(max by (policy) (ballast_power_available_watts{{{POLICY}}}))", unit="watt"),
        stat("Reference", f"sum(max by (policy) (ballast_power_reference_watts{{{POLICY}}}))", unit="watt"),
        stat("Replicas", f"sum(max by (policy) (ballast_power_current_replicas{{{POLICY}}}))"),
        stat("Not met", f"sum(max by (policy) (ballast_power_unmet_replicas{{{POLICY}}}))", limits=(1, 10)),
        stat("Oldest sample", f"max(min by (policy) (ballast_power_feed_age_seconds{{{POLICY}}}))", "s", (120, 300)),
        stat("Windows open", f"sum(max by (policy) (ballast_power_window_elapsed_seconds{{{POLICY}}}) > bool 0)"),
    ]


def _power_replicas() -> list[Panel]:
    def by_policy(name: str) -> str:
        return f"max by (policy) (ballast_power_{name}{{{POLICY}}})"

    def by_workload(name: str) -> str:
        return f"max by (policy, workload_namespace, name) (ballast_power_{name}{{{POLICY}}})"

    potential = f"max by (policy) (ballast_power_potential_current_replicas{{{POLICY}}})"
    return [
        lines(
            "Available, reference and load",
            [
                ("{{policy}} available", by_policy("available_watts")),
                ("{{policy}} reference", by_policy("reference_watts")),
                ("{{policy}} load", by_policy("load_watts")),
                ("{{policy}} measured", by_policy("measured_watts")),
                ("{{policy}} allowed", by_policy("allowed_watts")),
                ("{{policy}} drawn", by_policy("drawn_watts")),
                ("{{policy}} allowed by the schedule", by_policy("bound_watts")),
            ],
            unit="watt",
        ),
        lines("Load above the feed", [("{{policy}}", by_policy("over_budget_watts"))], unit="watt"),
        lines(
            "Replicas",
            [
                ("{{policy}}", by_policy("current_replicas")),
                ("{{policy}} would be (dry-run)", potential),
                ("{{policy}} without bounds and rounding", by_policy("target_replicas")),
            ],
            unit="none",
        ),
        lines(
            "Change of the feed to the reference",
            [("{{policy}}", by_policy("relative_change"))],
            unit="percentunit",
            zero=False,
        ),
        lines(
            "State",
            [("{{policy}} {{state}}", f"max by (policy, state) (ballast_power_state{{{POLICY}}}) > 0")],
            unit="none",
        ),
        lines("Age of the open window", [("{{policy}}", by_policy("window_elapsed_seconds"))], unit="s"),
        lines("Replicas beyond the bounds of all targets", [("{{policy}}", by_policy("unmet_replicas"))], unit="none"),
        lines(
            "Replicas that autoscalers want beyond their caps",
            [("{{policy}}", by_policy("unmet_demand_replicas"))],
            unit="none",
        ),
        lines(
            "Learned watts of a replica",
            [
                ("{{workload_namespace}}/{{name}}", f"topk(10, {by_workload('learned_watts')})"),
                ("{{workload_namespace}}/{{name}} ±", f"topk(10, {by_workload('learned_watts_error')})"),
            ],
            unit="watt",
        ),
        lines(
            "Ten targets with the most replicas",
            [("{{workload_namespace}}/{{name}}", f"topk(10, {by_workload('target_replicas_by_workload')})")],
            unit="none",
        ),
    ]


def _power_actions() -> list[Panel]:
    def rate(name: str, *labels: str) -> str:
        return f"sum by ({', '.join(labels)}) (increase(ballast_power_{name}_total{{{POLICY}}}{RATE}))"

    return [
        lines(
            "Plans by direction and result",
            [("{{direction}} {{result}}", rate("actions", "direction", "result"))],
            unit="none",
            stacked=True,
        ),
        lines(
            "Windows without an action", [("{{reason}}", rate("cancellations", "reason"))], unit="none", stacked=True
        ),
        lines("Writes to targets that failed", [("{{code}}", rate("patch_errors", "code"))], unit="none", stacked=True),
        lines(
            "Replicas or caps changed by someone else",
            [("{{policy}}", rate("foreign_changes", "policy"))],
            unit="none",
            stacked=True,
        ),
    ]


def _power_feed() -> list[Panel]:
    invalid = f"sum by (policy, reason) (increase(ballast_power_feed_invalid_total{{{POLICY}}}{RATE}))"
    return [
        lines(
            "Age of the newest usable sample",
            [("{{policy}}", f"min by (policy) (ballast_power_feed_age_seconds{{{POLICY}}})")],
            unit="s",
        ),
        lines("Samples that could not be used", [("{{policy}} {{reason}}", invalid)], unit="none", stacked=True),
        lines("Who acts on power", [("{{pod}}", f"ballast_power_leader{{{OF}}}")], unit="none", stacked=True),
        table("Conditions that hold", f"max by (type) (ballast_condition{{{OF}}}) > 0"),
    ]


def _evictions_now() -> list[Panel]:
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


def _eviction_plans() -> list[Panel]:
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


def _now() -> list[Panel]:
    age = f"min(ballast_snapshot_age_seconds{{{OF}}})"
    nodes = f"sum(max by (state) (ballast_nodes{{{OF}}}))"
    unknown = f"max(ballast_nodes_unknown{{{OF}}}) / ({nodes} > 0)"
    return [
        stat("Nodes", nodes),
        stat("Unknown nodes", f"max(ballast_nodes_unknown{{{OF}}})"),
        stat("Share unknown", unknown, unit="percentunit", limits=(0.05, 0.2)),
        stat("Age of the data", age, unit="s", limits=(90, 300)),
        stat("Leaders", f"sum(ballast_leader{{{OF}}})"),
        stat("Frozen", f"max(ballast_frozen{{{OF}}})", limits=(0.5, 1)),
    ]


def _load() -> list[Panel]:
    mean = f"max by (node) (ballast_node_load_mean{{{WINDOW}}})"
    stddev = f"max by (node) (ballast_node_load_stddev{{{WINDOW}}})"
    p95 = f"max by (node) (ballast_node_load_p95{{{WINDOW}}})"
    return [
        lines(
            "Nodes by mean load",
            [
                ("most loaded", f"max({mean})"),
                ("95th of 100 nodes", f"quantile(0.95, {mean})"),
                ("median node", f"quantile(0.5, {mean})"),
                ("least loaded", f"min({mean})"),
            ],
            unit="percentunit",
        ),
        spread(
            "Distribution of mean load over nodes", f'max by (le) (ballast_load_bucket{{{OF},resource="$resource"}})'
        ),
        lines("Ten most loaded nodes, mean", [("{{node}}", f"topk(10, {mean})")], unit="percentunit"),
        lines(
            "The same nodes, mean + and - one standard deviation",
            [
                ("{{node}} +", f"({mean} + {stddev}) and topk(10, {mean})"),
                ("{{node}} -", f"({mean} - {stddev}) and topk(10, {mean})"),
            ],
            unit="percentunit",
        ),
        lines(
            "Ten highest 95th percentiles (mean + 1.64 deviations unless BALLAST_METRICS__NODES=all)",
            [("{{node}}", f"topk(10, {p95} or {mean} + 1.64 * {stddev})")],
            unit="percentunit",
        ),
        lines("Spread of mean load between nodes (standard deviation)", [("spread", f"stddev({mean})")]),
    ]


def _publishing() -> list[Panel]:
    score = f"max by (node) (ballast_node_score{{{OF}}})"
    recorded = f"sum by (score) (ballast:nodes_by_score:count{{{OF}}})"
    counted = f'count_values("score", 10 * floor({score} / 10))'
    return [
        spread("Nodes by score, in tens", f"{recorded} or {counted}", by="score"),
        lines("Ten lowest scores", [("{{node}}", f"bottomk(10, {score})")], unit="none"),
        lines(
            "Writes by kind and result",
            [("{{kind}} {{result}}", f"sum by (kind, result) (rate(ballast_writes_total{{{OF}}}{RATE}))")],
            unit="wps",
            stacked=True,
        ),
    ]


def _telemetry() -> list[Panel]:
    return [
        lines(
            "Nodes that are not known, by state",
            [("{{state}}", f'max by (state) (ballast_nodes{{state!="known", {OF}}})')],
            unit="none",
        ),
        lines(
            "Samples rejected, by reason",
            [("{{reason}}", f"sum by (reason) (rate(ballast_samples_rejected_total{{{OF}}}{RATE}))")],
            unit="cps",
            stacked=True,
        ),
        lines(
            "Queries by resource and result",
            [("{{resource}} {{result}}", f"sum by (resource, result) (rate(ballast_queries_total{{{OF}}}{RATE}))")],
            unit="reqps",
            stacked=True,
        ),
        lines(
            "Warnings in answers",
            [("{{source}}", f"sum by (source) (rate(ballast_query_warnings_total{{{OF}}}{RATE}))")],
            unit="cps",
        ),
        lines("Age of the data", [("{{pod}}", f"ballast_snapshot_age_seconds{{{OF}}}")], unit="s"),
        lines(
            "Watches that began again",
            [("{{kind}} {{reason}}", f"sum by (kind, reason) (rate(ballast_watch_restarts_total{{{OF}}}{RATE}))")],
            unit="cps",
        ),
    ]


def _itself() -> list[Panel]:
    buckets = f"sum by (cycle, le) (rate(ballast_cycle_seconds_bucket{{{OF}}}{RATE}))"
    return [
        lines("Leader", [("{{pod}}", f"ballast_leader{{{OF}}}")], unit="none", stacked=True),
        table("Conditions that hold", f"max by (type) (ballast_condition{{{OF}}}) > 0"),
        lines("Cycle duration, 99th percentile", [("{{cycle}}", f"histogram_quantile(0.99, {buckets})")], unit="s"),
        lines(
            "Cycles failed and missed",
            [
                ("{{cycle}} failed", f'sum by (cycle) (rate(ballast_cycles_total{{{OF},result="failed"}}{RATE}))'),
                (
                    "{{cycle}} missed: {{reason}}",
                    f"sum by (cycle, reason) (rate(ballast_cycles_missed_total{{{OF}}}{RATE}))",
                ),
            ],
            unit="cps",
        ),
        lines(
            "Kubernetes API reads",
            [("{{verb}} {{result}}", f"sum by (verb, result) (rate(ballast_reads_total{{{OF}}}{RATE}))")],
            unit="reqps",
        ),
        lines("Memory", [("{{pod}}", _own(f"process_resident_memory_bytes{{{OF}}}"))], unit="bytes"),
        lines(
            "Processor cores in use", [("{{pod}}", _own(f"rate(process_cpu_seconds_total{{{OF}}}{RATE})"))], unit="none"
        ),
    ]


def _own(expr: str) -> str:
    """Only the series of targets that are Ballast."""
    return f"{expr} and on (namespace, pod, instance) ballast_leader{{{OF}}}"


DASHBOARDS = {"fleet": fleet, "power": power, "evictions": evictions, "extender": extender, "node": node}


def rendered() -> dict[str, str]:
    """{file name: text}."""
    return {f"{name}.json": compact_json(make()) + "\n" for name, make in DASHBOARDS.items()}


def main() -> None:
    for name, text in rendered().items():
        path = FOLDER / name
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            sys.exit(f"{path.relative_to(ROOT)} is out of step: run .venv/bin/python scripts/dashboards.py")


if __name__ == "__main__":
    main()
