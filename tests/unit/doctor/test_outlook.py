"""The doctor says what the daemon will make of what Prometheus says now."""

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ballast.base.metrics import Metrics
from ballast.doctor.outlook import outlook
from ballast.doctor.source_checks import out_of_order
from ballast.jobs.telemetry_cycle import TelemetryCycle, rules_of
from ballast.model.node import Node
from ballast.model.sample import Reading, Samples
from ballast.publishing.freeze import Freeze
from ballast.settings import load
from ballast.telemetry.node_names import NodeNames
from tests.unit.daemon.test_telemetry_cycle import FakeSource
from tests.unit.doctor.conftest import Patient
from tests.worlds.clock import FakeClock

SOME = "unmeasured-nodes"


def test_a_healthy_cluster_stays_known(patient: Patient) -> None:
    future = patient.examine(SOME).outlook
    assert future.frozen_in_seconds is None
    assert future.states["known"] == 6
    assert future.why == ()


def test_nodes_that_never_had_a_number_are_unmeasured_and_freeze_nothing(patient: Patient) -> None:
    for row in range(1, 4):
        patient.cluster.faults.exporter_nan(f"node-{row:03}")
    report = patient.examine(SOME)
    assert report.findings[0].check == SOME
    assert report.findings[0].status == "warn"
    assert "3 of 6 nodes have no sample of cpu" in report.findings[0].message
    assert "non_finite" in report.findings[0].message
    assert report.outlook.frozen_in_seconds is None
    assert report.outlook.states["unmeasured"] == 3
    assert report.outlook.why[0] == "cpu of node-001, node-002, node-003 was never there"


class Losing(FakeSource):
    """Some nodes have lost cpu at the last reading, 30 s after their last sample."""

    def __init__(self, lost: int, now: float) -> None:
        super().__init__("prometheus", ("cpu", "memory"), history=True)
        self._lost, self._now = lost, now

    def _reading(self, at: float, names: NodeNames, wanted: Sequence[str]) -> Reading:
        reading = super()._reading(at, names, wanted)
        if at < self._now:
            return reading
        rows = reading.samples["cpu"].rows[self._lost :]
        left = Samples(rows, np.full(len(rows), 0.25), np.full(len(rows), at))
        return replace(reading, samples={**reading.samples, "cpu": left})


@pytest.mark.parametrize(("lost", "seconds"), [(0, None), (1, None), (2, None), (3, 60.0), (10, 60.0)])
def test_a_freeze_is_foretold_and_the_daemon_does_freeze_then(lost: int, seconds: float | None) -> None:
    clock, settings = FakeClock(wall=1_700_000_010.0), load({"BALLAST_PROMETHEUS__URL": "http://prometheus.test"})
    nodes = tuple(Node(f"n-{row}", uid=str(row), created=1.6e9) for row in range(10))
    now = clock.wall() // 30 * 30
    evidence: Any = SimpleNamespace(
        require_answer=lambda: None,
        settings=settings,
        source=Losing(lost, now),
        clock=clock,
        names=NodeNames(nodes),
        nodes=nodes,
        witness=Reading("metrics-server", now, {}),
    )
    foretold = outlook(evidence)
    assert foretold.frozen_in_seconds == seconds
    assert foretold.states["silent"] == lost
    cycle = TelemetryCycle(Losing(lost, now), None, rules_of(settings), clock=clock, metrics=Metrics())
    freeze = Freeze(settings.publishing.max_unknown, settings.publishing.forget_after)
    for _ in range(20):
        snapshot = cycle.cycle(evidence.names)
        freeze = freeze.after(snapshot.states.silent_share, clock.monotonic())
        clock.advance(30.0)
    assert {state.value: count for state, count in snapshot.states.counts.items()} == foretold.states
    assert freeze.frozen == (seconds is not None)


def test_without_prometheus_nothing_is_foretold(patient: Patient) -> None:
    future = patient.examine(SOME, PROMETHEUS__URL="http://127.0.0.1:9").outlook
    assert future.states == {}
    assert future.frozen_in_seconds is None
    assert "does not answer" in future.why[0]


def test_the_timeout_of_the_user_counts(patient: Patient) -> None:
    patient.cluster.faults.prometheus_slow(0.5)
    late = patient.only("prometheus-reachable", PROMETHEUS__TIMEOUT="100ms")
    assert late.status == "fail"
    assert late.fix == ("BALLAST_PROMETHEUS__TIMEOUT=30s",)
    assert patient.only("prometheus-reachable", PROMETHEUS__TIMEOUT="30s").status == "ok"


@pytest.mark.parametrize("count", [8, 20, 200])
def test_loads_that_belong_to_other_nodes_are_told(count: int) -> None:
    generator = np.random.default_rng(count)
    loads = generator.uniform(0.05, 0.9, count)
    noisy = loads + generator.normal(0, 0.05, count)
    assert out_of_order("cpu", loads, noisy) == ""
    assert "ranks the" in out_of_order("cpu", np.sort(loads)[::-1], np.sort(noisy))
    assert out_of_order("cpu", np.full(count, 0.3), noisy) == ""
    assert out_of_order("cpu", np.where(loads > 0.1, np.nan, loads), noisy) == ""
