"""What keeps a replica from acting on what telemetry has found."""

from types import SimpleNamespace
from typing import Any

import pytest

from ballast.jobs.progress import Hold, HoldKind, Known, Progress
from tests.worlds.clock import FakeClock

STALE = 90.0


class World:
    """A replica that leads or not, and its progress."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.standing_by: str | None = None
        leadership = SimpleNamespace(standing_by=lambda: self.standing_by)
        context: Any = SimpleNamespace(leadership=leadership, clock=self.clock)
        self.progress = Progress(context, STALE)

    def cycle(self) -> Known:
        """A cycle of telemetry ends now."""
        snapshot: Any = SimpleNamespace(time=self.clock.wall())
        known = Known(snapshot, {}, {}, None, None)  # type: ignore[arg-type]
        self.progress.finished(known)
        return known

    def held(self) -> HoldKind | None:
        found = self.progress.actionable()
        return found.kind if isinstance(found, Hold) else None


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_acts_before_anything_is_known(world: World) -> None:
    world.progress.gained()
    assert world.held() is HoldKind.NOTHING_KNOWN


def test_a_new_leader_acts_after_two_complete_cycles(world: World) -> None:
    world.cycle()
    for _ in range(2):
        world.progress.gained()
        assert world.held() is HoldKind.NEW_LEADER
        world.cycle()
        assert world.held() is HoldKind.NEW_LEADER
        known = world.cycle()
        assert world.progress.actionable() is known
        world.progress.lost()
        assert world.held() is HoldKind.NEW_LEADER


def test_a_replica_that_does_not_lead_stands_by_whatever_it_knows(world: World) -> None:
    world.progress.gained()
    for _ in range(3):
        world.cycle()
    world.standing_by = "standing by: another holds the Lease"
    assert world.progress.actionable() == Hold(HoldKind.STANDING_BY, "standing by: another holds the Lease")


def test_old_data_is_no_reason_to_act(world: World) -> None:
    world.progress.gained()
    for _ in range(3):
        world.cycle()
    world.clock.advance(STALE)
    assert world.held() is None
    world.clock.advance(0.5)
    assert world.held() is HoldKind.OLD_DATA
    world.cycle()
    assert world.held() is None
