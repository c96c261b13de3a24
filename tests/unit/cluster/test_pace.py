import threading

from hypothesis import given
from hypothesis import strategies as st

from ballast.cluster.writer import LONGEST_HOLD, Pace
from tests.worlds.clock import FakeClock


@given(
    qps=st.sampled_from([0.5, 1.0, 20.0]),
    burst=st.integers(1, 50),
    gaps=st.lists(st.floats(0, 5, allow_nan=False), max_size=80),
)
def test_no_stretch_of_time_holds_more_than_burst_and_rate_allow(qps: float, burst: int, gaps: list[float]) -> None:
    clock, stop = FakeClock(), threading.Event()
    pace = Pace(clock, qps, burst)
    went: list[float] = []
    for gap in gaps:
        clock.advance(gap)
        assert pace.wait(stop)
        went.append(clock.monotonic())
    for first in range(len(went)):
        for last in range(first, len(went)):
            assert last - first + 1 <= burst + qps * (went[last] - went[first]) + 1e-6


def test_a_hold_is_kept_and_bounded() -> None:
    clock = FakeClock()
    pace = Pace(clock, 1, 10)
    began = clock.monotonic()
    pace.hold(12.0)
    pace.hold(3.0)
    pace.wait(threading.Event())
    assert clock.monotonic() - began == 12.0
    pace.hold(1e9)
    pace.wait(threading.Event())
    assert clock.monotonic() - began == 12.0 + LONGEST_HOLD


def test_stop_ends_the_wait() -> None:
    clock, stop = FakeClock(), threading.Event()
    pace = Pace(clock, 1, 1)
    pace.hold(10)
    stop.set()
    assert not pace.wait(stop)
