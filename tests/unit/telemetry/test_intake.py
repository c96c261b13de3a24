import math
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.sample import REJECTION_REASONS
from ballast.telemetry.intake import (
    LARGEST_RATIO,
    LARGEST_SHARE,
    accept,
    allowed_skew,
    default_max_age,
    largest_ratio,
    no_ratios,
    rounded,
)
from ballast.telemetry.node_names import AMBIGUOUS, NOT_SELECTED, UNMATCHED

AT, MAX_AGE, SKEW = 1_000.0, 90.0, 5.0

Sample = tuple[int, float, float]

rows = st.sampled_from([0, 1, 2, 3, UNMATCHED, AMBIGUOUS, NOT_SELECTED])
values = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 1.2, LARGEST_RATIO, 11.0, -0.1, math.nan, math.inf, -math.inf]),
    st.floats(allow_nan=True, allow_infinity=True),
)
times = st.one_of(st.sampled_from([AT, AT - MAX_AGE, AT + SKEW, math.nan]), st.floats(AT - 200, AT + 20))
samples = st.lists(st.tuples(rows, values, times), max_size=12)


def by_hand(found: list[Sample]) -> tuple[dict[int, tuple[float, float]], Counter[str]]:
    """One sample after the other."""
    rejected: Counter[str] = Counter()
    kept: dict[int, list[tuple[float, float]]] = {}
    for row, value, time in found:
        if row == NOT_SELECTED:
            continue
        reason = None
        if row == UNMATCHED:
            reason = "unmatched"
        elif row == AMBIGUOUS:
            reason = "ambiguous"
        elif not math.isfinite(value):
            reason = "non_finite"
        elif value < 0:
            reason = "negative"
        elif value > LARGEST_RATIO:
            reason = "unreadable"
        elif time > AT + SKEW:
            reason = "future"
        elif math.isnan(time) or AT - time > MAX_AGE:
            reason = "stale"
        if reason:
            rejected[reason] += 1
        else:
            kept.setdefault(row, []).append((value, time))
    single: dict[int, tuple[float, float]] = {}
    for row, several in kept.items():
        if len({value for value, _ in several}) == 1:
            single[row] = (several[0][0], max(time for _, time in several))
        else:
            rejected["duplicate"] += len(several)
    return single, rejected


def taken(found: list[Sample]) -> tuple[dict[int, tuple[float, float]], Counter[str]]:
    rejected: Counter[str] = Counter()
    accepted = accept(
        AT,
        np.array([row for row, _, _ in found], dtype=np.int64),
        np.array([value for _, value, _ in found], dtype=np.float64),
        np.array([time for _, _, time in found], dtype=np.float64),
        max_age=MAX_AGE,
        skew=SKEW,
        largest=LARGEST_RATIO,
        rejected=rejected,
    )
    assert len(set(accepted.rows.tolist())) == len(accepted.rows)
    pairs = zip(accepted.values.tolist(), accepted.times.tolist(), strict=True)
    return dict(zip(accepted.rows.tolist(), pairs, strict=True)), +rejected


@given(samples)
def test_it_does_what_a_loop_would(found: list[Sample]) -> None:
    assert taken(found) == by_hand(found)


@given(samples)
def test_every_sample_is_accepted_merged_or_counted_by_a_known_reason(found: list[Sample]) -> None:
    accepted, rejected = taken(found)
    assert set(rejected) <= set(REJECTION_REASONS)
    ours = [sample for sample in found if sample[0] != NOT_SELECTED]
    assert len(accepted) + sum(rejected.values()) <= len(ours)
    assert all(0 <= value <= LARGEST_RATIO and math.isfinite(value) for value, _ in accepted.values())


def test_an_invalid_value_never_becomes_a_number() -> None:
    for value in (math.nan, math.inf, -math.inf, -0.5):
        assert taken([(0, value, AT)])[0] == {}


JUST = 2**-20
"""Seconds or a share: the least that a test of an edge goes beyond it."""


def test_a_sample_may_be_ahead_by_the_skew_and_no_more() -> None:
    assert taken([(0, 0.5, AT + SKEW)]) == ({0: (0.5, AT + SKEW)}, Counter())
    assert taken([(0, 0.5, AT + SKEW + JUST)]) == ({}, Counter(future=1))


def test_a_sample_may_be_as_old_as_the_largest_age_and_no_older() -> None:
    assert taken([(0, 0.5, AT - MAX_AGE)]) == ({0: (0.5, AT - MAX_AGE)}, Counter())
    assert taken([(0, 0.5, AT - MAX_AGE - JUST)]) == ({}, Counter(stale=1))
    assert taken([(0, 0.5, math.nan)]) == ({}, Counter(stale=1))


def test_a_value_may_be_0_or_the_largest_and_nothing_beyond() -> None:
    assert taken([(0, 0.0, AT), (1, LARGEST_RATIO, AT)]) == ({0: (0.0, AT), 1: (LARGEST_RATIO, AT)}, Counter())
    assert taken([(0, -JUST, AT), (1, LARGEST_RATIO + JUST, AT)]) == ({}, Counter(negative=1, unreadable=1))


def test_cpu_and_memory_are_shares_and_other_resources_ratios() -> None:
    names = ("cpu", "memory", "psi-io", "disk", "network")
    assert [largest_ratio(name) for name in names] == [1.05, 1.05, 1.05, 10.0, 10.0]


def test_what_rounding_made_negative_is_0_and_nothing_else_changes() -> None:
    given = np.array([-0.02, -0.02 - JUST, -0.5, 0.0, 0.3, math.nan])
    assert np.array_equal(rounded(given), [0.0, -0.02 - JUST, -0.5, 0.0, 0.3, math.nan], equal_nan=True)


def test_equal_duplicates_count_once_and_differing_ones_not_at_all() -> None:
    assert taken([(0, 0.5, AT - 9), (0, 0.5, AT - 3), (1, 0.1, AT)]) == ({0: (0.5, AT - 3), 1: (0.1, AT)}, Counter())
    assert taken([(0, 0.5, AT), (0, 0.6, AT), (1, 0.1, AT)]) == ({1: (0.1, AT)}, Counter(duplicate=2))


def test_a_stale_duplicate_does_not_spoil_the_fresh_one() -> None:
    assert taken([(0, 0.5, AT - 300), (0, 0.6, AT)]) == ({0: (0.6, AT)}, Counter(stale=1))


def test_ages_and_skews_have_a_floor() -> None:
    assert (default_max_age(10), default_max_age(60), default_max_age(10, 60)) == (90, 180, 180)
    assert (allowed_skew(1), allowed_skew(30)) == (5, 30)


def test_percent_is_told_from_a_single_wild_value() -> None:
    assert no_ratios(np.array([12.0, 3.0, 45.0]), LARGEST_RATIO)
    assert no_ratios(np.array([50.0]), LARGEST_RATIO)
    assert no_ratios(np.array([3.1, 4.2, 7.9, 9.0, 2.2]), LARGEST_SHARE)
    assert not no_ratios(np.array([1.5, 1.01, 0.4]), LARGEST_SHARE)
    assert not no_ratios(np.array([0.4] * 50 + [99.0]), LARGEST_RATIO)
    assert not no_ratios(np.array([np.nan, np.inf]), LARGEST_RATIO)
    assert not no_ratios(np.array([]), LARGEST_RATIO)
