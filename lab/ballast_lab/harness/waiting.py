"""Waiting for the world by asking it again, with a deadline; never a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(what: str, probe: Callable[[], T], *, within: float = 30.0, every: float = 0.05) -> T:
    """The first truthy answer of `probe`. Raises AssertionError with the last answer after `within` seconds.

    OSErrors (a server that is not up yet) and AssertionErrors of the probe count as "not yet".
    """
    deadline = time.monotonic() + within
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
            raise AssertionError(f"{what}: not within {within:g} s; last: {last!r}")
        time.sleep(every)


def throughout(what: str, probe: Callable[[], object], *, seconds: float, every: float = 0.1) -> None:
    """Raises AssertionError as soon as `probe` is falsy during the next `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert probe(), f"{what}: no longer"
        time.sleep(every)
