"""What every allocation keeps, whatever it is given."""

import random
from collections import defaultdict
from math import ceil, floor

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from ballast.power.allocation import AllocationTarget, allocate
from tests.worlds.power import at, examples, targets

deltas = st.integers(-60, 60)
flags = st.booleans()


@examples
@given(targets(watts=True), deltas, flags, flags)
def test_bounds_sum_sign_and_end(each: list[AllocationTarget], delta: int, restore: bool, inside: bool) -> None:
    split = allocate(each, delta, restore_first=restore, inside_first=inside)
    down, up = sum(t.minimum - t.current for t in each), sum(t.maximum - t.current for t in each)
    assert split.effective == min(max(delta, down), up)
    assert split.unmet == delta - split.effective
    for target in each:
        change = split.changes[target.name]
        assert target.minimum <= target.current + change <= target.maximum
        assert change * delta >= 0
    assert split.redistributed <= 2 * abs(split.effective)
    assert sum(split.shares.values()) == abs(split.effective)
    assert sum(split.quotas.values()) == abs(split.effective)


@examples
@given(targets(watts=True), deltas, st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(each: list[AllocationTarget], delta: int, order: random.Random) -> None:
    mixed = list(each)
    order.shuffle(mixed)
    assert allocate(mixed, delta) == allocate(each, delta)


@examples
@given(targets(), deltas)
def test_shares_are_the_quotas_rounded(each: list[AllocationTarget], delta: int) -> None:
    split = allocate(each, delta)
    entities = defaultdict(list)
    for target in each:
        entities[target.entity].append(target)
    for entity, quota in split.quotas.items():
        assert floor(quota) <= split.shares[entity] <= ceil(quota)
        room = sum((t.maximum - t.current) if delta > 0 else (t.current - t.minimum) for t in entities[entity])
        moved = abs(sum(split.changes[t.name] for t in entities[entity]))
        if delta > 0:
            assert split.shares[entity] <= room
        if all(
            split.shares[name]
            <= sum((t.maximum - t.current) if delta > 0 else (t.current - t.minimum) for t in entities[name])
            for name in split.shares
        ):
            assert moved == split.shares[entity]


@examples
@given(targets(), deltas)
def test_a_group_carries_its_share_when_it_can(each: list[AllocationTarget], delta: int) -> None:
    split = allocate(each, delta)
    for group in {t.group for t in each if t.group}:
        inside = [t for t in each if t.group == group]
        room = sum((t.maximum - t.current) if delta > 0 else (t.current - t.minimum) for t in inside)
        moved = abs(sum(split.changes[t.name] for t in inside))
        assert moved >= min(split.shares[group], room)
        if split.redistributed == 0:
            assert moved == split.shares[group]


@examples
@given(targets(watts=True), st.integers(1, 60), flags)
def test_from_the_baseline_and_back(each: list[AllocationTarget], amount: int, first_down: bool) -> None:
    sign = -1 if first_down else 1
    there = allocate(each, sign * amount)
    after = at(each, {t.name: t.current + there.changes[t.name] for t in each})
    assume(not any(t.suspended for t in after))
    back = allocate(after, -there.effective)
    assert {name: -change for name, change in back.changes.items()} == there.changes


@examples
@given(targets(inside=False), deltas)
def test_repair_and_plan_never_move_one_target_both_ways(each: list[AllocationTarget], delta: int) -> None:
    split = allocate(each, delta)
    for target in each:
        change = split.changes[target.name]
        repaired = min(max(target.current, target.minimum), target.maximum) - target.current
        assert change * repaired >= 0
        assert abs(change) >= abs(repaired)
        assert target.minimum <= target.current + change <= target.maximum
    repairs = sum(min(max(t.current, t.minimum), t.maximum) - t.current for t in each)
    room = sum((t.maximum if delta > repairs else t.minimum) for t in each) - sum(t.current for t in each)
    assert split.effective == (min(delta, room) if delta > repairs else max(delta, room))


@examples
@given(targets(), st.integers(1, 60), st.data())
def test_what_a_load_needs_stays_while_others_can_give(
    each: list[AllocationTarget], amount: int, data: st.DataObject
) -> None:
    busy = [replace(t, needed=data.draw(st.integers(0, t.current))) for t in each]
    split = allocate(busy, -amount)
    spare = sum(t.current - max(t.minimum, t.needed) for t in busy)
    if amount <= spare:
        for target in busy:
            assert target.current + split.changes[target.name] >= max(target.minimum, target.needed)
    assert split.effective == max(-amount, sum(t.minimum - t.current for t in busy))
