"""The machine's time and time that runs faster."""

import threading
import time

import pytest

from ballast.base.clock import Clock, ScaledClock, SystemClock


@pytest.mark.parametrize("clock", [SystemClock(), ScaledClock(10)])
def test_durations_are_measured_where_the_system_has_no_boottime_clock(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    clock = type(clock)(clock.speed) if isinstance(clock, ScaledClock) else clock
    start = clock.monotonic()
    assert not clock.wait(threading.Event(), 0.02)
    assert 0.019 <= clock.monotonic() - start < 30
