"""`/livez` knows whether the elector, the watches, the supervisor and the listeners come round."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ballast.runtime.health import PATIENCE, Health
from tests.fakes import FakeClock


@pytest.mark.parametrize("name", ["lease", "supervisor", "listener port", "endpoint", "watch of nodes"])
def test_a_loop_that_does_not_come_round_is_named(name: str) -> None:
    clock = FakeClock()
    context: Any = SimpleNamespace(machine_clock=clock)
    beats: dict[str, float | None] = {name: None, "lease": clock.monotonic()}
    health = Health(context, None, {}, dict, lambda: beats)  # type: ignore[arg-type]
    assert all(check.ok for check in health.alive())
    beats[name] = clock.monotonic()
    clock.advance(PATIENCE[name.partition(" ")[0]] + 1)
    beats = {**beats, "lease": clock.monotonic()} if name != "lease" else beats
    failing = [check for check in health.alive() if not check.ok]
    assert [(check.name, check.message.partition(" has")[0]) for check in failing] == [("loops", name)]
