import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ballast.telemetry.responses import SeriesTable
from ballast.telemetry.sample_times import sample_times
from tests.unit.telemetry.fake_prometheus import named

NAMES = named(3)
LABELS = ["node-0", "10.0.0.0:9100", "10.0.0.0:10250", "node-1", "10.0.0.2", "nobody"]


def table(series: list[tuple[str, float]]) -> SeriesTable:
    count = len(series)
    return SeriesTable(
        columns={"instance": [label for label, _ in series]},
        clusters=[""] * count,
        groups=[""] * count,
        amounts=np.zeros(count, np.bool_),
        values=np.array([[value] for _, value in series], np.float64).reshape(count, 1),
        present=np.array([[not math.isnan(value)] for _, value in series], np.bool_).reshape(count, 1),
        unreadable=np.zeros((count, 1), np.bool_),
    )


def times(labels: list[str], newest: list[tuple[str, float]]) -> list[float]:
    asked = table([(label, 0.5) for label in labels])
    return [float(time) for time in sample_times(asked, NAMES.rows(labels), table(newest), NAMES, ("instance",))[:, 0]]


def by_hand(label: str, newest: list[tuple[str, float]]) -> float:
    """The newest time of the same label value, else the oldest of what the node's other label values say."""
    told: dict[str, float] = {}
    for other, time in newest:
        told.setdefault(other, math.nan)
        told[other] = time if math.isnan(told[other]) else max(told[other], time) if time == time else told[other]
    if label in told:
        return told[label]
    row = NAMES.row(label)
    same = [time for other, time in told.items() if row >= 0 and NAMES.row(other) == row and not math.isnan(time)]
    return min(same, default=math.nan)


series = st.tuples(st.sampled_from(LABELS), st.one_of(st.just(math.nan), st.integers(1, 9).map(float)))


@given(st.lists(st.sampled_from(LABELS), max_size=6), st.lists(series, max_size=8))
def test_it_matches_as_a_person_would(labels: list[str], newest: list[tuple[str, float]]) -> None:
    np.testing.assert_equal(times(labels, newest), [by_hand(label, newest) for label in labels])


def test_another_exporter_of_the_node_does_not_make_it_look_alive() -> None:
    assert times(["10.0.0.0:9100"], [("10.0.0.0:9100", 1.0), ("10.0.0.0:10250", 9.0)]) == [1.0]


def test_a_node_named_otherwise_is_as_old_as_its_oldest_exporter() -> None:
    assert times(["node-0"], [("10.0.0.0:9100", 1.0), ("10.0.0.0:10250", 9.0)]) == [1.0]
