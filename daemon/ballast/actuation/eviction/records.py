"""Plans under way, past evictions and reservations, as they are kept in ConfigMap `ballast-state`.

The next leader goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from ballast.answers.evictions import Measured
from ballast.base.errors import ClusterError
from ballast.cluster.ledger_book import saved_ledger
from ballast.cluster.state import NAME, StateStore
from ballast.cluster.write import WriteOutcome
from ballast.eviction.facts import WorkloadKey
from ballast.eviction.recent_evictions import RecentEvictions
from ballast.model.ledger import Ledger
from ballast.model.shape import Amounts, ContainerShape, shape_of
from ballast.model.stamps import Stamps
from ballast.placement.reservations import LONGEST, Purpose, Reservation

SKEW = 5.0
"""Seconds by which the API server's clock may be behind."""

PLANS, HISTORY, RESERVATIONS = "eviction.plan", "eviction.history", "reservations"
"""Keys of `ballast-state`."""

TALLY = "ledger.evictions"
"""Key of what the ledger has of evictions. It is written together with PLANS: each eviction is counted once, whichever
leader learns what became of it."""

LANDING = "eviction.landing"
"""Which nodes replacements are to prefer, for the chart's MutatingAdmissionPolicy: "OWNER=NODE OWNER=NODE", by the UID
of what creates them."""


Loads = Mapping[str, Mapping[str, float]]
"""{node: {resource: load}}, fractions of allocatable."""


class StepStatus(StrEnum):
    """RECORDED: about to be evicted, or it is unknown whether it was. REFUSED and FAILED did not happen; STOPPED did,
    but its replacement came too late."""

    RECORDED = "recorded"
    EVICTED = "evicted"
    LANDED = "landed"
    READY = "ready"
    REFUSED = "refused"
    FAILED = "failed"
    STOPPED = "stopped"


class StepRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The eviction of one pod, and what became of it. Times are Unix seconds, 0 for not yet."""

    pod: str
    uid: str
    source: str
    time: float
    target: str | None = None
    """None where nothing steers the landing."""
    workload: WorkloadKey | None = None
    owner: str = ""
    """The `maker` of its replacement."""
    rollout: str = ""
    """The UID of the Deployment whose rollout replaces it; "" where it is evicted."""
    before: str = ""
    """What the template of that Deployment was marked with before."""
    scheduler: str = ""
    gain: float = 0.0
    reason: str = ""
    used: Mapping[str, float] = {}
    """What the pod takes along, in cores and bytes."""
    load: Loads = {}
    """What that changes, by node."""
    starts: tuple[str, ...] = ()
    """UIDs of the waiting pods that it makes room for."""
    starts_on: tuple[str, ...] = ()
    """The nodes that they are to start on; `source` for those without one."""
    started: tuple[str, ...] = ()
    """Those of them that are on a node."""
    besides: tuple[str, ...] = ()
    """UIDs of pods of that owner that came shortly before."""
    replicas: int = 0
    """What its workload asked for."""
    prefers: str = ""
    """The node that its replacement is to prefer where its landing is not steered."""
    probe: bool = False
    """Whether it tests if the extender is asked for its scheduler's pods."""
    status: StepStatus = StepStatus.RECORDED
    why: str = ""
    gone_at: float = 0.0
    replacement: str = ""
    """The UID of the pod that came instead."""
    landed_on: str = ""
    landed_at: float = 0.0
    ready_at: float = 0.0
    patience: float = 0.0
    """Seconds that its replacement may take to become Ready, where that is more than the setting."""

    @property
    def open(self) -> bool:
        """Its replacement is still waited for."""
        return self.status in (StepStatus.RECORDED, StepStatus.EVICTED, StepStatus.LANDED)

    @property
    def unbound(self) -> bool:
        """No replacement is known to be on a node."""
        return self.status in (StepStatus.RECORDED, StepStatus.EVICTED)

    @property
    def happened(self) -> bool:
        """Whether the pod was certainly evicted."""
        return self.status in (StepStatus.EVICTED, StepStatus.LANDED, StepStatus.READY, StepStatus.STOPPED)

    def read_at(self, stamps: Stamps) -> StepRecord:
        """The step as it counts when it is read."""
        times = {name: stamps.past(getattr(self, name)) for name in ("time", "gone_at", "landed_at", "ready_at")}
        return msgspec.structs.replace(self, **times)


