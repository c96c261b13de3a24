import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from ballast_lab.experiments.load_traces import LoadTrace
from ballast_lab.experiments.predictors import DEFAULT, ORDERS, PREDICTORS, percentile
from ballast_lab.experiments.windows import Quality, part_qualities, results, winners
from tests.properties import examples

FIVE_MINUTES = 300.0


@examples(20)
@given(st.integers(0, 2**32 - 1))
def test_correlations_are_those_of_scipy(seed: int) -> None:
    """With one moment alone: the second half of two hours has one whole hour ahead once."""
    load = np.random.default_rng(seed).random((7, 24))
    [found] = part_qualities(load, FIVE_MINUTES, [DEFAULT])
    guess, future = load[:, 9:12].mean(axis=1), load[:, 12:24]
    assert found[0] == pytest.approx(spearmanr(guess, future.mean(axis=1)).statistic)
    assert found[1] == pytest.approx(spearmanr(guess, future.max(axis=1)).statistic)
    lowest = future.mean(axis=1)[np.argmin(guess)]
    mean = future.mean()
    assert found[2] == pytest.approx((mean - lowest) / (mean - future.mean(axis=1).min()))
    assert found[3] == pytest.approx((future.max(axis=1) > guess).mean())


def test_constant_nodes_are_ordered_perfectly_by_all() -> None:
    load = np.repeat(np.linspace(0.1, 0.9, 10)[:, None], 288, axis=1)
    found = part_qualities(load, FIVE_MINUTES, list(PREDICTORS))
    np.testing.assert_allclose(found[:, :3], 1.0)


def test_nodes_without_samples_do_not_count() -> None:
    load = np.repeat(np.linspace(0.1, 0.9, 10)[:, None], 288, axis=1)
    load[3] = np.nan
    found = part_qualities(load, FIVE_MINUTES, list(ORDERS))
    np.testing.assert_allclose(found[:, :3], 1.0)
    load[2:] = np.nan
    assert np.isnan(part_qualities(load, FIVE_MINUTES, list(ORDERS))).all()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("last sample", 0.9),
        ("mean 15 m", 0.8),
        ("mean + σ, 15 m", 0.8 + np.std([0.7, 0.8, 0.9])),
        ("mean 1 h", np.mean(np.arange(10) / 10)),
        ("max 1 h", 0.9),
        ("crane-scheduler Dynamic", 0.9),
    ],
)
def test_what_a_predictor_says_of_ten_samples(name: str, expected: float) -> None:
    assert PREDICTORS[name](np.arange(10)[None] / 10, FIVE_MINUTES) == pytest.approx([expected])


def test_a_winner_is_better_on_every_trace() -> None:
    def quality(mean: float) -> Quality:
        return Quality(mean, 0.0, 0.0, 0.0)

    found = {
        "a": {DEFAULT: quality(0.8), "x": quality(0.9), "y": quality(0.9)},
        "b": {DEFAULT: quality(0.8), "x": quality(0.81), "y": quality(0.8)},
    }
    assert winners(found) == ["x"]


def test_the_results_have_every_trace_and_say_what_is_missing() -> None:
    g = np.random.default_rng(0)
    trace = LoadTrace("Here", FIVE_MINUTES, (g.random((8, 72)), g.random((9, 72))))
    told = results([trace], ["There is left out."])
    assert {row.table for row in told.rows} == {
        "order by mean",
        "order by peak",
        "gain of the lowest tenth",
        "peaks above level",
        "rules: order by mean",
        "rules: gain of the lowest tenth",
    }
    assert all(row.published is None for row in told.rows)
    assert told.table.endswith("There is left out.\n")
    assert told.document()["left_out"] == ["There is left out."]


@given(seed=st.integers(0, 2**32 - 1), percent=st.sampled_from([0.0, 5.0, 50.0, 95.0, 99.0, 100.0]))
@examples(50)
def test_a_percentile_is_that_of_the_known_samples(seed: int, percent: float) -> None:
    rng = np.random.default_rng(seed)
    load = rng.random((4, int(rng.integers(1, 9))))
    load[rng.random(load.shape) < 0.4] = np.nan
    load[:3, 0] = rng.random(3)
    load[3] = np.nan
    answer = percentile(600, percent)(load, 60)
    assert answer[:3] == pytest.approx(np.nanpercentile(load[:3], percent, axis=1))
    assert np.isnan(answer[3])
