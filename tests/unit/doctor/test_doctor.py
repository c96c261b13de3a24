"""Seeded misconfigurations are found by the right check, with a line that mends them; healthy clusters are well."""

import json
import shlex
from typing import Any

import pytest
from typer.testing import CliRunner

from ballast.base.errors import UsageError
from ballast.cli.app import app
from ballast.doctor.checks import CHECKS
from ballast.doctor.finding import Finding
from tests.unit.doctor.conftest import Patient, wrong


def mended(finding: Finding) -> dict[str, str]:
    name, _, value = shlex.split(finding.fix[0])[0].partition("=")
    return {name.removeprefix("BALLAST_"): value}


@pytest.mark.parametrize(
    "labels",
    [
        None,
        {"instance": "{node}", "job": "node-exporter"},
        {"instance": "{node}:metrics"},
        {"instance": "{address}:9100", "cluster": "prod", "pod": "exporter-{index}"},
        {"instance": "{node}.prod.example.com:9100", "job": "integrations/unix", "prometheus_replica": "a"},
    ],
)
def test_a_healthy_cluster_has_no_finding(patient: Patient, labels: dict[str, str] | None) -> None:
    if labels is not None:
        patient.cluster.faults.prometheus_labels(labels)
    found = patient.examine()
    assert {each.check for each in found.findings} == set(CHECKS)
    assert not wrong(found)
    skipped = {each.check for each in found.findings if each.status == "skipped"}
    assert skipped <= NOT_THERE
    assert all(each.message for each in found.findings)


NOT_THERE = {
    # no daemon, no scheduler's configuration and no power feed is in this cluster; nothing is on
    "lease",
    "pairing-labels",
    "pairing-extender",
    "pairing-trimaran",
    "pairing-crane",
    "power-feed",
    "power-consumption",
    "power-metered",
    "power-targets",
    "power-autoscalers",
    "eviction-landing",
    "eviction-prices",
    "extender-open",
    "scheduler-follows",
}


SEEDED: dict[str, tuple[str, dict[str, Any], dict[str, str], str, bool]] = {
    # fault, its parameters, settings, the check that finds it, whether its first line mends it
    "no Prometheus": ("", {}, {"PROMETHEUS__URL": "http://127.0.0.1:9"}, "prometheus-reachable", False),
    "a login page": ("prometheus_html", {}, {}, "prometheus-reachable", False),
    "wrong credentials": ("prometheus_401", {}, {}, "prometheus-credentials", False),
    "no data": ("prometheus_empty", {}, {}, "preset-data", False),
    "unknown names": (
        "prometheus_labels",
        {"labels": {"instance": "x-{index}", "node": "{node}"}},
        {},
        "node-label",
        True,
    ),
    "names with more": ("prometheus_labels", {"labels": {"instance": "{node}-metal"}}, {}, "node-label", True),
    "two clusters": ("prometheus_clusters", {}, {}, "clusters-mixed", True),
    "two clusters otherwise": ("prometheus_clusters", {"label": "k8s_cluster_name"}, {}, "clusters-mixed", True),
    "two exporters": ("prometheus_duplicates", {}, {}, "duplicate-exporters", False),
    "a forged node": (
        "prometheus_forged",
        {"nodes": [0], "labels": {"job": "evil", "namespace": "tenant-a"}, "by": 0.5},
        {},
        "several-jobs",
        True,
    ),
    "own labels": (
        "prometheus_labels",
        {"labels": {"instance": "{address}:9100", "ballast_dev_score": "6{index}"}},
        {},
        "copied-labels",
        False,
    ),
    "late samples": ("prometheus_stale", {"age": 200.0}, {}, "clock-skew", False),
    "old usage of pods": ("prometheus_stale", {"age": 200.0}, {}, "pod-usage", False),
    "readings between scrapes": ("", {}, {"TELEMETRY__INTERVAL": "5s"}, "scrape-interval", True),
    "NaN": ("prometheus_nan", {}, {}, "units", False),
    "half of the nodes": ("prometheus_partial", {"share": 0.5}, {}, "unmeasured-nodes", False),
    "no metrics-server": ("metrics_server_missing", {}, {}, "metrics-server", False),
    "another cluster's numbers": ("prometheus_higher", {"by": 0.5}, {}, "sources-disagree", False),
}


@pytest.mark.parametrize(
    ("fault", "values", "settings", "check", "heals"), [pytest.param(*each, id=name) for name, each in SEEDED.items()]
)
def test_what_is_wrong_is_found_by_its_check(
    patient: Patient, fault: str, values: dict[str, Any], settings: dict[str, str], check: str, heals: bool
) -> None:
    if fault:
        patient.cluster.faults.apply(fault, **values)
    found = patient.examine(**settings)
    assert check in wrong(found), found.findings
    finding = wrong(found)[check]
    assert finding.fix
    assert finding.message
    assert found.findings[0].status in ("fail", "warn")
    if heals:
        again = patient.examine(**settings | mended(finding))
        assert check not in wrong(again)


def test_only_some_checks_are_made_and_others_are_refused(patient: Patient) -> None:
    assert [each.check for each in patient.examine("units", "freshness").findings] == ["freshness", "units"]
    with pytest.raises(UsageError, match="there is no check 'unit'"):
        patient.examine("unit")


def test_the_command_prints_json_and_exits_by_what_it_found(patient: Patient) -> None:
    run = CliRunner()
    well = run.invoke(app, ["doctor", "--only", "units,metrics-server", "-o", "json"], env=patient.environment)
    assert well.exit_code == 0
    assert json.loads(well.stdout)["summary"] == {"fail": 0, "warn": 0, "skipped": 0, "ok": 2}
    patient.cluster.faults.prometheus_clusters()
    mixed = run.invoke(app, ["doctor", "--only", "clusters-mixed"], env=patient.environment)
    assert "  # tried: 6 of 6 nodes known\n" in mixed.stdout
    told = run.invoke(app, ["doctor", "--only", "clusters-mixed,metrics-server", "-o", "json"], env=patient.environment)
    for finding in json.loads(told.stdout)["findings"]:
        assert finding["tried"] == [{"known": 6, "of": 6}] * len(finding["fix"])
    patient.cluster.faults.clear()
    patient.cluster.faults.prometheus_401()
    ill = run.invoke(app, ["doctor", "--only", "prometheus-credentials,units"], env=patient.environment)
    assert ill.exit_code == 1
    assert ill.stdout.startswith("fail    prometheus-credentials (http://")
    assert "BALLAST_PROMETHEUS__TOKEN_FILE=" in ill.stdout
    assert "1 fail, 0 warn, 1 skipped, 0 ok" in ill.stdout
