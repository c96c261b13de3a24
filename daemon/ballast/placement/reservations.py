"""Room held on a node for a pod that is about to come, until it is bound or a deadline passes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

from ballast.model.pod import Pod, move_of
from ballast.model.shape import Shape
from ballast.placement.assumed_pods import AssumedPods
from ballast.placement.fleet_model import FleetModel, Held

LONGEST = 3600.0
"""Seconds for which room may be held; a deadline further ahead was set before the clock was put back."""


class Purpose(StrEnum):
    """Why room is held: for the replacement of an evicted pod, for a waiting pod, or for a pod of a planned batch."""

    REPLACEMENT = "replacement"
    WAITING = "waiting"
    BATCH = "batch"


@dataclass(frozen=True)
class Reservation:
    """Room for one pod on one node."""

    name: str
    """The name of the reservation itself."""

    node: str
    purpose: Purpose
    pod: str
    """namespace/name for people: the pod that waits, or the pod that was evicted."""

    holder: str
    """The UID of the pod that waits, or the `maker` whose next pod is the replacement."""

    shape: Shape
    until: float
    """The deadline, in Unix seconds."""

    priority: int = 0
    """The priority of the pod that the room is held for."""


@dataclass(frozen=True)
class Arriving:
    """A pod that is being scheduled: its UID, that of its controller, and what it asks for."""

    uid: str
    owner: str
    shape: Shape
    priority: int = 0


class Reservations:
    """What is reserved counts as taken in the sums of `assumed`, once: a pod that was given its reservation's node is
    booked without a size until it is bound. Not for several threads at once.
    """

    def __init__(self, assumed: AssumedPods) -> None:
        self._assumed = assumed
        self._standing: dict[str, Reservation] = {}
        self._given: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._standing)

    def active(self) -> tuple[Reservation, ...]:
        """All reservations."""
        return tuple(self._standing.values())

    def hold(self, reservation: Reservation) -> None:
        """Replaces the one of this name."""
        self._standing[reservation.name] = reservation
        self._assumed.reserve(reservation.name, Held(reservation.node, reservation.shape, since=reservation.until))

    def extend(self, name: str, until: float) -> None:
        """Moves the deadline of a reservation further ahead; never back."""
        standing = self._standing.get(name)
        if standing is not None and standing.until < until:
            self.hold(replace(standing, until=until))

    def release(self, name: str) -> None:
        """Ends the reservation of this name, if there is one."""
        if self._standing.pop(name, None) is not None:
            self._given.pop(name, None)
            self._assumed.release(name)

    def expire(self, now: float) -> None:
        """Ends the reservations whose deadline has passed; `now` is Unix seconds."""
        for name in [
            name for name, reservation in self._standing.items() if not now < reservation.until <= now + LONGEST
        ]:
            self.release(name)

    def meant_for(self, uid: str, owner: str, among: Iterable[str]) -> Reservation | None:
        """The one on a node `among` these that this pod may take: its own, else one of its controller's."""
        reservations = self._meant_for(uid, owner)
        nodes = set(among) if reservations else ()
        return next((reservation for reservation in reservations if reservation.node in nodes), None)

    def give(self, name: str, uid: str) -> None:
        """The pod was sent to this reservation's node."""
        for other in [other for other, taker in self._given.items() if taker == uid]:
            del self._given[other]
        self._given[name] = uid

    def bound(self, uid: str, owner: str, node: str) -> None:
        """A pod was bound, wherever: what was held for it is released."""
        reservation = self.meant_for(uid, owner, [node]) or next(iter(self._meant_for(uid, owner)), None)
        if reservation is not None:
            self.release(reservation.name)

    def gone(self, uid: str) -> None:
        """A pod that waited is no more."""
        for name in [name for name, reservation in self._standing.items() if reservation.holder == uid]:
            self.release(name)

    def in_the_way(self, pod: Arriving, model: FleetModel) -> Mapping[str, Reservation]:
        """{node: reservation}: where the pod finds room only in what is held for others.

        As with nominated pods, a pod of higher priority than the holder does not find it taken.
        """
        own = self._meant_for(pod.uid, pod.owner)
        others: dict[str, Reservation] = {}
        usable: dict[str, list[Shape]] = {}
        for reservation in self._standing.values():
            if reservation in own or reservation.priority < pod.priority:
                usable.setdefault(reservation.node, []).append(reservation.shape)
            elif reservation.node in model.rows:
                others.setdefault(reservation.node, reservation)
        return {
            node: reservations
            for node, reservations in others.items()
            if not model.has_room(node, pod.shape, usable.get(node, ()))
        }

    def _meant_for(self, uid: str, owner: str) -> list[Reservation]:
        """What no other pod was given, or lost again; the pod's own and what it was given come first."""
        holders = {uid, owner} - {""}
        reservations = [reservation for reservation in self._standing.values() if reservation.holder in holders]
        takers = {reservation.name: self._taker(reservation.name) for reservation in reservations}
        free = [reservation for reservation in reservations if takers[reservation.name] in (None, uid)]
        return sorted(free, key=lambda each: (each.holder != uid, takers[each.name] != uid))

    def _taker(self, name: str) -> str | None:
        uid = self._given.get(name)
        return uid if uid is not None and uid in self._assumed.assumptions else None


def with_promises(pods: Sequence[Pod], reservations: Iterable[Reservation]) -> Sequence[Pod]:
    """The pods, of which those that wait for a reservation of theirs are nominated to its node.

    A replacement that is not there yet, or may not be scheduled yet, is added as one more pod like its siblings: a plan
    that did not see it would put a second one beside it.
    """
    promised: dict[str, list[Reservation]] = {}
    for reservation in reservations:
        if reservation.purpose is not Purpose.BATCH:
            promised.setdefault(reservation.holder, []).append(reservation)
    if not promised:
        return pods
    shown, like = list[Pod](), dict[str, Pod]()
    for pod in pods:
        owner = pod.maker if pod.owner is not None and pod.owner.controller else ""
        holder = pod.uid if pod.uid in promised else owner
        if (moves := move_of(pod.namespace, pod.uid)) in promised:
            like.setdefault(moves, pod)
        if holder in promised:
            like[holder] = pod
            if promised[holder] and not (pod.node or pod.finished or pod.deleting or pod.gated):
                node = promised[holder].pop().node
                pod = msgspec.structs.replace(pod, nominated=pod.nominated or node)
        shown.append(pod)
    missing = (reservation for reservations in promised.values() for reservation in reservations)
    expected = (each for each in missing if each.purpose is Purpose.REPLACEMENT and each.holder in like)
    return [*shown, *(_expected(like[reservation.holder], reservation) for reservation in expected)]


def _expected(sibling: Pod, reservation: Reservation) -> Pod:
    """The replacement that a reservation is for, as long as nobody has made it."""
    return msgspec.structs.replace(
        sibling,
        name=reservation.name,
        uid=reservation.name,
        node="",
        phase="Pending",
        nominated=reservation.node,
        ready=False,
        deleting=False,
        gates=(),
        waiting_since=None,
        scheduled_at=None,
    )
