from typing import Any

import pytest

from ballast.base.errors import UsageError
from ballast.scoring.strategy import NAMES, strategy
from ballast.settings import load as settings
from tests.unit.scoring.worlds import a_fleet, load, node, pod, scored

AMOUNTS = {"cpu": "4", "memory": "8Gi"}
NODES = [node("a", AMOUNTS), node("b", AMOUNTS), node("c", AMOUNTS)]
PLACED = [pod({"cpu": "1", "memory": "1Gi"}, name="p1", on="a"), pod({"cpu": "2", "memory": "1Gi"}, name="p2", on="b")]
ARRIVING = pod({"cpu": "500m", "memory": "1Gi"})


def test_scores_are_the_mean_by_weights() -> None:
    fleet = a_fleet(NODES, PLACED, load(a={"cpu": 10}, b={"cpu": 50}, c={"cpu": 90}))
    weights = {"least-allocated": 3, "load-variation": 1}
    parts = {name: scored(fleet, ARRIVING, name).scores for name in weights}
    found = scored(fleet, ARRIVING, "blend", weights=weights)
    means = [(3 * one + other) / 4 for one, other in zip(*(parts[n].tolist() for n in weights), strict=True)]
    assert found.raw.tolist() == means
    assert [abs(score - mean) <= 0.5 for score, mean in zip(found.scores.tolist(), means, strict=True)] == [True] * 3
    assert {name: values.tolist() for name, values in found.terms.items()} == {n: parts[n].tolist() for n in weights}


def test_by_default_it_is_dominant_residual_and_load_variation() -> None:
    fleet = a_fleet(NODES, PLACED, load(a={"cpu": 10}, b={"cpu": 50}, c={"cpu": 90}))
    weights = {"dominant-residual": 0.7, "load-variation": 0.3}
    assert (
        scored(fleet, ARRIVING, "blend").raw.tolist() == scored(fleet, ARRIVING, "blend", weights=weights).raw.tolist()
    )


def test_where_a_strategy_knows_some_nodes_the_others_count_as_its_worst() -> None:
    fleet = a_fleet(NODES, PLACED, load(a={"cpu": 10}, b={"cpu": 80}))
    found = scored(fleet, ARRIVING, "blend", weights={"load-variation": 1})
    assert found.scores.tolist()[2] == found.scores.tolist()[1] < found.scores.tolist()[0]
    assert found.unknown.tolist() == [False, False, True]


def test_a_strategy_that_knows_nothing_is_left_out() -> None:
    fleet = a_fleet(NODES, PLACED)
    found = scored(fleet, ARRIVING, "blend", weights={"least-allocated": 1, "load-variation": 9})
    assert found.scores.tolist() == scored(fleet, ARRIVING, "least-allocated").scores.tolist()
    assert not found.unknown.any()


def test_when_nothing_is_known_all_are_unknown_and_score_zero() -> None:
    found = scored(a_fleet(NODES), ARRIVING, "blend", weights={"load-variation": 1, "target-load": 1})
    assert found.scores.tolist() == [0, 0, 0]
    assert found.unknown.all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"load-variation": 0}, "they sum to 0"),
        ({"load-variation": -1}, "the weight of load-variation cannot be -1"),
        ({"blend": 1}, "a blend cannot contain itself"),
        ({"load-variaton": 1}, "There is no strategy 'load-variaton'. Did you mean load-variation"),
        ({"peaks": 1}, "node_power_model cannot be null"),
        ({}, "at least one entry"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weights: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        strategy("blend", {"weights": weights})


@pytest.mark.parametrize("name", NAMES)
def test_the_settings_take_every_strategy(name: str) -> None:
    assert settings({"BALLAST_EXTENDER__STRATEGY": name}).extender.strategy == name


def test_an_unknown_strategy_is_refused_with_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"There is no strategy 'magic'\. Choose one of .*load-variation, "):
        strategy("magic")
