"""The dashboard of all nodes: how loaded they are, what was published, and whether it can be trusted."""

from __future__ import annotations

from typing import Any

from .panels import OF, Panel, built, lines, spread, started, stat, table, variable

WINDOW = f'{OF},resource="$resource",window="$window"'
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
