"""The load of the last day, by which nodes are emptied: what is known of it, and where it comes from."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ballast.base.errors import ClusterError
from ballast.jobs.eviction.day_peak import DAY_KEY, EVERY, DayKeeper, DayPeak
from ballast.model.duration import DAY
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.sample import Reading, Samples
from ballast.model.snapshot import Snapshot, Window
from ballast.model.stamps import Stamps
from ballast.settings import Settings

START = 1_700_000_100.0
HOUR = 3600.0


def load_at(time: float) -> float:
    """.3 at night, .7 by day; twelve hours each, the night begins at START."""
    return 0.3 if (time - START) % DAY < DAY / 2 else 0.7


def snapshot(time: float, cpu: float | None = None, nodes: int = 4) -> Snapshot:
    mean = np.array([[load_at(time) if cpu is None else cpu] * nodes, [0.5] * nodes])
    known = np.isfinite(mean)
    window = Window("15m", 900.0, mean, mean * 0, mean, np.zeros(mean.shape, int), mean, known)
    machines = tuple(Node(f"n{i}", allocatable={"cpu": 10.0, "memory": 10.0}) for i in range(nodes))
    return Snapshot(time, machines, ("cpu", "memory"), {"15m": window}, mean, mean, NodeStates.of(known.any(axis=0)))


class State:
    def __init__(self, **keys: str) -> None:
        self.keys: dict[str, str] = dict(keys)

    def read(self) -> Mapping[str, str]:
        return self.keys

    def stamps(self, key: str) -> Stamps:
        return Stamps()

    def update(self, change: Any, *, reason: str) -> None:
        self.keys = dict(change(dict(self.keys)))


@dataclass
class Past:
    """A source that knows the days before START, `unmatched` at some times."""

    since: float = START - 2 * DAY
    unmatched: Any = field(default=lambda time: False)
    asked: int = 0

    def backfill(self, start: float, end: float, step: float, names: Any) -> Iterator[Reading]:
        self.asked += 1
        for time in np.arange(start, end + 1, step).tolist():
            values = np.array([load_at(time)] * len(names.nodes))
            rows = np.arange(len(values))
            samples = {name: Samples(rows, values, np.full(len(values), time)) for name in ("cpu", "memory")}
            rejected = Counter({"unmatched": 1}) if self.unmatched(time) else Counter[str]()
            yield Reading("prometheus", time, samples if time >= self.since else {}, rejected=rejected)

    def close(self) -> None:
        pass


def keeper(state: State | None = None, source: Past | None = None, *, needed: bool = True) -> DayKeeper:
    context: Any = SimpleNamespace(state=state or State(), settings=Settings())
    opened: Any = None if source is None else lambda: source
    return DayKeeper(context, opened, needed=needed)


def peak(day: DayKeeper | DayPeak, time: float, **more: Any) -> float:
    """Of cpu, the first node."""
    loads = day.loads(snapshot(time, **more))
    assert loads is not None
    return float(loads[0, 0])


def test_no_peak_is_known_before_a_day_is() -> None:
    day = keeper()
    for time in np.arange(START, START + DAY, EVERY).tolist():
        day.observe(snapshot(time))
        assert math.isnan(peak(day, time))
    day.observe(snapshot(START + DAY))
    assert peak(day, START + DAY) == pytest.approx(0.7)


def test_a_day_with_large_holes_is_not_known() -> None:
    day = keeper()
    for time in np.arange(START, START + DAY + EVERY, EVERY).tolist():
        if not START + 6 * HOUR < time < START + 12 * HOUR:
            day.observe(snapshot(time))
    assert math.isnan(peak(day, START + DAY))


def test_a_start_at_nightfall_reads_the_day_back_from_prometheus() -> None:
    source = Past()
    day = keeper(source=source)
    day.observe(snapshot(START))
    day.keep(snapshot(START))
    assert peak(day, START) == pytest.approx(0.7)
    day.keep(snapshot(START + 2 * HOUR))
    assert source.asked == 1


def test_a_prometheus_that_is_too_young_is_asked_again_once_an_hour() -> None:
    source = Past(since=START - 20 * HOUR)
    day = keeper(source=source)
    for minutes in range(0, 61, 5):
        day.keep(snapshot(START + 60 * minutes))
    assert source.asked == 2
    assert math.isnan(peak(day, START + HOUR))


def test_what_nodes_carried_that_are_gone_is_not_forgotten() -> None:
    day = keeper(source=Past(unmatched=lambda time: time < START - HOUR))
    day.keep(snapshot(START))
    assert math.isnan(peak(day, START))


def test_the_next_leader_goes_on_with_the_day_of_the_one_before_also_with_fewer_nodes() -> None:
    state = State(other="kept")
    first = keeper(state)
    for time in np.arange(START - DAY - EVERY, START + 1, EVERY).tolist():
        first.observe(snapshot(time))
        first.keep(snapshot(time))
    assert state.keys["other"] == "kept"
    second = keeper(state)
    second.observe(snapshot(START + EVERY, nodes=2, cpu=0.6))
    second.keep(snapshot(START + EVERY, nodes=2, cpu=0.6))
    # Four nodes had .7 each by day; two have to carry all of it.
    assert peak(second, START + EVERY, nodes=2, cpu=0.6) == pytest.approx(1.4)


def test_state_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ClusterError, match=DAY_KEY):
        keeper(State(**{DAY_KEY: "[1"})).keep(snapshot(START))


def test_nothing_is_kept_where_no_planner_needs_it() -> None:
    state, source = State(), Past()
    day = keeper(state, source, needed=False)
    day.observe(snapshot(START))
    day.keep(snapshot(START))
    assert (state.keys, source.asked, day.loads(snapshot(START))) == ({}, 0, None)
