"""The board: the daemon writes it, the HTTP handlers read it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ballast.answers.api import CycleRecord, PodScores, Power
from ballast.answers.evictions import Evictions, Plan
from ballast.answers.ledger_answer import LedgerAnswer
from ballast.answers.views import Explanation, FoundPod, NodeHistory, NodeScore, PodOnNode
from ballast.base.clock import Clock, SystemClock
from ballast.model.snapshot import Snapshot
from ballast.serving.fleet_history import FleetHistory
from ballast.serving.rendering import Rendered
from ballast.serving.standby import Leader

__all__ = ["Board", "Check", "CycleRecord", "DaemonAnswers"]


@dataclass(frozen=True)
class Check:
    """One line of `/livez` or `/readyz`."""

    name: str
    ok: bool
    message: str = ""


def _unknown(*_: str) -> None:
    """There is nothing of that name."""


def _empty_ledger() -> LedgerAnswer:
    return LedgerAnswer(hours=(), days=())


@dataclass(frozen=True)
class DaemonAnswers:
    """What the parts of the daemon answer when the HTTP handlers ask. Any thread may call them."""

    ready: Callable[[], list[Check]] = list
    """The lines of `/readyz`."""

    alive: Callable[[], list[Check]] = list
    """The lines of `/livez`."""

    pod_scores: Callable[[str, str], PodScores | None] = _unknown
    """By namespace and name, None for an unknown pod. It is slow."""

    explain: Callable[[str, str], Explanation | None] = _unknown
    """By namespace and name, None for an unknown pod. It is slow. Raises BallastError where it cannot be said now."""

    node_score: Callable[[str], NodeScore | None] = _unknown
    """Of a node, None for an unknown one."""

    ledger: Callable[[], LedgerAnswer] = _empty_ledger
    """It may be slow. Raises BallastError where it cannot be read now."""

    leader: Leader | None = None
    """Who answers for acting parts while this replica follows; None: this one always does."""


@dataclass
class Board:
    """Everything the HTTP handlers show.

    The daemon replaces attributes by reference and never changes them in place, so handlers read without a lock.
    """

    clock: Clock = field(default_factory=SystemClock)
    snapshot: Snapshot | None = None
    """The newest snapshot, None before the first cycle."""

    rendered: Rendered | None = None
    """The documents of the newest snapshot."""

    scores: Mapping[str, int | None] = field(default_factory=dict)
    """{node: 0..100}, None where the node is unknown."""

    cycles: Sequence[CycleRecord] = ()
    """Recent runs of the jobs, oldest first."""

    conditions: Callable[[], list[Any]] = list
    """Each as `StatusCondition` in JSON: `type`, `status`, `reason`, `message` and `lastTransitionTime`."""

    leader: Callable[[], bool] = lambda: False
    """Whether this replica leads."""

    follows: Callable[[], bool] = lambda: False
    """Whether it would act if it led, and does not lead."""

    paused: Callable[[str], str | None] = lambda part: None
    """Why a part is paused, None where it is not."""

    planners: Mapping[str, str] = field(default_factory=dict)
    """What each planner of evictions that runs may do: dry-run or on."""

    config: list[dict[str, Any]] = field(default_factory=list)
    """`{"name", "value", "origin"}` of every setting, secrets masked."""

    power: Power = field(default_factory=partial(Power, mode=None, paused=None, policies=(), conditions=()))
    """Without `conditions`, which are added to each answer; actions may come in any order."""

    plans: Sequence[Plan] = ()
    """Newest first."""

    evictions: Evictions = field(
        default_factory=partial(Evictions, mode=None, paused=None, limits={}, breaker=None, recent=(), reservations=())
    )
    """Without `mode`, which is added to each answer."""

    long_history: Callable[[str, int], NodeHistory | None] = lambda node, days: None
    """By node and days, from Prometheus; None where it has none. It is slow."""

    find_pods: Callable[[str], list[FoundPod]] = lambda text: []
    """At most FOUND pods whose namespace/name contains a text."""

    pods_on: Callable[[str], list[PodOnNode]] = lambda node: []
    """The pods on a node."""

    history: FleetHistory = field(default_factory=FleetHistory)
    """The last 24 hours of loads and spreads."""

    high: Mapping[str, float] = field(default_factory=dict)
    """The load from which a node is hot, by resource."""

    node_metrics: str = "all"
    """`off`, `primary` or `all`: which series per node `/metrics` has."""

    frozen: bool = False
    """True while much of the cluster is silent: `/watcher` then answers 500 with an empty body."""

    max_age: float | None = None
    """Seconds after its arrival from which data is no longer served as current, should cycles stop."""

    def current(self) -> Rendered | None:
        """The rendered documents; None without any, or when cycles stopped more than `max_age` seconds ago."""
        rendered = self.rendered
        if rendered is None or (self.max_age is not None and self.clock.wall() - rendered.fetched > self.max_age):
            return None
        return rendered
