"""What the silence of nodes does to a cluster: hours of cycles over a source of scraped nodes, with a fake clock."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from ballast.base.metrics import Metrics
from ballast.jobs.publishing import label_rules
from ballast.jobs.telemetry_cycle import TelemetryCycle, TelemetryRules, rules_of
from ballast.model.node import Node
from ballast.model.node_state import NodeState
from ballast.model.sample import Reading, ReadingProblem, Samples
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import LabelPlanner, PublishedKeys
from ballast.publishing.node_keys import NodeKeys
from ballast.settings import load
from ballast.telemetry.node_names import NodeNames
from tests.worlds.clock import FakeClock

START = 1_700_000_010.0
MINUTE = 60.0
SIZES = {"cpu": 4.0, "memory": 8e9}


@dataclass
class Exporter:
    """A node and its exporter, scraped every `pace` seconds from `up` until `gone`; one scrape in `losing` is lost."""

    name: str
    created: float = START - 86400.0
    up: float = -math.inf
    gone: float = math.inf
    uid: str = ""
    ready: bool = True
    pace: float = 15.0
    phase: float = 0.0
    losing: int = 0
    load: float = 0.3
    without: frozenset[str] = frozenset()
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def node(self) -> Node:
        return Node(
            self.name,
            uid=self.uid or f"uid-of-{self.name}",
            created=self.created,
            ready=self.ready,
            labels=self.labels,
            capacity=SIZES,
            allocatable=SIZES,
        )

    def newest(self, at: float) -> float:
        """The time of the last scrape that came, up to `at`; NaN without any in the 5 minutes that Prometheus looks."""
        for number in range(math.floor((at - self.phase) / self.pace), -1, -1):
            time = number * self.pace + self.phase
            if time < at - 300:
                break
            if self.up <= time < self.gone and not (self.losing and number % self.losing == 0):
                return time
        return math.nan


class Prometheus:
    """Two samples within the range make a rate, as of cpu; memory is the newest value."""

    name = "prometheus"
    resources = ("cpu", "memory")

    def __init__(self, exporters: list[Exporter]) -> None:
        self.exporters = exporters
        self.failing: set[str] = set()

    def read(self, at: float, names: NodeNames, resources: Sequence[str] | None = None) -> Reading:
        by_name = {each.name: each for each in self.exporters}
        pace = max(each.pace for each in self.exporters)
        samples = {}
        for resource in self.resources:
            if resource in self.failing:
                continue
            rows, values, times = [], [], []
            for row, node in enumerate(names.nodes):
                exporter = by_name[node.name]
                newest = exporter.newest(at)
                lacking = resource in exporter.without or math.isnan(newest)
                before = exporter.newest(newest - 1e-3) if not lacking else math.nan
                if lacking or (resource == "cpu" and not before >= at - max(120.0, 4 * pace)):
                    continue
                rows.append(row)
                values.append(exporter.load)
                times.append(newest)
            samples[resource] = Samples(np.array(rows, np.int64), np.array(values, float), np.array(times, float))
        paces = dict.fromkeys(samples, max(pace, 30.0))
        failed = dict.fromkeys(self.failing, ReadingProblem("query", "422"))
        return Reading(self.name, at, samples, failed=failed, scrape_interval=paces)

    def backfill(self, start: float, end: float, step: float, names: NodeNames) -> Iterator[Reading]:
        for at in np.arange(start, end + step / 2, step).tolist():
            yield self.read(at, names)

    def close(self) -> None:
        pass


class Cluster:
    """A daemon's cycles, with the freeze and how long it lasted."""

    def __init__(self, exporters: list[Exporter], interval: float = 30.0) -> None:
        self.clock = FakeClock(wall=START)
        self.source = Prometheus(exporters)
        self.exporters = exporters
        self.interval = interval
        self.cycle = TelemetryCycle(
            self.source,
            None,
            TelemetryRules(("cpu", "memory"), interval, {"15m": 900.0, "10m": 600.0, "5m": 300.0}, 0.5, 5),
            clock=self.clock,
            metrics=Metrics(),
        )
        self.freeze = Freeze(0.2, 3600.0)
        self.frozen = 0.0
        self.first_known: dict[tuple[str, str], float] = {}
        self.flips: Counter[str] = Counter()
        self.snapshot: Snapshot | None = None
        self._known: dict[str, bool] = {}

    @property
    def now(self) -> float:
        return self.clock.wall()

    def run(self, seconds: float) -> Snapshot:
        until = self.now + seconds
        while self.now < until:
            nodes = sorted((each.node for each in self.exporters), key=lambda node: node.name)
            snapshot = self.snapshot = self.cycle.cycle(NodeNames(nodes))
            self.freeze = self.freeze.after(snapshot.states.silent_share, self.clock.monotonic())
            self.frozen += self.interval * self.freeze.frozen
            for row, node in enumerate(nodes):
                known = bool(snapshot.known[row])
                if known:
                    self.first_known.setdefault((node.name, node.uid), self.now)
                self.flips[node.name] += known != self._known.get(node.name, known)
                self._known[node.name] = known
            self.clock.advance(self.interval)
        return self.snapshot

    def state(self, name: str) -> str:
        assert self.snapshot is not None
        return self.snapshot.states[self.snapshot.rows[name]].value


