"""Dashboards and alerts show only what is exported, in PromQL that parses."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from ballast.serving.exposition import exported_names
from tests.unit.install.chart import CHART, EVERYTHING, MONITORING, ROOT, Helm, one

FLEET = ROOT / "dashboards" / "fleet.json"
RULES = CHART / "rules" / "alerts.yaml"
GRAFANA = {"$__rate_interval": "5m", "$namespace": ".*", "$resource": "cpu", "$window": "5m"}


def expressions() -> Iterator[tuple[str, str]]:
    for panel in json.loads(FLEET.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]


def selectors(node: Any) -> Iterator[Any]:
    """Every vector selector below a parsed expression."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
    for attribute in ("lhs", "rhs", "expr", "param", "vector_selector"):
        child = getattr(node, attribute, None)
        if child is not None:
            yield from selectors(child)
    args = getattr(node, "args", None)
    for child in args if isinstance(args, list) else ():
        yield from selectors(child)


@pytest.mark.parametrize(("title", "expression"), list(expressions()))
def test_each_expression_parses_and_asks_for_exported_metrics(title: str, expression: str) -> None:
    for variable, value in GRAFANA.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression, title
    found = list(selectors(promql_parser.parse(expression)))
    assert len(found) == len(re.findall(r"\b(?:ballast|process)_\w+", expression))
    assert {selector.name for selector in found} <= exported_names()


def test_the_dashboards_are_those_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "dashboards.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_fleet_dashboard_shows_what_an_operator_asks_first() -> None:
    shown = " ".join(expression for _, expression in expressions())
    for metric in (
        "ballast_node_load_mean",
        "ballast_node_load_stddev",
        "ballast_node_load_p95",
        "ballast_node_score",
        "ballast_nodes_unknown",
        "ballast_samples_rejected_total",
        "ballast_queries_total",
        "ballast_writes_total",
        "ballast_cycle_seconds_bucket",
        "ballast_leader",
        "ballast_condition",
        "ballast_snapshot_age_seconds",
    ):
        assert metric in shown


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(FLEET.read_text())["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


def test_the_chart_ships_the_dashboard_and_the_alerts_unchanged(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING, *MONITORING)
    shipped = one(manifests, "ConfigMap", "ballast-dashboards")
    assert json.loads(shipped["data"]["ballast-fleet.json"]) == json.loads(FLEET.read_text())
    assert shipped["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert one(manifests, "PrometheusRule", "ballast")["spec"] == yaml.safe_load(RULES.read_text())


def test_each_alert_says_what_happened_and_what_it_means() -> None:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            assert rule["alert"].startswith("Ballast")
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert {"summary", "description"} == set(rule["annotations"])
