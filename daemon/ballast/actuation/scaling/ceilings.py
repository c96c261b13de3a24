"""Remembers how many pods of a workload could be created, where its controller could not create all."""

from __future__ import annotations

from ballast.clock import Clock
from ballast.model.workload import Workload

LASTS = 600.0
"""Seconds after which more is tried again."""

SILENT = 60.0
"""Seconds without a new pod after which the controller of a StatefulSet, which says nothing, could not create one."""


class Ceilings:
    """The number of pods by target, since the last time one could not be created."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, tuple[int, float]] = {}
        self._waiting: dict[str, tuple[int, float]] = {}

    def of(self, name: str, workload: Workload, replicas: int) -> int | None:
        """The most pods that could be created lately; None where all of them could, or that is long ago.

        `replicas` are those asked for now.
        """
        now = self._clock.monotonic()
        if workload.present < replicas and (workload.uncreated or self._stuck(name, workload, now)):
            self._known[name] = workload.present, now
        if workload.present >= replicas:
            self._waiting.pop(name, None)
        known = self._known.get(name)
        if known is None:
            return None
        if now - known[1] >= LASTS or workload.present > known[0]:
            del self._known[name]
            return None
        return known[0]

    def _stuck(self, name: str, workload: Workload, now: float) -> bool:
        """Whether all pods of a StatefulSet are ready, and no other has come for long."""
        if workload.kind != "StatefulSet" or workload.ready < workload.present:
            self._waiting.pop(name, None)
            return False
        known = self._waiting.get(name)
        if known is None or known[0] != workload.present:
            known = self._waiting[name] = workload.present, now
        return now - known[1] >= SILENT
