"""What was evicted before: in earlier cycles, and so far in this plan. Without any of it every such check is met."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ballast.eviction.facts import Facts, WorkloadKey
from ballast.model.pod import Pod


@dataclass(frozen=True)
class History:
    """What the gate knows beside the cluster as it is: earlier evictions, other parts, and whether this replica leads.

    Times are Unix seconds; of several they are ascending. For example, two evictions from n1, the last an hour ago:

        History(node_evictions={"n1": now - 3600}, evictions=(now - 7200, now - 3600))
    """

    acting: bool = False
    """Whether a step is about to be taken, not only planned."""
    leader: bool = True
    paused: str | None = None
    """Why evictions are paused."""
    node_evictions: Mapping[str, float] = field(default_factory=dict)
    """When a pod was last evicted from a node."""
    node_planners: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """When a pod was last evicted by this (node, planner)."""
    workload_evictions: Mapping[WorkloadKey, tuple[float, ...]] = field(default_factory=dict)
    evictions: tuple[float, ...] = ()
    """Those that count against the common rates."""
    past: tuple[tuple[float, str, WorkloadKey | None, str], ...] = ()
    """Time, node, workload and planner of those that count against budgets, the oldest first."""
    of_own_rate: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Those that count against rates of their own, by the name of that (`own_rate` in `checks/limits.py`)."""
    set_back: float = -math.inf
    """When what was written down of evictions was last found set back: what happened since the copy is not known."""
    known: frozenset[str] = frozenset()
    """UIDs of pods that were evicted, or may have been: a leader that was killed, or got no answer, does not say."""
    by_planner: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    confirmed: Mapping[str, int] | None = None
    """How many windows in a row showed a node too loaded; None if they are not counted."""
    awaited: frozenset[WorkloadKey] = frozenset()
    """Workloads whose replacement is not Ready yet."""
    planned: frozenset[WorkloadKey] = frozenset()
    """Workloads with an open power plan."""
    looping: Mapping[tuple[WorkloadKey, str], float] = field(default_factory=dict)
    """When a pod of a workload came back to a node that had given one of it."""
    gave: Mapping[tuple[WorkloadKey, str], float] = field(default_factory=dict)
    """When a node last gave a pod of a workload."""
    overloaded: frozenset[str] = frozenset()
    """Nodes so loaded that relief may not wait until the landing is known."""
    backing_off: Mapping[WorkloadKey, float] = field(default_factory=dict)
    """Until when a workload is left alone after a refusal of the API server."""
    ineffective: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Why moves off a (node, resource) did not help lately."""
    causes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of which resources a node is too loaded now."""
    restarts: Mapping[WorkloadKey, float] = field(default_factory=dict)
    """Seconds from an eviction until the replacement was Ready."""
    replacements: int = 0
    """Evictions whose replacement is waited for."""
    api_errors: float = 0.0
    """Share of failed requests to the API server."""

    def useless(self, node: str) -> str | None:
        """Why moving pods off a node does not help: it did not lately, for all that the node is too loaded of."""
        known = [self.ineffective.get((node, cause)) for cause in sorted(self.causes.get(node, ()))]
        return known[0] if known and all(known) else None


NOTHING_YET = History()


@dataclass
class Tally:
    """What a plan has spent so far of limits and budgets."""

    total: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    namespaces: Counter[str] = field(default_factory=Counter)
    workloads: Counter[WorkloadKey] = field(default_factory=Counter)
    budgets: Counter[tuple[str, str]] = field(default_factory=Counter)
    shown: Counter[WorkloadKey] = field(default_factory=Counter)
    held: dict[tuple[str, float, float], float] = field(default_factory=dict)
    """How many evictions the pace of a (rate of its own, seconds, number) permitted before this plan."""
    spent: dict[int, Counter[object]] = field(default_factory=dict)
    """By number of a budget, what it had spent before this plan, by what it counts it of."""

    def add(self, facts: Facts, pod: Pod, *, shown: bool = False) -> None:
        """Counts an eviction; its replacement is not waited for.

        When the facts have `shown` the pod leaving already, its budgets and its ready siblings count it themselves.
        """
        self.total += 1
        self.nodes[pod.node] += 1
        self.namespaces[pod.namespace] += 1
        key = facts.key(pod)
        if key is not None:
            self.workloads[key] += 1
            self.shown[key] += shown
        if shown:
            return
        for budget in facts.budgets(pod):
            self.budgets[budget.namespace, budget.name] += 1