def fleet(count: int, prefix: str = "n", **kind: object) -> list[Exporter]:
    return [Exporter(f"{prefix}{i:03d}", phase=i % 15 / 1.5, **kind) for i in range(count)]  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(("there", "more"), [(100, 50), (10, 3), (100, 26), (4, 40)])
def test_joiners_freeze_nothing_and_are_known_by_their_own_life(there: int, more: int) -> None:
    cluster = Cluster(fleet(there))
    cluster.run(20 * MINUTE)
    joiners = fleet(more, "x", created=cluster.now, up=cluster.now + 60)
    cluster.exporters += joiners
    cluster.run(30)
    assert cluster.state("x000") == NodeState.YOUNG
    cluster.run(10 * MINUTE)
    assert cluster.frozen == 0
    for each in joiners:
        first_sample = math.ceil((each.up - each.phase) / each.pace) * each.pace + each.phase
        assert cluster.first_known[each.name, each.node.uid] - first_sample <= 200
    assert all(flips == 0 for name, flips in cluster.flips.items() if name.startswith("n"))
    assert all(cluster.flips[each.name] == 1 for each in joiners)


@pytest.mark.slow
@pytest.mark.parametrize("life", [33 * MINUTE, 50 * MINUTE])
def test_a_cluster_of_short_lived_nodes_is_never_frozen(life: float) -> None:
    cluster = Cluster(fleet(10))
    born = 0
    cluster.run(5 * MINUTE)
    for _ in range(240):
        cluster.exporters[:] = [each for each in cluster.exporters if each.gone > cluster.now or each.name[0] == "n"]
        while born < (cluster.now - START) / life * 50:
            gone = cluster.now + life
            cluster.exporters.append(
                Exporter(f"s{born % 60:03d}", created=cluster.now, up=cluster.now + 60, gone=gone, uid=f"{born}")
            )
            born += 1
        cluster.run(30)
    assert cluster.frozen == 0


@pytest.mark.slow
def test_churn_and_one_burst_do_not_stick() -> None:
    cluster = Cluster(fleet(100))
    cluster.run(5 * MINUTE)
    for cycle in range(240):
        new = 15 if cycle == 40 else int(cycle % 4 != 3)
        for _ in range(new):
            old = cluster.exporters.pop(0)
            created = cluster.now
            cluster.exporters.append(Exporter(f"b{len(old.name)}{created:.0f}{_}", created=created, up=created + 60))
        cluster.run(30)
    assert cluster.frozen == 0


@pytest.mark.slow
def test_a_lost_zone_does_not_freeze_the_rest_neither_when_it_comes_back() -> None:
    cluster = Cluster(fleet(100))
    cluster.run(20 * MINUTE)
    zone, died = cluster.exporters[:30], cluster.now
    for each in zone:
        each.gone = died
    cluster.run(30)
    for each in zone:
        each.ready = False
    cluster.run(70 * MINUTE)
    assert cluster.state("n000") == NodeState.DOWN
    assert cluster.state("n050") == NodeState.KNOWN
    for each in zone:
        each.ready, each.up, each.gone = True, cluster.now + 60, math.inf
    cluster.run(30 * MINUTE)
    assert cluster.frozen == 0
    assert cluster.state("n000") == NodeState.KNOWN


def test_nodes_without_an_exporter_do_not_freeze_the_others() -> None:
    windows = fleet(6, "w", up=math.inf)
    cluster = Cluster([*fleet(20), *windows])
    cluster.run(30)
    assert {cluster.state(each.name) for each in windows} == {NodeState.UNMEASURED}
    cluster.run(60 * MINUTE)
    assert cluster.frozen == 0
    assert {cluster.state(each.name) for each in windows} == {NodeState.UNMEASURED}


@pytest.mark.parametrize("interval", [15.0, 30.0])
def test_true_silence_freezes_within_max_age_and_two_cycles(interval: float) -> None:
    cluster = Cluster(fleet(20), interval)
    cluster.run(20 * MINUTE)
    died = cluster.now
    for each in cluster.exporters[:7]:
        each.gone = died
    cluster.run(90 + 2 * interval)
    assert cluster.freeze.frozen
    assert cluster.state("n000") == NodeState.SILENT
    assert cluster.snapshot is not None
    assert cluster.snapshot.lost(0) == ("cpu", "memory")
    for each in cluster.exporters[:7]:
        each.gone = math.inf
    cluster.run(15 * MINUTE)
    assert not cluster.freeze.frozen


