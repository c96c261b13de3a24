"""Decisions against a naive reading of the whole history."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.windows.debounce import Classifier, HysteresisSwitch, Streak

GAP = 70.0
ENTER, LEAVE = 0.8, 0.75

loads = st.one_of(st.none(), st.sampled_from([0.0, 0.2, 0.3, 0.32, 0.35, 0.5, 0.75, 0.77, 0.8, 0.9, math.nan]))
histories = st.lists(st.tuples(st.sampled_from([-500.0, 1.0, 30.0, 70.0, 70.5, 300.0]), loads), max_size=30)


def timed(history: list[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    at, story = 1000.0, []
    for later, load in history:
        at += later
        story.append((at, load))
    return story


def naive_states(story: list[tuple[float, float | None]], marks: int, state: bool | None) -> list[bool | None]:
    """The state flips when the last `marks` observations, all after the last flip, contradict it without a long gap."""
    states: list[bool | None] = []
    since = 0
    for index, (_, load) in enumerate(story):
        if state is None:
            if load is not None and not math.isnan(load):
                state, since = load >= ENTER, index + 1
        else:
            last = story[max(since, index + 1 - marks) : index + 1]
            contrary = all(load is not None and (load < LEAVE if state else load >= ENTER) for _, load in last)
            steady = all(0 < b[0] - a[0] <= GAP for a, b in pairwise(last))
            if len(last) == marks and contrary and steady:
                state, since = not state, index + 1
        states.append(state)
    return states


@given(histories, st.integers(1, 4), st.sampled_from([True, False, None]))
def test_a_switch_flips_after_consecutive_contrary_observations_only(
    history: list[tuple[float, float | None]], marks: int, state: bool | None
) -> None:
    story = timed(history)
    switch = HysteresisSwitch(ENTER, LEAVE, gap=GAP, state=state, marks=marks)
    assert [switch.observe(at, load) for at, load in story] == naive_states(story, marks, state)


@given(histories, st.sampled_from(["low", "normal", "high", "unknown", None]))
def test_a_class_moves_only_when_its_thresholds_are_crossed_twice_in_a_row(
    history: list[tuple[float, float | None]], current: str | None
) -> None:
    classifier = Classifier(0.3, 0.8, 0.05, gap=GAP, current=current)
    was = current if current in ("low", "normal", "high") else None
    before: tuple[float, float | None] | None = None
    for at, load in timed(history):
        now = classifier.observe(at, load)
        if was is not None and now != was:
            assert load is not None
            assert before is not None
            assert before[1] is not None
            assert 0 < at - before[0] <= GAP
            crossed = {
                "high": lambda x: x >= 0.8,
                "low": lambda x: x < 0.3,
                "normal": lambda x: x < 0.75 if was == "high" else x >= 0.35,  # noqa: B023
            }[now or "none"]
            assert crossed(load)
            assert crossed(before[1]) or was == "low"
        was, before = now, (at, load)


@given(st.floats(0, 1), st.sampled_from(["low", "normal", "high"]))
def test_a_restart_with_the_label_of_the_node_changes_nothing_at_once(load: float, current: str) -> None:
    assert Classifier(0.3, 0.8, 0.05, gap=GAP, current=current).observe(0.0, load) == current


@pytest.mark.parametrize(
    ("load", "expected"), [(0.0, "low"), (0.29, "low"), (0.3, "normal"), (0.79, "normal"), (0.8, "high"), (1.4, "high")]
)
@pytest.mark.parametrize("current", [None, "unknown", "what"])
def test_a_node_without_a_class_takes_its_first_at_once(load: float, expected: str, current: str | None) -> None:
    assert Classifier(0.3, 0.8, 0.05, gap=GAP, current=current).observe(0.0, load) == expected


def test_a_class_needs_two_cycles_in_a_row() -> None:
    classifier = Classifier(0.3, 0.8, 0.05, gap=GAP, current="normal")
    story = [(0, 0.9), (30, 0.5), (60, 0.9), (90, None), (120, 0.9), (300, 0.9), (330, 0.9), (360, 0.77), (390, 0.77)]
    assert [classifier.observe(at, load) for at, load in story] == ["normal"] * 6 + ["high"] * 3


def test_a_load_that_swings_around_high_leaves_low() -> None:
    classifier = Classifier(0.3, 0.8, 0.05, gap=GAP, current="low")
    assert [classifier.observe(30 * i, load) for i, load in enumerate([0.7, 0.85, 0.7, 0.85])] == ["low"] + [
        "normal"
    ] * 3


def test_a_load_that_rises_from_low_to_high_is_not_called_normal_between() -> None:
    classifier = Classifier(0.3, 0.8, 0.05, gap=GAP, current="low")
    assert [classifier.observe(30 * i, 0.9) for i in range(2)] == ["low", "high"]


def test_a_node_never_known_has_no_class() -> None:
    assert Classifier(0.3, 0.8, 0.05, gap=GAP).observe(0.0, None) is None


@pytest.mark.parametrize(
    ("state", "load", "states"),
    [
        pytest.param(False, ENTER, [False, True, True], id="it turns on where it enters"),
        pytest.param(False, LEAVE, [False, False, False], id="not where it would stay on"),
        pytest.param(True, LEAVE, [True, True, True], id="it stays on where it leaves"),
        pytest.param(True, LEAVE - 0.01, [True, False, False], id="it turns off below"),
    ],
)
def test_a_switch_turns_at_its_limits(state: bool, load: float, states: list[bool]) -> None:
    switch = HysteresisSwitch(ENTER, LEAVE, gap=GAP, state=state)
    assert [switch.observe(at, load) for at in (0.0, 0.5, GAP)] == states


def test_a_switch_may_leave_where_it_enters() -> None:
    switch = HysteresisSwitch(0.5, 0.5, gap=GAP, state=False, marks=1)
    assert [switch.observe(0.0, load) for load in (0.5, 0.4)] == [True, False]


@pytest.mark.parametrize("marks", [1, 3])
def test_a_class_takes_as_many_marks_as_told_and_another_load_for_high(marks: int) -> None:
    classifiers = [Classifier(0.3, 0.8, 0.05, gap=GAP, current=current, marks=marks) for current in ("low", "normal")]
    seen = [[one.observe(30 * i, 0.4, 0.9) for one in classifiers] for i in range(3)]
    assert seen[marks - 1] == ["high", "high"]
    assert seen[: marks - 1] == [["low", "normal"]] * (marks - 1)
    assert Classifier(0.3, 0.8, 0.05, gap=GAP, current="low", marks=marks).observe(0.0, 0.4) == (
        "normal" if marks == 1 else "low"
    )


def test_marks_are_at_most_the_gap_apart() -> None:
    run = Streak(GAP)
    assert [run.mark(at) for at in (0, 0.5, 0.5 + GAP, 0.6 + 2 * GAP)] == [1, 2, 3, 1]


def test_the_same_instant_twice_is_one_mark() -> None:
    run = Streak(GAP)
    assert [run.mark(at) for at in (0, 0, 30, 30, 60)] == [1, 1, 2, 2, 3]


def test_a_clock_that_goes_back_starts_a_new_run() -> None:
    run = Streak(GAP)
    assert [run.mark(at) for at in (100, 130, 10, 40)] == [1, 2, 1, 2]


def test_a_switch_that_would_leave_above_where_it_enters_is_refused() -> None:
    with pytest.raises(ValueError, match=r"enter 0\.5"):
        HysteresisSwitch(0.5, 0.6, gap=GAP)
