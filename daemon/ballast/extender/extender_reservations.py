"""Sends pods where room is held for them, keeps others out of it, and knows which schedulers ask."""

import threading
from collections.abc import Sequence

import numpy as np

from ballast.base.clock import Clock
from ballast.base.metrics import Metrics
from ballast.cluster.objects import wire
from ballast.model.marks import RESTARTED_FOR
from ballast.model.pod import Pod, move_of
from ballast.model.shape import Shape
from ballast.placement.assumed_pods import AssumedPods
from ballast.placement.choice import NEUTRAL
from ballast.placement.fleet_model import Held
from ballast.placement.reservations import Arriving, Reservation, Reservations
from ballast.serving.extender import Priorities
from ballast.serving.host_index import Named

IN_USE_FOR = 600.0
"""Seconds after its last decision for which a scheduler counts as asking."""

MOST_NAMES = 1000
"""The most scheduler names that are kept."""

UNSIZED = Shape()
"""The shape booked for a pod that has a reservation: nothing, so that it is not counted twice."""


class ExtenderReservations:
    """The reservations of an extender, which shares its `lock`."""

    def __init__(self, assumed: AssumedPods, lock: threading.Lock, clock: Clock, metrics: Metrics) -> None:
        self._assumed = assumed
        self._lock = lock
        self._clock = clock
        self._reservations = Reservations(assumed)
        self._asked: dict[str, float] = {}
        self._filtered: set[str] = set()
        self._rejections = metrics.extender_rejections.labels("reservation")
        metrics.extender_reserved.set_function(lambda: len(self._reservations))

    @property
    def idle(self) -> bool:
        """Whether nothing is reserved."""
        return not len(self._reservations)

    def asked(self, scheduler_name: str) -> float | None:
        """Seconds since this scheduler last asked about a pod; None if it never did."""
        at = self._asked.get(scheduler_name)
        return None if at is None else self._clock.monotonic() - at

    def in_use(self) -> bool:
        """Whether any scheduler asked within `IN_USE_FOR`."""
        return bool(self._asking())

    def _asking(self) -> set[str]:
        now = self._clock.monotonic()
        return {name for name, at in list(self._asked.items()) if now - at <= IN_USE_FOR}

    def hold(self, reservation: Reservation) -> None:
        """Reserves room; replaces the reservation of the same name."""
        with self._lock:
            self._reservations.hold(reservation)

    def extend(self, name: str, until: float) -> None:
        """Extends the deadline; `until` is Unix seconds."""
        with self._lock:
            self._reservations.extend(name, until)

    def release(self, name: str) -> None:
        """Ends a reservation."""
        with self._lock:
            self._reservations.release(name)

    def active(self) -> tuple[Reservation, ...]:
        """All reservations whose deadline has not passed."""
        with self._lock:
            self.expire()
            return self._reservations.active()

    def fits(self, node: str, shape: Shape) -> bool | None:
        """Whether a pod of this shape finds room beside all that is there, decided or reserved; None if unknown."""
        with self._lock:
            model = self._assumed.model
            return None if model is None or node not in model.rows else model.has_room(node, shape)

    def reject(self, pod: Pod, names: Sequence[str]) -> dict[str, str]:
        """{node: why} where this pod would take what is held for others."""
        with self._lock:
            model = self._assumed.model
            self.expire()
            if model is None or self.idle:
                return {}
            self._assumed.forget_decision(pod.uid)
            owner = controller(self._assumed.waiting(pod.uid))
            obstacles = self._reservations.in_the_way(Arriving(pod.uid, owner, pod.shape, pod.priority), model)
        named = obstacles.keys() & set(names) if obstacles else set()
        self._rejections.inc(len(named))
        return {node: f"its room is held for {obstacles[node].pod}" for node in sorted(named)}

    def awaits(self, pod: wire.Meta) -> bool:
        """Whether room is held for a pod of the owner that this one names, while the watch has not shown it."""
        if self.idle or self._assumed.waiting(pod.uid) is not None or self._assumed.shown_bound(pod.uid):
            return False
        owner = next((owner.uid for owner in pod.owner_references or () if owner.controller), "")
        move = (pod.annotations or {}).get(RESTARTED_FOR)
        owner = move_of(pod.namespace, move) if owner and move else owner
        return any(reservation.holder in (owner, pod.uid) for reservation in self.active())

    def prefer(self, uid: str, named: Named) -> Priorities | None:
        """With the lock held: prefers the node where room is held for this pod, if the watch shows it waiting."""
        pod = self._assumed.waiting(uid)
        if pod is None or self.idle:
            return None
        self.expire()
        reservation = self._reservations.meant_for(uid, controller(pod), named.names)
        if reservation is None:
            return None
        now, wall = self._clock.monotonic(), self._clock.wall()
        self._assumed.assume(uid, Held(reservation.node, UNSIZED, wall, expected=True), now, proved=True)
        self._reservations.give(reservation.name, uid)
        self.note_decision(uid)
        points = np.full(len(named.names), NEUTRAL)
        return Priorities(named.priorities(points, named.names.index(reservation.node)))

    def note_decision(self, uid: str) -> str | None:
        """With the lock held: a pod was decided. Its scheduler counts as asking if the watch shows the pod waiting, and
        is returned.
        """
        pod = self._assumed.waiting(uid)
        if pod is None:
            return None
        self.note_asked(pod.scheduler_name)
        return pod.scheduler_name

    def note_asked(self, scheduler_name: str) -> None:
        """This scheduler asks the extender now."""
        if len(self._asked) >= MOST_NAMES and scheduler_name not in self._asked:
            self._asked.clear()
            self._filtered.clear()
        self._asked[scheduler_name] = self._clock.monotonic()

    def note_filter(self, uid: str) -> None:
        """Nodes were filtered for a pod: its scheduler asks, also where a single node is left and none is scored."""
        with self._lock:
            scheduler = self.note_decision(uid)
            if scheduler is not None:
                self._filtered.add(scheduler)

    @property
    def unheld(self) -> bool:
        """Whether reserved room is unprotected: a scheduler asks for scores, but has never asked to filter."""
        return not self.idle and not self._asking() <= self._filtered

    def note_shown(self, pod: Pod) -> None:
        """With the lock held, before the pod is booked. Room held for a pod that is bound or gone becomes free."""
        if self.idle:
            return
        if pod.finished or pod.deleting:
            self._reservations.gone(pod.uid)
        elif pod.node and not self._assumed.shown_bound(pod.uid):
            self._reservations.bound(pod.uid, pod.maker, pod.node)

    def note_gone(self, uid: str) -> None:
        """With the lock held: a pod is no more."""
        self._reservations.gone(uid)

    def expire(self) -> None:
        """With the lock held."""
        self._reservations.expire(self._clock.wall())


def controller(pod: Pod | None) -> str:
    """What would create it again, empty without one."""
    return pod.maker if pod and pod.owner and pod.owner.controller else ""