def test_a_dead_source_at_the_start_freezes_at_once_and_writes_nothing() -> None:
    cluster = Cluster(fleet(5))
    cluster.source.failing = {"cpu", "memory"}
    cluster.run(30)
    assert cluster.freeze.frozen
    assert cluster.state("n000") == NodeState.SILENT


@pytest.mark.slow
@pytest.mark.parametrize("pace", [15.0, 30.0, 60.0, 120.0])
@pytest.mark.parametrize("interval", [30.0, 15.0])
def test_slow_scrapes_with_losses_flip_nothing(pace: float, interval: float) -> None:
    exporters = [Exporter(f"n{i:02d}", pace=pace, phase=i * pace / 20, losing=7) for i in range(20)]
    cluster = Cluster(exporters, interval)
    cluster.run(3 * interval)
    assert cluster.snapshot is not None
    cluster.flips.clear()
    snapshot = cluster.run(60 * MINUTE)
    assert snapshot.known.all()
    assert sum(cluster.flips.values()) == 0
    assert cluster.frozen == 0


def test_coverage_counts_raw_samples_and_not_how_often_they_were_read() -> None:
    regular, gaps = (Exporter(name, pace=15.0) for name in ("a", "b"))
    cluster = Cluster([regular, gaps], 15.0)
    cluster.run(20 * MINUTE)
    gaps.gone = cluster.now
    snapshot = cluster.run(75)
    coverage = snapshot.primary.coverage[0]
    assert coverage[0] == pytest.approx(1.0)
    assert coverage[1] == pytest.approx(1 - 60 / 900, abs=0.02)
    assert snapshot.primary.count[1].tolist() == [60, 55]


def test_one_lost_resource_makes_a_node_silent_and_says_which() -> None:
    cluster = Cluster(fleet(10))
    cluster.run(20 * MINUTE)
    cluster.exporters[3].without = frozenset({"cpu"})
    snapshot = cluster.run(3 * MINUTE)
    assert cluster.state("n003") == NodeState.SILENT
    assert snapshot.lost(3) == ("cpu",)
    assert np.isnan(snapshot.primary.mean[:, 3]).all()
    assert not cluster.freeze.frozen
    cluster.source.failing = {"cpu"}
    cluster.run(2 * MINUTE)
    assert cluster.freeze.frozen


def test_a_node_created_again_under_an_old_name_begins_again() -> None:
    spot = Exporter("spot", load=0.9)
    cluster = Cluster([*fleet(5), spot])
    snapshot = cluster.run(20 * MINUTE)
    assert snapshot.primary.mean[0, snapshot.rows["spot"]] == pytest.approx(0.9)
    created = cluster.now
    cluster.exporters[-1] = Exporter("spot", created=created, uid="another", up=created + 45, load=0.05)
    cluster.run(30)
    assert cluster.state("spot") == NodeState.YOUNG
    snapshot = cluster.run(4 * MINUTE)
    row = snapshot.rows["spot"]
    assert cluster.state("spot") == NodeState.KNOWN
    assert snapshot.primary.mean[0, row] == pytest.approx(0.05)
    assert snapshot.primary.std[0, row] == pytest.approx(0.0, abs=1e-9)


def test_what_was_read_of_an_earlier_node_never_counts_not_even_when_read_back() -> None:
    created = START - 120
    cluster = Cluster([*fleet(3), Exporter("spot", created=created)])
    snapshot = cluster.run(30)
    row = snapshot.rows["spot"]
    assert snapshot.primary.count[1, row] <= 5
    assert snapshot.primary.count[1, 0] == 30


@pytest.mark.parametrize("up", [-300.0, -60.0, -20.0, 0.0])
@pytest.mark.parametrize("phase", [0.0, 7.0, 14.0])
def test_a_new_cluster_has_its_first_labels_within_150_seconds_by_default(up: float, phase: float) -> None:
    settings = load({"BALLAST_PROMETHEUS__URL": "http://prometheus.test"})
    exporters = [
        Exporter(f"n{row}", created=START + up - 30, up=START + up, phase=phase, load=0.1 * row) for row in range(5)
    ]
    cluster = Cluster(exporters)
    cluster.cycle = TelemetryCycle(cluster.source, None, rules_of(settings), clock=cluster.clock, metrics=Metrics())
    keys = NodeKeys.of(settings.publishing.prefix)
    planner = LabelPlanner(keys, label_rules(settings))
    labelled: dict[str, float] = {}
    for _ in range(6):
        snapshot = cluster.run(30.0)
        nodes = {node.name: node for node in snapshot.nodes}
        scores = {name: 50.0 if snapshot.known[row] else None for row, name in enumerate(nodes)}
        carried = {name: PublishedKeys.of(node, keys) for name, node in nodes.items()}
        for change in planner.plan(snapshot, scores, carried, cluster.freeze, snapshot.time):
            if change.labels.get(keys.score):
                labelled.setdefault(change.node, snapshot.time - START)
    assert set(labelled) == {exporter.name for exporter in exporters}
    assert max(labelled.values()) <= 150.0
