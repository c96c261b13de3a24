"""Waiting for the world by asking it again; never a fixed sleep, and no other deadline than the one for what hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

HUNG = 600.0
"""Seconds after which what a test waits for does not come. A machine may be busy, so no test has a shorter patience."""


def until(condition: Callable[[], T], what: str = "", *, every: float = 0.005) -> T:
    """The first truthy answer of `condition`. Raises AssertionError after HUNG seconds."""
    deadline = time.monotonic() + HUNG
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {HUNG:g} s: {what or condition}"
        time.sleep(every)
    return found


def eventually(what: str, probe: Callable[[], T], *, every: float = 0.05, seconds: float = HUNG) -> T:
    """The first truthy answer of `probe`. Raises AssertionError with the last answer after so many seconds.

    OSErrors (a server that is not up yet) and AssertionErrors of the probe count as "not yet".
    """
    deadline = time.monotonic() + seconds
    last: object = None
    while True:
        try:
            answer = probe()
        except (OSError, AssertionError) as error:
            last = error
        else:
            if answer:
                return answer
            last = answer
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:g} s; last: {last!r}")
        time.sleep(every)


def throughout(what: str, probe: Callable[[], object], *, seconds: float, every: float = 0.1) -> None:
    """Raises AssertionError as soon as `probe` is falsy during the next `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert probe(), f"{what}: no longer"
        time.sleep(every)
