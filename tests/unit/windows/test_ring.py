"""What the ring keeps, and for whom."""

from dataclasses import replace

import numpy as np
import pytest

from ballast.windows.ring import Ring
from ballast.windows.statistics import WindowRules
from tests.unit.windows.one_window import summarise

STEP = 15.0
SPAN = 300.0
NOW = 1_700_000_010.0
RULES = WindowRules(min_coverage=0.5, min_samples=5, max_age=90, resolution=STEP)


def ring_with(*names: str) -> Ring:
    ring = Ring(["cpu"], STEP, SPAN)
    ring.columns(names)
    return ring


def write(ring: Ring, at: float, values: dict[str, float], age: float = 2.0) -> None:
    columns = ring.columns(list(ring._keys))[[ring._keys.index(name) for name in values]]
    ring.write("cpu", at, columns, np.array([*values.values()]), np.full(len(values), at - age))


def fill(ring: Ring, start: float, end: float, values: dict[str, float]) -> None:
    for at in np.arange(start, end + STEP, STEP):
        write(ring, float(at), values)


def window(ring: Ring, end: float, *names: str):  # type: ignore[no-untyped-def]
    return summarise(ring, ring.columns(names), name="5m", seconds=SPAN, end=end, rules=RULES)


def test_a_dead_exporter_is_unknown_max_age_after_its_last_raw_sample() -> None:
    ring = ring_with("a")
    fill(ring, NOW - SPAN, NOW, {"a": 0.5})
    for at in (NOW + 15, NOW + 30, NOW + 45, NOW + 60, NOW + 75):
        ring.write("cpu", at, ring.columns(["a"]), np.array([0.5]), np.array([NOW - 2]))
    late = window(ring, NOW + 75, "a")
    assert (late.known.all(), late.count.item()) == (True, 15)
    assert not window(ring, NOW + 90, "a").known.any()


def test_a_failing_query_costs_its_resource_only() -> None:
    ring = Ring(["cpu", "memory"], STEP, SPAN)
    columns = ring.columns(["a"])
    for at in np.arange(NOW - SPAN, NOW + STEP, STEP):
        ring.write("memory", float(at), columns, np.array([0.5]), np.array([at]))
    assert window(ring, NOW, "a").known.tolist() == [[False], [True]]


def test_a_late_sample_fills_its_own_slot_and_replaces_nothing_newer() -> None:
    ring = ring_with("a")
    write(ring, NOW, {"a": 1.0})
    write(ring, NOW - ring.rows * STEP, {"a": 9.0})
    write(ring, NOW - STEP, {"a": 3.0})
    lax = WindowRules(min_coverage=0, min_samples=1, max_age=90, resolution=STEP)
    found = summarise(ring, ring.columns(["a"]), name="5m", seconds=SPAN, end=NOW, rules=lax)
    assert found.count.item() == 2
    assert found.mean.item() == 2.0


def test_the_same_slot_again_replaces_the_sample() -> None:
    ring = ring_with("a")
    fill(ring, NOW - SPAN, NOW, {"a": 1.0})
    fill(ring, NOW - SPAN, NOW, {"a": 2.0})
    assert window(ring, NOW, "a").mean.item() == 2.0


def test_who_comes_back_within_the_window_finds_it() -> None:
    ring = ring_with("a", "b")
    fill(ring, NOW - SPAN, NOW, {"a": 0.1, "b": 0.9})
    ring.columns(["a"])
    fill(ring, NOW + STEP, NOW + 4 * STEP, {"a": 0.1})
    assert window(ring, NOW + 4 * STEP, "a", "b").count.tolist() == [[20, 16]]


def test_a_column_is_wiped_and_reused_once_the_window_has_passed() -> None:
    ring = ring_with("a", "b")
    fill(ring, NOW - SPAN, NOW, {"a": 0.1, "b": 0.9})
    ring.columns(["a"])
    fill(ring, NOW + STEP, NOW + ring.rows * STEP, {"a": 0.1})
    found = window(ring, NOW + ring.rows * STEP, "c", "a")
    assert ring.width == 2
    assert found.count.tolist() == [[0, 20]]
    assert np.isnan(ring.newest[0, ring.columns(["c", "a"])[0]])


def test_who_comes_back_late_finds_its_last_sample_even_when_others_came_meanwhile() -> None:
    ring = ring_with("a", "b")
    fill(ring, NOW - SPAN, NOW, {"a": 0.1, "b": 0.9})
    ring.columns(["a"])
    fill(ring, NOW + STEP, NOW + SPAN - STEP, {"a": 0.1})
    ring.columns(["a", "c"])
    assert window(ring, NOW + SPAN - STEP, "a", "b").count.tolist() == [[20, 1]]


def test_a_reused_column_shows_nothing_of_the_node_before_it_even_when_the_clock_is_set_back() -> None:
    ring = ring_with("a", "b")
    fill(ring, NOW - SPAN, NOW, {"a": 0.1, "b": 0.9})
    ring.columns(["a"])
    fill(ring, NOW + STEP, NOW + ring.rows * STEP, {"a": 0.1})
    ring.columns(["a", "c"])
    assert window(ring, NOW, "c").count.item() == 0


def test_room_grows_by_doubling() -> None:
    ring = ring_with(*(f"n{i}" for i in range(100)))
    assert ring.values.shape[2] == 100
    ring.columns([f"n{i}" for i in range(101)])
    assert ring.values.shape[2] == 200


