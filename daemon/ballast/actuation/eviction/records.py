"""Defines the saved records of plans under way, from which the next leader goes on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from ballast.eviction.facts import WorkloadKey

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
    """One pod.

    `owner` is the UID of what creates its replacement, `besides` are pods of that owner that came shortly before,
    `replicas` what its workload asked for.
    `used` is what the pod takes along, in cores and bytes, and `load` what that changes, by node;
    `starts` are waiting pods by UID, `starts_on` the nodes that they are to start on,
    `source` where it says none; `started` those of them that are on a node;
    `prefers`: the node that its replacement is to prefer where its landing is not steered;
    `probe`: it shows whether the extender is asked for its scheduler's pods. Times are Unix seconds, 0 for not yet.
    """

    pod: str
    uid: str
    source: str
    time: float
    target: str | None = None
    workload: WorkloadKey | None = None
    owner: str = ""
    scheduler: str = ""
    gain: float = 0.0
    reason: str = ""
    used: Mapping[str, float] = {}
    load: Loads = {}
    starts: tuple[str, ...] = ()
    starts_on: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    besides: tuple[str, ...] = ()
    replicas: int = 0
    prefers: str = ""
    probe: bool = False
    status: StepStatus = StepStatus.RECORDED
    why: str = ""
    gone_at: float = 0.0
    replacement: str = ""
    landed_on: str = ""
    landed_at: float = 0.0
    ready_at: float = 0.0

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
