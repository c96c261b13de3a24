"""The single place where a step is permitted or refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum, auto

import numpy as np

from ballast.base.registry import Registry
from ballast.eviction.annotations import EVICT, EVICT_LIFTS, lifted, opted_in
from ballast.eviction.check_input import LOOKED_NOWHERE, Check, CheckInput, CheckResult, Feasibility, GateVerdict, allow
from ballast.eviction.checks import acting, availability, limits, load, nature
from ballast.eviction.facts import Facts
from ballast.eviction.gate_rules import GateRules
from ballast.eviction.history import NOTHING_YET, History, Tally
from ballast.model.pod import FINISHED, Pod
from ballast.model.sample import Ints


class Scope(Enum):
    """Pods that are equal in this get the same answer."""

    TEMPLATE = auto()
    POD = auto()
    NODE = auto()
    WORKLOAD = auto()
    OUTLOOK = auto()


class Alike(Enum):
    """Which pods the refusal of one pod holds for too, while a plan is made: that pod alone, pods on its node, pods of
    its workload that are as ready, of its namespace, of its disruption budgets, or all pods."""

    POD = auto()
    NODE = auto()
    WORKLOAD = auto()
    NAMESPACE = auto()
    BUDGETS = auto()
    ALL = auto()


@dataclass(frozen=True)
class Row:
    """One check: its name, its function, and what its answer depends on."""

    name: str
    check: Check
    scope: Scope
    liftable: bool = False
    """Whether the annotation `evict: "true"` lifts it, and `evict-lifts` where it names it."""
    by_name: bool = False
    """Whether only `evict-lifts` lifts it."""
    alike: Alike = Alike.POD
    running: bool = False
    """Whether it only holds for pods that have not finished."""
    temporary: bool = False
    """Whether time alone ends its refusal: a pod that it refuses does not keep its node from being emptied."""


BUILT_IN = (
    Row("mirror", nature.mirror, Scope.TEMPLATE),
    Row("static", nature.static, Scope.TEMPLATE),
    Row("terminating", nature.terminating, Scope.POD),
    Row("finished", nature.finished, Scope.POD),
    Row("daemonset", nature.daemonset, Scope.TEMPLATE),
    Row("critical", nature.critical, Scope.TEMPLATE),
    Row("priority", nature.priority, Scope.TEMPLATE, liftable=True),
    Row("bare", nature.bare, Scope.TEMPLATE, liftable=True),
    Row("job", nature.job, Scope.TEMPLATE, by_name=True),
    Row("gang", nature.gang, Scope.TEMPLATE),
    Row("local-storage", nature.local_storage, Scope.TEMPLATE, liftable=True, running=True),
    Row("pvc", nature.pvc, Scope.TEMPLATE, liftable=True, running=True),
    Row("resource-claims", nature.resource_claims, Scope.TEMPLATE, running=True),
    Row("without-pdb", availability.without_pdb, Scope.TEMPLATE, liftable=True, running=True),
    Row("pdb", availability.pdb, Scope.WORKLOAD, alike=Alike.BUDGETS, temporary=True, running=True),
    Row("node-fit", load.node_fit, Scope.OUTLOOK, running=True),
    Row("single-replica", availability.single_replica, Scope.TEMPLATE, liftable=True, running=True),
    Row("min-ready", availability.min_ready, Scope.WORKLOAD, alike=Alike.WORKLOAD, temporary=True, running=True),
    # Pods of one workload may be of several revisions, so they are not alike.
    Row("returnable", availability.returnable, Scope.WORKLOAD, temporary=True, running=True),
    Row("grace-period", nature.grace_period, Scope.TEMPLATE, by_name=True, running=True),
    Row("min-age", nature.min_age, Scope.POD, liftable=True, temporary=True),
    Row("pod-selector", nature.pod_selector, Scope.TEMPLATE),
    Row("namespace", nature.namespace, Scope.TEMPLATE),
    Row("opt-out", acting.opt_out, Scope.TEMPLATE),
    Row("limit-node", limits.limit_node, Scope.NODE, alike=Alike.NODE, temporary=True),
    Row("limit-namespace", limits.limit_namespace, Scope.WORKLOAD, alike=Alike.NAMESPACE, temporary=True),
    Row("limit-total", limits.limit_total, Scope.NODE, alike=Alike.ALL, temporary=True),
    Row("limit-workload", limits.limit_workload, Scope.WORKLOAD, alike=Alike.WORKLOAD, temporary=True),
    Row("workload-window", limits.workload_window, Scope.WORKLOAD, alike=Alike.WORKLOAD, temporary=True),
    Row("window", limits.window, Scope.NODE, alike=Alike.ALL, temporary=True),
    Row("rate", limits.rate, Scope.NODE, alike=Alike.NODE, temporary=True),
    Row("cooldown", limits.cooldown, Scope.NODE, temporary=True, running=True),
    Row("debounce", load.debounce, Scope.NODE),
    Row("gain", load.gain, Scope.OUTLOOK),
    Row("relieved", load.relieved, Scope.OUTLOOK),
    Row("stale", load.stale, Scope.NODE),
    Row("reservation", acting.reservation, Scope.NODE),
    Row("replacement", availability.replacement, Scope.WORKLOAD, temporary=True, running=True),
    Row("retry", acting.retry, Scope.WORKLOAD, temporary=True),
    Row("identity", acting.identity, Scope.POD),
    Row("leadership", acting.leadership, Scope.NODE),
    Row("paused", acting.paused, Scope.NODE),
    Row("cluster-health", acting.cluster_health, Scope.NODE),
    Row("loop", acting.loop, Scope.POD, running=True),
)
REGISTRY: Registry[Row] = Registry("ballast.checks", [row.name for row in BUILT_IN], Row)
"""Checks of other packages; they come after the built-in ones."""
ROWS = (*BUILT_IN, *REGISTRY.load_all())
NAMES = tuple(row.name for row in ROWS)
NUMBER = {name: number for number, name in enumerate(NAMES)}
PASSED = len(ROWS)
LIFTED_BY_NAME = frozenset(row.name for row in ROWS if row.liftable or row.by_name)
"""What `evict-lifts` may name."""
_OF_POD = tuple(row for row in ROWS if row.scope is Scope.POD)
_OTHERS_OF_POD = any(row.scope is Scope.POD for row in ROWS[len(BUILT_IN) :])


class Gate:
    """Judges pods at one moment. Steps that were admitted count against the limits and budgets of the next ones."""

    def __init__(self, facts: Facts, rules: GateRules, history: History = NOTHING_YET) -> None:
        self.facts, self.rules, self.history = facts, rules, history
        self.tally = Tally()

    def explain(self, pod: Pod, outlook: Feasibility = LOOKED_NOWHERE) -> list[GateVerdict]:
        """What every check says, in order."""
        case = self._case(pod, outlook)
        return [self._verdict(row, case) for row in ROWS]

    def judge(self, pod: Pod, outlook: Feasibility = LOOKED_NOWHERE) -> GateVerdict | None:
        """The first refusal, or None."""
        return self._first(pod, outlook, ROWS)

    def admit(self, pod: Pod, outlook: Feasibility = LOOKED_NOWHERE) -> GateVerdict | None:
        """Like `judge`; a pod that is not refused counts as evicted from now on."""
        refusal = self.judge(pod, outlook)
        if refusal is None:
            self.tally.add(self.facts, pod)
        return refusal

    def admit_together(self, pods: Iterable[Pod], outlook: Feasibility = LOOKED_NOWHERE) -> GateVerdict | None:
        """Like `admit` for all of them or none; the first refusal."""
        before = deepcopy(self.tally)
        for pod in pods:
            refusal = self.admit(pod, outlook)
            if refusal is not None:
                self.tally = before
                return refusal
        return None

    def rehearsal(self) -> Gate:
        """A gate that judges the same; what it admits does not count here."""
        copy = Gate(self.facts, self.rules, self.history)
        copy.tally = deepcopy(self.tally)
        return copy

    def screen(self, pods: Iterable[Pod]) -> Ints:
        """[pod]: the number of the first row that refuses it, PASSED if none does; where it could go is left out.

        Pods of one template, node or workload are judged once.
        """
        alike: dict[object, int] = {}
        together: dict[object, int] = {}
        terminating, finished, age = NUMBER["terminating"], NUMBER["finished"], NUMBER["min-age"]
        youngest = self.facts.now - self.rules.min_pod_age
        refused = FINISHED if self.rules.moves else ("Succeeded",)
        # The answers of the built-in checks of single pods are known without asking them, unless one of these holds.
        ask_all = self.history.acting or _OTHERS_OF_POD or bool(self.history.looping or self.history.gave)
        numbers: list[int] = []
        for pod in pods:
            notes = pod.annotations
            key: object = (
                pod.namespace,
                id(pod.owner),
                id(pod.template),
                id(pod.labels),
                pod.priority,
                pod.ready,
                pod.phase in FINISHED,
                pod.grace > nature.LONGEST_GRACE,
                tuple(notes.items()) if notes else None,
            )
            # Checks of templates and workloads read nothing of a pod but what the key holds.
            number = alike.get(key)
            if number is None:
                number = alike[key] = min(self.first(pod, Scope.TEMPLATE), self.first(pod, Scope.WORKLOAD))
            # Checks of nodes read its node, and who would place its replacement.
            key = (pod.node, pod.scheduler_name)
            there = together.get(key)
            if there is None:
                there = together[key] = self.first(pod, Scope.NODE)
            number = min(number, there)
            # Of the checks of single pods the first that refuses counts, so only a lower number than the one found is
            # of interest.
            if pod.deleting:
                number = min(number, terminating)
            elif pod.phase in refused:
                number = min(number, finished)
            elif number > age and (ask_all or pod.created > youngest or pod.uid in self.history.known):
                refusal = self._first(pod, LOOKED_NOWHERE, _OF_POD)
                number = min(number, NUMBER[refusal.check]) if refusal else number
            numbers.append(number)
        return np.array(numbers, np.int64)

    def first(self, pod: Pod, scope: Scope) -> int:
        refusal = self._first(pod, LOOKED_NOWHERE, (row for row in ROWS if row.scope is scope))
        return NUMBER[refusal.check] if refusal else PASSED

    def _first(self, pod: Pod, outlook: Feasibility, rows: Iterable[Row]) -> GateVerdict | None:
        case = self._case(pod, outlook)
        for row in rows:
            finding = _ask(row, case)
            if not finding.allowed and self._lifted_by(row, pod) is None:
                return GateVerdict(row.name, *finding)
        return None

    def _case(self, pod: Pod, outlook: Feasibility) -> CheckInput:
        return CheckInput(pod, self.facts, self.rules, self.history, self.tally, outlook)

    def _lifted_by(self, row: Row, pod: Pod) -> str | None:
        """The annotation that lifts this check for the pod, or None."""
        prefix, operators = self.rules.prefix, self.rules.operator_only
        if row.liftable and opted_in(self.facts, pod, prefix, operators):
            return f"{prefix}/{EVICT}"
        if (row.liftable or row.by_name) and row.name in lifted(self.facts, pod, prefix, operators):
            return f"{prefix}/{EVICT_LIFTS}"
        return None

    def _verdict(self, row: Row, case: CheckInput) -> GateVerdict:
        finding = _ask(row, case)
        if not finding.allowed and (by := self._lifted_by(row, case.pod)) is not None:
            finding = finding._replace(allowed=True, reason=f"{finding.reason}; {by} lifts this")
        return GateVerdict(row.name, *finding)


def _ask(row: Row, case: CheckInput) -> CheckResult:
    if row.running and case.pod.finished:
        return allow("it does not run any more")
    return row.check(case)


def refusals(numbers: Ints) -> Iterator[tuple[str, int]]:
    """How many pods each check refused."""
    counts = np.bincount(numbers)[:PASSED]
    for number in np.flatnonzero(counts).tolist():
        yield NAMES[number], int(counts[number])
