"""The label of the score: seldom, and soon when it matters."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ballast.windows.band import AT_ONCE, FAR, HOLD, STEPS, Band, label_of, position

GAP = 70.0
EVERY = 30.0
CYCLES = round(HOLD / EVERY)
"""Cycles from the first to the last of a time of HOLD."""
scores = st.floats(0, 100)
labels = st.integers(0, STEPS)


def score_at(steps: float) -> float:
    """The score of so many steps."""
    return steps * 100 / STEPS


def labelled(*seen: float | None, label: int | None = None, every: float = EVERY) -> list[int | None]:
    """The labels after scores in steps."""
    band = Band(gap=GAP, label=label)
    return [band.observe(every * i, None if steps is None else score_at(steps)) for i, steps in enumerate(seen)]


@given(scores)
def test_a_label_is_the_nearest_step(score: float) -> None:
    assert abs(label_of(score) - position(score)) <= 0.5
    assert 0 <= label_of(score) <= STEPS


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param([12, 12 + FAR], [12, 15], id="far away is taken at once"),
        pytest.param([12, 12 + FAR - 0.1], [12, 12], id="less is not"),
        pytest.param([12, *[13.0] * (CYCLES + 1)], [12] * (CYCLES + 1) + [13], id="a step away for HOLD"),
        pytest.param([12, *[12.99] * 100], [12] * 101, id="less than a step never"),
        pytest.param([12, *[13.0] * CYCLES, 12.5, *[13.0] * CYCLES], [12] * (2 * CYCLES + 2), id="back in between"),
        pytest.param([12, *[13.0] * CYCLES, None, 13.0], [12] * (CYCLES + 3), id="unknown in between"),
        pytest.param([12, *[13.5] * CYCLES, 14.2], [12] * (CYCLES + 1) + [14], id="it goes to where the score is"),
        pytest.param([None, 12.4], [None, 12], id="the first known score is taken as it is"),
    ],
)
def test_it_moves_by_its_rule(seen: list[float | None], expected: list[int | None]) -> None:
    assert labelled(*seen) == expected


def test_cycles_that_are_far_apart_say_nothing_about_the_time_between() -> None:
    assert labelled(12, 13.0, 13.0, 13.0, every=HOLD) == [12, 12, 12, 12]


def test_cycles_just_near_enough_count_as_one_time_and_a_repeated_one_changes_nothing() -> None:
    assert labelled(12, *[13.0] * 7, every=GAP) == [12] * 7 + [13]
    band = Band(gap=GAP)
    times = [EVERY * (i // 2) for i in range(2 * CYCLES + 3)]
    seen = [band.observe(at, score_at(13 if at else 12)) for at in times]
    assert seen == [12] * (2 * CYCLES + 2) + [13]


def test_nan_is_unknown() -> None:
    band = Band(gap=GAP, label=7)
    assert band.observe(0.0, math.nan) == 7


@example(10, score_at(10 + AT_ONCE))
@example(10, score_at(10 - AT_ONCE))
@given(labels, scores)
def test_a_label_that_was_there_before_is_replaced_at_once_where_it_is_of_another_scale(
    label: int, score: float
) -> None:
    now = Band(gap=GAP, label=label).observe(0.0, score)
    assert now == (label_of(score) if abs(position(score) - label) >= AT_ONCE else label)


@given(labels, st.floats(-0.99, 0.99))
def test_a_restart_with_the_label_of_the_node_keeps_it(label: int, away: float) -> None:
    assert set(labelled(*[label + away] * (CYCLES + 5), label=label)) == {label}


@given(st.lists(scores), scores)
def test_a_steady_score_settles_within_a_step_of_it(seen: list[float], score: float) -> None:
    band, last = Band(gap=GAP), None
    for i, value in enumerate([*seen, *[score] * (CYCLES + 2)]):
        last = band.observe(EVERY * i, value)
    assert last is not None
    assert abs(last - position(score)) < 1.0
