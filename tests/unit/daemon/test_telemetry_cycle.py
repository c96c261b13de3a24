from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from msgspec.structs import replace

from ballast.base.metrics import Metrics
from ballast.jobs.telemetry_cycle import TelemetryCycle, TelemetryRules, source_title
from ballast.model.node import Node
from ballast.model.node_state import NodeState
from ballast.model.sample import Reading, ReadingProblem, Samples
from ballast.telemetry.node_names import NodeNames
from tests.worlds.clock import FakeClock

NODES = [
    Node(name="a", capacity={"cpu": 4.0, "memory": 8e9}, allocatable={"cpu": 2.0, "memory": 8e9}),
    Node(name="b", capacity={"cpu": 4.0, "memory": 8e9}, allocatable={"cpu": 4.0, "memory": 8e9}),
]


class FakeSource:
    """Gives 0.25 for every node that is not silent; a resource in `failing` is a problem."""

    def __init__(self, name: str, resources: Sequence[str], *, history: bool = False) -> None:
        self.name = name
        self.resources = tuple(resources)
        self.history = history
        self.failing: set[str] = set()
        self.silent: set[str] = set()
        self.value = 0.25
        self.backfills: list[tuple[float, float]] = []
        self.reads: list[tuple[str, ...]] = []

    def read(self, at: float, names: NodeNames, resources: Sequence[str] | None = None) -> Reading:
        wanted = tuple(resources or self.resources)
        self.reads.append(wanted)
        return self._reading(at, names, wanted)

    def backfill(self, start: float, end: float, step: float, names: NodeNames) -> Iterator[Reading]:
        self.backfills.append((start, end))
        if self.history:
            for at in np.arange(start, end + step / 2, step):
                yield self._reading(float(at), names, self.resources)

    def close(self) -> None:
        pass

    def _reading(self, at: float, names: NodeNames, wanted: Sequence[str]) -> Reading:
        rows = np.array([row for row, node in enumerate(names.nodes) if node.name not in self.silent], np.int64)
        samples = Samples(rows, np.full(len(rows), self.value), np.full(len(rows), at))
        return Reading(
            self.name,
            at,
            {resource: samples for resource in wanted if resource not in self.failing},
            failed={resource: ReadingProblem("query", "down") for resource in wanted if resource in self.failing},
        )


def cycle_of(
    clock: FakeClock,
    primary: FakeSource,
    fallback: FakeSource | None = None,
    *,
    max_age: float = 90.0,
    pool_label: str | None = None,
) -> TelemetryCycle:
    return TelemetryCycle(
        primary,
        fallback,
        TelemetryRules(
            resources=("cpu", "memory"),
            interval=30.0,
            lengths={"5m": 300.0, "2m": 120.0},
            min_coverage=0.5,
            min_samples=3,
            max_age=max_age,
            pool_label=pool_label,
        ),
        clock=clock,
        metrics=Metrics(),
    )


def run(clock: FakeClock, cycle: TelemetryCycle, times: int, nodes: Sequence[Node] = NODES) -> list[tuple[bool, ...]]:
    known = []
    for _ in range(times):
        snapshot = cycle.cycle(NodeNames(nodes))
        known.append(tuple(bool(value) for value in snapshot.known))
        clock.advance(30.0)
    return known


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_restart_loses_no_window_where_the_source_has_history() -> None:
    clock = FakeClock(wall=1_700_000_010.0)
    source = FakeSource("prometheus", ("cpu", "memory"), history=True)
    snapshot = cycle_of(clock, source).cycle(NodeNames(NODES))
    assert snapshot.time == 1_700_000_010.0 // 30 * 30
    assert source.backfills == [(snapshot.time - 270.0, snapshot.time - 30.0)]
    assert snapshot.primary.name == "5m"
    assert snapshot.primary.count.tolist() == [[10, 10], [10, 10]]
    assert snapshot.known.all()


LATER = 1_700_000_000.0


