"""The dominant-residual criterion against a literal reading of its formula."""

import json
import math
import random
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.base.errors import UsageError
from ballast.scoring.dominant_residual import DominantResidual, exact_scores
from ballast.scoring.profiles import Arrivals, observed
from ballast.scoring.residual import NOWHERE, Criterion, Residuals, steps
from ballast.scoring.scores import half_away
from ballast.scoring.strategy import strategy
from tests.unit.scoring.worlds import a_fleet, by_node, node, pod, scored

DATA = Path(__file__).parents[2] / "data"
WORLDS = json.loads((files("ballast_lab.experiments") / "data/worlds.json").read_text())
PODS = json.loads((DATA / "pods_seed0.json").read_text())
MIB, GIB = 2**20, 2**30

PROFILES = [
    {"requests": {"cpu": "1", "memory": "2Gi"}, "weight": 3},
    {"requests": {"cpu": "2", "memory": "1Gi", "ephemeral-storage": "10Gi"}, "weight": 1},
]
NODES = [
    node("big", {"cpu": "16", "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": "1"}),
    node("small", {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "20Gi", "pods": "1"}),
    node("dry", {"cpu": "16", "memory": "64Gi", "pods": "1"}),
]


def literal(whole: list[float], free: list[float], asked: list[float], lambda_: float, c: float, g: str) -> float:
    """L, word for word; the profiles are those above."""
    profiles = [([1.0, 2.0 * GIB, 0.0], 3.0), ([2.0, 1.0 * GIB, 10.0 * GIB], 1.0)]

    def fitness(left: list[float]) -> float:
        total = 0.0
        for profile, weight in profiles:
            times = min(left[k] / profile[k] for k in range(3) if profile[k] > 0) / c
            total += weight * (math.sqrt(times) if g == "sqrt" else min(times, 1.0))
        return total / sum(weight for _, weight in profiles)

    after = [left - want for left, want in zip(free, asked, strict=True)]
    shares = [(whole[k] - after[k]) / whole[k] for k in range(3) if whole[k] > 0]
    return lambda_ * max(shares) + (1 - lambda_) * (fitness(free) - fitness(after))


@pytest.mark.parametrize("g", ["linear", "sqrt"])
@pytest.mark.parametrize(("lambda_", "c"), [(0.1, 2.0), (0.0, 22.0), (1.0, 1.0), (0.6, 50.0)])
def test_the_raw_score_is_the_formula(g: str, lambda_: float, c: float) -> None:
    placed = pod({"cpu": "3", "memory": "5Gi", "ephemeral-storage": "1Gi"}, name="old", on="small")
    fleet = a_fleet(NODES, [placed])
    keys = {"lambda": lambda_, "c": c, "g": g, "profiles": PROFILES}
    found = scored(fleet, pod({"cpu": "1", "memory": "2Gi"}), "dominant-residual", **keys)
    asked = [1.0, 2.0 * GIB, 0.0]
    expected = [
        literal([16.0, 64.0 * GIB, 100.0 * GIB], [16.0, 64.0 * GIB, 100.0 * GIB], asked, lambda_, c, g),
        literal([4.0, 8.0 * GIB, 20.0 * GIB], [1.0, 3.0 * GIB, 19.0 * GIB], asked, lambda_, c, g),
        literal([16.0, 64.0 * GIB, 0.0], [16.0, 64.0 * GIB, 0.0], asked, lambda_, c, g),
    ]
    assert found.raw.tolist() == pytest.approx(expected, abs=1e-12)
    assert (np.diff(found.exact[np.argsort(found.raw)]) <= 0).all()


def test_a_node_where_the_pod_does_not_fit_scores_zero_and_has_no_raw_score() -> None:
    found = scored(a_fleet(NODES), pod({"cpu": "8", "ephemeral-storage": "1Gi"}), "dominant-residual")
    assert found.scores.tolist() == [100, 0, 0]
    assert np.isnan(found.raw).tolist() == [False, True, True]
    assert not found.unknown.any()


