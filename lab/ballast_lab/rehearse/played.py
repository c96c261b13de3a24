"""What stands for the world while the daemon's telemetry follows a recording: its clock and its source."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np

from ballast.model.sample import Floats, Reading, Samples
from ballast.telemetry.node_names import NodeNames

NAME = "prometheus"


class PlayedClock:
    """It stands at the time that is played, and goes on while somebody waits."""

    speed = 1.0

    def __init__(self) -> None:
        self.now = 0.0

    def wall(self) -> float:
        """Unix seconds."""
        return self.now

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def wait(self, event: threading.Event, timeout: float | None) -> bool:
        """Waits no time of the machine."""
        if not event.is_set():
            self.now += timeout or 0.0
        return event.is_set()


class PlayedSource:
    """Gives what a course says that its nodes use now."""

    name = NAME

    def __init__(self, resources: Sequence[str]) -> None:
        self.resources = tuple(resources)
        self.ratios: Floats = np.empty((len(resources), 0))
        """[resource, node]: shares of capacity, NaN where unknown, of the nodes that are asked about."""

    def read(self, at: float, names: NodeNames, resources: Sequence[str] | None = None) -> Reading:
        """The samples at `at`."""
        samples = {}
        for resource, ratios in zip(self.resources, self.ratios, strict=True):
            rows = np.flatnonzero(np.isfinite(ratios))
            samples[resource] = Samples(rows, ratios[rows], np.full(len(rows), at))
        return Reading(self.name, at, samples)

    def backfill(self, start: float, end: float, step: float, names: NodeNames) -> Iterator[Reading]:
        """A course begins with nothing."""
        return iter(())

    def close(self) -> None:
        """Nothing is open."""
