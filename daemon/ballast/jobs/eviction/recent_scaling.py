"""Workloads whose replica count changed recently, whatever changed it."""

from __future__ import annotations

from collections.abc import Iterable

from ballast.eviction.facts import WorkloadKey
from ballast.model.workload import Autoscaler, Workload


class RecentScaling:
    """What is seen the first time has not changed; a change is as old as the observation that found it."""

    def __init__(self) -> None:
        self._replicas: dict[WorkloadKey, int | None] = {}
        self._changed: dict[WorkloadKey, float] = {}

    def observe(self, workloads: Iterable[Workload], now: float) -> None:
        replicas = {(each.namespace, each.kind, each.name): each.replicas for each in workloads}
        before = self._replicas
        changed = [key for key, number in replicas.items() if key in before and before[key] != number]
        kept = {key: at for key, at in self._changed.items() if key in replicas}
        self._changed = kept | dict.fromkeys(changed, now)
        self._replicas = replicas

    def beside(self, autoscalers: Iterable[Autoscaler]) -> tuple[Autoscaler, ...]:
        """What scaled something and when: the autoscalers, and everybody else as if by one."""
        latest = dict(self._changed)
        for each in autoscalers:
            if each.scaled_at is not None:
                key = (each.namespace, each.kind, each.name)
                latest[key] = max(latest.get(key, 0.0), each.scaled_at)
        return tuple(Autoscaler(*key, scaled_at=at) for key, at in latest.items())