def test_what_is_not_requested_may_be_overcommitted_and_the_number_of_pods_is_no_resource() -> None:
    placed = [pod({"cpu": "1", "ephemeral-storage": "90Gi"}, name=f"p{i}", on="big") for i in range(2)]
    found = scored(a_fleet(NODES[:1], placed), pod({"cpu": "1"}), "dominant-residual")
    assert found.scores.tolist() == [100]


def test_a_resource_outside_the_criterion_still_has_to_be_there() -> None:
    keys: dict[str, Any] = {"resources": ["cpu", "memory"], "lambda": 1}
    found = scored(a_fleet(NODES), pod({"cpu": "1", "ephemeral-storage": "19Gi"}), "dominant-residual", **keys)
    assert by_node(a_fleet(NODES), found)["dry"] == 0
    assert found.raw.tolist()[:2] == [1 / 16, 1 / 4]


def test_without_profiles_the_requests_of_the_pods_that_are_known_count() -> None:
    placed = [pod({"cpu": "1"}, name=f"p{i}", on="big") for i in range(3)] + [
        pod({"cpu": "2"}, name="w", on="big"),
        pod({"cpu": "8"}, name="waits"),
    ]
    done = pod({"cpu": "9"}, name="done", on="big")
    done["status"]["phase"] = "Succeeded"  # type: ignore[index]
    fleet = a_fleet(NODES, [*placed, done])
    assert [(dict(each.requests), each.weight) for each in observed(fleet.pods)] == [
        ({"cpu": 1000}, 3),
        ({"cpu": 2000}, 1),
    ]
    assert [each.weight for each in observed(fleet.pods, limit=1)] == [3]
    given = [{"requests": {"cpu": "1"}, "weight": 3}, {"requests": {"cpu": "2"}, "weight": 1}]
    arriving = pod({"cpu": "1"})
    observing = scored(fleet, arriving, "dominant-residual")
    assert observing.raw.tolist() == scored(fleet, arriving, "dominant-residual", profiles=given).raw.tolist()


def test_a_profile_that_asks_for_nothing_loses_nothing() -> None:
    profiles = [{"requests": {}, "weight": 1}, {"requests": {"cpu": "1"}, "weight": 1}]
    keys: dict[str, Any] = {"lambda": 0, "c": 100, "g": "linear", "profiles": profiles}
    found = scored(a_fleet(NODES[:1]), pod({"cpu": "4"}), "dominant-residual", **keys)
    assert found.raw.tolist() == [pytest.approx(0.5 * 4 / 100)]


losses = st.lists(st.floats(0, 3, allow_nan=False), min_size=2, max_size=40)


@given(values=losses)
def test_scores_fall_with_l_and_differ_where_l_differs_by_3_percent_of_the_spread(values: list[float]) -> None:
    array = np.array(values)
    scores = half_away(exact_scores(steps(array), np.ones(len(array), bool)))
    assert ((scores >= 1) & (scores <= 100)).all()
    spread = max(values) - min(values)
    for one, left in zip(values, scores.tolist(), strict=True):
        for other, right in zip(values, scores.tolist(), strict=True):
            if one < other:
                assert left >= right
            if other - one >= 0.03 * max(1, spread):
                assert left > right


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_keeping_up_with_changes_gives_what_computing_again_gives(root: bool, seed: int) -> None:
    dice = np.random.default_rng(seed)
    profiles = dice.integers(0, 8, (5, 3)).astype(float)
    profiles[0] = 0
    whole = dice.integers(0, 60, (9, 3)).astype(float)
    criterion = Criterion(profiles, np.full(5, 0.2), 0.1, 2.0, root)
    kept, free = Residuals(criterion, whole, whole, limit=3), whole.copy()
    placed: list[tuple[int, Any]] = []
    for _ in range(120):
        request = profiles[dice.integers(5)]
        found = kept.steps(request)
        again = Residuals(criterion, whole, free).steps(request)
        assert found.tolist() == again.tolist()
        if placed and dice.random() < 0.3:
            row, taken = placed.pop(int(dice.integers(len(placed))))
            kept.release(row, taken)
            free[row] += taken
        elif found.min() != NOWHERE:
            row = int(found.argmin())
            kept.place(row, request)
            free[row] -= request
            placed.append((row, request))


