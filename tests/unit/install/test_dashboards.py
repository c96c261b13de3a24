"""Dashboards and alerts show only what is exported, in PromQL that parses."""

import json
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from prometheus_client import CollectorRegistry

from ballast.jobs.power.power_metrics import PowerMetrics
from ballast.serving.exposition import exported_names
from tests.worlds.chart import CHART, EVERYTHING, MONITORING, ROOT, Helm, one

pytestmark = pytest.mark.slow

NAMES = ("fleet", "node", "power", "evictions", "extender")
DASHBOARDS = {name: ROOT / "dashboards" / f"{name}.json" for name in NAMES}
RULES = CHART / "rules" / "alerts.yaml"
GRAFANA = {
    "$__rate_interval": "5m",
    "$cluster": ".*",
    "$namespace": ".*",
    "$resource": "cpu",
    "$window": "5m",
    "$node": "node-0",
    "$policy": ".*",
}


def expressions() -> Iterator[tuple[str, str]]:
    for name in DASHBOARDS:
        yield from shown(name)
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]


def shown(dashboard: str) -> Iterator[tuple[str, str]]:
    for panel in json.loads(DASHBOARDS[dashboard].read_text())["panels"]:
        for target in panel.get("targets", []):
            yield f"{dashboard}: {panel['title']} {target['refId']}", target["expr"]


@cache
def exported() -> frozenset[str]:
    """What the server exports, and what power adds once there are policies."""
    registry = CollectorRegistry()
    PowerMetrics(registry)
    PowerMetrics(registry, potential=True)
    power = {family.name + ("_total" if family.type == "counter" else "") for family in registry.collect()}
    return exported_names() | power


def recorded() -> set[str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}


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
    found = [selector.name for selector in selectors(promql_parser.parse(expression))]
    assert len(found) == len(re.findall(r"\b(?:ballast|process)[_:]\w+", expression))
    assert set(found) <= exported() | recorded()


def test_the_dashboards_are_those_the_generator_writes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dashboards", "--check"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def test_the_chart_has_a_link_to_the_dashboards_that_holds_in_every_clone() -> None:
    assert (CHART / "dashboards").readlink() == Path("../../dashboards")


def test_the_chart_renders_every_dashboard(helm: Helm) -> None:
    data = one(helm.template({"dashboard": {"enabled": True}}), "ConfigMap", "ballast-dashboards")["data"]
    assert {name: json.loads(text) for name, text in data.items()} == {
        f"ballast-{name}.json": json.loads(file.read_text()) for name, file in DASHBOARDS.items()
    }


@pytest.mark.parametrize("way", ["helm package", "scripts/pack_chart"])
def test_the_packed_chart_holds_the_dashboards_as_files(helm: Helm, way: str, tmp_path: Path) -> None:
    if way == "helm package":
        helm.run("package", CHART, "--destination", tmp_path)
    else:
        subprocess.run([ROOT / "scripts" / "pack_chart", tmp_path, "ballast:1"], capture_output=True, check=True)
    [archive] = tmp_path.glob("ballast-*.tgz")
    with tarfile.open(archive) as tar:
        packed = [member for member in tar.getmembers() if member.name.startswith("ballast/dashboards/")]
        texts = {member.name: file.read().decode() for member in packed if (file := tar.extractfile(member))}
    assert all(member.isfile() for member in packed)
    assert texts == {f"ballast/dashboards/{name}.json": file.read_text() for name, file in DASHBOARDS.items()}


def test_the_fleet_dashboard_shows_what_an_operator_asks_first() -> None:
    text = " ".join(expression for _, expression in shown("fleet"))
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
        assert metric in text


@pytest.mark.parametrize(("dashboard", "prefix"), [("power", "ballast_power_"), ("evictions", "ballast_eviction")])
def test_everything_that_is_counted_is_shown(dashboard: str, prefix: str) -> None:
    text = " ".join(expression for _, expression in shown(dashboard))
    missing = {name for name in exported() if name.startswith(prefix) and name.removesuffix("_bucket") not in text}
    assert {name for name in missing if "_potential_" not in name} == set()


def test_the_extender_dashboard_shows_all_that_is_counted_of_it() -> None:
    text = " ".join(expression for _, expression in shown("extender"))
    names = {name.removesuffix("_bucket") for name in exported() if name.startswith("ballast_extender_")}
    assert {name for name in names if not name.endswith(("_sum", "_count")) and name not in text} == set()


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_dashboards_explain_link_and_annotate(dashboard: str) -> None:
    board = json.loads(DASHBOARDS[dashboard].read_text())
    silent = [panel["title"] for panel in board["panels"] if panel.get("targets") and not panel.get("description")]
    assert set(silent) <= {"Memory", "Processor cores in use"}
    assert {variable["name"] for variable in board["templating"]["list"]} >= {"datasource", "cluster", "namespace"}
    assert board["links"][0]["tags"] == ["ballast"]
    for annotation in board["annotations"]["list"]:
        expression = annotation["expr"].replace("$__interval", "5m")
        assert {each.name for each in selectors(promql_parser.parse(expression))} <= exported()


def test_no_label_of_power_is_one_that_a_scrape_gives() -> None:
    registry = CollectorRegistry()
    metrics = PowerMetrics(registry)
    metrics.put_workloads("sun", {"plant/one": 5})
    found = {label for family in registry.collect() for sample in family.samples for label in sample.labels}
    assert found & {"namespace", "pod", "service", "job", "instance", "container", "endpoint"} == set()


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_panels_do_not_overlap(dashboard: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in json.loads(DASHBOARDS[dashboard].read_text())["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells


def test_the_chart_ships_the_dashboards_and_the_alerts_unchanged(helm: Helm) -> None:
    manifests = helm.template(EVERYTHING, *MONITORING)
    shipped = one(manifests, "ConfigMap", "ballast-dashboards")
    for name, file in DASHBOARDS.items():
        assert json.loads(shipped["data"][f"ballast-{name}.json"]) == json.loads(file.read_text())
    assert shipped["metadata"]["labels"]["grafana_dashboard"] == "1"
    rule = one(manifests, "PrometheusRule", "ballast")["spec"]
    assert rule == yaml.safe_load(RULES.read_text())


def test_each_alert_says_what_happened_and_what_it_means() -> None:
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            if "record" in rule:
                assert rule["record"].startswith("ballast:")
                continue
            assert rule["alert"].startswith("Ballast")
            assert rule["labels"]["severity"] in ("info", "warning", "critical")
            assert {"summary", "description", "runbook_url"} == set(rule["annotations"])
            assert rule["annotations"]["runbook_url"].endswith(f"/docs/runbooks/{rule['alert']}.md")
            assert "cluster" in rule["expr"], "clusters in one store are told apart"