class Running(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan whose effect is not known yet. `before` and `after` are deviations as it was made, `loads` the loads of
    all nodes that it touches then, `mean` the mean load of the others."""

    id: str
    kind: str
    time: float
    before: Mapping[str, float] = {}
    after: Mapping[str, float] = {}
    loads: Loads = {}
    mean: Mapping[str, float] = {}
    steps: tuple[StepRecord, ...] = ()

    @property
    def open(self) -> bool:
        return any(step.open for step in self.steps)

    def read_at(self, stamps: Stamps) -> Running:
        """The plan as it counts when it is read."""
        steps = tuple(step.read_at(stamps) for step in self.steps)
        return msgspec.structs.replace(self, time=stamps.past(self.time), steps=steps)


@dataclass
class Followed:
    """What following a plan showed this time."""

    plan: Running
    """The plan as it is now."""
    finished: bool = False
    """Nothing more is to be learned of it."""
    changed: bool = False
    stop: str | None = None
    """Why its planner has to stop."""
    share: float | None = None
    """Of what was predicted, what happened."""
    ineffective: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Why moves off a (node, resource) did not help."""
    measured: Mapping[str, Measured] = field(default_factory=dict)
    """By UID of the evicted pod."""
    landed: list[StepRecord] = field(default_factory=list)
    returned: list[StepRecord] = field(default_factory=list)
    """Steps whose replacement landed on their source."""
    ready: list[StepRecord] = field(default_factory=list)
    late: list[StepRecord] = field(default_factory=list)
    failed: list[StepRecord] = field(default_factory=list)
    """Steps that did not happen."""
    leaving: list[StepRecord] = field(default_factory=list)
    """Steps whose pod has not ended yet."""
    sentences: list[str] = field(default_factory=list)


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
    tally: Ledger


class Journal:
    """All of it is written at once, so that no two keys contradict each other."""

    def __init__(self, state: StateStore) -> None:
        self._state = state

    def read(self) -> SavedJournal:
        """Raises ClusterError when it cannot be read, also when it is not what Ballast writes."""
        keys = self._state.read()
        key = PLANS
        stamps = self._state.stamps
        try:
            plans = tuple(plan.read_at(stamps(PLANS)) for plan in _plans.decode(keys.get(PLANS, "[]")))
            key = HISTORY
            memory = RecentEvictions.decode(keys[key], stamps(key)) if key in keys else RecentEvictions()
            key = RESERVATIONS
            held = _reservations.decode(keys.get(RESERVATIONS, "[]"))
            held = tuple(_within(each, stamps(RESERVATIONS)) for each in held)
        except (ValueError, RecursionError) as error:
            raise ClusterError(
                f"Key {key} of ConfigMap {NAME} cannot be read: {error}. Delete the key to forget what it said; "
                "until then nothing is evicted."
            ) from error
        return SavedJournal(plans, memory, tuple(map(_reservation, held)), saved_ledger(self._state, keys, TALLY))

    def write(
        self,
        plans: Sequence[Running],
        memory: RecentEvictions,
        reservations: Iterable[Reservation],
        tally: str,
        *,
        reason: str,
    ) -> WriteOutcome:
        """Raises ClusterError when the ConfigMap cannot be read. A key with nothing to say is left out."""
        values = {
            PLANS: msgspec.json.encode(plans).decode() if plans else "",
            HISTORY: memory.encode(),
            RESERVATIONS: _encoded(reservations),
            LANDING: _preferred(plans),
            TALLY: tally,
        }

        def change(keys: dict[str, str]) -> Mapping[str, str]:
            return {key: value for key, value in {**keys, **values}.items() if value or key not in values}

        return self._state.update(change, reason=reason)


def _preferred(plans: Iterable[Running]) -> str:
    """Of two evicted pods of one owner the later."""
    steps = (step for plan in plans for step in plan.steps if step.unbound and step.prefers and step.owner)
    nodes = {step.owner: step.prefers for step in sorted(steps, key=lambda step: step.time)}
    return " ".join(f"{owner}={node}" for owner, node in sorted(nodes.items()))


def _encoded(reservations: Iterable[Reservation]) -> str:
    held = [
        _SavedReservation(
            reservation.name,
            reservation.node,
            reservation.purpose,
            reservation.pod,
            reservation.holder,
            reservation.until,
            reservation.shape.requests,
            reservation.shape.limits,
            reservation.priority,
        )
        for reservation in sorted(reservations, key=lambda each: each.name)
    ]
    return msgspec.json.encode(held).decode() if held else ""


def _within(held: _SavedReservation, stamps: Stamps) -> _SavedReservation:
    return msgspec.structs.replace(held, until=stamps.end(held.until, LONGEST))


def _reservation(held: _SavedReservation) -> Reservation:
    shape = shape_of([ContainerShape(held.requests, held.limits)])
    return Reservation(held.name, held.node, held.purpose, held.pod, held.holder, shape, held.until, held.priority)
