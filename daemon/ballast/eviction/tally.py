"""What a plan has spent so far of limits and budgets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ballast.eviction.facts import Facts, WorkloadKey
from ballast.model.pod import Pod


@dataclass
class Tally:
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
