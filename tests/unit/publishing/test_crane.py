"""The contract of crane-scheduler's Dynamic plugin, read from its source: pkg/plugins/dynamic/stats.go."""

import re
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from ballast.model.snapshot import Snapshot
from ballast.publishing.crane_plan import HOT_PERIOD, CraneAnnotations, CranePlanner, metrics_of
from ballast.scoring import crane
from ballast.scoring.dynamic import Dynamic
from ballast.scoring.fleet import fleet_of
from ballast.windows.node_lives import node_keys
from tests.worlds.snapshots import NAN, TIME, pod, snapshot

POLICY = crane.parse_policy(crane.DEFAULT_POLICY)
ZONE = crane.time_zone("Asia/Shanghai")
USAGE = re.compile(r"\d+\.\d{5},\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
HOT = re.compile(r"\d+,\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class World:
    """Nodes whose annotations are what was written."""

    def __init__(self, *loads: float, zone: str = "Asia/Shanghai", policy: crane.CranePolicy = POLICY) -> None:
        self.zone = crane.time_zone(zone)
        self.policy = policy
        self.annotations: dict[str, dict[str, str]] = {}
        self.planner = self.new_planner()
        self.loads = list(loads)
        self.time = TIME
        self.newest: float | None = None
        for back in range(300, 0, -1):
            self.planner.remember(TIME - 300.0 * back, node_keys(self.taken().nodes), self.ratios())

    def new_planner(self) -> CranePlanner:
        return CranePlanner(self.policy, self.zone, min_coverage=0.5, jitter=0.0)

    def ratios(self) -> Any:
        return np.array([self.loads, self.loads], float)

    def taken(self) -> Snapshot:
        found = snapshot(self.loads, time=self.time)
        found = replace(found, windows={"5m": replace(found.primary, seconds=300.0)})
        if self.newest is not None:
            found = replace(found, newest=np.where(found.primary.known, self.newest, NAN))
        nodes = tuple(
            msgspec.structs.replace(node, annotations=self.annotations.get(node.name, {})) for node in found.nodes
        )
        return replace(found, nodes=nodes)

    def round(self, hot: list[int] | None = None) -> dict[str, dict[str, str]]:
        taken = self.taken()
        counts = np.array(hot or [0] * len(self.loads))
        changes = self.planner.plan(taken, counts, self.time + 2, {node.name: node for node in taken.nodes})
        written = {}
        for change in changes:
            written[change.node] = {key: self.planner.text(value) for key, value in change.values.items()}
            self.planner.wrote(change)
            self.annotations.setdefault(change.node, {}).update(written[change.node])
        return written

    def later(self, seconds: float) -> None:
        self.time += seconds


def test_a_fresh_node_gets_every_metric_in_one_patch() -> None:
    world = World(0.25, 0.5)
    written = world.round()
    assert list(written) == ["n0", "n1"]
    assert set(written["n0"]) == {*POLICY.periods, "node_hot_value"}
    for key, text in written["n0"].items():
        assert (HOT if key == "node_hot_value" else USAGE).fullmatch(text)
    assert written["n0"]["cpu_usage_avg_5m"].startswith("0.25000,")
    assert written["n1"]["mem_usage_max_avg_1d"].startswith("0.50000,")


def test_what_is_written_is_what_the_plugin_reads() -> None:
    world = World(0.25, 0.5)
    world.round()
    scores = Dynamic(POLICY).score(fleet_of(world.taken())).scores
    assert scores.tolist() == [75, 50]


@pytest.mark.parametrize(("zone", "hours"), [("Asia/Shanghai", 8), ("UTC", 0)])
def test_stamps_are_the_samples_time_on_the_schedulers_clock(zone: str, hours: int) -> None:
    world = World(0.25, zone=zone)
    [written] = world.round().values()
    stamp = written["cpu_usage_avg_5m"].partition(",")[2]
    assert crane.unix(stamp, crane.time_zone("UTC")) == TIME - 5 + hours * 3600, "the newest sample is 5 s old"


def test_quiet_nodes_are_renewed_in_time_and_not_sooner_than_the_period() -> None:
    world = World(0.25)
    world.round()
    rounds = {}
    for _ in range(60):
        world.later(30)
        for written in world.round().values():
            for key in written:
                rounds.setdefault(key, []).append(world.time)
    gaps = np.diff([TIME, *rounds["cpu_usage_avg_5m"]])
    assert (gaps >= 180).all()
    assert (gaps < 180 + 300 - 60).all(), "well before the plugin takes it for expired"
    assert len(rounds["cpu_usage_max_avg_1h"]) == 1
    assert "cpu_usage_max_avg_1d" not in rounds
    assert "node_hot_value" not in rounds


def test_what_moved_is_renewed_after_its_period() -> None:
    world = World(0.25)
    world.round()
    world.loads = [0.6]
    world.later(150)
    assert world.round() == {}
    world.later(30)
    [written] = world.round().values()
    assert set(written) == {"cpu_usage_avg_5m", "mem_usage_avg_5m"}


def test_a_dead_exporter_does_not_look_fresh() -> None:
    world = World(0.25)
    world.round()
    world.newest = TIME - 5
    world.later(600)
    assert world.round() == {}, "no newer sample, so nothing is stamped again"


def test_nothing_is_written_of_what_is_not_known() -> None:
    world = World(0.25, NAN)
    assert list(world.round()) == ["n0"]
    fresh = World(0.25)
    fresh.planner = fresh.new_planner()
    [written] = fresh.round().values()
    assert set(written) == {"cpu_usage_avg_5m", "mem_usage_avg_5m", "node_hot_value"}, "an hour is not known yet"


def test_a_hot_value_of_0_is_written_once_and_left_to_expire() -> None:
    world = World(0.25)
    [first] = world.round([0]).values()
    assert first["node_hot_value"].startswith("0,")
    told: list[str] = []
    for hot in [0, 2, 2, 2, 2, 2, 2, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0]:
        world.later(30)
        told.extend(keys["node_hot_value"] for keys in world.round([hot]).values() if "node_hot_value" in keys)
    assert [text.partition(",")[0] for text in told] == ["2", "2", "3", "0"]
    assert HOT_PERIOD < crane.EXTRA_SECONDS


def test_a_restart_writes_nothing_again() -> None:
    world = World(0.25)
    world.round()
    before = world.planner
    world.planner = world.new_planner()
    for back in range(300, 0, -1):
        world.planner.remember(TIME - 300.0 * back, [("n0", "")], world.ratios())
    world.later(30)
    assert world.round() == {}
    assert before is not world.planner


def test_what_somebody_else_keeps_fresh_is_left_alone() -> None:
    world = World(0.25)
    world.round()
    world.later(600)
    other = {key: world.planner.text(CraneAnnotations("0.26000", TIME + 595)) for key in POLICY.periods}
    world.annotations["n0"] |= other
    assert world.round() == {}


def test_what_cannot_be_read_is_replaced() -> None:
    world = World(0.25)
    world.annotations["n0"] = {"cpu_usage_avg_5m": "NaN,yesterday", "node_hot_value": "-1"}
    [written] = world.round().values()
    assert {"cpu_usage_avg_5m", "node_hot_value"} <= set(written)


def test_more_than_everything_is_preserved() -> None:
    [written] = World(1.25).round().values()
    assert written["cpu_usage_avg_5m"].startswith("1.25000,")


def test_metrics_ballast_does_not_know_are_left_to_others() -> None:
    policy = crane.CranePolicy({"cpu_usage_avg_5m": 180.0, "gpu_heat": 60.0}, {}, {"cpu_usage_avg_5m": 1.0}, ())
    world = World(0.25, policy=policy)
    assert world.planner.foreign == ["gpu_heat"]
    [written] = world.round().values()
    assert set(written) == {"cpu_usage_avg_5m", "node_hot_value"}


def test_names_of_metrics_say_what_they_are() -> None:
    found = {metric.name: (metric.resource, metric.highest, metric.seconds) for metric in metrics_of(POLICY)}
    assert found["cpu_usage_avg_5m"] == (0, False, 300.0)
    assert found["mem_usage_max_avg_1d"] == (1, True, 86_400.0)


def test_bindings_make_points_as_upstream_counts_them() -> None:
    pods = [pod(f"p{i}", "n0", bound=TIME - 30) for i in range(5)] + [pod("old", "n0", bound=TIME - 299)]
    pods += [pod("older", "n0", bound=TIME - 300), pod("waiting"), pod("stranger", "elsewhere", bound=TIME)]
    counts = crane.bindings_of(pods, {"n0": 0, "n1": 1}, POLICY, TIME)
    assert crane.hot_values(POLICY, counts).tolist() == [6 // 5 + 5 // 2, 0]
