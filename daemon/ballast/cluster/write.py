"""One change in the cluster and its outcome."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import structlog

from ballast.base.metrics import Metrics

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
    """The object was changed meanwhile; read and decide again."""
    GONE = "gone"
    """The object is no longer there."""
    FAILED = "failed"


@dataclass(frozen=True)
class WriteTarget:
    """The object a write is about, as Events name it."""

    kind: str
    name: str
    namespace: str = ""
    uid: str = ""
    api_version: str = "v1"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, kw_only=True)
class Write:
    """What is to be sent, and why."""

    kind: str
    """What the metrics and the audit log call it."""
    part: str | None
    """A Part, or None for Ballast's own Lease, state and EndpointSlice, which no mode or pause holds back."""
    method: str
    path: str
    target: WriteTarget
    reason: str
    body: Any = None
    """Sent as JSON."""
    content_type: str | None = None
    query: Mapping[str, str | int] | None = None
    leader_only: bool = True
    """Whether only the leader may send it."""
    event: str = ""
    """The CamelCase beginning of an Event's reason; the result completes it. Empty: no Event."""
    done_event: str = ""
    """The whole reason of the Event once it is done, where that has a name of its own."""
    aggregated: bool = False
    """Whether its Events are counted together over all targets."""
    timeout: float | None = None
    """Seconds to wait for the answer, None for the usual time."""


@dataclass(frozen=True)
class WriteOutcome:
    """What became of a write."""

    write: Write
    result: Result
    reason: str = ""
    """A sentence where nothing was done."""
    status: int = 0
    """The HTTP status where nothing was done, 0 without an answer."""
    body: bytes = b""
    """The server's answer."""
    too_late: bool = False
    """Whether it was given up because of its deadline; others with this deadline will be too."""
    causes: tuple[str, ...] = ()
    """What a 429 names, such as a disruption budget."""
    admission: bool = False
    """Whether an admission webhook or policy refused it."""

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
