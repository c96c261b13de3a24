"""The recipes of docs/power-recipes.md read the right watts from what the real exporters tell."""

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ballast.base.metrics import Metrics
from ballast.jobs.power.build_power import client
from ballast.settings import load
from ballast.telemetry.feeds.budget_feed import BudgetFeed
from ballast_lab.harness.prometheus import Prometheus, import_past, prometheus
from ballast_lab.harness.tools import Tools
from tests.unit.docs.test_power_recipes import RECIPES, policy_of
from tests.worlds.clock import FakeClock

SPAN, STEP = 600, 15
SERIES = {
    'rPDU2DeviceStatusPower{instance="rack-1",job="snmp",rPDU2DeviceStatusIndex="1"}': 214.0,
    'rPDU2DeviceStatusPower{instance="rack-2",job="snmp",rPDU2DeviceStatusIndex="1"}': 900.0,
    **{f'ipmi_dcmi_power_consumption_watts{{instance="bmc-{row}",job="ipmi"}}': 300.0 + row for row in range(6)},
    **{f'kepler_node_cpu_watts{{instance="n{row}",zone="package",path="/sys/x"}}': 80.0 for row in range(3)},
    **{f'kepler_node_cpu_watts{{instance="n{row}",zone="dram",path="/sys/y"}}': 9.0 for row in range(3)},
    **{
        f'DCGM_FI_DEV_POWER_USAGE{{gpu="{row % 8}",UUID="GPU-{row}",Hostname="g{row // 8}",modelName="H100"}}': 250.0
        for row in range(32)
    },
    **{
        f'node_hwmon_power_average_watt{{instance="n{row}",chip="power_meter",sensor="power1"}}': 61.5 for row in (1, 2)
    },
    'network_ups_tools_ups_realpower{instance="ups:9199"}': 412.0,
    'network_ups_tools_ups_status{instance="ups:9199",flag="OL"}': 1.0,
    'network_ups_tools_ups_status{instance="ups:9199",flag="OB"}': 0.0,
    'homeassistant_sensor_power_w{entity="sensor.pv_power",domain="sensor",friendly_name="PV"}': 1834.0,
    'homeassistant_sensor_power_w{entity="sensor.house",domain="sensor",friendly_name="House"}': 500.0,
}
MEASURED = {
    "A rack behind a breaker, with a PDU read by SNMP": (3300, 2140),
    "Servers read by IPMI or Redfish": (12000, 1815),
    "Kepler": (2500, 240),
    "GPUs read by DCGM": (20000, 8000),
    "Machines with hwmon or RAPL, read by node_exporter": (900, 123),
    "A UPS, read by NUT": (1400, 412),
    "A battery with sun, read from Home Assistant": (1834, None),
}
"""Watts allowed, and watts drawn."""


@pytest.fixture(scope="module")
def scraped(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, float]]:
    folder = tmp_path_factory.mktemp("meters")
    start = math.floor(time.time()) - SPAN
    text = []
    for name in dict.fromkeys(series.partition("{")[0] for series in SERIES):
        text.append(f"# TYPE {name} gauge")
        text += [
            f"{series} {value} {start + passed}"
            for series, value in SERIES.items()
            if series.startswith(f"{name}{{")
            for passed in range(0, SPAN, STEP)
        ]
    import_past(tools, folder, text)
    with prometheus(tools, folder, []) as server:
        yield server, start + SPAN - STEP


def test_each_recipe_that_asks_prometheus_is_measured() -> None:
    assert set(MEASURED) == {name for name, text in RECIPES.items() if "schedule:" not in text}


@pytest.mark.parametrize("name", MEASURED)
def test_it_reads_the_right_watts(scraped: tuple[Prometheus, float], name: str, tmp_path: Path) -> None:
    server, last = scraped
    policy, allowed, drawn = policy_of(name, tmp_path), *MEASURED[name]
    clock, asked = FakeClock(wall=last), client(load({"BALLAST_PROMETHEUS__URL": server.url}), [policy])
    feed = BudgetFeed(policy, asked, clock, Metrics())
    watts = feed.read(last)
    assert (watts.watts, watts.problem) == (allowed, None)
    meter = watts.consumed
    if policy.consumption is not None:
        meter = (
            BudgetFeed(policy.model_copy(update={"feed": policy.consumption}), asked, clock, Metrics()).read(last).watts
        )
    assert meter == drawn
