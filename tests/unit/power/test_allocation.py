"""Whose replicas change: published examples, and what went wrong elsewhere."""

from fractions import Fraction

import numpy as np
import pytest

from ballast.power.allocation import AllocationTarget, ReplicaAllocation, allocate, largest_remainder, whole


def target(name: str, current: int, minimum: int = 1, maximum: int = 20, **more: object) -> AllocationTarget:
    return AllocationTarget(name, current, minimum, maximum, **more)  # type: ignore[arg-type]


def member(name: str, current: int, weight: int, minimum: int = 1, maximum: int = 20) -> AllocationTarget:
    return AllocationTarget(name, current, minimum, maximum, group="group", weight=Fraction(weight))


def shares(amount: int, *weights: int) -> list[int]:
    found: list[int] = largest_remainder(amount, np.array(weights)).tolist()
    return found


def moves(split: ReplicaAllocation) -> tuple[int, ...]:
    return tuple(split.changes[name] for name in sorted(split.changes))


def test_less_goes_in_proportion_to_what_there_is() -> None:
    split = allocate([target("a", 10), target("b", 5), target("c", 5)], -4)
    assert moves(split) == (-2, -1, -1)
    assert (split.effective, split.unmet, split.redistributed) == (-4, 0, 0)


def test_more_goes_in_proportion_to_the_room() -> None:
    split = allocate([target("a", 10, maximum=12), target("b", 5), target("c", 5)], 6)
    assert [float(split.quotas[name]) for name in "abc"] == [0.375, 2.8125, 2.8125]
    assert moves(split) == (0, 3, 3)


@pytest.mark.parametrize(("delta", "expected"), [(-4, (-3, -1)), (4, (3, 1))])
def test_weights_work_the_same_way_up_and_down(delta: int, expected: tuple[int, ...]) -> None:
    assert moves(allocate([member("a", 5, 3), member("b", 5, 1)], delta)) == expected


def test_what_a_member_cannot_carry_goes_to_the_other() -> None:
    """menraromial/elara internal/controller/elarascaler_controller_unit_test.go: wanted +4/+2 and -3/-2."""
    assert moves(allocate([member("a", 8, 2, 1, 10), member("b", 2, 1, 1, 10)], 6)) == (2, 4)
    assert moves(allocate([member("a", 3, 3, 2, 10), member("b", 9, 2, 2, 10)], -5)) == (-1, -4)


def test_the_same_donor_is_not_taken_below_its_minimum() -> None:
    split = allocate([target("a", 2), target("b", 2, 2), target("c", 2)], -2)
    assert moves(split) == (-1, 0, -1)
    assert split.redistributed == 1


@pytest.mark.parametrize(("delta", "effective"), [(-9, -5), (30, 10)])
def test_what_nobody_can_carry_is_unmet(delta: int, effective: int) -> None:
    split = allocate([target("a", 10, 5)], delta)
    assert (split.effective, split.unmet) == (effective, delta - effective)


def test_nothing_happens_without_room_and_without_replicas() -> None:
    assert moves(allocate([target("a", 20), target("b", 20)], 5)) == (0, 0)
    assert moves(allocate([target("a", 0, 0)], -5)) == (0,)
    assert moves(allocate([], 5)) == ()


def test_a_group_keeps_its_share_before_others_get_it() -> None:
    group = [member("a", 9, 8, maximum=10), member("b", 5, 1, maximum=10), member("c", 6, 1, maximum=10)]
    targets = [*group, target("d", 5, maximum=15)]
    inside, across = allocate(targets, 6), allocate(targets, 6, inside_first=False)
    assert inside.shares == across.shares == {"group": 3, "d": 3}
    assert moves(inside) == (1, 2, 0, 3)
    assert across.changes["d"] > 3


def test_equal_remainders_go_by_name() -> None:
    equal = [target(name, 10) for name in "bca"]
    assert allocate(equal, -2).shares == {"a": 1, "b": 1, "c": 0}
    assert shares(2, 1, 1, 1) == [1, 1, 0]
    assert shares(2, 0, 0) == [1, 1]


def test_more_to_share_can_mean_less_for_one() -> None:
    """The Alabama paradox of the largest remainder: known, and accepted."""
    assert shares(10, 6, 6, 2) == [4, 4, 2]
    assert shares(11, 6, 6, 2) == [5, 5, 1]


def test_tenths_are_exact() -> None:
    weights, unit = whole([Fraction(text) for text in ("0.1", "0.2", "0.7")])
    assert unit == 10
    assert shares(10, *weights) == [1, 2, 7]


def test_day_and_night_keep_the_composition_when_it_is_restored_first() -> None:
    """Without, ten and two become five and seven, and in the end four and eight."""
    for restore, expected in ((True, (10, 2)), (False, (4, 8))):
        counts = {"a": 10, "b": 2}
        for delta in (-6, 6) * 4:
            targets = [
                target("a", counts["a"], maximum=10, baseline=10),
                target("b", counts["b"], maximum=16, baseline=2),
            ]
            split = allocate(targets, delta, restore_first=restore)
            counts = {name: count + split.changes[name] for name, count in counts.items()}
        assert tuple(counts.values()) == expected


def test_the_way_down_first_takes_what_is_above_the_baseline() -> None:
    split = allocate([target("a", 10, baseline=5), target("b", 10, baseline=10)], -6)
    assert moves(split) == (-5, -1)


def test_a_target_outside_its_bounds_is_brought_back_as_part_of_the_change() -> None:
    outside = [target("a", 9, 1, 4), target("b", 3, 1, 9)]
    assert moves(allocate(outside, -2)) == (-5, 3)
    assert moves(allocate(outside, 0)) == (-5, 5)
    assert moves(allocate(outside, 1)) == (-5, 6)
    assert moves(allocate(outside, -6)) == (-6, 0)


def test_a_suspended_target_is_left_alone() -> None:
    split = allocate([target("a", 0), target("b", 5)], 3)
    assert moves(split) == (0, 3)
    assert "a" not in split.quotas


def test_what_a_load_needs_is_taken_last() -> None:
    busy = [target("a", 10, needed=9), target("b", 10)]
    assert moves(allocate(busy, -8))[0] >= -1
    assert allocate(busy, -18).unmet == 0


def test_heavier_replicas_carry_more_of_the_reduction() -> None:
    split = allocate([target("a", 10, watts=Fraction(30)), target("b", 10, watts=Fraction(10))], -4)
    assert moves(split) == (-3, -1)
