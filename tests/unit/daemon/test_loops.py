"""`/livez` knows whether the elector, the watches, the supervisor and the listeners come round."""

from types import SimpleNamespace
from typing import Any

import pytest

from ballast.runtime.health import PATIENCE, Health, Loop, LoopKind
from tests.worlds.clock import FakeClock


@pytest.mark.parametrize("kind", LoopKind)
def test_a_loop_that_does_not_come_round_is_named(kind: LoopKind) -> None:
    clock = FakeClock()
    context: Any = SimpleNamespace(machine_clock=clock)
    loops = [Loop("one", kind, None)]
    health = Health(context, None, dict, dict, lambda: loops)  # type: ignore[arg-type]
    assert all(check.ok for check in health.alive())
    loops = [Loop("one", kind, clock.monotonic())]
    clock.advance(PATIENCE[kind] + 1)
    loops.append(Loop("two", LoopKind.LEASE, clock.monotonic()))
    failing = [check for check in health.alive() if not check.ok]
    assert [(check.name, check.message.partition(" has")[0]) for check in failing] == [("loops", "one")]
