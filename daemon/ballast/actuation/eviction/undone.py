"""The load of nodes without the moves of the last day: what moved pods use now counts where they came from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ballast.actuation.eviction import effect
from ballast.actuation.eviction.records import Running, StepRecord
from ballast.actuation.eviction.replacement_use import Uses
from ballast.model.duration import DAY
from ballast.model.node import Node
from ballast.model.pod import Pod

AT_ONCE = 300
"""Pods whose use is asked for at a time: a query names few one by one, and of more it would ask about all there are."""
TURN = 300.0
"""Seconds until it is asked of the next ones."""


@dataclass(frozen=True)
class _Moved:
    """A replacement: where the first of its line came from, when that was moved, and what it uses."""

    pod: str
    source: str
    at: float
    used: Uses


class Undone:
    """Each move counts until its pod ends or a day is over. It begins anew with each leader.

    Any thread may call `changes`; all else is for the job of evictions.
    """

    def __init__(self) -> None:
        self._moved: dict[str, _Moved] = {}
        """By UID of the replacement."""
        self._changes: Mapping[str, Mapping[str, float]] = {}

    def pods(self, now: float) -> set[str]:
        """namespace/name of those whose use is asked for now: of many, some after the others."""
        names = sorted({moved.pod for moved in self._moved.values()})
        first = int(now // TURN) * AT_ONCE % len(names) if len(names) > AT_ONCE else 0
        return set([*names, *names][first : first + AT_ONCE])

    def look(
        self, plans: Iterable[Running], pods: Iterable[Pod], nodes: Iterable[Node], now: float, uses: Mapping[str, Uses]
    ) -> None:
        """Once a cycle: `uses` of pods, named namespace/name, as far as it is known now."""
        every = [step for plan in plans for step in plan.steps]
        steps = {step.replacement: step for step in every if step.landed_at and step.replacement}
        if not steps and not self._moved:
            return
        leaving = {step.uid for step in every}  # Of these the next one of the line is still to come.
        known = {node.name: node for node in nodes}
        wanted = steps.keys() | self._moved.keys()
        there = {pod.uid: pod for pod in pods if pod.uid in wanted and not pod.finished}
        for uid, step in steps.items():
            if uid in there and uid not in self._moved:
                self._moved[uid] = self._first(step, there[uid])
        self._moved = {
            uid: replace(moved, used={**moved.used, **effect.known(uses.get(moved.pod, {}))})
            for uid, moved in self._moved.items()
            if (uid in there or uid in leaving) and now - moved.at < DAY and moved.source in known
        }
        self._changes = effect.sum_of(
            effect.between(known.get(moved.source), known.get(there[uid].node), moved.used, back=True)
            for uid, moved in self._moved.items()
            if uid in there and there[uid].node != moved.source
        )

    def changes(self) -> Mapping[str, Mapping[str, float]]:
        """{node: {resource: change of load}}, had nothing been moved."""
        return self._changes

    def _first(self, step: StepRecord, pod: Pod) -> _Moved:
        """A pod that was moved again came from where the first of them was."""
        before = self._moved.get(step.uid)
        source, at = (step.source, step.time) if before is None else (before.source, before.at)
        return _Moved(f"{pod.namespace}/{pod.name}", source, at, step.used)
