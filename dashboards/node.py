"""The dashboard of one node: its load and score, beside the other nodes'."""

from __future__ import annotations

from typing import Any

from .panels import OF, Panel, built, lines, started, stat, variable

WINDOW = f'{OF},window="$window"'
NODE = f'{WINDOW},node="$node"'
SCORE = f'max(ballast_node_score{{{OF},node="$node"}})'
SCORES = f"max by (node) (ballast_node_score{{{OF}}})"


def node() -> dict[str, Any]:
    """Why a node has its score, and how it stands among the others."""
    board = started("node", "Node", "One node: its load, its score, and where it stands among the others.")
    board.with_variable(variable("namespace", "ballast_leader", multi=True))
    board.with_variable(variable("node", "ballast_node_score"))
    board.with_variable(variable("resource", "ballast_node_load_mean"))
    board.with_variable(variable("window", "ballast_node_load_mean"))
    return built(board, (("Now", _now()), ("Load", _load()), ("Among the others", _others())))


def _now() -> list[Panel]:
    mean = f"max by (resource) (ballast_node_load_mean{{{NODE}}})"
    nobody = f"0 * max(ballast_leader{{{OF}}})"
    return [
        stat("Score", SCORE),
        stat("Nodes with a better score", f"count({SCORES} > scalar({SCORE})) or {nobody}"),
        stat("Load of its busiest resource", f"max({mean})", "percentunit", (0.8, 0.9)),
        stat("Taken together with one deviation", f"max({mean} + {_deviation('resource')})", "percentunit", (0.9, 1.0)),
    ]


def _load() -> list[Panel]:
    mean = f"max by (resource) (ballast_node_load_mean{{{NODE}}})"
    return [
        lines("Mean load by resource", [("{{resource}}", mean)]),
        lines(
            "Mean + and - one standard deviation",
            [
                ("{{resource}} +", f"{mean} + {_deviation('resource')}"),
                ("{{resource}} -", f"{mean} - {_deviation('resource')}"),
            ],
        ),
        lines("Score", [("$node", SCORE)], unit="none"),
    ]


def _others() -> list[Panel]:
    mine = f'max(ballast_node_load_mean{{{NODE},resource="$resource"}})'
    all_ = f'max by (node) (ballast_node_load_mean{{{WINDOW},resource="$resource"}})'
    return [
        lines(
            "Load beside the other nodes",
            [("$node", mine), ("median node", f"quantile(0.5, {all_})"), ("most loaded", f"max({all_})")],
        ),
        lines(
            "Score beside the other nodes",
            [("$node", SCORE), ("median node", f"quantile(0.5, {SCORES})"), ("best", f"max({SCORES})")],
            unit="none",
        ),
    ]


def _deviation(by: str) -> str:
    return f"max by ({by}) (ballast_node_load_stddev{{{NODE}}})"
