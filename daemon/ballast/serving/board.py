"""What the daemon writes and the handlers read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ballast.clock import Clock, SystemClock
from ballast.model.snapshot import Snapshot
from ballast.serving.rendering import Rendered


@dataclass(frozen=True)
class Check:
    """One line of `/livez` or `/readyz`."""

    name: str
    ok: bool
    message: str = ""


@dataclass(frozen=True)
class CycleRecord:
    """One run of one job: `started` in Unix seconds, `seconds` it took, and its sentence."""

    job: str
    started: float
    seconds: float
    ok: bool
    sentence: str


@dataclass
class Board:
    """The one object between the daemon and the HTTP handlers.

    Every attribute is replaced by reference and never changed in place, so handlers read without a lock.
    `cycles` is oldest first. `conditions` gives objects with `type`, `status`, `reason`, `message` and
    `lastTransitionTime`. `pod_scores` gives the document of `/api/v1/pods/{namespace}/{name}/scores`, None without such
    a pod; it takes time, and may be called from any thread. `config` is a list of `{"name", "value", "origin"}`,
    already masked.
    `paused` says why a part is, None where it is not.
    `power`, `plans` and `evictions` are the documents of `/api/v1/power`, `/plans` and `/evictions`, ready for JSON.
    While `frozen` (much of the cluster is silent), `/watcher` answers 500 with an empty body. Should cycles
    stop, data is no longer served as current `max_age` seconds after it had arrived.
    """

    clock: Clock = field(default_factory=SystemClock)
    snapshot: Snapshot | None = None
    rendered: Rendered | None = None
    scores: Mapping[str, int | None] = field(default_factory=dict)
    cycles: Sequence[CycleRecord] = ()
    conditions: Callable[[], list[dict[str, Any]]] = list
    leader: Callable[[], bool] = lambda: False
    paused: Callable[[str], str | None] = lambda part: None
    ready: Callable[[], list[Check]] = list
    alive: Callable[[], list[Check]] = list
    config: list[dict[str, Any]] = field(default_factory=list)
    power: Mapping[str, Any] = field(default_factory=dict)
    plans: Sequence[Mapping[str, Any]] = ()
    evictions: Mapping[str, Any] = field(default_factory=dict)
    pod_scores: Callable[[str, str], dict[str, Any] | None] = lambda namespace, name: None
    frozen: bool = False
    max_age: float | None = None

    def current(self) -> Rendered | None:
        """What is rendered, unless cycles stopped so long ago that every node in it counts as silent."""
        rendered = self.rendered
        if rendered is None or (self.max_age is not None and self.clock.wall() - rendered.fetched > self.max_age):
            return None
        return rendered
