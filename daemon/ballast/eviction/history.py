"""What was evicted before: in earlier cycles, and so far in this plan. Without any of it every such check is met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from ballast.eviction.facts import Facts, WorkloadKey
from ballast.model.pod import Pod


@dataclass(frozen=True)
class History:
    """Times are Unix seconds, of several ascending. `acting` says that a step is about to be taken, not only planned.

    `node_evictions` says when a pod was last evicted from a node, `node_planners` when by this (node, planner).
    `confirmed` counts the windows in a row that showed a node too loaded, None if they are not counted. `awaited` are
    workloads whose replacement is not Ready yet, `planned` those with an open power plan, `looping` those moved twice
    or whose pod came back. `overloaded` are nodes so loaded that relief may not wait for a known landing. `backing_off`
    says until when a workload is left alone after a refusal of the API server. `ineffective` says of (node, resource)
    why moves off it did not help lately, `causes` of which resources a node is too loaded now. `restarts` are seconds
    from the eviction of a pod until its replacement was Ready, by workload. `known` are UIDs of pods that were evicted,
    or may have been: a leader that was killed, or got no answer, does not say.
    """

    acting: bool = False
    leader: bool = True
    paused: str | None = None
    node_evictions: Mapping[str, float] = field(default_factory=dict)
    node_planners: Mapping[tuple[str, str], float] = field(default_factory=dict)
    workload_evictions: Mapping[WorkloadKey, tuple[float, ...]] = field(default_factory=dict)
    evictions: tuple[float, ...] = ()
    known: frozenset[str] = frozenset()
    by_planner: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    confirmed: Mapping[str, int] | None = None
    awaited: frozenset[WorkloadKey] = frozenset()
    planned: frozenset[WorkloadKey] = frozenset()
    looping: frozenset[WorkloadKey] = frozenset()
    overloaded: frozenset[str] = frozenset()
    backing_off: Mapping[WorkloadKey, float] = field(default_factory=dict)
    ineffective: Mapping[tuple[str, str], str] = field(default_factory=dict)
    causes: Mapping[str, frozenset[str]] = field(default_factory=dict)
    restarts: Mapping[WorkloadKey, float] = field(default_factory=dict)
    replacements: int = 0
    api_errors: float = 0.0

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
