import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.windows.peak import BUCKET, PeakLoads

DAY = 86_400.0


def observed(*values: tuple[float, float], seconds: float = 3_600.0) -> PeakLoads:
    """One row, one name; (bucket, value)."""
    found = PeakLoads(1, seconds)
    for bucket, value in values:
        found.observe(bucket * BUCKET, ["a"], np.array([[value]]))
    return found


def test_the_highest_counts_while_it_is_within_the_time() -> None:
    values = [(1_000 + each, 0.9 if each == 0 else 0.1) for each in range(12)]
    assert np.isclose(observed(*values).over(3_600.0, 0.5)[0, 0], 0.9)
    assert np.isclose(observed(*values, (1_012, 0.1)).over(3_600.0, 0.5)[0, 0], 0.1)


def test_too_little_known_is_unknown_and_unknown_is_never_the_highest() -> None:
    five = [(1_000 + each, 0.2) for each in range(5)]
    assert np.isnan(observed(*five).over(3_600.0, 0.5)[0, 0])
    assert np.isclose(observed(*five, (1_005, 0.2)).over(3_600.0, 0.5)[0, 0], 0.2)
    gap = [(1_000 + each, np.nan if each % 3 == 0 else 0.3) for each in range(12)]
    assert np.isclose(observed(*gap).over(3_600.0, 0.5)[0, 0], 0.3)


def test_a_long_silence_leaves_nothing_of_before() -> None:
    assert np.isnan(observed((1_000, 0.9), (1_100, 0.1)).over(3_600.0, 0.5)[0, 0])
    assert np.isclose(observed((1_000, 0.9), (1_100, 0.1)).over(BUCKET, 0.5)[0, 0], 0.1)


def test_the_past_may_come_after_the_present() -> None:
    found = observed((1_011, 0.1))
    for bucket in range(1_000, 1_011):
        found.observe(bucket * BUCKET, ["a"], np.array([[0.5]]))
    found.observe(500 * BUCKET, ["a"], np.array([[0.99]]))
    assert np.isclose(found.over(3_600.0, 0.5)[0, 0], 0.5)


def test_no_more_is_kept_than_the_time_that_was_told() -> None:
    assert observed((0, 0.9), (1, 0.1), seconds=BUCKET).over(DAY, 0.0)[0, 0] == np.float32(0.1)
    three = observed((0, 0.9), (1, 0.8), (2, 0.7), (10, 0.1), seconds=3 * BUCKET)
    assert three.over(DAY, 0.0)[0, 0] == np.float32(0.1)
    three.observe(7 * BUCKET, ["a"], np.array([[0.9]]))
    assert three.over(DAY, 0.0)[0, 0] == np.float32(0.1)
    assert observed((0, 0.9), (1, 0.1)).over(BUCKET, 0.0)[0, 0] == np.float32(0.1)


def test_each_name_is_known_by_its_own_values_and_no_name_is_none() -> None:
    found = PeakLoads(1, 2 * BUCKET)
    found.observe(0.0, [], np.empty((1, 0)))
    assert found.over(BUCKET, 0.0).shape == (1, 0)
    for at in (0.0, BUCKET):
        found.observe(at, ["a", "b"], np.array([[0.5, np.nan if at else 0.6]]))
    np.testing.assert_allclose(found.over(2 * BUCKET, 1.0), [[0.5, np.nan]])


def test_names_come_and_go() -> None:
    found = PeakLoads(2, BUCKET)
    found.observe(0.0, ["a", "b"], np.array([[0.1, 0.2], [0.3, 0.4]]))
    found.observe(1.0, ["b", "c"], np.array([[0.0, 0.5], [0.0, 0.6]]))
    assert np.allclose(found.over(BUCKET, 0.5), [[0.2, 0.5], [0.4, 0.6]])


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=600), st.sampled_from([900.0, 3_600.0, DAY]))
def test_it_equals_the_largest_of_the_last_values(values: list[float], seconds: float) -> None:
    found = observed(*enumerate(values), seconds=DAY).over(seconds, 0.0)[0, 0]
    assert found == max(np.float32(each) for each in values[-int(seconds / BUCKET) :])
