"""load-variation against the vectors of Trimaran's own tests, and on snapshots."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.node import Node
from ballast.model.node_state import NodeStates
from ballast.model.snapshot import Snapshot, Window
from ballast.scoring.load_variation import mu_sigma, resource_score, scores
from ballast.scoring.scores import half_away, integers

VECTORS = json.loads((Path(__file__).parents[2] / "data" / "trimaran.json").read_text())["vectors"]
KINDS = {"CPU": "cpu", "Memory": "memory"}


def vectors(function: str) -> list[Any]:
    return [pytest.param(v["inputs"], v["expected"], id=v["case"]) for v in VECTORS if v["function"] == function]


@pytest.mark.parametrize(("inputs", "expected"), vectors("GetMuSigma"))
def test_mu_and_sigma_are_trimarans(inputs: dict[str, float], expected: dict[str, float]) -> None:
    mu, sigma = mu_sigma(inputs["Capacity"], inputs["Req"], inputs["UsedAvg"], inputs["UsedStdev"])
    assert (float(mu), float(sigma)) == (expected["mu"], expected["sigma"])


@pytest.mark.parametrize(("inputs", "expected"), vectors("round(computeScore)"))
def test_the_score_of_a_resource_is_trimarans(inputs: dict[str, float], expected: int) -> None:
    score = resource_score(
        inputs["Capacity"],
        inputs["Req"],
        inputs["UsedAvg"],
        inputs["UsedStdev"],
        inputs["margin"],
        inputs["sensitivity"],
    )
    assert half_away(float(score)) == expected


@pytest.mark.parametrize(("inputs", "expected"), vectors("LoadVariationRiskBalancing.Score"))
def test_the_score_of_a_node_is_trimarans_except_where_nothing_is_known(
    inputs: dict[str, Any], expected: dict[str, int]
) -> None:
    node, args = inputs["node"], inputs["args"]
    metrics = (inputs["watcher"]["NodeMetricsMap"] or {}).get(node["name"], [])
    percent = {(KINDS[m["type"]], m["operator"]): m["value"] for m in metrics}
    loads = {
        kind: (percent[kind, "AVG"] / 100, percent.get((kind, "STD"), 0.0) / 100)
        for kind, operator in percent
        if operator == "AVG"
    }
    request = {
        resource: sum(container["requests"][key] for container in inputs["pod"]["containers"]) / unit
        for resource, key, unit in (("cpu", "cpu_m", 1000), ("memory", "memory_b", 1))
    }
    allocatable = {"cpu": node["allocatable"]["cpu_m"] / 1000, "memory": node["allocatable"]["memory_b"]}
    [score] = scores(
        snapshot(loads, Node(name=node["name"], allocatable=allocatable)),
        request,
        margin=args["safeVarianceMargin"],
        sensitivity=args["safeVarianceSensitivity"],
    )
    if metrics:
        assert score == expected[node["name"]]
    else:
        assert math.isnan(score)


def test_a_node_with_one_known_resource_is_scored_by_that_one() -> None:
    assert scores(snapshot({"memory": (0.4, 0.1)})).tolist() == [75.0]


def test_resources_other_than_cpu_and_memory_do_not_count() -> None:
    assert np.isnan(scores(snapshot({"disk": (0.4, 0.1)}))).all()


def test_a_resource_that_is_not_requested_is_scored_by_its_load() -> None:
    node = Node(name="node-1", allocatable={"cpu": 4.0, "memory": 8.0})
    loads = {"cpu": (0.2, 0.0), "memory": (0.4, 0.0)}
    assert scores(snapshot(loads, node), {"cpu": 2.0}).tolist() == [65.0]


def test_a_node_without_the_requested_capacity_scores_zero() -> None:
    assert scores(snapshot({"cpu": (0.4, 0.1)}), {"cpu": 1.0}).tolist() == [0.0]


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (-2.5, -3), (0.49999999999999994, 0), (62.5, 63), (7.0, 7), (-0.2, 0)],
)
def test_halves_are_rounded_away_from_zero(value: float, rounded: int) -> None:
    assert half_away(value) == rounded
    assert half_away(np.array([value])).tolist() == [rounded]


def test_an_unknown_score_is_no_integer() -> None:
    assert integers(np.array([75.0, math.nan, 0.0])) == [75, None, 0]


unit = st.floats(0, 1)


@given(mean=st.floats(0, 3), deviation=st.floats(0, 3), margin=st.floats(-5, 5), sensitivity=st.floats(-2, 8))
def test_scores_stay_within_0_and_100(mean: float, deviation: float, margin: float, sensitivity: float) -> None:
    assert 0 <= float(resource_score(1.0, 0.0, mean, deviation, margin, sensitivity)) <= 100


@given(mean=unit, more=unit, deviation=unit)
def test_more_load_never_scores_better(mean: float, more: float, deviation: float) -> None:
    calm, busy = (float(resource_score(1.0, 0.0, load, deviation)) for load in (mean, mean + more))
    assert busy <= calm


def snapshot(loads: Mapping[str, tuple[float, float]], node: Node | None = None) -> Snapshot:
    """One node whose loads are (mean, deviation) per resource."""
    resources = ("cpu", "memory", "disk")
    mean, std = (
        np.array([[loads[name][part] if name in loads else math.nan] for name in resources]) for part in (0, 1)
    )
    known = np.array([[name in loads] for name in resources])
    window = Window("15m", 900.0, mean, std, mean, known * 60, known * 1.0, known)
    return Snapshot(
        time=1_700_000_000.0,
        nodes=(node or Node(name="node-1"),),
        resources=resources,
        windows={"15m": window},
        newest=np.full((3, 1), 1_700_000_000.0),
        allocatable_share=np.ones((3, 1)),
        states=NodeStates.of(known[:2].any(axis=0)),
    )
