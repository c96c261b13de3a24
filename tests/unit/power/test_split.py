"""Allocations on arrays are those of the plain implementation, to the replica."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ballast.power.allocation import AllocationTarget, allocate
from ballast.power.fit import fill, shed
from tests.unit.power import plain_allocation as plain
from tests.unit.power.worlds import examples

pytestmark = pytest.mark.timeout(600)

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
