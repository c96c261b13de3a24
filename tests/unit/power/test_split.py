"""Allocations on arrays are those of the plain implementation, to the replica."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ballast.power.allocation import AllocationTarget, allocate
from ballast.power.within_budget import fill, shed, watts_of, within_bounds
from tests.unit.power import plain_allocation as plain
from tests.worlds.power import examples

WATTS = [Fraction(1), Fraction(25), Fraction(101, 2), Fraction(100, 3)]
HUGE = Fraction(10**17 + 1, 7)
WEIGHTS = [Fraction(0), Fraction(1, 10), Fraction(1), Fraction(7, 2)]


@st.composite
def worlds(draw: st.DrawFn, *, inside: bool) -> list[AllocationTarget]:
    """Up to twelve targets with groups, priorities, baselines and needs; some with watts beyond 64 bits."""
    watts = draw(st.sampled_from([WATTS[:1], WATTS, [*WATTS, HUGE]]))
    priorities = draw(st.sampled_from([{"g1": 0, "g2": 0}, {"g1": -1, "g2": 2}]))
    found = []
    for index in range(draw(st.integers(1, 12))):
        low = draw(st.integers(0, 6))
        high = low + draw(st.integers(0, 40))
        group = draw(st.sampled_from([None, None, "g1", "g2", "ns/t11"]))
        one = AllocationTarget(
            f"ns/t{index}",
            draw(st.integers(low, high) if inside else st.integers(0, 60)),
            low,
            high,
            group,
            draw(st.sampled_from(WEIGHTS)),
            draw(st.sampled_from(watts)),
            draw(st.none() | st.integers(0, 50)),
            draw(st.sampled_from([0, 0, 3, 20])),
            priorities.get(group or "", draw(st.sampled_from([0, 0, 0, 1])) if priorities["g1"] else 0),
        )
        found.append(one)
    return [one for one in found if not one.suspended]


@examples
@given(worlds(inside=False), st.integers(-400, 400), st.booleans(), st.booleans())
def test_any_change_is_split_as_the_plain_way_does(
    targets: list[AllocationTarget], delta: int, restore: bool, inside: bool
) -> None:
    found = allocate(targets, delta, restore_first=restore, inside_first=inside)
    assert found == plain.allocate(targets, delta, restore_first=restore, inside_first=inside)


@examples
@given(worlds(inside=True), st.fractions(0, 6000, max_denominator=30), st.booleans())
def test_any_budget_of_watts_ends_where_the_plain_way_does(
    targets: list[AllocationTarget], watts: Fraction, restore: bool
) -> None:
    if targets:
        watts = watts * (10**13 if any(target.watts == HUGE for target in targets) else 1)
        assert shed(targets, watts, restore_first=restore) == plain.shed(targets, watts, restore_first=restore)
        assert fill(targets, watts, restore_first=restore) == plain.fill(targets, watts, restore_first=restore)


@examples
@given(st.lists(st.tuples(st.integers(1, 3_000), st.sampled_from(WATTS)), min_size=2, max_size=9), st.data())
def test_nor_does_it_matter_how_many_replicas_there_are(sizes: list[tuple[int, Fraction]], data: st.DataObject) -> None:
    targets = [AllocationTarget(f"ns/t{i}", size, 0, size, watts=watts) for i, (size, watts) in enumerate(sizes)]
    watts = Fraction(data.draw(st.integers(0, int(plain.watts_of(targets, {t.name: t.current for t in targets})))))
    fewer = shed(targets, watts, restore_first=True)
    assert fewer == plain.shed(targets, watts, restore_first=True)
    smaller = [replace(target, current=fewer[target.name]) for target in targets]
    assert fill(smaller, watts * 2, restore_first=False) == plain.fill(smaller, watts * 2, restore_first=False)


@pytest.mark.parametrize(("watts", "begun"), [(9, ""), (10, "h"), (25, "ah"), (110, "hz"), (125, "ahz")])
def test_what_heavy_replicas_leave_over_goes_to_lighter_ones_by_priority_then_name(watts: int, begun: str) -> None:
    names = [*"ahz", *(f"b{i:03}" for i in range(300))]
    targets = [
        AllocationTarget(name, 0, 0, 1, watts=Fraction(100 if name == "z" else 10), priority="..h..z".find(name))
        for name in reversed(names)
    ]
    counts = fill(targets, Fraction(watts), restore_first=True)
    assert [name for name in names if counts[name]] == list(begun)


@pytest.mark.parametrize("restore_first", [True, False])
def test_a_budget_of_watts_moves_towards_the_baselines_first_if_told_so(restore_first: bool) -> None:
    above, below = (AllocationTarget("a", 10, 0, 20, baseline=5), AllocationTarget("a", 5, 0, 20, baseline=10))
    other = AllocationTarget("b", 10, 0, 20, baseline=10)
    fewer = shed([above, other], Fraction(15), restore_first=restore_first)
    more = fill([below, other], Fraction(20), restore_first=restore_first)
    assert (fewer, more) == (
        ({"a": 5, "b": 10}, {"a": 10, "b": 10}) if restore_first else ({"a": 7, "b": 8}, {"a": 8, "b": 12})
    )


def test_targets_out_of_bounds_are_brought_to_the_nearest_and_others_stay_as_they_are() -> None:
    targets = [AllocationTarget(f"t{current}", current, 2, 5) for current in (1, 2, 3, 5, 6)]
    inside = within_bounds(targets)
    assert [target.current for target in inside] == [2, 2, 3, 5, 5]
    assert [one is other for one, other in zip(targets, inside, strict=True)] == [False, True, True, True, False]
    assert watts_of(inside, {"t1": 2, "t5": 3}) == 5


def test_whatever_the_watts_nothing_draws_more_and_one_replica_more_would() -> None:
    """Every whole number of watts from nothing to all that targets of 10, 3 and 7 W can draw."""
    kinds = {"ns/a": 10, "ns/b": 3, "ns/c": 7}
    full = [AllocationTarget(name, 5, 0, 5, watts=Fraction(watts)) for name, watts in kinds.items()]
    empty = [replace(target, current=0) for target in full]
    for watts in range(101):
        for counts in (
            shed(full, Fraction(watts), restore_first=True),
            fill(empty, Fraction(watts), restore_first=True),
        ):
            drawn = sum(kinds[name] * count for name, count in counts.items())
            assert drawn <= watts
            assert all(drawn + kinds[name] > watts for name, count in counts.items() if count < 5)
