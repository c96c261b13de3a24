"""What the gate goes by; the defaults are those of the settings `BALLAST_EVICTION__*`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from ballast.eviction.time_windows import TimeWindow
from ballast.model.duration import DAY
from ballast.model.selector import Selector

MINUTE = 60.0
HOUR = 3600.0


@dataclass(frozen=True)
class EvictionLimit:
    """A number, or a share in percent: rounded down, but never below one. Without either there is no limit."""

    number: int = 0
    percent: Fraction | None = None

    def of(self, total: int) -> int | None:
        """How many of `total`, None without a limit."""
        if self.percent:
            return max(1, math.floor(total * self.percent / 100))
        return self.number or None


def percent(share: int) -> EvictionLimit:
    return EvictionLimit(percent=Fraction(share))


UNLIMITED = EvictionLimit()
_TENTH = percent(10)
_DAILY = percent(1)


class LocalStorage(Enum):
    """Which local volumes a pod may lose: none, emptyDir of pods that a ReplicaSet makes, emptyDir in memory, or every
    emptyDir."""

    REFUSE = "refuse"
    SCRATCH = "scratch"
    MEMORY = "memory"
    ALLOW = "allow"


@dataclass(frozen=True)
class EvictionBudget:
    """At most `limit` pods, or with `of_nodes` nodes, within `per` seconds, of each one of `scope`: cluster, node,
    workload or namespace. `window` says when it holds, None: always; without `planners` for all of them.
    """

    limit: EvictionLimit
    per: float
    scope: str = "cluster"
    of_nodes: bool = False
    window: TimeWindow | None = None
    planners: frozenset[str] = frozenset()
    text: str = ""
    """As it was written."""

    def holds(self, planner: str, now: float) -> bool:
        """Whether it bounds this planner at `now` (Unix seconds)."""
        mine = not self.planners or planner in self.planners
        return mine and (self.window is None or self.window.ends(now) is not None)


@dataclass(frozen=True)
class GateRules:
    """Seconds, counts, shares. `steered` are the scheduler names whose landing is known, None stands for all of them;
    without `needs_landing` others may leave overloaded nodes too, with `kept_off` any: they do not come back there.
    Without `moves` pods may come back where they were, and failed ones may be removed.
    `grace_period` are seconds that replace the pods' own grace periods.
    `operator_only` are keys of annotations that count on namespaces alone.

    `windows` are the times at which evictions may happen, always without any. `rate_shares` are the parts of `rates`
    that only one planner may use; `planner` is the one that asks.

    What is off unless set: `pod_selector`, `only_namespaces`, `namespace_selector`, `refuse_volume_claims`,
    `without_storage_classes`, `needs_budget`, `priority_below`.
    """

    prefix: str = "ballast.dev"
    operator_only: frozenset[str] = frozenset()
    limit_total: EvictionLimit = EvictionLimit(5)
    limit_node: EvictionLimit = EvictionLimit(1)
    limit_namespace: EvictionLimit = EvictionLimit(2)
    limit_workload: EvictionLimit = _TENTH
    workload_window: float = 30 * MINUTE
    rates: tuple[tuple[EvictionLimit, float], ...] = ((EvictionLimit(20), HOUR), (_DAILY, DAY))
    budgets: tuple[EvictionBudget, ...] = ()
    planner: str = ""
    windows: tuple[TimeWindow, ...] = ()
    rate_shares: Mapping[str, float] = field(default_factory=dict)
    cooldown: float = 10 * MINUTE
    min_pod_age: float = 10 * MINUTE
    min_node_age: float = 5 * MINUTE
    quiet_after_scale: float = 5 * MINUTE
    max_unavailable: EvictionLimit = _TENTH
    min_replicas: int = 2
    confirmations: int = 3
    max_not_ready: float = 0.1
    max_unknown: float = 0.2
    max_api_errors: float = 0.05
    max_replacements: int = 3
    priority_below: int | None = None
    refuse_volume_claims: bool = False
    without_storage_classes: frozenset[str] = frozenset()
    refuse_resource_claims: bool = True
    grace_period: float | None = None
    local_storage: LocalStorage = LocalStorage.SCRATCH
    allow_jobs: bool = False
    allow_gangs: bool = False
    needs_budget: bool = False
    pod_selector: Selector | None = None
    only_namespaces: frozenset[str] = frozenset()
    without_namespaces: frozenset[str] = frozenset()
    namespace_selector: Selector | None = None
    needs_confirmation: bool = True
    needs_landing: bool = True
    steered: frozenset[str] | None = None
    kept_off: bool = False
    moves: bool = True
    surge: bool = False
    restart: bool = False
