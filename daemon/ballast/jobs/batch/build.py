"""Builds the job `batch` from the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ballast.actuation.gates import gate_name
from ballast.cluster.context import Context
from ballast.cluster.emergency import EmergencyWriter
from ballast.jobs.batch.job import BatchJob
from ballast.jobs.batch.released import ReleasedPods, RoomHolder
from ballast.jobs.eviction.planning_process import PlanningProcess
from ballast.placement.batch import BatchOrder, BatchRules
from ballast.placement.reservations import Reservation
from ballast.settings import Mode


class Room(RoomHolder, Protocol):
    """Holds room in the extender, and says what is held."""

    def standing(self) -> tuple[Reservation, ...]: ...


def build(context: Context, room: Room) -> BatchJob | None:
    """None where the part is off."""
    settings = context.settings.batch
    if settings.mode is Mode.OFF:
        return None
    released = ReleasedPods(
        EmergencyWriter(context.writer),
        room,
        context.clock,
        context.metrics,
        gate=gate_name(context.settings.publishing.prefix),
        held_for=settings.timeout,
    )
    rules = BatchRules(BatchOrder(settings.order), settings.aging)
    standing: Callable[[], tuple[Reservation, ...]] = room.standing
    return BatchJob(
        context,
        released=released,
        worker=PlanningProcess(deadline=settings.timeout / 3),
        rules=rules,
        standing=standing,
    )
