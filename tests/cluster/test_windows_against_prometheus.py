"""Ballast's windows and Prometheus' own subqueries are the same numbers."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from ballast.base.clock import SystemClock
from ballast.base.metrics import Metrics
from ballast.jobs.telemetry_cycle import TelemetryCycle, TelemetryRules
from ballast.model.node import Node
from ballast.model.snapshot import Snapshot
from ballast.settings import Settings, load
from ballast.telemetry import presets
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_source import PrometheusSource
from ballast_lab.harness.control_plane import ControlPlane
from ballast_lab.harness.daemon import FAST, Daemon
from ballast_lab.harness.objects import add_nodes, node
from ballast_lab.harness.prometheus import NodeExporter, Prometheus, Target, prometheus
from ballast_lab.harness.simulation import Simulation
from ballast_lab.harness.tools import Tools
from ballast_lab.harness.waiting import eventually

REAL = ("a", "b")
SIMULATED = 12
LENGTHS = {"20s": 20.0, "10s": 10.0}
CYCLES = 24


@dataclass(frozen=True)
class Scraped:
    server: Prometheus
    nodes: list[str]


@contextmanager
def scraping(tools: Tools, folder: Path, begin: Callable[[list[str]], object] = list) -> Iterator[Scraped]:
    """This machine's node_exporter twice, and the simulator's nodes, of which one sends NaN.

    `begin` gets the names before the first scrape.
    """
    with ExitStack() as stack:
        simulation = Simulation(folder, SIMULATED)
        stack.callback(simulation.stop)
        targets = simulation.targets()
        for name in REAL:
            exporter = NodeExporter(folder, name)
            stack.callback(exporter.stop)
            targets.append(Target(exporter.address, name))
        names = sorted(target.instance for target in targets)
        begin(names)
        yield Scraped(stack.enter_context(prometheus(tools, folder, targets)), names)


def _settings(url: str) -> Settings:
    return load(
        {
            "BALLAST_PROMETHEUS__URL": url,
            "BALLAST_TELEMETRY__INTERVAL": "1s",
            "BALLAST_TELEMETRY__OFFSET": "1s",
            "BALLAST_TELEMETRY__RESOURCES": "cpu,memory,disk,network",
            "BALLAST_WINDOWS__LENGTHS": ",".join(LENGTHS),
        }
    )


def _cycle(settings: Settings) -> TelemetryCycle:
    clock, metrics = SystemClock(), Metrics()
    return TelemetryCycle(
        PrometheusSource(settings, metrics),
        None,
        TelemetryRules(
            [resource.name for resource in settings.telemetry.resources],
            interval=1.0,
            lengths=LENGTHS,
            min_coverage=0.5,
            min_samples=5,
            max_age=90.0,
            offset=1.0,
        ),
        clock=clock,
        metrics=metrics,
    )


def _compare(snapshot: Snapshot, server: Prometheus, query: str, resource: str) -> set[str]:
    """The nodes whose mean and deviation are the same as Prometheus' over every window."""
    row = snapshot.resource(resource)
    assert row is not None
    compared = set(snapshot.rows)
    for window in snapshot.windows.values():
        asked = {
            function: server.query(f"{function}(({query})[{window.name}:1s] @ {snapshot.time:.3f})", snapshot.time)
            for function in ("avg_over_time", "stddev_over_time", "count_over_time")
        }
        ours = {"avg_over_time": window.mean, "stddev_over_time": window.std, "count_over_time": window.count}
        for function, expected in asked.items():
            for name, column in snapshot.rows.items():
                if not window.known[row, column]:
                    compared.discard(name)
                    continue
                found = float(ours[function][row, column])
                assert math.isclose(found, expected[name], rel_tol=1e-9, abs_tol=1e-13), (
                    f"{function}({resource}) of {name} over {window.name}: {found!r}, not {expected[name]!r}"
                )
    return compared


def test_means_and_deviations_equal_subqueries_on_the_same_grid(tools: Tools, tmp_path: Path) -> None:
    with scraping(tools, tmp_path) as scraped:
        _compare_cycles(scraped)


def _compare_cycles(scraped: Scraped) -> None:
    settings = _settings(scraped.server.url)
    names = NodeNames([Node(name=name) for name in scraped.nodes])
    queries = presets.queries(settings)
    cycle, late = _cycle(settings), _cycle(settings)
    try:
        snapshot = None
        for _ in range(CYCLES):
            done = snapshot.time if snapshot else -math.inf
            eventually("the next grid time", lambda done=done: cycle.due() > done, every=0.02)
            snapshot = cycle.cycle(names)
        assert snapshot is not None
        backfilled = late.cycle(names)
    finally:
        cycle.close()
        late.close()

    for found in (snapshot, backfilled):
        compared = {name: _compare(found, scraped.server, queries[name], name) for name in queries}
        everywhere = set(scraped.nodes)
        for name in ("cpu", "memory"):
            assert len(everywhere - compared[name]) == 1, "only the simulated node that sends NaN is unknown"
            assert compared[name] >= set(REAL)
        for name in ("disk", "network"):
            assert len(everywhere - set(REAL) - compared[name]) == 1


def test_the_daemon_serves_these_windows(cluster: ControlPlane, tools: Tools, tmp_path: Path) -> None:
    """Eight decimals, as /metrics has them. The nodes are older than their samples: what is older says nothing."""
    with scraping(tools, tmp_path, lambda names: add_nodes(cluster.api, [node(name) for name in names])) as scraped:
        _compare_served(cluster, scraped)


def _compare_served(cluster: ControlPlane, scraped: Scraped) -> None:
    whole = time.time() + 12.0
    settings = {"BALLAST_PROMETHEUS__URL": scraped.server.url, "BALLAST_TELEMETRY__OFFSET": "1s"}
    with Daemon(cluster, "windows", cluster.admin_kubeconfig, {**FAST, **settings}) as daemon:
        eventually("the windows are there", lambda: daemon.get(f"/watcher?host={REAL[0]}").status_code == 200)
        at, means = eventually(
            "a snapshot that holds still meanwhile", lambda: (found := _means(daemon)) and found[0] > whole and found
        )
    queries = presets.queries(_settings(scraped.server.url))
    for resource in ("cpu", "memory"):
        asked = scraped.server.query(f"avg_over_time(({queries[resource]})[10s:1s] @ {at:.3f})", at)
        served = means[resource]
        assert set(served) >= set(REAL)
        assert len(served) == len(scraped.nodes) - 1, "only the simulated node that sends NaN is unknown"
        assert served == pytest.approx({name: asked[name] for name in served}, abs=1e-8)


def _means(daemon: Daemon) -> tuple[float, dict[str, dict[str, float]]] | None:
    """{resource: {node: mean}} and the end of their window."""
    before = daemon.node(REAL[0])["time"]
    means: dict[str, dict[str, float]] = {}
    for name, labels, value in daemon.samples():
        if name == "ballast_node_load_mean":
            means.setdefault(labels["resource"], {})[labels["node"]] = value
    return (before, means) if daemon.node(REAL[0])["time"] == before else None
