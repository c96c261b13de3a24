"""Reserves room for replacements of evicted pods, and tells which of them the extender steers."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from ballast.actuation.eviction.node_marks import LeavingTaints, loaded
from ballast.actuation.eviction.records import SKEW, StepRecord
from ballast.base.clock import Clock
from ballast.model.duration import DAY
from ballast.model.pod import Pod
from ballast.model.shape import Shape
from ballast.model.snapshot import Snapshot
from ballast.placement.reservations import LONGEST, Purpose, Reservation

STEERED_FOR = 600.0
"""Seconds for which one question of a scheduler shows that the extender decides where its pods go."""

RESERVED_FOR = 120.0
"""Seconds for which room is held at least; renewed as long as the evicted pod has not ended."""

BOUND_WITHIN = 2.0
"""Seconds for which the next step waits until the replacement before is bound."""

BETWEEN_LOOKS = 0.05
"""Seconds between two looks at the pods meanwhile."""


class ReservationService(Protocol):
    """Holds the reservations, and answers schedulers by them."""

    def asked(self, scheduler_name: str) -> float | None: ...

    def hold(self, reservation: Reservation) -> None: ...

    def extend(self, name: str, until: float) -> None: ...

    def release(self, name: str) -> None: ...

    def active(self) -> tuple[Reservation, ...]: ...

    def fits(self, node: str, shape: Shape) -> bool | None: ...

    @property
    def unheld(self) -> bool: ...


def all_bound(steps: Sequence[StepRecord], pods: Iterable[Pod]) -> bool:
    """Whether each workload of these steps has as many new pods on nodes as pods were evicted."""
    missing = Counter(step.owner for step in steps if step.owner)
    known = {uid for step in steps for uid in (step.uid, *step.besides)}
    began = min((step.time for step in steps), default=0.0) - SKEW
    for pod in pods if missing else ():
        new = pod.node and not pod.deleting and pod.created >= began and pod.uid not in known
        if new and pod.maker in missing:
            missing[pod.maker] -= 1
    return all(count <= 0 for count in missing.values())


class ReplacementReservations:
    """Holds room for replacements and waiting pods in the extender, and knows which schedulers ask it."""

    def __init__(
        self,
        extender: ReservationService,
        clock: Clock,
        *,
        interval: float = 0.0,
        taints: LeavingTaints | None = None,
        pods: Callable[[], Iterable[Pod]] = tuple,
        probes: bool = True,
    ) -> None:
        """`interval` is the seconds between two looks at what became of evictions: room is held over two of them.

        With `taints` replacements are kept off the nodes they left; `pods` are those of this moment. `probes`: one
        eviction may show whether a scheduler asks.
        """
        self.extender, self.taints, self._pods, self._probing = extender, taints, pods, probes
        self._clock = clock
        self._seen: tuple[Snapshot, Mapping[str, Mapping[str, float]]] | None = None
        self._steps, self._begun = list[StepRecord](), 0.0
        self._reserved_for = min(max(RESERVED_FOR, 2 * interval), LONGEST / 2)
        self._probes: dict[str, str] = {}
        self._failed: dict[str, float] = {}

    def steered(self, scheduler_name: str) -> bool:
        """Whether the extender was asked for this scheduler in the last 10 minutes, so that it decides the landing."""
        ago = self.extender.asked(scheduler_name)
        return ago is not None and ago <= STEERED_FOR

    def may_probe(self, scheduler_name: str) -> bool:
        """Whether one eviction may show if its replacement is asked for: none is under way, none failed in a day."""
        failed = self._failed.get(scheduler_name)
        tired = failed is not None and self._clock.wall() - failed < DAY
        free = self._probing and not tired and scheduler_name not in self._probes
        return free and not self.steered(scheduler_name)

    def names(self, scheduler_names: Iterable[str]) -> frozenset[str]:
        """Those that are steered or may be probed: what `GateRules.steered` is to be."""
        return frozenset(name for name in scheduler_names if self.steered(name) or self.may_probe(name))

    def probe(self, scheduler_name: str, uid: str) -> None:
        self._probes[scheduler_name] = uid

    def end_probe(self, step: StepRecord, *, chosen: bool = True) -> bool:
        """The replacement of a probe was bound. Returns whether the extender was asked where.

        A probe shows nothing where the scheduler had no choice (`chosen` is False), for then it scores no nodes, or
        where the replacement came to its target all the same.
        """
        self.unprobe(step)
        steered = self.steered(step.scheduler)
        if not steered and chosen and step.landed_on != step.target:
            self._failed[step.scheduler] = self._clock.wall()
        return steered

    def begin(self, snapshot: Snapshot, pending: Mapping[str, Mapping[str, float]], now: float) -> None:
        """A plan that was made from `snapshot` is carried out; `pending` {node: {resource: change}} it does not show
        yet."""
        self._seen, self._steps, self._begun = (snapshot, pending), [], now

    def keep_off(self, step: StepRecord) -> str | None:
        """Before the eviction. Why its node could not be tainted, or None."""
        if self.taints is None or not self.taints.sets or step.target is not None:
            return None
        meant = set[str]() if self._await_bound() else {earlier.prefers for earlier in self._steps}
        self._steps.append(step)
        if self._seen is not None:
            avoided = loaded(self._steps, *self._seen)
            self.taints.avoid([name for name in avoided if name not in meant], self._begun)
        return self.taints.put(step.source)

    def _await_bound(self) -> bool:
        """Whether the replacements of the steps before are bound; waits a moment for them.

        A scheduler that has not placed them yet would find the nodes shut that were left open for them.
        """
        until = self._clock.monotonic() + BOUND_WITHIN
        while not (done := all_bound(self._steps, self._pods())) and self._clock.monotonic() < until:
            self._clock.wait(threading.Event(), BETWEEN_LOOKS)
        return done

    def unprobe(self, step: StepRecord) -> None:
        """A step that did not happen, or whose replacement did not come, shows nothing."""
        if self._probes.get(step.scheduler) == step.uid:
            del self._probes[step.scheduler]

    @property
    def failed(self) -> dict[str, float]:
        """{scheduler: when its pods turned out to land unseen}."""
        return dict(self._failed)

    def take_over(
        self, steps: Iterable[StepRecord], failed: dict[str, float], reservations: Iterable[Reservation]
    ) -> None:
        """What the leader before knew; all that was known here is forgotten."""
        self._probes = {step.scheduler: step.uid for step in steps if step.probe and step.open}
        self._failed = dict(failed)
        for old in self.extender.active():
            if old.purpose is not Purpose.BATCH:
                self.extender.release(old.name)
        for reservation in reservations:
            if self._clock.wall() < reservation.until <= self._clock.wall() + LONGEST:
                self.extender.hold(reservation)

    def reservations_for(self, step: StepRecord, pod: Pod, starting: Iterable[Pod]) -> list[Reservation]:
        """Room for the replacement on the target, and for those that wait on the nodes where they are to start."""
        until = self._clock.wall() + self._reserved_for
        nodes = dict(zip(step.starts, step.starts_on, strict=False))
        reservations = [
            Reservation(
                waiting(pod_waiting.uid),
                nodes.get(pod_waiting.uid, step.source),
                Purpose.WAITING,
                f"{pod_waiting.namespace}/{pod_waiting.name}",
                pod_waiting.uid,
                pod_waiting.shape,
                until,
                pod_waiting.priority,
            )
            for pod_waiting in starting
        ]
        if step.target is not None and step.owner:
            reservations.append(
                Reservation(
                    replacement(step.uid),
                    step.target,
                    Purpose.REPLACEMENT,
                    step.pod,
                    step.owner,
                    pod.shape,
                    until,
                    pod.priority,
                )
            )
        return reservations

    def hold(self, reservations: Iterable[Reservation]) -> None:
        for reservation in reservations:
            self.extender.hold(reservation)

    def release(self, step: StepRecord) -> None:
        """Of a step that did not happen, or has landed."""
        self.extender.release(replacement(step.uid))

    def release_all(self, step: StepRecord) -> None:
        """Of a step that did not happen, or whose replacement did not come."""
        self._steps = [earlier for earlier in self._steps if earlier.uid != step.uid]
        self.release(step)
        for uid in step.starts:
            self.extender.release(waiting(uid))

    def extend(self, step: StepRecord) -> None:
        """The evicted pod still ends: no replacement can have come yet."""
        until = self._clock.wall() + self._reserved_for
        for name in (replacement(step.uid), *map(waiting, step.starts)):
            self.extender.extend(name, until)


def replacement(uid: str) -> str:
    return f"replacement-of-{uid}"


def waiting(uid: str) -> str:
    return f"waiting-{uid}"
