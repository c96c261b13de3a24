"""Ballast's windows and Prometheus' own subqueries are the same numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from ballast.clock import SystemClock
from ballast.daemon.telemetry_cycle import TelemetryCycle
from ballast.metrics import Metrics
from ballast.model.node import Node
from ballast.model.snapshot import Snapshot
from ballast.settings import Settings, load
from ballast.telemetry import presets
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus import PrometheusSource
from tests.cluster.harness.prometheus import NodeExporter, Prometheus, Target, prometheus
from tests.cluster.harness.tools import Tools
from tests.cluster.harness.waiting import eventually

NODES = ("a", "b")
LENGTHS = {"20s": 20.0, "10s": 10.0}
CYCLES = 24


@pytest.fixture(scope="module")
def metrics_of_this_machine(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        exporters = {name: NodeExporter(folder, name) for name in NODES}
        for exporter in exporters.values():
            stack.callback(exporter.stop)
        targets = [Target(exporter.address, name) for name, exporter in exporters.items()]
        yield stack.enter_context(prometheus(tools, folder, targets))


def _settings(url: str) -> Settings:
    return load(
        {
            "BALLAST_PROMETHEUS__URL": url,
            "BALLAST_TELEMETRY__INTERVAL": "1s",
            "BALLAST_TELEMETRY__OFFSET": "1s",
            "BALLAST_TELEMETRY__RESOURCES": "cpu,memory",
            "BALLAST_WINDOWS__LENGTHS": ",".join(LENGTHS),
        }
    )


def _cycle(settings: Settings) -> TelemetryCycle:
    clock, metrics = SystemClock(), Metrics()
    return TelemetryCycle(
        PrometheusSource(settings, clock, metrics),
        None,
        resources=[resource.name for resource in settings.telemetry.resources],
        interval=1.0,
        lengths=LENGTHS,
        min_coverage=0.5,
        min_samples=5,
        max_age=90.0,
        offset=1.0,
        clock=clock,
        metrics=metrics,
    )


def _same(snapshot: Snapshot, asked: Prometheus, query: str, resource: str) -> int:
    """How many windows were compared."""
    compared = 0
    row = snapshot.resource(resource)
    assert row is not None
    for window in snapshot.windows.values():
        for function, values in (("avg_over_time", window.mean), ("stddev_over_time", window.std)):
            expected = asked.query(f"{function}(({query})[{window.name}:1s] @ {snapshot.time:.3f})", snapshot.time)
            for node, column in snapshot.rows.items():
                if not window.known[row, column]:
                    continue
                counted = asked.query(f"count_over_time(({query})[{window.name}:1s])", snapshot.time)
                assert counted[node] == window.count[row, column]
                ours, theirs = float(values[row, column]), expected[node]
                assert math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-13), (
                    f"{function}({resource}) of {node} over {window.name} at {snapshot.time}: {ours!r}, not {theirs!r}"
                )
                compared += 1
    return compared


@pytest.mark.timeout(120)
def test_means_and_deviations_equal_subqueries_on_the_same_grid(metrics_of_this_machine: Prometheus) -> None:
    settings = _settings(metrics_of_this_machine.url)
    names = NodeNames([Node(name=name) for name in NODES])
    queries = presets.queries(settings)
    cycle, later = _cycle(settings), _cycle(settings)
    try:
        snapshot = None
        for _ in range(CYCLES):
            done = snapshot.time if snapshot else -math.inf
            eventually("the next grid time", lambda done=done: cycle.due() > done, within=5, every=0.02)
            snapshot = cycle.cycle(names)
        assert snapshot is not None
        backfilled = later.cycle(names)
    finally:
        cycle.close()
        later.close()

    for found in (snapshot, backfilled):
        compared = {
            resource: _same(found, metrics_of_this_machine, queries[resource], resource)
            for resource in ("cpu", "memory")
        }
        assert compared == {"cpu": 8, "memory": 8}, "two nodes, two windows, mean and deviation"
