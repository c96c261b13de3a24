"""How long new replicas take until they serve, as seen in the cluster."""

from collections import deque
from collections.abc import Mapping
from fractions import Fraction

from ballast.actuation.scaling.target_status import TargetStatus
from ballast.power.waiting import START

KEPT = 20
"""Rises whose times are averaged."""


class StartTimes:
    """From the tick that first shows more replicas until as many are ready."""

    def __init__(self) -> None:
        self._wanted: dict[str, int] = {}
        self._waiting: dict[str, tuple[Fraction, int]] = {}
        self._times: deque[float] = deque(maxlen=KEPT)

    @property
    def seconds(self) -> float:
        """On average over the last rises; a minute before the first one."""
        return sum(self._times) / len(self._times) if self._times else START

    def see(self, at: Fraction, statuses: Mapping[str, TargetStatus]) -> None:
        """What runs at `at` (seconds)."""
        for name, status in statuses.items():
            if status.workload is None or status.replicas is None:
                continue
            before = self._wanted.get(name, status.replicas)
            self._wanted[name] = status.replicas
            if status.replicas > before:
                self._waiting[name] = at, status.replicas
            elif status.replicas < before:
                self._waiting.pop(name, None)
            if name in self._waiting and (status.workload.ready or 0) >= status.replicas:
                self._times.append(float(at - self._waiting.pop(name)[0]))