def test_a_clock_set_back_an_hour_counts_nothing_from_the_future_and_recovers() -> None:
    ring = ring_with("live", "dead")
    fill(ring, NOW - SPAN, NOW, {"live": 0.9, "dead": 0.9})
    now = NOW - 3600
    for cycle in range(1, 30):
        write(ring, now, {"live": 0.2})
        found = window(ring, now, "live", "dead")
        assert not found.known[0, 1]
        assert found.count[0, 1] == 0
        assert found.count[0, 0] <= cycle
        now += STEP
    assert found.known[0, 0]
    assert found.mean[0, 0] == pytest.approx(0.2)


def test_a_clock_set_back_within_the_window_does_not_keep_a_dead_node_alive() -> None:
    ring = ring_with("dead")
    fill(ring, NOW - SPAN, NOW, {"dead": 0.9})
    assert window(ring, NOW - 120, "dead").known.all()
    assert not window(ring, NOW - 120 + 90 + 2 * STEP + 1, "dead").known.any()


def test_columns_of_vanished_nodes_are_reused_even_when_the_clock_was_set_back() -> None:
    ring = ring_with("a", "b")
    fill(ring, NOW - SPAN, NOW, {"a": 0.1, "b": 0.9})
    ring.columns(["a"])
    back = NOW - 86_400
    ring.advance(back)
    fill(ring, back, back + ring.rows * STEP, {"a": 0.1})
    ring.columns(["a", "c"])
    assert ring.width == 2


def test_a_clock_that_jumps_ahead_only_ages_the_window() -> None:
    ring = ring_with("a")
    fill(ring, NOW - SPAN, NOW, {"a": 0.9})
    later = NOW + 86_400
    assert window(ring, later, "a").count.item() == 0
    fill(ring, later, later + SPAN, {"a": 0.2})
    assert window(ring, later + SPAN, "a").mean.item() == pytest.approx(0.2)


def test_a_ring_refuses_a_window_it_cannot_hold() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        summarise(ring_with("a"), np.array([0]), name="1h", seconds=3600, end=NOW, rules=RULES)


@pytest.mark.parametrize(("step", "span"), [(0, 10), (-1, 10), (10, 5)])
def test_a_ring_refuses_a_step_that_makes_no_sense(step: float, span: float) -> None:
    with pytest.raises(ValueError, match="step"):
        Ring(["cpu"], step, span)


@pytest.mark.parametrize("resolution", [STEP, None])
def test_a_fleet_without_nodes_has_empty_windows(resolution: float | None) -> None:
    rules = replace(RULES, resolution=resolution)
    ring = ring_with()
    found = summarise(ring, ring.columns([]), name="5m", seconds=SPAN, end=NOW, rules=rules)
    assert found.mean.shape == (1, 0)


def test_a_slot_is_the_nearest_and_may_be_as_long_as_the_span() -> None:
    ring = Ring(["cpu"], 0.5, 0.5)
    assert [ring.slot(at) for at in (0.0, 0.24, 0.25, 1.0)] == [0, 0, 1, 2]


@pytest.mark.parametrize(("span", "rows"), [(300.0, 22), (300.1, 23), (299.9, 22)])
def test_a_ring_holds_its_span_and_two_slots_ahead(span: float, rows: int) -> None:
    assert Ring(["cpu"], STEP, span).rows == rows


def test_room_is_made_for_no_more_than_is_needed() -> None:
    ring = ring_with("a", "b", "c", "d")
    ring.columns(["a", "b"])
    ring.advance(NOW)
    ring.columns(["a"])
    ring.advance(NOW + ring.rows * STEP)
    ring.columns(["a", "e", "f"])
    assert ring.values.shape[2] == 4


@pytest.mark.parametrize(("ahead", "count"), [([2], 1), ([2, 3], 1), ([3], 0)])
def test_a_sample_may_run_two_slots_ahead(ahead: list[int], count: int) -> None:
    ring = ring_with("a")
    for slots in ahead:
        write(ring, NOW + slots * STEP, {"a": 0.5}, age=0.0)
    ring.advance(NOW)
    assert window(ring, NOW + 3 * STEP, "a").count.item() == count
    assert np.isnan(ring.newest[0, 0]) == (count == 0)


@pytest.mark.parametrize("age", [-1e9, 1e9])
def test_a_raw_time_of_another_age_is_one_sample(age: float) -> None:
    ring = ring_with("a")
    for at in (NOW - STEP, NOW):
        ring.write("cpu", at, ring.columns(["a"]), np.array([0.5]), np.array([at - age]))
    assert window(ring, NOW, "a").count.item() == 2


def test_a_sample_takes_twelve_bytes() -> None:
    ring = ring_with(*(f"n{number}" for number in range(1_000)))
    held = sum(kept.nbytes for kept in vars(ring).values() if isinstance(kept, np.ndarray))
    assert held / (ring.rows * 1_000) < 13


def test_a_later_slot_that_reads_some_nodes_shows_nothing_of_the_others() -> None:
    ring = ring_with("a", "b")
    fill(ring, NOW - SPAN, NOW, {"a": 0.1, "b": 0.9})
    fill(ring, NOW + STEP, NOW + 5 * STEP, {"b": 0.9})
    assert window(ring, NOW + 5 * STEP, "a", "b").count.tolist() == [[15, 20]]
