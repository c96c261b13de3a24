"""Meters that Prometheus has are found, and the lines that are printed are a policy that reads them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from responses import RequestsMock

from ballast.cluster.client import KubeApi
from ballast.doctor.checks import CHECKS
from ballast.doctor.cluster_view import CheckNotPossible
from ballast.doctor.evidence import Evidence
from ballast.doctor.finding import Finding
from ballast.jobs.power.build_power import findings
from ballast.settings import load
from tests.unit.telemetry.fake_prometheus import URL, FakePrometheus, Series
from tests.worlds.clock import FakeClock

AT = 1_700_000_010.0


@pytest.fixture
def wire() -> Iterator[RequestsMock]:
    with RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


MEMBER = {"ref": "ns/api", "min": 1, "max": 10, "wattsPerReplica": 50}


def store(shown: Mapping[str, list[float]]) -> FakePrometheus:
    """A Prometheus that has these metrics; a rate of joules is watts already."""

    def evaluate(query: str, time: float) -> list[Series]:
        for metric, watts in shown.items():
            if metric not in query:
                continue
            each: list[Series] = [({"instance": f"10.0.0.{n}"}, value) for n, value in enumerate(watts)]
            if "timestamp(" in query:
                return [({}, time - 5)] if "min(" in query else [(labels, time - 5) for labels, _ in each]
            factor = 10.0 if query.startswith("10 *") else 1.0
            return [(labels, factor * cast(float, value)) for labels, value in each]
        return []

    return FakePrometheus(evaluate)


def found(
    wire: RequestsMock, shown: Mapping[str, list[float]], *policies: Mapping[str, Any], matchers: str = ""
) -> list[Finding]:
    store(shown).serve(wire)
    environment = {"BALLAST_PROMETHEUS__URL": URL, "BALLAST_PROMETHEUS__MATCHERS": matchers}
    if policies:
        environment |= {"BALLAST_POWER__MODE": "dry-run", "BALLAST_POWER__POLICIES": json.dumps(policies)}
    evidence = Evidence(load(environment), cast(KubeApi, None), FakeClock(wall=AT))
    vars(evidence).update({"answer": None, "nodes": ()})
    try:
        return list(CHECKS["power-metered"](evidence))
    finally:
        evidence.close()


METRICS = {
    "rPDU2DeviceStatusPower": [123.0, 98.0],
    "ipmi_dcmi_power_consumption_watts": [210.0, 190.0, 250.0],
    "idrac_power_control_consumed_watts": [210.0, 190.0],
    "kepler_node_cpu_watts": [90.0, 80.0, 85.0],
    "kepler_node_platform_joules_total": [300.0],
    "DCGM_FI_DEV_POWER_USAGE": [350.0] * 8,
    "node_hwmon_power_average_watt": [60.0, 55.0],
    "node_rapl_package_joules_total": [45.0, 40.0],
    "network_ups_tools_ups_realpower": [420.0],
}


@pytest.mark.parametrize("metric", METRICS)
def test_the_policy_that_is_printed_is_one(wire: RequestsMock, metric: str, tmp_path: Path) -> None:
    watts = METRICS[metric]
    (finding,) = found(wire, {metric: watts})
    total = sum(watts) * (10 if metric.startswith("rPDU") else 1)
    assert finding.status == "ok"
    assert f"{total:,.0f} W by {len(watts)} series of {metric}" in finding.message
    (line,) = finding.fix
    path = tmp_path / "ballast.yaml"
    path.write_text(line.replace("NAMESPACE/NAME", "shop/api"))
    checked = findings(load({"BALLAST_CONFIG_FILE": str(path), "BALLAST_PROMETHEUS__URL": URL}))
    assert (checked.problems, checked.warnings) == ((), ())
    (policy,) = checked.policies
    assert policy.feed is not None
    assert policy.feed.watts is not None
    assert total <= policy.feed.watts < total + 100


def test_a_policy_without_a_meter_gets_the_line_for_it(wire: RequestsMock) -> None:
    blind = {"name": "site", "feed": {"watts": 900}, "independents": [MEMBER]}
    (finding,) = found(wire, {"kepler_node_cpu_watts": [90.0, 80.0]}, blind)
    assert finding.status == "warn"
    assert "no meter tells what policy site draws" in finding.message
    read = yaml.safe_load(finding.fix[0])
    assert read == {"consumption": {"query": 'kepler_node_cpu_watts{zone="package"}', "expectSeries": 2}}


@pytest.mark.parametrize(
    "more",
    [
        {"feed": {"watts": 900}, "consumption": {"query": "pdu"}},
        {"feed": {"semantics": "limit-minus-consumption", "limit": {"watts": 9}, "consumption": {"query": "pdu"}}},
    ],
)
def test_a_policy_with_a_meter_needs_none(wire: RequestsMock, more: Mapping[str, Any]) -> None:
    (finding,) = found(wire, METRICS, {"name": "site", "independents": [MEMBER], **more})
    assert (finding.status, finding.message) == ("ok", "every policy has a meter")


@pytest.mark.parametrize(("shown", "unit"), [(350_000.0, "mW"), (0.35, "kW"), (350_000_000.0, "uW"), (0.00035, "MW")])
def test_a_meter_of_another_unit_is_told_with_the_line(wire: RequestsMock, shown: float, unit: str) -> None:
    (finding,) = found(wire, {"DCGM_FI_DEV_POWER_USAGE": [shown] * 4})
    assert finding.status == "warn"
    assert "check its unit" in finding.message
    assert yaml.safe_load(finding.fix[0])["consumption"]["unit"] == unit


def test_without_any_meter_nothing_is_said(wire: RequestsMock) -> None:
    with pytest.raises(CheckNotPossible, match="no meter of power"):
        found(wire, {})


@pytest.mark.parametrize("shown", [0.0, -5.0])
def test_a_meter_that_shows_nothing_is_told_without_a_unit(wire: RequestsMock, shown: float) -> None:
    """A UPS without a load, a card that sleeps: no unit makes something of nothing."""
    (finding,) = found(wire, {"network_ups_tools_ups_realpower": [shown] * 2})
    assert finding.status == "warn"
    assert "unit" not in yaml.safe_load(finding.fix[0])["consumption"]


def test_a_quote_in_a_matcher_stays_one(wire: RequestsMock) -> None:
    matcher = 'site="o\'hare"'
    (finding,) = found(wire, {"network_ups_tools_ups_realpower": [90.0]}, matchers=matcher)
    query = yaml.safe_load(finding.fix[0])["power"]["consumption"]["query"]
    assert query == f"network_ups_tools_ups_realpower{{{matcher}}}"