def aged(*ages: float) -> list[Node]:
    """Nodes that were created so many seconds before LATER."""
    sizes = {"cpu": 4.0, "memory": 8e9}
    return [
        Node(f"n{row}", f"u{row}", capacity=sizes, allocatable=sizes, created=LATER - age)
        for row, age in enumerate(ages)
    ]


def test_load_is_a_share_of_what_is_allocatable(clock: FakeClock) -> None:
    snapshot = cycle_of(clock, FakeSource("prometheus", ("cpu", "memory"), history=True)).cycle(NodeNames(NODES))
    assert snapshot.primary.mean.tolist() == [[0.5, 0.25], [0.25, 0.25]]
    assert (snapshot.primary.mean * snapshot.allocatable_share).tolist() == [[0.25, 0.25], [0.25, 0.25]]


def test_without_history_nodes_are_young_until_the_window_suffices(clock: FakeClock) -> None:
    cycle = cycle_of(clock, FakeSource("prometheus", ("cpu", "memory")))
    snapshot = cycle.cycle(NodeNames(NODES))
    assert not snapshot.known.any()
    assert snapshot.states.are(NodeState.YOUNG).all()
    clock.advance(30.0)
    assert run(clock, cycle, 6)[-1] == (True, True)


def test_an_outage_is_filled_from_the_past_when_it_is_over() -> None:
    clock = FakeClock(wall=1_700_000_010.0)
    source = FakeSource("prometheus", ("cpu", "memory"), history=True)
    cycle = cycle_of(clock, source)
    run(clock, cycle, 3)
    assert len(source.backfills) == 1
    source.failing = {"cpu", "memory"}
    source.history = False
    run(clock, cycle, 3)
    source.failing = set()
    source.history = True
    snapshot = cycle.cycle(NodeNames(NODES))
    assert source.backfills[-1] == (snapshot.time - 90.0, snapshot.time - 30.0)
    assert snapshot.primary.count.min() == 10


def test_a_dead_source_is_not_asked_for_its_past(clock: FakeClock) -> None:
    source = FakeSource("prometheus", ("cpu", "memory"), history=True)
    source.failing = {"cpu", "memory"}
    cycle = cycle_of(clock, source)
    run(clock, cycle, 3)
    assert source.backfills == []
    source.failing = set()
    assert run(clock, cycle, 1) == [(True, True)]


def test_one_resource_that_was_away_gets_its_own_gap_filled(clock: FakeClock) -> None:
    source = FakeSource("prometheus", ("cpu", "memory"), history=True)
    cycle = cycle_of(clock, source)
    run(clock, cycle, 2)
    source.failing = {"memory"}
    run(clock, cycle, 3)
    source.failing = set()
    snapshot = cycle.cycle(NodeNames(NODES))
    assert source.backfills[1:] == [(snapshot.time - 90.0, snapshot.time - 30.0)]
    assert snapshot.primary.count.min() == 10


def test_a_past_that_cannot_be_read_is_asked_for_three_times() -> None:
    class Forgetful(FakeSource):
        def backfill(self, start: float, end: float, step: float, names: NodeNames) -> Iterator[Reading]:
            self.backfills.append((start, end))
            yield Reading(self.name, start, {}, failed={"cpu": ReadingProblem("query", "out of bounds")})

    clock = FakeClock()
    source = Forgetful("prometheus", ("cpu", "memory"))
    run(clock, cycle_of(clock, source), 6)
    assert len(source.backfills) == 3


def test_a_silent_node_is_unknown_after_max_age_and_not_young(clock: FakeClock) -> None:
    source = FakeSource("prometheus", ("cpu", "memory"), history=True)
    cycle = cycle_of(clock, source)
    run(clock, cycle, 2)
    source.silent = {"b"}
    assert run(clock, cycle, 4) == [(True, True), (True, True), (True, True), (True, False)]
    snapshot = cycle.cycle(NodeNames(NODES))
    assert [snapshot.states[row] for row in (0, 1)] == ["known", "silent"]
    assert np.isnan(snapshot.primary.mean[:, 1]).all()


