"""Every panel has data, or a true 0, in a real Prometheus that scraped the demo."""

import sys
from collections.abc import Iterator
from functools import partial

import pytest

from ballast_lab.harness.process import Process, free_port
from ballast_lab.harness.prometheus import Prometheus, Target, answers, prometheus
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually
from tests.unit.install.test_dashboards import DASHBOARDS, shown
from tests.worlds.chart import CHART

VARIABLES = {
    "$__rate_interval": "1m",
    "$cluster": ".*",
    "$namespace": ".*",
    "$resource": "cpu",
    "$node": "node-001",
    "$policy": ".*",
}
SCENES = ("hotspot", "power")
QUIET = {
    "Conditions that hold",  # a table: no row is good news
    "Spread a day ago",  # the demo is younger
}


@pytest.fixture(scope="module")
def scraped(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Two demos, seen by one Prometheus with the chart's rules."""
    folder = tmp_path_factory.mktemp("demos")
    demos: list[Process] = []
    ports = [free_port() for _ in SCENES]
    try:
        for scene, port in zip(SCENES, ports, strict=True):
            options = ["--scene", scene, "--nodes", "40", "--listen", f"127.0.0.1:{port}"]
            command = [sys.executable, "-m", "ballast", "demo", *options]
            url = f"http://127.0.0.1:{port}/readyz"
            demos.append(Process("demo", command, folder / f"{scene}.log", ready=partial(answers, url), port=port))
        targets = [Target(f"127.0.0.1:{port}", scene) for scene, port in zip(SCENES, ports, strict=True)]
        with prometheus(tools, folder, targets, interval="5s", rules=CHART / "rules" / "alerts.yaml") as found:
            moved = "sum(ballast_eviction_effects_total) > 0 and on () count(ballast_power_reference_watts)"
            eventually("an eviction's effect is measured, power begins", lambda: found.series(moved))
            busy = "min(count_over_time(ballast_leader[1m])) > 3"
            eventually("rates are known", lambda: found.series(busy))
            yield found
    finally:
        for demo in demos:
            demo.stop()


@pytest.mark.parametrize("dashboard", DASHBOARDS)
def test_every_panel_has_data_or_a_true_0(scraped: Prometheus, dashboard: str) -> None:
    window = scraped.series("ballast_node_load_mean")[0]["metric"]["window"]
    panels: dict[str, bool] = {}
    for title, expression in shown(dashboard):
        panel = title.split(": ", 1)[1].rsplit(" ", 1)[0]
        for variable, value in {**VARIABLES, "$window": window}.items():
            expression = expression.replace(variable, value)
        panels[panel] = panels.get(panel, False) or bool(scraped.series(expression))
    empty = sorted({panel for panel, has in panels.items() if not has} - QUIET)
    assert not empty, "; ".join(empty)
