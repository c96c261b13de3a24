"""Whatever a few nodes, exporters or replicas say: all that is told of the others stays the same bytes."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.base.metrics import Metrics
from ballast.jobs.telemetry_cycle import TelemetryCycle, TelemetryRules
from ballast.model.node import Node
from ballast.model.sample import Floats, Reading
from ballast.model.snapshot import Snapshot
from ballast.publishing.freeze import Freeze
from ballast.publishing.label_plan import PublishedKeys
from ballast.scoring.load_variation import resource_score
from ballast.serving.rendering import render
from ballast.settings import load
from ballast.telemetry import responses as decoding
from ballast.telemetry.node_names import NodeNames
from ballast.telemetry.prometheus_client import Grid
from ballast.telemetry.queries import questions
from ballast.telemetry.readings import Answers, QueryWarnings, ReadingBuilder
from ballast_lab.rehearse.ballast_run import Labels
from ballast_lab.rehearse.played import PlayedClock
from tests.properties import examples
from tests.unit.telemetry.fake_prometheus import settings
from tests.worlds.clock import FakeClock

COUNT, CYCLES, START, INTERVAL = 20, 8, 1_700_000_010.0, 30.0
RESOURCES = ("cpu", "memory", "disk")
Told = tuple[bytes, PublishedKeys, bytes | None]
NODES = tuple(
    Node(
        f"n-{row:02}",
        uid=str(row),
        created=START - 1e6,
        addresses=(("InternalIP", f"10.0.0.{row}"),),
        capacity={"cpu": 4.0, "memory": 8e9},
        allocatable={"cpu": 4.0 - row / 10, "memory": 7e9},
    )
    for row in range(COUNT)
)
NAMES = NodeNames(NODES)
KINDS = (
    "starved",
    *("NaN", "+Inf", "-Inf", "-0.5", "-1e300", "1e9", "42.5", "1.51", "7", "much", "", "0", "0.999"),
    *(
        "histogram",
        "missing",
        "twice",
        "replica",
        "old",
        "older",
        "future",
        "ageless",
        "stranger",
        "renamed",
        "cluster",
        "clusters",
    ),
)


@dataclass(frozen=True)
class Fault:
    row: int
    kind: str
    resources: tuple[str, ...]
    begin: int
    end: int


def series(row: int, value: object, at: float, **more: str) -> dict[str, object]:
    point = {} if value is None else {"value": [at, str(value)]}
    return {"metric": {"instance": f"10.0.0.{row}:9100", "cluster": "ours", **more}, **point}


def spoiled(kind: str, row: int, good: str, at: float) -> list[dict[str, object]]:
    """What a query gives of this node."""
    match kind:
        case "starved":
            return [series(row, good, at), series(row, "0.9", at, ballast_witness="1")]
        case "histogram":
            return [series(row, None, at) | {"histogram": [at, {"count": "1", "sum": "1"}]}]
        case "missing":
            return []
        case "twice":
            return [series(row, good, at), series(row, "0.9", at)]
        case "replica":
            return [series(row, good, at, replica="a"), series(row, "1e9", at, replica="b")]
        case "stranger":
            return [series(row, good, at), {"metric": {"instance": "nobody:1"}, "value": [at, "1e9"]}]
        case "cluster":
            return [series(row, good, at, cluster="theirs")]
        case "clusters":
            return [series(row, good, at), series(row, "0.9", at, cluster="theirs")]
        case "renamed":
            return [{"metric": {"instance": f"gone-{row}"}, "value": [at, good]}]
        case "old" | "older" | "future" | "ageless":
            return [series(row, good, at)]
        case number:
            return [series(row, number, at)]


AGES = {"old": 89.0, "older": 4000.0, "future": -1e9}


class Answering:
    """A source whose answers are spoiled by faults."""

    name, resources = "prometheus", RESOURCES

    def __init__(self, faults: Sequence[Fault]) -> None:
        chosen = settings({"resources": ",".join(RESOURCES)})
        self._asked = questions(chosen)
        self._builder = ReadingBuilder(self.name, chosen, QueryWarnings(self.name, Metrics()))
        self._faults = faults

    def read(self, at: float, names: NodeNames, resources: Sequence[str] | None = None) -> Reading:
        cycle = round((at - START // INTERVAL * INTERVAL) / INTERVAL)
        active = [fault for fault in self._faults if fault.begin <= cycle < fault.end]
        values = {
            question: self._table(
                at, {fault.row: fault.kind for fault in active if question.resource in fault.resources}
            )
            for question in self._asked.asked
        }
        newest = self._ages(at, {fault.row: fault.kind for fault in active})
        answers = Answers(values, dict.fromkeys(self._asked.freshness, newest), 1)
        return next(self._builder.readings(Grid(at, 1.0, 1), self._asked, answers, names))

    def backfill(self, start: float, end: float, step: float, names: NodeNames) -> Iterator[Reading]:
        return iter(())

    def close(self) -> None:
        pass

    def _table(self, at: float, faults: Mapping[int, str]) -> decoding.SeriesTable:
        result = []
        for row in range(COUNT):
            good = f"{(row * 37 + at / 30 * (1 + row % 5)) % 90 / 100:.4f}"
            result += spoiled(faults[row], row, good, at) if row in faults else [series(row, good, at)]
        return decode(result)

    def _ages(self, at: float, faults: Mapping[int, str]) -> decoding.SeriesTable:
        result = []
        for row in range(COUNT):
            kind = faults.get(row, "")
            times = () if kind == "ageless" else (at - AGES.get(kind, row % 7),)
            labels = ({"replica": "a"}, {"replica": "b"}) if kind == "replica" else ({},)
            result += [series(row, time, at, **label) for time in times for label in labels]
        return decode(result)


def decode(result: list[dict[str, object]]) -> decoding.SeriesTable:
    body = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return decoding.instant(json.dumps(body).encode(), ("instance",), "http://prometheus.test")


def snapshots(faults: Sequence[Fault]) -> list[Snapshot]:
    clock = FakeClock(wall=START)
    rules = TelemetryRules(RESOURCES, INTERVAL, {"3m": 180.0, "1m": 60.0}, 0.5, 3, weights={"cpu": 1, "disk": 1})
    cycle = TelemetryCycle(Answering(faults), None, rules, clock=clock, metrics=Metrics())
    taken = []
    for _ in range(CYCLES):
        taken.append(cycle.cycle(NAMES))
        clock.advance(INTERVAL)
    return taken


def published(taken: Sequence[Snapshot]) -> list[list[Told]]:
    """[cycle][node]: all that others read of it: numbers, `/watcher`, labels, annotation and taints."""
    settings, clock = load({"BALLAST_PROMETHEUS__URL": "http://prometheus.test"}), PlayedClock()
    labels, freeze = Labels(settings, clock), Freeze(settings.publishing.max_unknown, settings.publishing.forget_after)
    told = []
    for snapshot in taken:
        clock.now = snapshot.time
        freeze = freeze.after(snapshot.states.silent_share, clock.now)
        labels.publish(snapshot.trusted, freeze)
        wire = render(snapshot, {}, fetched=clock.now).wire("3m", True)
        told.append(
            [
                (row.tobytes(), labels.carried[node.name], wire.host(node.name))
                for node, row in zip(NODES, _numbers(snapshot), strict=True)
            ]
        )
    return told


def _numbers(snapshot: Snapshot) -> Floats:
    """[node, number]: states, windows and exact score."""
    states, primary = snapshot.states, snapshot.primary
    score = resource_score(np.ones((len(RESOURCES), COUNT)), 0.0, primary.mean, primary.std)
    arrays = [snapshot.newest, score, states.lost, states.missing, states.lapsed, states.codes]
    for window in snapshot.windows.values():
        arrays += [window.mean, window.std, window.p95, window.count, window.coverage, window.known]
    return np.concatenate([np.asarray(array, float).reshape(-1, COUNT) for array in arrays]).T.copy()


@cache
def undisturbed() -> list[Snapshot]:
    return snapshots(())


@cache
def expected() -> list[list[Told]]:
    return published(undisturbed())


@st.composite
def faults(draw: st.DrawFn) -> list[Fault]:
    rows = draw(st.lists(st.integers(0, COUNT - 1), min_size=1, max_size=COUNT // 10, unique=True))
    drawn = []
    for row in rows:
        begin = draw(st.integers(0, CYCLES - 1))
        some = draw(st.lists(st.sampled_from(RESOURCES), min_size=1, unique=True))
        kind = draw(st.sampled_from(KINDS) | st.floats().map(str))
        drawn.append(Fault(row, kind, tuple(some), begin, draw(st.integers(begin + 1, CYCLES))))
    return drawn


@pytest.mark.slow
@pytest.mark.timeout(3600)
@given(faults())
@examples(300, deep=10_000)
def test_a_tenth_of_the_nodes_changes_no_byte_of_the_others(drawn: list[Fault]) -> None:
    others = [row for row in range(COUNT) if row not in {fault.row for fault in drawn}]
    taken = snapshots(drawn)
    for now, before in zip(published(taken), expected(), strict=True):
        assert [now[row] for row in others] == [before[row] for row in others]
    assert all(snapshot.states.silent_share <= 0.1 for snapshot in taken)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_lie_stays_where_it_is(kind: str) -> None:
    for now, before in zip(published(snapshots([Fault(3, kind, RESOURCES, 1, CYCLES)])), expected(), strict=True):
        assert now[:3] + now[4:] == before[:3] + before[4:]


def test_the_undisturbed_cluster_is_known_and_labelled() -> None:
    assert undisturbed()[-1].known.all()
    assert len({carried.score for _, carried, _ in expected()[-1]}) > 5


def test_starved_nodes_are_told_and_no_decision_counts_on_them() -> None:
    snapshot = snapshots([Fault(3, "starved", ("cpu",), 0, CYCLES), Fault(5, "starved", ("cpu",), CYCLES - 1, CYCLES)])[
        -1
    ]
    assert [row for row in range(COUNT) if snapshot.starved(row)] == [3]
    assert snapshot.known.all()
    assert np.flatnonzero(~snapshot.trusted.known).tolist() == [3]
    assert np.isnan(snapshot.trusted.primary.mean[:, 3]).all()
    assert snapshot.trusted.states.silent_share == 0


def test_without_starved_nodes_decisions_read_the_same_snapshot() -> None:
    snapshot = undisturbed()[-1]
    assert snapshot.trusted is snapshot
