"""Remembers how many pods of a workload could be created, where its controller could not create all."""

from __future__ import annotations

from ballast.base.clock import Clock
from ballast.model.workload import Workload

LASTS = 600.0
"""Seconds after which more is tried again."""

SETTLED = 5.0
"""Seconds for which the count stays the same. Its first status after a failure counts the pods from before."""

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
        if workload.present >= replicas:
            self._waiting.pop(name, None)
        elif self._cannot_grow(name, workload, now):
            self._known[name] = workload.present, now
        known = self._known.get(name)
        if known is None:
            return None
        if now - known[1] >= LASTS or workload.present > known[0]:
            del self._known[name]
            return None
        return known[0]

    def _cannot_grow(self, name: str, workload: Workload, now: float) -> bool:
        """Whether its controller failed to create pods, or all pods of a StatefulSet are ready and no other comes."""
        waits = workload.kind == "StatefulSet" and workload.ready >= workload.present
        if not (workload.uncreated or waits):
            self._waiting.pop(name, None)
            return False
        known = self._waiting.get(name)
        if known is None or known[0] != workload.present:
            known = self._waiting[name] = workload.present, now
        return now - known[1] >= (SETTLED if workload.uncreated else SILENT)
