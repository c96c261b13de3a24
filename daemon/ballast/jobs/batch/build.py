"""Builds the job `batch` from the settings."""

from __future__ import annotations

from typing import Protocol

from ballast.actuation.gates import gate_name
from ballast.cluster.context import Context
from ballast.cluster.writer import EmergencyWriter
from ballast.jobs.batch.job import BatchJob
from ballast.jobs.batch.planner import BatchPlanner, HeldReservations
from ballast.jobs.batch.released import ReleasedPods, RoomHolder
from ballast.placement.batch import BatchOrder, BatchRules
from ballast.planning.process import PlanningProcess
from ballast.serving.board import Board
from ballast.settings import Mode


class BatchRoom(RoomHolder, HeldReservations, Protocol):
    """Holds room in the extender, and says what is held."""


def build(context: Context, room: BatchRoom, board: Board) -> BatchJob | None:
    """None where the part is off. The load of `board` counts while it is current and not frozen."""
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
    planner = BatchPlanner(
        context,
        PlanningProcess(deadline=settings.timeout / 3),
        rules,
        room,
        lambda: None if board.frozen or board.current() is None else board.snapshot,
    )
    return BatchJob(context, released=released, planner=planner)
