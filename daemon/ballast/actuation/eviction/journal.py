"""Plans under way, past evictions and reservations in ConfigMap `ballast-state`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from ballast.actuation.eviction.records import Running
from ballast.base.errors import ClusterError
from ballast.cluster.state import NAME, StateStore
from ballast.cluster.write import WriteOutcome
from ballast.eviction.recent_evictions import RecentEvictions
from ballast.model.shape import Amounts, ContainerShape, shape_of
from ballast.placement.reservations import Purpose, Reservation

PLANS, HISTORY, RESERVATIONS = "eviction.plan", "eviction.history", "reservations"

LANDING = "eviction.landing"
"""Which nodes replacements are to prefer, for the chart's MutatingAdmissionPolicy: "OWNER=NODE OWNER=NODE", by the UID
of what creates them."""


class _SavedReservation(msgspec.Struct, frozen=True, omit_defaults=True, rename={"purpose": "kind", "pod": "for"}):
    """Requests and limits are cores, bytes and pieces; `until` is Unix seconds."""

    name: str
    node: str
    purpose: Purpose
    pod: str
    holder: str
    until: float
    requests: Amounts = {}
    limits: Amounts = {}
    priority: int = 0


_plans = msgspec.json.Decoder(tuple[Running, ...])
_reservations = msgspec.json.Decoder(tuple[_SavedReservation, ...])


@dataclass(frozen=True)
class SavedJournal:
    plans: tuple[Running, ...]
    memory: RecentEvictions
    reservations: tuple[Reservation, ...]


class Journal:
    """All of it is written at once, so that no two keys contradict each other."""

    def __init__(self, state: StateStore) -> None:
        self._state = state

    def read(self) -> SavedJournal:
        """Raises ClusterError when it cannot be read, also when it is not what Ballast writes."""
        keys = self._state.read()
        key = PLANS
        try:
            plans = _plans.decode(keys.get(PLANS, "[]"))
            key = HISTORY
            memory = RecentEvictions.decode(keys[HISTORY]) if HISTORY in keys else RecentEvictions()
            key = RESERVATIONS
            held = _reservations.decode(keys.get(RESERVATIONS, "[]"))
        except (ValueError, RecursionError) as error:
            raise ClusterError(
                f"Key {key} of ConfigMap {NAME} cannot be read: {error}. Delete the key to forget what it said; "
                "until then nothing is evicted."
            ) from error
        return SavedJournal(plans, memory, tuple(map(_reservation, held)))

    def write(
        self, plans: Sequence[Running], memory: RecentEvictions, reservations: Iterable[Reservation], *, reason: str
    ) -> WriteOutcome:
        """Raises ClusterError when the ConfigMap cannot be read. A key with nothing to say is left out."""
        wanted = {
            PLANS: msgspec.json.encode(plans).decode() if plans else "",
            HISTORY: memory.encode(),
            RESERVATIONS: _encoded(reservations),
            LANDING: _preferred(plans),
        }

        def change(keys: dict[str, str]) -> Mapping[str, str]:
            return {key: value for key, value in {**keys, **wanted}.items() if value or key not in wanted}

        return self._state.update(change, reason=reason)


def _preferred(plans: Iterable[Running]) -> str:
    """Of two evicted pods of one owner the later."""
    steps = (step for plan in plans for step in plan.steps if step.unbound and step.prefers and step.owner)
    nodes = {step.owner: step.prefers for step in sorted(steps, key=lambda step: step.time)}
    return " ".join(f"{owner}={node}" for owner, node in sorted(nodes.items()))


def _encoded(reservations: Iterable[Reservation]) -> str:
    held = [
        _SavedReservation(
            each.name,
            each.node,
            each.purpose,
            each.pod,
            each.holder,
            each.until,
            each.shape.requests,
            each.shape.limits,
            each.priority,
        )
        for each in sorted(reservations, key=lambda each: each.name)
    ]
    return msgspec.json.encode(held).decode() if held else ""


def _reservation(held: _SavedReservation) -> Reservation:
    shape = shape_of([ContainerShape(held.requests, held.limits)])
    return Reservation(held.name, held.node, held.purpose, held.pod, held.holder, shape, held.until, held.priority)
