"""Resources beside cpu and memory in scores, with weights."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from ballast.base.errors import UsageError
from ballast.cli.app import app
from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.snapshot import Snapshot, Window
from ballast.scoring.fleet import fleet_of
from ballast.scoring.strategy import strategy

SIZES = {"cpu": 4.0, "memory": 8e9, "pods": 110.0}
NAN = float("nan")


def taken(means: dict[str, list[float]]) -> Snapshot:
    mean = np.array(list(means.values()), float)
    known = np.isfinite(mean)
    std = np.where(known, 0.1, np.nan)
    window = Window("15m", 900.0, mean, std, mean, known * 60, known * 1.0, known)
    count = mean.shape[1]
    nodes = tuple(Node(f"n{row}", capacity=SIZES, allocatable=SIZES) for row in range(count))
    states = NodeStates.of(known[:2].all(axis=0), resources=len(means))
    return Snapshot(0.0, nodes, tuple(means), {"15m": window}, mean, np.ones_like(mean), states)


shares = st.floats(0, 1)


@given(cpu=shares, memory=shares, disk=shares, weight=shares)
def test_a_weight_brings_a_score_nearer_to_100_before_the_smallest_counts(
    cpu: float, memory: float, disk: float, weight: float
) -> None:
    fleet = fleet_of(taken({"cpu": [cpu], "memory": [memory], "disk": [disk]}))
    plain = strategy("load-variation").score(fleet).exact[0]
    own = (1 - (disk + 0.1) / 2) * 100
    found = strategy("load-variation", {"resources": {"cpu": 1, "memory": 1, "disk": weight}}).score(fleet)
    assert found.exact[0] == pytest.approx(min(plain, 100 - weight * (100 - own)))
    assert found.exact[0] <= plain


def test_what_a_node_does_not_have_counts_neither_for_nor_against_it() -> None:
    fleet = fleet_of(taken({"cpu": [0.2, 0.2], "memory": [0.2, 0.2], "gpu": [0.9, NAN]}))
    found = strategy("load-variation", {"resources": {"cpu": 1, "memory": 1, "gpu": 1}}).score(fleet)
    assert found.exact.tolist() == pytest.approx([50.0, 85.0])
    assert not found.unknown.any()


def test_a_weight_above_1_is_refused() -> None:
    with pytest.raises(UsageError, match="from 0 to 1"):
        strategy("load-variation", {"resources": {"cpu": 2}})


def test_a_node_that_lost_its_load_gains_nothing_in_a_blend() -> None:
    keys = {"weights": {"load-variation": 1.0, "least-allocated": 1.0}}
    before = strategy("blend", keys).score(fleet_of(taken({"cpu": [0.95, 0.1], "memory": [0.3, 0.3]})))
    after = strategy("blend", keys).score(fleet_of(taken({"cpu": [NAN, 0.1], "memory": [NAN, 0.3]})))
    assert after.exact[0] < before.exact[0] < before.exact[1] == after.exact[1]


def test_offline_disk_and_network_come_as_storage_and_bandwidth(tmp_path: Path) -> None:
    def metric(kind: str, value: float) -> dict[str, object]:
        return {"name": "x", "type": kind, "operator": "AVG", "rollup": "15m", "value": value}

    def node(name: str) -> dict[str, object]:
        sizes = {"cpu": "4", "memory": "8Gi", "pods": "110"}
        return {"kind": "Node", "metadata": {"name": name}, "status": {"capacity": sizes, "allocatable": sizes}}

    basic = [metric("CPU", 20), metric("Memory", 20)]
    nodes = {
        "a": {"metrics": [*basic, metric("Storage", 80), metric("Bandwidth", 10)]},
        "b": {"metrics": [*basic, metric("Storage", 10), metric("Bandwidth", 90)]},
        "c": {"metrics": basic},
    }
    files = {
        "cluster": {"kind": "List", "items": [node(name) for name in nodes]},
        "metrics": {"timestamp": 1, "window": {"end": 1}, "data": {"NodeMetricsMap": nodes}},
        "pod": {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}},
    }
    for name, document in files.items():
        (tmp_path / name).write_text(json.dumps(document))
    options = [f"--{name}={tmp_path / name}" for name in files]
    chosen = '--set=resources={"cpu":1,"memory":1,"disk":1,"network":0.5}'
    result = CliRunner().invoke(app, ["score", *options, chosen, "-o", "json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["scores"] == {"a": 60, "b": 78, "c": 90}
