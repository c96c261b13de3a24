"""The cluster as evictions see it at this moment, and why nothing may be evicted now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from ballast.actuation.eviction.evictor import Evictor
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.protected import Protected
from ballast.base.parts import Part
from ballast.base.words import duration
from ballast.cluster.context import Context
from ballast.cluster.watch import WATCH_SILENT
from ballast.cluster.workload_cache import CLAIMS, CLASSES, CSI_NODES, NODE_CLAIMS, SCALE_UPS, SLICES, VOLUMES
from ballast.eviction.checks.acting import cluster_trouble
from ballast.eviction.facts import ClusterObjects, Facts, WorkloadKey, promised
from ballast.eviction.gate import Gate
from ballast.eviction.history import History
from ballast.eviction.planners.planner import Planner
from ballast.eviction.rules import UNLIMITED, GateRules
from ballast.jobs.eviction.hot_nodes import HotNodes
from ballast.jobs.eviction.invalid_annotations import InvalidAnnotations
from ballast.jobs.eviction.recent_scaling import RecentScaling
from ballast.jobs.eviction.rules import aims_of, rules_of
from ballast.model.node_state import NodeState
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.serving.board import Board
from ballast.settings import Mode
from ballast.windows.standard_error import LoadErrors

KINDS = (
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "poddisruptionbudgets",
    "horizontalpodautoscalers",
    "namespaces",
)
"""What the checks look at beside nodes and pods."""
FURTHER_KINDS = (CLAIMS, VOLUMES, CLASSES, CSI_NODES, SLICES, NODE_CLAIMS, SCALE_UPS)
"""What decides where pods can go: without them, pods that need one stay where they are."""

_NAMED = 5


class ClusterFacts:
    """Reads the caches: `observe` at every snapshot, also where another replica leads; all else in the job's thread."""

    def __init__(
        self,
        context: Context,
        *,
        board: Board,
        evictor: Evictor,
        replacements: ReplacementReservations,
        protected: Protected,
        power_plans: Callable[[], frozenset[str]],
        surging: Callable[[], frozenset[WorkloadKey]],
        budgeted: frozenset[WorkloadKey] = frozenset(),
    ) -> None:
        """`power_plans`: namespace/name of workloads whose replicas an open power plan is changing; `surging`: those
        with one replica more while a pod of theirs moves; `budgeted`: those whose replicas a power policy sets."""
        settings, events = context.settings, context.events
        self._clock, self._board = context.clock, board
        self._cache, self._workloads = context.cache, context.workloads
        self._leading, self._switches = context.leadership.is_leader, context.switches
        self._evictor, self._replacements = evictor, replacements
        self._protector, self._power_plans, self._surging = protected, power_plans, surging
        self._budgeted = budgeted
        self._protected: Mapping[WorkloadKey, str] = {}
        self._acts = settings.eviction.mode is Mode.ON
        self._rules = rules_of(settings)
        self._landing = settings.eviction.landing
        self._replicas = RecentScaling()
        self._invalid = InvalidAnnotations(
            settings.publishing.prefix,
            lambda target, why: events.emit(target, "ExcludeFromEviction", why, part=Part.EVICTION, warning=True),
        )
        self.hot = HotNodes(aims_of(settings), settings.telemetry.interval, settings.scoring.resources)
        self.errors = LoadErrors(evictor.options.lag)

    def observe(self, snapshot: Snapshot) -> None:
        """Counts the windows of hot nodes, and notes which replica counts changed."""
        self.hot.observe(snapshot)
        self.errors.observe(snapshot)
        self._replicas.observe(self._workloads.workloads(), self._clock.wall())

    def refresh(self) -> None:
        """Once a cycle: which workloads are protected, and which annotations are invalid."""
        self._protector.refresh()
        workloads = self._workloads.workloads()
        self._protected = {
            (each.namespace, each.kind, each.name): f"it is left alone: {why}"
            for each in workloads
            if (why := self._protector.reason(each)) is not None
        }
        if self._acts:
            self._invalid.observe(workloads, self._workloads.namespaces(), self._cache.pods())

    def replicas(self) -> Mapping[WorkloadKey, int]:
        """What workloads ask for now, where they say so."""
        return {
            (each.namespace, each.kind, each.name): each.replicas
            for each in self._workloads.workloads()
            if each.replicas is not None
        }

    def objects(self, pods: Iterable[Pod] | None = None) -> ClusterObjects:
        """With these pods only, or with all."""
        return ClusterObjects(
            nodes=self._cache.nodes(),
            pods=self._cache.pods() if pods is None else list(pods),
            workloads=self._workloads.workloads(),
            budgets=self._workloads.budgets(),
            autoscalers=self._replicas.beside(self._workloads.autoscalers()),
            namespaces=self._workloads.namespaces(),
            protected=self._protected,
            attachments=self._workloads.attachments(),
            node_claims=self._workloads.node_claims(),
            promised=promised(self._workloads.scale_ups(), self._clock.wall()),
            budgeted=self._budgeted,
        )

    def never_allowing(self) -> str | None:
        """The first disruption budgets that can never allow an eviction, and why."""
        never = sorted(
            (f"{each.namespace}/{each.name}", each.never) for each in self._workloads.budgets() if each.never
        )
        if not never:
            return None
        more = f" and {len(never) - _NAMED:,} more" if len(never) > _NAMED else ""
        return "; ".join(f"{name}: {why}" for name, why in never[:_NAMED]) + more

    def history(self) -> History:
        """What earlier evictions and other parts mean for the gate."""
        earlier, surging = self._evictor.history(), self._surging()
        return replace(
            earlier,
            awaited=earlier.awaited | surging,
            replacements=earlier.replacements + len(surging),
            leader=self._leading(),
            paused=self._switches.paused(Part.EVICTION),
            confirmed=self.hot.confirmed,
            overloaded=self.hot.overloaded,
            causes=self.hot.causes,
            planned=self._changing(),
        )

    def rules(self, planner: Planner, steered: frozenset[str]) -> GateRules:
        """The rules of a planner; `steered` are the schedulers whose placements the extender decides.

        A node that is being emptied does not rest between two evictions.
        """
        rules = replace(
            self._rules,
            planner=planner.name,
            steered=steered,
            kept_off=self._landing == "taint",
            needs_landing=planner.needs_landing,
            needs_confirmation=planner.needs_confirmation,
        )
        return replace(rules, limit_node=UNLIMITED, cooldown=0.0) if planner.whole_nodes else rules

    def planning_rules(self, planner: Planner, steered: frozenset[str]) -> GateRules:
        """Those that a plan is made by. A node is emptied over many cycles: what limits one holds back its steps."""
        rules = self.rules(planner, steered)
        if not planner.spans_cycles:
            return rules
        return replace(rules, rates=(), limit_total=UNLIMITED, limit_namespace=UNLIMITED, limit_workload=UNLIMITED)

    def gate(self, planner: Planner, namespaces: set[str]) -> Gate:
        """The gate of this moment, for evictions of pods in these namespaces."""
        pods = self._cache.pods()
        steered = self._replacements.names({pod.scheduler_name for pod in pods})
        snapshot = self._board.snapshot
        assert snapshot is not None
        facts = self._facts(snapshot, pods, [pod for pod in pods if pod.namespace in namespaces])
        return Gate(facts, self.rules(planner, steered), replace(self.history(), acting=True))

    def halted(self, snapshot: Snapshot, history: History) -> str | None:
        """Why nothing may be evicted now, whatever the plan."""
        for kind in ("nodes", "pods", *KINDS):
            cache = self._workloads if kind in KINDS else self._cache
            problem, age = cache.problem(kind), cache.age(kind)
            if problem or age > WATCH_SILENT:
                seen = "have never been seen" if np.isinf(age) else f"were last seen {duration(age)} ago"
                return f"the {kind} {seen}" + (f": {problem}" if problem else "")
        if (paused := self._switches.paused(Part.EVICTION)) is not None:
            return paused
        if self._board.frozen:
            return "too many nodes are silent"
        trouble = cluster_trouble(self._facts(snapshot, (), ()), self._rules, history)
        if trouble is None:
            return None
        numbers = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in trouble.numbers.items())
        return f"{trouble.reason} ({numbers})"

    def _facts(self, snapshot: Snapshot, pods: Iterable[Pod], judged: Iterable[Pod]) -> Facts:
        """With the `judged` pods; all `pods` on nodes are counted."""
        objects = self.objects(judged)
        names = [node.name for node in objects.nodes]
        there = set(names)
        return Facts(
            objects,
            now=self._clock.wall(),
            unknown=[name for name in names if not snapshot.knows(name)],
            silent=snapshot.states.counts[NodeState.SILENT],
            count=sum(not pod.finished and pod.node in there for pod in pods),
        )

    def _changing(self) -> frozenset[WorkloadKey]:
        names = self._power_plans()
        keys = ((each.namespace, each.kind, each.name) for each in self._workloads.workloads()) if names else ()
        return frozenset(key for key in keys if f"{key[0]}/{key[2]}" in names)
