"""Remembers how many pods of a workload could be created, where its controller could not create all."""

from __future__ import annotations

from ballast.clock import Clock
from ballast.model.workload import Workload

LASTS = 600.0
"""Seconds after which more is tried again."""


class Ceilings:
    """The number of pods by target, since the last time one could not be created."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[int, float]] = {}

    def of(self, name: str, workload: Workload, replicas: int) -> int | None:
        """The most pods that could be created lately; None where all of them could, or that is long ago.

        `replicas` are those asked for now.
        """
        now = self._clock.monotonic()
        if workload.uncreated and workload.present < replicas:
            self._known[name] = workload.present, now
        known = self._known.get(name)
        if known is None:
            return None
        if now - known[1] >= LASTS or workload.present > known[0]:
            del self._known[name]
            return None
        return known[0]