@pytest.mark.parametrize(("world", "least"), [("R1", 710), ("near12_0", 740)])
def test_most_pods_of_the_worlds_find_a_place(world: str, least: int) -> None:
    """1,000 pods, one after another, each to the node with the least L; ties go to the first node."""
    shapes = np.array(WORLDS[world]["R"], float)
    whole = np.array(WORLDS[world]["A0"], float)
    weights = _frequencies()
    counts = {}
    for name, criterion in (
        ("published", Criterion(shapes, weights, 0.1, 22.0, root=False)),
        ("ours", Criterion(shapes, weights, 0.1, 2.0, root=True)),
    ):
        residuals, count = Residuals(criterion, whole, whole), 0
        for shape in PODS:
            found = residuals.steps(shapes[shape])
            row = int(found.argmin())
            if found[row] != NOWHERE:
                residuals.place(row, shapes[shape])
                count += 1
        counts[name] = count
    assert min(counts.values()) >= least


def _frequencies() -> Any:
    kinds = np.array([0.75 * 0.85, 0.75 * 0.15, 0.25])
    sizes = np.array([0.5, 0.25, 0.125, 0.125])
    return np.outer(kinds, sizes).ravel()


def test_the_order_of_nodes_does_not_matter() -> None:
    dice = random.Random(1)
    arriving = pod({"cpu": "1", "memory": "1Gi"})
    first = by_node(a_fleet(NODES), scored(a_fleet(NODES), arriving, "dominant-residual", profiles=PROFILES))
    for _ in range(3):
        nodes = dice.sample(NODES, len(NODES))
        fleet = a_fleet(nodes)
        assert by_node(fleet, scored(fleet, arriving, "dominant-residual", profiles=PROFILES)) == first


def test_l_is_compared_in_steps_that_hide_the_order_of_sums() -> None:
    assert steps(np.array([0.1 + 0.2 - 0.3, 0.0, 0.5])).tolist() == [0, 0, 500_000_000]


def test_arrivals_are_learned_as_a_weighted_mean_that_forgets() -> None:
    arrivals = Arrivals(rate=0.5, limit=2)
    for requests in ({"cpu": 1}, {"cpu": 1, "pods": 1}, {"cpu": 2}):
        arrivals.learn(requests)
    assert [(dict(each.requests), each.weight) for each in arrivals.profiles()] == [
        ({"cpu": 1}, 0.5),
        ({"cpu": 2}, 0.5),
    ]
    arrivals.learn({"cpu": 3})
    assert {each.requests["cpu"] for each in arrivals.profiles()} == {2, 3} or len(arrivals.profiles()) == 2


def test_keys_have_defaults_that_follow_g() -> None:
    assert strategy("dominant-residual") == DominantResidual(0.1, 2.0, True)
    assert strategy("dominant-residual", {"g": "linear"}) == DominantResidual(0.1, 22.0, False)
    assert strategy("dominant-residual", {"resources": "cpu,memory"}) == DominantResidual(resources=("cpu", "memory"))
    assert strategy("dominant-residual", {"resources": {"cpu": 1}}) == DominantResidual(resources=("cpu",))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"lambda": 1.1}, "lambda cannot be 1.1; give a number from 0 to 1"),
        ({"c": 0.5}, "c cannot be 0.5"),
        ({"g": "log"}, "choose one of linear, sqrt"),
        ({"profiles": []}, "profiles cannot be"),
        ({"profiles": [{"weight": 1}]}, "profiles cannot be"),
        ({"profiles": [{"requests": {"cpu": "lots"}}]}, "'lots' is not a Kubernetes quantity"),
        ({"profiles": [{"requests": {"cpu": 1}, "weight": 0}]}, "weights above 0"),
        ({"resources": ["gpu"]}, "no resource the scheduler scores"),
        ({"resources": []}, "give a list of names"),
    ],
)
def test_what_cannot_be_used_is_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        strategy("dominant-residual", keys)
