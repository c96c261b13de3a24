"""Windows against naive formulas."""

import statistics
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.windows.ring import Ring
from ballast.windows.statistics import WindowRules, summarise_all
from tests.unit.windows.one_window import summarise

RULES = WindowRules(min_coverage=0.5, min_samples=5, max_age=90, resolution=15)


def test_a_full_grid_is_covered_exactly() -> None:
    ring = Ring(["cpu"], 15, 900)
    columns = ring.columns(["a", "b"])
    values = np.random.default_rng(0).random((60, 2))
    for index, row in enumerate(values):
        at = 15.0 * (1000 + index)
        ring.write("cpu", at, columns, row, np.full(2, at - 1))
    window = summarise(ring, columns, name="15m", seconds=900, end=15.0 * 1059, rules=RULES, scale=np.full((1, 2), 2.0))
    assert window.known.all()
    assert (window.coverage == 1.0).all()
    np.testing.assert_allclose(window.mean[0], 2 * values.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(window.std[0], 2 * values.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(window.p95[0], 2 * np.quantile(values, 0.95, axis=0), rtol=1e-12)


def covered(slots: set[int], resolution: float | None = 15.0, seconds: float = 300.0) -> float:
    """The coverage of a window whose samples lie so many slots before its end."""
    ring = Ring(["cpu"], 15, 600)
    for back in sorted(slots, reverse=True):
        at = 15.0 * (1000 - back)
        ring.write("cpu", at, ring.columns(["a"]), np.array([0.5]), np.array([at]))
    rules = WindowRules(min_coverage=0.5, min_samples=1, max_age=1e9, resolution=resolution)
    window = summarise(ring, ring.columns(["a"]), name="w", seconds=seconds, end=15_000.0, rules=rules)
    return float(window.coverage.item())


samples = st.sets(st.integers(0, 30))
resolutions = st.sampled_from([5.0, 15.0, 40.0])


@given(samples, st.integers(0, 30), resolutions)
def test_a_further_sample_never_lowers_the_coverage(slots: set[int], more: int, resolution: float) -> None:
    assert covered(slots | {more}, resolution) >= covered(slots, resolution) - 1e-12


@given(samples, st.sampled_from([None, 5.0, 15.0, 40.0]), st.sampled_from([15.0, 100.0, 300.0]))
def test_coverage_lies_between_nothing_and_all(slots: set[int], resolution: float | None, seconds: float) -> None:
    assert 0 <= covered(slots, resolution, seconds) <= 1


@pytest.mark.parametrize(
    ("slots", "coverage"),
    [
        (set(), 0.0),
        ({0}, 2.5 / 20),
        ({19}, 1 / 20),
        ({20}, 0.0),
        (set(range(10)), (2.5 + 9) / 20),
        (set(range(10, 20)), 10 / 20),
        (set(range(0, 20, 2)), 1.0),
        (set(range(0, 20, 4)), 5 * 2.5 / 20),
    ],
)
def test_each_sample_accounts_for_the_gap_before_it_up_to_a_limit(slots: set[int], coverage: float) -> None:
    assert covered(slots) == pytest.approx(coverage)


def test_without_a_setting_the_median_gap_is_the_resolution() -> None:
    assert covered(set(range(0, 20, 4)), resolution=None) == 1.0


@pytest.mark.parametrize("gaps", [[2], [4], [4, 1], [1, 8, 2], [1, 2, 9, 3], [9, 1, 1, 1, 1], [3, 9, 6]])
def test_the_resolution_is_the_median_of_all_gaps_between_samples(gaps: list[int]) -> None:
    """The first sample's gap to the window's start is none of them."""
    slots = {0, *accumulate(reversed(gaps))}
    limit = 2.5 * statistics.median(gaps)
    counted = [min(gap, limit) for gap in (20 - max(slots), *gaps)]
    assert covered(slots, resolution=None) == pytest.approx(sum(counted) / 20)


@pytest.mark.parametrize(
    ("times", "count"),
    [
        pytest.param([0.0, 15.0, 30.0, 45.0], 4, id="each its own"),
        pytest.param([0.0, 0.001, 0.001, 0.003], 2, id="a millisecond is rounding"),
        pytest.param([20.0, 10.0, 20.0, 45.0], 2, id="one that comes back is not new"),
        pytest.param([20.0, 10.0, 15.0, 45.0], 2, id="nor is an older one"),
    ],
)
def test_raw_samples_count_once(times: list[float], count: int) -> None:
    ring = Ring(["cpu"], 15, 60)
    for slot, time in enumerate(times):
        other = 15.0 * slot
        ring.write("cpu", 15.0 * slot, ring.columns(["other", "a"]), np.array([0.5, 0.5]), np.array([other, time]))
    rules = WindowRules(min_coverage=0.0, min_samples=1, max_age=1e9, resolution=15)
    window = summarise_all(ring, ring.columns(["a", "other"]), lengths={"w": 60.0}, end=45.0, rules=rules)["w"]
    assert (window.count.tolist(), window.mean.tolist()) == ([[count, 4]], [[0.5, 0.5]])


def test_a_window_without_a_finite_scale_is_unknown() -> None:
    ring = Ring(["network"], 15, 300)
    for at in np.arange(15_000.0, 15_315.0, 15):
        ring.write("network", float(at), ring.columns(["a", "b"]), np.array([0.5, 0.5]), np.array([at, at]))
    scale = np.array([[1.0, np.nan]])
    window = summarise(ring, ring.columns(["a", "b"]), name="5m", seconds=300, end=15_300.0, rules=RULES, scale=scale)
    assert window.known.tolist() == [[True, False]]
    assert window.count.tolist() == [[20, 20]]


def test_lengths_come_back_in_the_order_they_were_asked() -> None:
    ring = Ring(["cpu"], 15, 900)
    windows = summarise_all(
        ring, ring.columns(["a"]), lengths={"10m": 600, "15m": 900, "5m": 300}, end=15_000, rules=RULES
    )
    assert [*windows] == ["10m", "15m", "5m"]
    assert [(one.name, one.seconds) for one in windows.values()] == [("10m", 600), ("15m", 900), ("5m", 300)]


@given(st.lists(st.floats(0.5, 0.5 + 1e-6), min_size=20, max_size=20))
def test_a_small_deviation_on_a_large_mean_is_exact(values: list[float]) -> None:
    ring = Ring(["memory"], 15, 300)
    for index, value in enumerate(values):
        at = 15.0 * (1000 + index)
        ring.write("memory", at, ring.columns(["a"]), np.array([value]), np.array([at]))
    window = summarise(ring, ring.columns(["a"]), name="5m", seconds=300, end=15.0 * 1019, rules=RULES)
    assert window.std.item() == pytest.approx(statistics.pstdev(values), rel=1e-6, abs=1e-15)


@pytest.mark.parametrize(("count", "known"), [(9, False), (10, True)])
def test_a_window_is_known_from_its_least_coverage_on(count: int, known: bool) -> None:
    """Every second of 20 slots, with gaps that count as one slot: each sample covers a twentieth."""
    ring = Ring(["cpu"], 15, 600)
    for back in range(count - 1, -1, -1):
        ring.write("cpu", 15_000.0 - 15 * back, ring.columns(["a"]), np.array([0.5]), np.array([15_000.0 - 15 * back]))
    rules = WindowRules(min_coverage=0.5, min_samples=1, max_age=1e9, resolution=6.0)
    window = summarise(ring, ring.columns(["a"]), name="w", seconds=300.0, end=15_000.0, rules=rules)
    assert window.coverage.item() == pytest.approx(count / 20)
    assert window.known.item() is known


@pytest.mark.parametrize(("count", "known"), [(4, False), (5, True)])
def test_a_window_is_known_from_its_least_samples_on(count: int, known: bool) -> None:
    ring = Ring(["cpu"], 15, 600)
    for back in range(count):
        at = 15_000.0 - 60 * back
        ring.write("cpu", at, ring.columns(["a"]), np.array([0.5]), np.array([at]))
    rules = WindowRules(min_coverage=0.0, min_samples=5, max_age=1e9, resolution=60.0)
    window = summarise(ring, ring.columns(["a"]), name="w", seconds=300.0, end=15_000.0, rules=rules)
    assert (window.count.item(), window.known.item()) == (count, known)


@pytest.mark.parametrize(("age", "known"), [(90.0, True), (90.5, False)])
def test_a_window_is_known_up_to_its_largest_age(age: float, known: bool) -> None:
    ring = Ring(["cpu"], 15, 600)
    for back in range(20):
        at = 15_000.0 - 15 * back
        ring.write("cpu", at, ring.columns(["a"]), np.array([0.5]), np.array([at - age]))
    window = summarise(ring, ring.columns(["a"]), name="w", seconds=300.0, end=15_000.0, rules=RULES)
    assert window.known.item() is known


def test_what_a_window_does_not_know_has_no_value() -> None:
    """Beside a node that is known; count and coverage are given all the same."""
    ring = Ring(["cpu"], 15, 600)
    for back in range(20):
        at = 15_000.0 - 15 * back
        ring.write("cpu", at, ring.columns(["a"]), np.array([0.5]), np.array([at]))
    ring.write("cpu", 15_000.0, ring.columns(["b"]), np.array([0.5]), np.array([15_000.0]))
    window = summarise(ring, ring.columns(["a", "b", "c"]), name="w", seconds=300.0, end=15_000.0, rules=RULES)
    assert window.known.tolist() == [[True, False, False]]
    for values in (window.mean, window.std, window.p95):
        assert np.isnan(values).tolist() == [[False, True, True]]
    assert window.count.tolist() == [[20, 1, 0]]
