"""Whether the draw moved as predicted: what is judged, what is missed, and what ends a judgement."""

import pytest

from ballast.power.verification import SAMPLES, Verification

TICK = 15.0


def watched(draw: list[float], predicted: float, averaged: float = 0.0) -> Verification:
    """An action after the first measurement, then the others."""
    found = Verification(averaged)
    found.measure(0.0, draw[0])
    found.acted(0.0, predicted)
    for number, watts in enumerate(draw[1:], start=1):
        found.measure(TICK * number, watts)
    return found


@pytest.mark.parametrize("after", [1000.0, 1100.0, 960.0])
def test_a_fall_that_does_not_come_is_missed(after: float) -> None:
    found = watched([1000.0, *[after] * (SAMPLES + 1)], -200)
    assert found.missed is not None
    assert found.missed.stops
    assert f"-200 W was predicted, {after - 1000:+.0f} W were measured" in found.missed.text


def test_nothing_is_missed_before_there_was_time() -> None:
    assert watched([1000.0] * SAMPLES, -200).missed is None
    assert watched([1000.0] * (SAMPLES + 2), -200, averaged=600).missed is None


def test_a_change_that_comes_late_or_in_part_is_none_to_stop_for() -> None:
    assert watched([1000.0, *[1000.0] * 10, *[930.0] * 30], -200).missed is None


def test_small_changes_are_not_judged() -> None:
    assert watched([1000.0] * 50, -40).missed is None


def test_a_rise_without_effect_is_said_but_stops_nothing() -> None:
    found = watched([1000.0] * 50, 200)
    assert found.missed is not None
    assert not found.missed.stops


def test_what_comes_after_all_is_missed_no_longer() -> None:
    found = watched([1000.0] * 50, -200)
    found.measure(1000.0, 800.0)
    assert found.missed is None


def test_others_and_the_contrary_end_a_judgement() -> None:
    for end in (Verification.disturbed, lambda each: each.acted(TICK, 300.0), Verification.reset):
        found = Verification()
        found.measure(0.0, 1000.0)
        found.acted(0.0, -200.0)
        end(found)
        for number in range(1, 50):
            found.measure(TICK * number, 1100.0)
        assert found.missed is None


def test_before_the_first_measurement_nothing_can_be_judged() -> None:
    found = Verification()
    found.acted(0.0, -200.0)
    for number in range(50):
        found.measure(TICK * number, 1000.0)
    assert found.missed is None
