"""The ledger: what is added is what is summed, by hour and by day, whatever restarts lie between."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ballast.model.ledger import AMOUNTS, COUNTS, DAY, DAYS, HOUR, HOURS, Ledger, together
from tests.properties import examples

NOON = 1_700_000_000.0 // DAY * DAY + DAY / 2
ADDED = st.lists(
    st.tuples(st.floats(0, 40 * HOUR), st.sampled_from([*COUNTS, *AMOUNTS]), st.integers(0, 50), st.booleans()),
    max_size=40,
)


@examples()
@given(ADDED)
def test_sums_survive_restarts_and_agree_by_hour_and_by_day(added: list[tuple[float, str, int, bool]]) -> None:
    ledger = Ledger()
    for ago, name, amount, restarts in added:
        ledger.add(NOON - ago, **{name: amount})
        if restarts:
            ledger = Ledger.decode(ledger.encode())
    for name in (*COUNTS, *AMOUNTS):
        expected = sum(amount for _, each, amount, _ in added if each == name)
        for rows in (ledger.hours(NOON), ledger.days(NOON)):
            assert sum(getattr(row, name) or 0 for row in rows) == pytest.approx(expected)
            known = any(each == name for _, each, _, _ in added) or name in COUNTS
            assert any(getattr(row, name) is not None for row in rows) is known


@examples(30)
@given(st.lists(st.integers(0, 10**7), max_size=300, unique=True))
def test_it_stays_small_and_keeps_the_newest(hours: list[int]) -> None:
    ledger = Ledger()
    for hour in hours:
        ledger.add(hour * HOUR, evicted=12_345, predicted=1234.5678, hot_node_minutes=300_000.1234)
    assert len(ledger.encode()) < 30_000
    if hours:
        newest = max(hours) * HOUR
        assert ledger.hours(newest)[-1].evicted == 12_345
        assert len(ledger.hours(newest)) <= HOURS + 1
        assert len(ledger.days(newest)) <= DAYS + 1


def test_hours_between_are_listed_and_the_present_one_is_last() -> None:
    ledger = Ledger()
    ledger.add(NOON - 3 * HOUR, evicted=1)
    assert [(row.begin - NOON, row.evicted) for row in ledger.hours(NOON + 5)] == [
        (-3 * HOUR, 1),
        (-2 * HOUR, 0),
        (-HOUR, 0),
        (0, 0),
    ]
    assert [row.begin for row in Ledger().hours(NOON)] == [NOON]


def test_of_several_the_unknown_stays_unknown() -> None:
    one, other = Ledger(), Ledger()
    one.add(NOON, evicted=2)
    other.add(NOON, hot_node_minutes=0.0)
    [row] = together([one, other]).hours(NOON)
    assert (row.evicted, row.hot_node_minutes, row.measured) == (2, 0.0, None)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"hours": [[7]]}', '{"hours": [["x"]]}', "null"])
def test_what_is_no_ledger_cannot_be_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Ledger.decode(text)
