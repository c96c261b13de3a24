"""Workloads whose replica count changed recently, whatever changed it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

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
        """The autoscalers with the last change of what they scale, and everybody else's changes as those of an
        autoscaler without a kind."""
        found = []
        latest = dict(self._changed)
        for each in autoscalers:
            at = latest.pop((each.namespace, each.kind, each.name), None)
            later = max((time for time in (at, each.scaled_at) if time is not None), default=None)
            found.append(replace(each, scaled_at=later))
        return (*found, *(Autoscaler(*key, scaled_at=at, own_kind="") for key, at in latest.items()))
