"""Memory that is reserved for huge pages is no load: live, in /watcher and from files."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from responses import RequestsMock

from ballast.base.metrics import Metrics
from ballast.cli import files, metrics_file
from ballast.jobs.telemetry_cycle import TelemetryCycle, rules_of
from ballast.model.snapshot import Snapshot
from ballast.serving.watcher_format import document
from ballast.settings import load
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_source import PrometheusSource
from tests.unit.telemetry.fake_prometheus import URL, FakePrometheus, Series
from tests.worlds.clock import FakeClock

AT = 1_700_000_010.0
MI, GI = 2**20, 2**30


@st.composite
def worlds(draw: st.DrawFn) -> list[tuple[dict[str, Any], float, float]]:
    """Node objects, the share of all memory that exporters tell as used, and the load that is true."""
    found = []
    for row in range(draw(st.integers(1, 4))):
        whole = draw(st.integers(16, 2048)) * GI
        big = draw(st.integers(0, int(0.6 * whole / GI)))
        small = draw(st.integers(0, int(0.3 * whole / (2 * MI))))
        left = whole - big * GI - small * 2 * MI
        pods = int(left * draw(st.floats(0.7, 0.98)))
        used = pods * draw(st.floats(0.0, 1.0))
        sizes = {"cpu": "8", "memory": str(whole), "hugepages-1Gi": f"{big}Gi", "hugepages-2Mi": f"{2 * small}Mi"}
        node = {
            "kind": "Node",
            "metadata": {"name": f"n{row}", "uid": f"u{row}"},
            "status": {"capacity": sizes, "allocatable": {**sizes, "memory": str(pods)}},
        }
        found.append((node, (whole - left + used) / whole, used / pods))
    return found


def _bytes(node: dict[str, Any], truth: float) -> float:
    """The working set of its cgroups."""
    return truth * int(node["status"]["allocatable"]["memory"])


def _told(world: list[tuple[dict[str, Any], float, float]], query: str, time: float) -> list[Series]:
    found: list[Series] = []
    for row, (node, used, truth) in enumerate(world):
        value = 0.25
        if "timestamp(" in query:
            value = time
        elif query.startswith(("min by", "label_replace(min by")) or "container_" in query:
            continue
        elif "working_set" in query:
            value = _bytes(node, truth)
        elif "emory" in query:
            value = used
        elif "node_cpu_usage" in query:
            value = 2.0
        unit = {"ballast_unit": "amount"} if "ballast_unit" in query else {}
        found.append(({"instance": f"n{row}", **unit}, value))
    return found


def _snapshot(world: list[tuple[dict[str, Any], float, float]], preset: str) -> Snapshot:
    names = NodeNames(files.cluster({"items": [node for node, _, _ in world]}).nodes)
    settings = load({"BALLAST_PROMETHEUS__URL": URL, "BALLAST_PROMETHEUS__PRESET": preset})
    source, clock = PrometheusSource(settings, Metrics()), FakeClock(wall=AT)
    with RequestsMock(assert_all_requests_are_fired=False) as mock:
        FakePrometheus(lambda query, time: _told(world, query, time)).serve(mock)
        snapshot = TelemetryCycle(source, None, rules_of(settings), clock=clock, metrics=Metrics()).cycle(names)
    source.close()
    return snapshot


@pytest.mark.parametrize("preset", ["node-exporter", "kubelet"])
@given(world=worlds())
def test_load_is_what_pods_use_of_what_is_left(preset: str, world: list[tuple[dict[str, Any], float, float]]) -> None:
    truth = [load for _, _, load in world]
    snapshot = _snapshot(world, preset)
    memory = snapshot.resources.index("memory")
    assert snapshot.known.all()
    assert snapshot.primary.mean[memory].tolist() == pytest.approx(truth, abs=0.03)

    text = document(snapshot, snapshot.primary, source="Prometheus", fetched=AT, everything=True).whole()
    told = metrics_file.metrics(json.loads(text))
    shares = [used for _, used, _ in world]
    means = [
        next(e.percent for e in told.nodes[f"n{row}"] if (e.kind, e.operator) == ("Memory", "AVG"))
        for row in range(len(world))
    ]
    assert means == pytest.approx([100 * share for share in shares], abs=0.01), "the reserve counts for Trimaran"

    cluster = files.cluster({"items": [node for node, _, _ in world]})
    for p95 in (False, True):
        assert metrics_file.loads(cluster, told, ["memory"], p95=p95)[:, 0].tolist() == pytest.approx(truth, abs=0.03)
    assert np.all(metrics_file.errors(cluster, told, ["memory"]) <= 1e-6)
    of_left = metrics_file.fleet(cluster, told).memory.mean / 100
    for node, share in zip(cluster.nodes, of_left.tolist(), strict=True):
        used = share * (1 - node.reserve) * node.capacity["memory"]
        assert used / node.allocatable["memory"] == pytest.approx(truth[int(node.name[1:])], abs=0.03)


@pytest.mark.parametrize(
    ("percent", "load"), [(60.0, 0.0), (75.0, 0.0), (79.7, 0.215), (100.0, 32 / 28), (104.0, 32 / 28)]
)
def test_what_is_used_is_between_nothing_and_what_is_left(percent: float, load: float) -> None:
    sizes = {"cpu": "8", "memory": "128Gi", "hugepages-1Gi": "96Gi"}
    status = {"capacity": sizes, "allocatable": {**sizes, "memory": "28Gi"}}
    cluster = files.cluster({"items": [{"kind": "Node", "metadata": {"name": "n"}, "status": status}]})
    entries = [
        {"type": "Memory", "operator": "AVG", "value": percent},
        {"type": "Memory", "operator": "STD", "value": 1},
    ]
    told = metrics_file.metrics({"data": {"NodeMetricsMap": {"n": {"metrics": entries}}}})
    assert metrics_file.loads(cluster, told, ["memory"])[0, 0] == pytest.approx(load, abs=0.001)
    assert metrics_file.errors(cluster, told, ["memory"])[0, 0] == pytest.approx(0.01 * 128 / 28)


def test_a_reserve_that_cannot_be_is_none() -> None:
    sizes = {"memory": "8Gi", "hugepages-2Mi": "9Gi"}
    node = files.cluster({"items": [{"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": sizes}}]}).nodes[
        0
    ]
    assert node.reserve == 0.0
