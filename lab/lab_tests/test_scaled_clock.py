"""Time that runs faster."""

import threading
import time

import pytest

from ballast_lab.scaled_clock import ScaledClock


def test_durations_are_measured_where_the_system_has_no_boottime_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    clock = ScaledClock(10)
    start = clock.monotonic()
    assert not clock.wait(threading.Event(), 0.02)
    assert 0.019 <= clock.monotonic() - start < 30
