"""The label of the score: seldom, and soon when it matters."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.scoring.scores import half_away
from ballast.windows.band import Band, label_of

GAP = 70.0
scores = st.integers(0, 100)
labels = st.integers(0, 10)


def labelled(label: int | None, *seen: float | None, every: float = 30.0) -> list[int | None]:
    band = Band(gap=GAP, label=label)
    return [band.observe(every * i, score) for i, score in enumerate(seen)]


@given(st.floats(0, 100))
def test_a_label_is_a_tenth_of_the_score_rounded_half_away(score: float) -> None:
    assert label_of(half_away(score)) == half_away(half_away(score) / 10)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((67, 67, 67, 67), [6, 6, 6, 6]),
        ((68, 68), [6, 7]),
        ((52, 52), [6, 5]),
        ((53, 53, 53), [6, 6, 6]),
        ((68, 64, 68, 68), [6, 6, 6, 7]),
        ((68, None, 68, 68), [6, 6, 6, 7]),
        ((68, math.nan, 68), [6, 6, 6]),
        ((68, 52), [6, 5]),
        ((75,), [8]),
        ((74, 74), [6, 7]),
        ((44,), [4]),
        ((45, 45), [6, 5]),
        ((100, 0), [10, 0]),
        ((None, 60), [6, 6]),
    ],
)
def test_a_label_of_six_moves_by_its_rule(seen: tuple[float | None, ...], expected: list[int]) -> None:
    assert labelled(6, *seen) == expected


def test_two_cycles_far_apart_are_not_in_a_row() -> None:
    assert labelled(6, 68, 68, 68, every=71.0) == [6, 6, 6]


def test_the_first_known_score_is_taken_as_it_is() -> None:
    assert labelled(None, None, 47) == [None, 5]


@given(labels, st.lists(st.floats(-7.99, 7.99), min_size=1))
def test_scores_within_three_points_of_the_band_never_move_it(label: int, away: list[float]) -> None:
    assert set(labelled(label, *(10 * label + x for x in away))) == {label}


@given(labels, scores)
def test_two_steps_or_more_are_taken_at_once(label: int, score: int) -> None:
    [now] = labelled(label, score)
    assert now == (label_of(score) if abs(label_of(score) - label) >= 2 else label)


@given(labels, st.lists(scores, min_size=2))
def test_whoever_left_the_band_for_two_cycles_is_where_the_score_is(label: int, seen: list[int]) -> None:
    before = [label, *labelled(label, *seen)]
    for index in range(1, len(seen)):
        old = before[index - 1]
        if old is not None and all(abs(score - 10 * old) >= 8 for score in seen[index - 1 : index + 1]):
            moved = before[index] if before[index] != old else before[index + 1]
            assert moved != old


@given(labels, st.lists(scores), scores)
def test_a_steady_score_settles_for_good(label: int, seen: list[int], score: int) -> None:
    now = labelled(label, *seen, *[score] * 6)
    assert len(set(now[-4:])) == 1


@given(labels, st.lists(scores, min_size=1))
def test_a_restart_with_the_label_of_the_node_keeps_it(label: int, seen: list[int]) -> None:
    last = labelled(label, *seen)[-1]
    assert last is not None
    assert labelled(last, 10 * last) == [last]