def test_a_node_that_never_gave_a_sample_is_unmeasured_a_window_after_it_was_seen(clock: FakeClock) -> None:
    source = FakeSource("prometheus", ("cpu", "memory"), history=True)
    source.silent = {"b"}
    cycle = cycle_of(clock, source)
    states = []
    for _ in range(12):
        states.append(cycle.cycle(NodeNames(NODES)).states[1])
        clock.advance(30.0)
    assert states == ["young"] * 10 + ["unmeasured"] * 2


def test_the_fallback_is_asked_for_what_is_missing_and_fills_its_own_windows(clock: FakeClock) -> None:
    primary = FakeSource("prometheus", ("cpu", "memory"), history=True)
    fallback = FakeSource("metrics-server", ("cpu", "memory"))
    fallback.value = 0.4
    cycle = cycle_of(clock, primary, fallback)
    run(clock, cycle, 2)
    assert fallback.reads == [("cpu", "memory")], "it stays warm"
    primary.failing = {"cpu"}
    primary.history = False
    sources = []
    for _ in range(5):
        snapshot = cycle.cycle(NodeNames(NODES))
        sources.append(snapshot.sources["cpu"])
        clock.advance(30.0)
    assert fallback.reads[1:] == [("cpu", "memory")] * 5
    assert sources == ["prometheus"] * 3 + ["metrics-server"] * 2
    assert snapshot.sources["memory"] == "prometheus"
    assert source_title(snapshot) == "Prometheus"
    assert snapshot.windows["2m"].mean[0].tolist() == pytest.approx([0.8, 0.4])


def test_the_title_is_that_of_metrics_server_while_it_gives_cpu_and_memory(clock: FakeClock) -> None:
    primary = FakeSource("prometheus", ("cpu", "memory"))
    primary.failing = {"cpu", "memory"}
    cycle = cycle_of(clock, primary, FakeSource("metrics-server", ("cpu", "memory")))
    assert source_title(cycle.cycle(NodeNames(NODES))) == "Prometheus"
    run(clock, cycle, 6)
    assert source_title(cycle.cycle(NodeNames(NODES))) == "KubernetesMetricsServer"


class Pacing(FakeSource):
    """Has a new sample every `step` seconds, and gives each once, as metrics-server does."""

    def __init__(self, step: float) -> None:
        super().__init__("metrics-server", ("cpu", "memory"))
        self.step = step
        self.given = 0.0

    def _reading(self, at: float, names: NodeNames, wanted: Sequence[str]) -> Reading:
        newest = at // self.step * self.step
        rows = np.arange(len(names) if newest > self.given else 0, dtype=np.int64)
        self.given = newest
        samples = Samples(rows, np.full(len(rows), self.value), np.full(len(rows), newest))
        return Reading(self.name, at, dict.fromkeys(wanted, samples))


@pytest.mark.slow
@pytest.mark.parametrize(("interval", "step"), [(1.0, 15.0), (15.0, 15.0), (30.0, 15.0), (1.0, 60.0)])
@pytest.mark.parametrize("phase", [0.0, 0.5, 0.9])
def test_metrics_server_is_known_at_its_own_pace(interval: float, step: float, phase: float) -> None:
    clock = FakeClock(wall=1_700_000_040.0 + phase * step)
    cycle = TelemetryCycle(
        Pacing(step),
        None,
        TelemetryRules(("cpu", "memory"), interval, {"5m": 300.0}, min_coverage=0.5, min_samples=3, max_age=90.0),
        clock=clock,
        metrics=Metrics(),
    )
    known = []
    for _ in range(round(300.0 / interval)):
        snapshot = cycle.cycle(NodeNames(NODES))
        known.append(bool(snapshot.known.all()))
        clock.advance(interval)
    assert known.index(True) * interval <= 150.0 + step
    assert all(known[known.index(True) :])
    assert snapshot.primary.coverage.min() > 0.75
    assert snapshot.primary.count.max() == pytest.approx(300.0 / max(step, interval), abs=1)


