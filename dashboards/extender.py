"""The dashboard of the scheduler extender, and of what Ballast brings."""

from __future__ import annotations

from typing import Any

from .panels import OF, Panel, built, lines, started, stat, table, variable

RATE = "[$__rate_interval]"


def extender() -> dict[str, Any]:
    """Whether the scheduler gets its answers, and whether the cluster is more even for it."""
    board = started("extender", "Extender and benefit", "What the scheduler asks and gets, and what came of it.")
    board.with_variable(variable("namespace", "ballast_leader", multi=True))
    board.with_variable(variable("resource", "ballast_load_count"))
    return built(board, (("Benefit", _benefit()), ("Answers", _answers()), ("Decisions", _decisions())))


def _benefit() -> list[Panel]:
    sigma = f'max(ballast_pool_load_stddev{{{OF},resource="$resource"}})'
    day = f'max(ballast_pool_load_stddev{{{OF},resource="$resource"}} offset 1d)'
    return [
        stat("Spread of load now", sigma, "percentunit"),
        stat("Spread a day ago", day, "percentunit"),
        stat("Pods moved today", f'sum(increase(ballast_evictions_total{{{OF},result="evicted"}}[1d]))'),
        lines("Spread of load over nodes", [("now", sigma), ("a day before", day)]),
        table("Modes", f"max by (part, mode) (ballast_settings_info{{{OF}}})"),
    ]


def _answers() -> list[Panel]:
    buckets = f"sum by (verb, le) (rate(ballast_extender_seconds_bucket{{{OF}}}{RATE}))"
    asked = f"sum by (verb, result) (rate(ballast_extender_requests_total{{{OF}}}{RATE}))"
    neutral = f"sum by (reason) (rate(ballast_extender_neutral_total{{{OF}}}{RATE}))"
    left_out = f"sum by (reason) (rate(ballast_extender_rejections_total{{{OF}}}{RATE}))"
    return [
        lines("Time to answer, 99th percentile", [("{{verb}}", f"histogram_quantile(0.99, {buckets})")], unit="s"),
        lines("Requests", [("{{verb}} {{result}}", asked)], unit="reqps", stacked=True),
        lines("Answers that prefer no node", [("{{reason}}", neutral)], unit="reqps", stacked=True),
        lines("Nodes filtered out", [("{{reason}}", left_out)], unit="none", stacked=True),
        lines(
            "HTTP requests refused",
            [("{{code}}", f"sum by (code) (rate(ballast_http_refused_total{{{OF}}}{RATE}))")],
            unit="reqps",
        ),
    ]


def _decisions() -> list[Panel]:
    outcomes = f"sum by (outcome) (rate(ballast_extender_decisions_total{{{OF}}}{RATE}))"
    return [
        lines("What became of decisions", [("{{outcome}}", outcomes)], unit="cps", stacked=True),
        lines(
            "Decisions and reservations that count now",
            [
                ("assumed", f"max(ballast_extender_assumed{{{OF}}})"),
                ("reserved", f"max(ballast_extender_reserved{{{OF}}})"),
                ("of pods not shown yet", f"max(ballast_extender_unseen{{{OF}}})"),
            ],
            unit="none",
        ),
        lines("How late the watch was", [("lag", f"max(ballast_extender_watch_lag_seconds{{{OF}}})")], unit="s"),
    ]
