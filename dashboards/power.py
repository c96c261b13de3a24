"""The dashboard of power policies: the power that is available, and the replicas kept inside it."""

from __future__ import annotations

from typing import Any

from .panels import OF, Panel, built, lines, started, stat, table, variable

POLICY = f'{OF},policy=~"$policy"'
RATE = "[$__rate_interval]"


def power() -> dict[str, Any]:
    """What each power policy sees, decides and changes."""
    board = started("power", "Power", "The power that is available, and the replicas that are kept inside it.")
    board.with_variable(variable("namespace", "ballast_power_leader", multi=True))
    board.with_variable(variable("policy", "ballast_power_feed_age_seconds", multi=True))
    rows = (("Now", _now()), ("Power and replicas", _replicas()), ("What was done", _actions()), ("The feed", _feed()))
    return built(board, rows)


def _now() -> list[Panel]:
    return [
        stat("Available", f"sum(max by (policy) (ballast_power_available_watts{{{POLICY}}}))", unit="watt"),
        stat("Reference", f"sum(max by (policy) (ballast_power_reference_watts{{{POLICY}}}))", unit="watt"),
        stat("Replicas", f"sum(max by (policy) (ballast_power_current_replicas{{{POLICY}}}))"),
        stat("Not met", f"sum(max by (policy) (ballast_power_unmet_replicas{{{POLICY}}}))", limits=(1, 10)),
        stat("Oldest sample", f"max(min by (policy) (ballast_power_feed_age_seconds{{{POLICY}}}))", "s", (120, 300)),
        stat("Windows open", f"sum(max by (policy) (ballast_power_window_elapsed_seconds{{{POLICY}}}) > bool 0)"),
    ]


def _replicas() -> list[Panel]:
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


def _actions() -> list[Panel]:
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


def _feed() -> list[Panel]:
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
