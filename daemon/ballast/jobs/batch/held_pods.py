"""Pods that the gate holds, and pods that it held, until the scheduler has put them somewhere."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import msgspec

from ballast.actuation.gates import held_by, removal, remove
from ballast.base.clock import Clock
from ballast.base.metrics import Metrics
from ballast.cluster.write import Result, WriteOutcome
from ballast.cluster.writer import EmergencyWriter
from ballast.model.pod import Pod
from ballast.placement.batch import BatchStep
from ballast.placement.reservations import Purpose, Reservation

PATIENCE = 30.0
"""Seconds that the scheduler may take for a pod before its room is given up."""


DONE_WELL = (Result.DONE, Result.GONE)
"""The gate is not there any more."""


class HeldPods:
    """Looks at the pods in every cycle, on every replica. Needs no stored state: pods carry their age.

    A pod that was seen with gates of others is held by ours alone only since those are gone.
    """

    def __init__(self, gate: str, clock: Clock) -> None:
        self._gate = gate
        self._clock = clock
        self._first: dict[str, float] = {}
        self._others: set[str] = set()

    def observe(self, pods: Iterable[Pod]) -> list[Pod]:
        """Those that nothing but our gate holds, by namespace and name."""
        now = self._clock.monotonic()
        carrying = held_by(self._gate, pods)
        there = {pod.uid for pod in carrying}
        self._first = {uid: at for uid, at in self._first.items() if uid in there}
        self._others &= there
        alone = []
        for pod in carrying:
            if len(pod.gates) > 1:
                self._others.add(pod.uid)
                self._first.pop(pod.uid, None)
            else:
                self._first.setdefault(pod.uid, now)
                alone.append(pod)
        return alone

    def age(self, pod: Pod) -> float:
        """Seconds for which our gate alone has held it: since its creation, or longer if our own clock says so."""
        seconds = self._clock.monotonic() - self._first[pod.uid]
        return seconds if pod.uid in self._others else max(seconds, self._clock.wall() - pod.created)


class ReleaseResult(StrEnum):
    """What became of a pod that was released by the plan."""

    PLANNED = "planned"
    ELSEWHERE = "elsewhere"
    REFUSED = "refused"
    LATE = "late"
    GONE = "gone"


class RoomHolder(Protocol):
    """Holds room in the extender, and says what is held."""

    def active(self) -> tuple[Reservation, ...]: ...

    def hold(self, reservation: Reservation) -> None: ...

    def release(self, name: str) -> None: ...


@dataclass(frozen=True)
class _Released:
    pod: Pod
    node: str
    at: float


class ReleasedPods:
    """Lets pods go with room held for each, and follows them. In the thread of the job alone."""

    def __init__(
        self, writer: EmergencyWriter, room: RoomHolder, clock: Clock, metrics: Metrics, *, gate: str, held_for: float
    ) -> None:
        """`held_for`: seconds after which room is given up even by an extender that nobody told."""
        self._writer, self._room, self._clock, self._metrics = writer, room, clock, metrics
        self._gate = gate
        self._held_for = held_for
        self._followed: dict[str, _Released] = {}

    def __len__(self) -> int:
        return len(self._followed)

    def __contains__(self, uid: str) -> bool:
        return uid in self._followed

    def forget(self) -> None:
        """Another replica leads, or nothing may be written: the room is free again."""
        for uid in list(self._followed):
            self._drop(uid)

    def as_placed(self) -> list[Pod]:
        """They, on the nodes that they are expected on."""
        return [
            msgspec.structs.replace(released.pod, node=released.node, gates=()) for released in self._followed.values()
        ]

    def release(self, steps: Sequence[tuple[BatchStep, Pod]]) -> list[WriteOutcome]:
        """Holds room for each pod, then removes its gate; where that failed the room is free again."""
        for step, pod in steps:
            self._room.hold(self._reservation(step, pod))
        writes = [removal(pod, self._gate, f"planned for {step.node}") for step, pod in steps]
        outcomes = remove(self._writer, writes)
        for (step, pod), outcome in zip(steps, outcomes, strict=True):
            if outcome.done:
                self._followed[pod.uid] = _Released(pod, step.node, self._clock.monotonic())
            else:
                self._room.release(_name(pod.uid))
        return outcomes

    def release_without_plan(self, pods: Sequence[tuple[Pod, str]], result: str) -> list[WriteOutcome]:
        """Removes the gates of these pods without a plan, each for a reason."""
        outcomes = remove(
            self._writer, [removal(pod, self._gate, reason, event="GateRemovedWithoutPlan") for pod, reason in pods]
        )
        self._metrics.batch_pods.labels(result).inc(sum(outcome.done for outcome in outcomes))
        return outcomes

    def settle(self, find: Callable[[str], Pod | None]) -> Counter[ReleaseResult]:
        """What became of them since; `find` gives a pod by UID as the watch shows it."""
        settled: Counter[ReleaseResult] = Counter()
        for uid, released in list(self._followed.items()):
            result = self._result(released, find(uid))
            if result is not None:
                settled[result] += 1
                self._metrics.batch_pods.labels(result.value).inc()
                self._drop(uid)
        return settled

    def _result(self, released: _Released, pod: Pod | None) -> ReleaseResult | None:
        if pod is None or pod.finished or (pod.deleting and not pod.node):
            return ReleaseResult.GONE
        if pod.node:
            return ReleaseResult.PLANNED if pod.node == released.node else ReleaseResult.ELSEWHERE
        if pod.waiting:
            return ReleaseResult.REFUSED
        return ReleaseResult.LATE if self._clock.monotonic() - released.at > PATIENCE else None

    def _reservation(self, step: BatchStep, pod: Pod) -> Reservation:
        until = self._clock.wall() + self._held_for
        return Reservation(_name(pod.uid), step.node, Purpose.BATCH, step.pod, pod.uid, pod.shape, until, pod.priority)

    def _drop(self, uid: str) -> None:
        del self._followed[uid]
        self._room.release(_name(uid))


def _name(uid: str) -> str:
    return f"batch-{uid}"