def test_rejected_samples_are_counted() -> None:
    class Rejecting(FakeSource):
        def _reading(self, at: float, names: NodeNames, wanted: Sequence[str]) -> Reading:
            return Reading(self.name, at, {}, rejected={"non_finite": 2})

    clock = FakeClock()
    metrics = Metrics()
    source = Rejecting("prometheus", ("cpu",))
    TelemetryCycle(
        source,
        None,
        TelemetryRules(("cpu",), 30.0, {"5m": 300.0}, min_coverage=0.5, min_samples=3, max_age=90.0),
        clock=clock,
        metrics=metrics,
    ).cycle(NodeNames(NODES))
    assert metrics.registry.get_sample_value("ballast_samples_rejected_total", {"reason": "non_finite"}) == 2


def test_pools_come_from_a_label_and_the_spread_stays_inside_them(clock: FakeClock) -> None:
    nodes = [replace(node, labels={"pool": pool}) for node, pool in zip(NODES, ("x", "x"), strict=True)]
    nodes.append(Node(name="c", labels={"pool": "y"}))
    nodes.append(Node(name="d", labels={"pool": "y"}, unschedulable=True))
    snapshot = cycle_of(clock, FakeSource("prometheus", ("cpu", "memory"), history=True), pool_label="pool").cycle(
        NodeNames(nodes)
    )
    assert snapshot.pools == ("x", "x", "y", "y")
    assert snapshot.spread() == pytest.approx(
        {("x", "cpu"): 0.125, ("x", "memory"): 0.0, ("y", "cpu"): 0.0, ("y", "memory"): 0.0}
    )


class Counting(FakeSource):
    """cpu is a rate over 120 s and shows the share of it that a predecessor of load 0.9 lived, before one of 0.1.

    The predecessor starved wholly.
    """

    changed: float = 1_700_000_430.0

    def _reading(self, at: float, names: NodeNames, wanted: Sequence[str]) -> Reading:
        reading = super()._reading(at, names, wanted)
        before = min(max((self.changed - (at - 120.0)) / 120.0, 0.0), 1.0)
        rows = reading.samples["cpu"].rows
        values = np.full(len(rows), 0.9 * before + 0.1 * (1 - before))
        times = np.full(len(rows), at if at >= self.changed + 15 else min(at, self.changed - 5))
        samples = {**reading.samples, "cpu": Samples(rows, values, times)}
        starved = Samples(rows, np.full(len(rows), before), times)
        return Reading(self.name, at, samples, spans={"cpu": 120.0}, starved=starved)


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("name", ["a", "renamed"])
def test_counters_of_a_node_in_anothers_place_begin_with_its_birth(name: str, restarted: bool) -> None:
    clock, address = FakeClock(wall=1_700_000_010.0), (("InternalIP", "10.0.0.1"),)
    source = Counting("prometheus", ("cpu", "memory"), history=True)
    cycle = cycle_of(clock, source)
    old = Node(name="a", uid="1", created=1.6e9, addresses=address)
    run(clock, cycle, 14, [old])
    new = Node(name=name, uid="2", created=source.changed, addresses=address)
    if restarted:
        clock.advance(60.0)
        cycle = cycle_of(clock, source)
    known = []
    for _ in range(14):
        snapshot = cycle.cycle(NodeNames([new]))
        known.append(bool(snapshot.known[0]))
        if known[-1]:
            assert snapshot.primary.mean[0, 0] == pytest.approx(0.1)
            assert snapshot.primary.std[0, 0] == pytest.approx(0.0)
        assert not snapshot.starved(0)
        clock.advance(30.0)
    assert known[-1]
    assert not any(known[:4])


def test_a_node_that_takes_nobodys_place_loses_no_sample() -> None:
    clock = FakeClock(wall=1_700_000_430.0)
    source = Counting("prometheus", ("cpu", "memory"))
    source.changed = 0.0
    cycle = cycle_of(clock, source)
    run(clock, cycle, 3, [Node("a", uid="1", created=1_700_000_425.0)])
    assert cycle.cycle(NodeNames([Node("a", uid="1", created=1_700_000_425.0)])).primary.count.tolist() == [[4], [4]]
