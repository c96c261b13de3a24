"""One change in the cluster and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import structlog

from ballast.metrics import Metrics

MERGE_PATCH = "application/merge-patch+json"
FIELD_MANAGER = "ballast"
_audit = structlog.get_logger("audit")


class Result(StrEnum):
    """What became of a write."""

    DONE = "done"
    DRY_RUN = "dry-run"
    REFUSED = "refused"
    """Not sent: the part is off or paused, this replica does not lead, it is stopping, or it would come too late."""
    CONFLICT = "conflict"
    """Someone else wrote first; read again and decide anew."""
    GONE = "gone"
    """The object is no longer there."""
    FAILED = "failed"


@dataclass(frozen=True)
class WriteTarget:
    """The object a write is about, as people and Events name it."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, kw_only=True)
class Write:
    """What is to be sent, and why.

    `part` is publishing, power or eviction; None for Ballast's own Lease, state and role label, which no mode or pause
    holds back. `body` is sent as JSON. `event` is the CamelCase beginning of an Event's reason, which its result ends,
    empty for no Event; `done_event` is the whole reason once it is done, where that has a name of its own.
    Events of writes that are `aggregated` are counted together over all targets. `timeout` is seconds to wait for the
    answer, None for the usual time.
    """

    kind: str
    part: str | None
    method: str
    path: str
    target: WriteTarget
    reason: str
    body: Any = None
    content_type: str | None = None
    query: Mapping[str, str | int] | None = None
    leader_only: bool = True
    event: str = ""
    done_event: str = ""
    aggregated: bool = False
    timeout: float | None = None


@dataclass(frozen=True)
class WriteOutcome:
    """`reason` is a sentence when nothing was done, `status` the HTTP status then; `body` the server's answer.

    `too_late` says that it was given up because of its deadline, and that others with this deadline will be too;
    `causes` are what a 429 names, a disruption budget for one.
    """

    write: Write
    result: Result
    reason: str = ""
    status: int = 0
    body: bytes = b""
    too_late: bool = False
    causes: tuple[str, ...] = ()

    @property
    def done(self) -> bool:
        """Whether the server took the write."""
        return self.result is Result.DONE


def record(metrics: Metrics, outcome: WriteOutcome, *, routine: bool = False) -> WriteOutcome:
    """Counts an outcome and writes its audit line; a `routine` one that succeeded goes to the debug level."""
    write = outcome.write
    metrics.writes.labels(write.kind, outcome.result.value).inc()
    log = _audit.debug if routine and outcome.done else _audit.info
    log(
        f"{write.kind} of {write.target}: {outcome.result}",
        part=write.part or "own",
        kind=write.kind,
        target=str(write.target),
        result=outcome.result.value,
        why=write.reason,
        reason=outcome.reason,
    )
    return outcome


def object_path(collection: str, name: str) -> str:
    """The path of one object, its name escaped."""
    return f"{collection}/{quote(name, safe='')}"
