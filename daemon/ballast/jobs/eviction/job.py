"""The eviction job: collects the inputs, has the worker plan, and executes the first plan that has steps."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ballast.actuation.eviction.evictor import Attempt, Evictor
from ballast.actuation.eviction.replacement_reservations import ReplacementReservations
from ballast.actuation.protected import Protected
from ballast.cluster.context import Context
from ballast.cluster.watch import WATCH_SILENT
from ballast.errors import ClusterError, WorkerError
from ballast.eviction.checks.acting import cluster_trouble
from ballast.eviction.document import as_json
from ballast.eviction.facts import Facts, WorkloadKey
from ballast.eviction.gate import NAMES, Gate
from ballast.eviction.history import History
from ballast.eviction.plan import Plan
from ballast.eviction.planners.planner import Planner, PlanningDemand
from ballast.eviction.planners.registry import planner, planners
from ballast.eviction.rules import GateRules
from ballast.jobs.eviction.hot_nodes import HotNodes, loads, watched_of
from ballast.jobs.eviction.invalid_annotations import InvalidAnnotations
from ballast.jobs.eviction.planning_process import PlanningProcess
from ballast.jobs.eviction.planning_request import PlanRequest, PlanResponse, RequestedPlan
from ballast.jobs.eviction.recent_scaling import RecentScaling
from ballast.jobs.eviction.rules import aims_of, limit, rules_of
from ballast.jobs.eviction.sentences import plan_sentence
from ballast.model.pod import Pod
from ballast.model.sample import Bools, Floats
from ballast.model.snapshot import Snapshot
from ballast.serving.activity import PLANS_KEPT
from ballast.serving.board import Board
from ballast.settings import Mode
from ballast.telemetry.pod_usage_cache import PodUsageCache
from ballast.words import duration

PART = "eviction"
MEASURED = 0.5
"""Share of the pods whose use has to be known."""

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


class EvictionJob:
    """`look` at every snapshot, also where another replica leads; `cycle` in the job's thread alone."""

    def __init__(
        self,
        context: Context,
        *,
        board: Board,
        usage: PodUsageCache,
        evictor: Evictor,
        landing: ReplacementReservations,
        worker: PlanningProcess,
        protected: Protected,
        power_plans: Callable[[], frozenset[str]],
    ) -> None:
        """`power_plans`: namespace/name of the workloads whose replicas an open power plan is changing."""
        settings, events = context.settings, context.events
        self._settings, self._clock, self._metrics = settings, context.clock, context.metrics
        self._board, self._conditions = board, context.conditions
        self._cache, self._workloads, self._asking = context.cache, context.workloads, usage
        self._evictor, self._landing, self._worker = evictor, landing, worker
        self._leading, self._switches = context.leadership.is_leader, context.switches
        self._protector, self._power_plans = protected, power_plans
        self._protected: Mapping[WorkloadKey, str] = {}
        self._rules, self._aims = rules_of(settings), aims_of(settings)
        self._acts = settings.eviction.mode is Mode.ON
        self._hot = HotNodes(self._aims, settings.telemetry.interval)
        self._replicas = RecentScaling()
        self._strange = InvalidAnnotations(
            settings.publishing.prefix,
            lambda target, why: events.tell(target, "ExcludeFromEviction", why, part=PART, warning=True),
        )
        self._plans: deque[dict[str, Any]] = deque(maxlen=PLANS_KEPT)
        self._number = 0
        self._resumed = False

    def look(self, snapshot: Snapshot) -> None:
        self._hot.look(snapshot)
        self._replicas.look(self._workloads.workloads(), self._clock.wall())

    def gained(self) -> None:
        """This replica leads from now on. What the leader before had begun is read at once, beside everything else:
        the extender needs its reservations."""
        self._resumed = False
        threading.Thread(target=self._resume, name="resume", daemon=True).start()

    def stop(self) -> None:
        self._worker.stop()

    def _resume(self) -> None:
        """What cannot be read now, the next cycle tries again."""
        with suppress(ClusterError):
            self._evictor.resume()

    def cycle(self, snapshot: Snapshot) -> str:
        """Raises ClusterError when `ballast-state` cannot be read, WorkerError when no plan could be made."""
        told = []
        if not self._resumed:
            told.append(self._evictor.resume())
            self._resumed = True
        told.append(self._evictor.follow_up(self._cache.pods(), snapshot))
        self._protector.refresh()
        self._protected = {
            (each.namespace, each.kind, each.name): f"it is left alone: {why}"
            for each in self._workloads.workloads()
            if (why := self._protector.reason(each)) is not None
        }
        if self._acts:
            self._strange.look(self._workloads.workloads(), self._workloads.namespaces(), self._cache.pods())
        history = self._history()
        halted = self._halted(snapshot, history)
        self._conditions.report("EvictionsHalted", "NotSafeNow", halted)
        try:
            told += [f"planned nothing: {halted}"] if halted else self._planned(snapshot, history)
        finally:
            self._board.evictions = self._evictor.document(self._limits(), halted)
        sentence = "; ".join(part for part in told if part)
        return f"{sentence}; next in {duration(self._settings.eviction.interval)}"

    def _planned(self, snapshot: Snapshot, history: History) -> list[str]:
        wanted, told = self._wanted(snapshot)
        if not wanted:
            return told
        try:
            answer = self._asked(snapshot, wanted, history)
        except WorkerError as error:
            self._conditions.report("PlanningFailing", "WorkerFailed", str(error))
            raise
        self._conditions.report("PlanningFailing", "WorkerFailed", None)
        self._counted(answer)
        measured = f"{_usage(answer)} is known" if answer.measured < answer.expected else ""
        return [*(self._carried_out(plan, snapshot) for plan in answer.plans), measured, *told]

    def _halted(self, snapshot: Snapshot, history: History) -> str | None:
        """Why nothing may be evicted now, whatever the plan."""
        for kind in ("nodes", "pods", *KINDS):
            cache = self._workloads if kind in KINDS else self._cache
            problem, age = cache.problem(kind), cache.age(kind)
            if problem or age > WATCH_SILENT:
                seen = "have never been seen" if np.isinf(age) else f"were last seen {duration(age)} ago"
                return f"the {kind} {seen}" + (f": {problem}" if problem else "")
        if (paused := self._switches.paused(PART)) is not None:
            return paused
        if self._board.frozen:
            return "the load of too many nodes is unknown"
        trouble = cluster_trouble(self._facts(snapshot, ()), self._rules, history)
        if trouble is None:
            return None
        numbers = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in trouble.numbers.items())
        return f"{trouble.reason} ({numbers})"

    def _wanted(self, snapshot: Snapshot) -> tuple[list[RequestedPlan], list[str]]:
        """The plans to make, the most urgent first, and why others are not made."""
        pods = self._cache.pods()
        names = frozenset({pod.scheduler_name for pod in pods})
        steered = self._landing.names(names)
        demand = PlanningDemand(hot=bool(self._hot.confirmed), waiting=any(pod.waiting for pod in pods))
        unsteered = None
        if names and not steered:
            who = " and ".join(sorted(names))
            unsteered = (
                f"where {who} puts replacements is not steered: it has not asked the extender in the last 10 minutes"
            )
        wanted, told = [], []
        for each in planners():
            if each.name not in self._settings.eviction.planners:
                continue
            reason = (
                each.idle(demand) or self._evictor.stopped(each.name) or (unsteered if each.needs_landing else None)
            )
            if reason is not None:
                told.append(f"{each.name}: {reason}")
                continue
            rules = self._rules_for(each, steered)
            wanted.append(RequestedPlan(each.name, rules, self._aims, limit(self._settings.eviction.max_moves)))
        self._conditions.report("LandingNotSteered", "ExtenderNotAsked", unsteered)
        return wanted, told

    def _rules_for(self, planner: Planner, steered: frozenset[str]) -> GateRules:
        return replace(
            self._rules,
            steered=steered,
            needs_landing=planner.needs_landing,
            needs_confirmation=planner.needs_confirmation,
        )

    def _asked(self, snapshot: Snapshot, wanted: list[RequestedPlan], history: History) -> PlanResponse:
        nodes, pods = self._cache.nodes(), self._cache.pods()
        resources = watched_of(snapshot)
        errand = PlanRequest(
            now=self._clock.wall(),
            resources=resources,
            load=self._loads(snapshot, [node.name for node in nodes]),
            wanted=tuple(wanted),
            nodes=nodes,
            pods=pods,
            workloads=self._workloads.workloads(),
            budgets=self._workloads.budgets(),
            autoscalers=self._replicas.beside(self._workloads.autoscalers()),
            namespaces=self._workloads.namespaces(),
            history=history,
            protected=self._protected,
            pool_label=self._settings.cluster.pool_label,
            usage=self._asking.ask(snapshot.time, resources, self._concerned(wanted)),
        )
        began = self._clock.monotonic()
        answer = self._worker.ask(errand)
        self._metrics.planning_seconds.observe(self._clock.monotonic() - began)
        return answer

    def _loads(self, snapshot: Snapshot, nodes: list[str]) -> Floats:
        """[node, resource], including moves that the window does not show yet."""
        load = loads(snapshot, nodes)
        pending, watched = self._evictor.pending(), watched_of(snapshot)
        for row, name in enumerate(nodes):
            for resource, change in pending.get(name, {}).items():
                if resource in watched:
                    load[row, watched.index(resource)] += change
        return load

    def _concerned(self, wanted: list[RequestedPlan]) -> list[str] | None:
        """The pods whose usage matters: those on hot nodes if no other may be moved. None for all."""
        if not all(planner(each.kind).needs_confirmation for each in wanted):
            return None
        return [f"{pod.namespace}/{pod.name}" for node in self._hot.confirmed for pod in self._cache.pods_on(node)]

    def _counted(self, answer: PlanResponse) -> None:
        self._metrics.planning_memory.set(answer.megabytes * 1e6)
        for reason, count in answer.rejected.items():
            self._metrics.samples_rejected.labels(reason).inc(count)
        problems = [f"{name}: {problem}" for name, problem in sorted(answer.problems.items())]
        lacking = answer.measured < MEASURED * answer.expected or not answer.measured
        unknown = f"{_usage(answer)} is known, so the requests of the others count instead" if lacking else ""
        self._conditions.report("PodUsageUnknown", "QueryFailed", "; ".join(filter(None, (*problems, unknown))))
        for plan in answer.plans:
            self._metrics.eviction_plans.labels(plan.kind, "steps" if plan.steps else "empty").inc()
            for check, count in plan.refused.items():
                self._metrics.eviction_verdicts.labels(check, "refused").inc(count)

    def _carried_out(self, plan: Plan, snapshot: Snapshot) -> str:
        """Carries out a plan, or the first step of one that is made again after each eviction. Returns its sentence."""
        begun = replace(plan, steps=plan.steps[:1]) if planner(plan.kind).one_at_a_time else plan
        attempts: list[Attempt] = []
        if plan.steps:
            homes = {step.pod: step.source for step in begun.steps}
            gate = self._gates(plan.kind, {name.partition("/")[0] for name in homes})
            attempts = self._evictor.carry_out(
                begun, gate, lambda name: self._find(name, homes.get(name, "")), snapshot
            )
        for attempt in attempts:
            if attempt.status == "refused" and attempt.check:
                self._metrics.eviction_verdicts.labels(attempt.check, "refused").inc()
            elif attempt.permitted or attempt.status == "recorded":
                for check in NAMES:
                    self._metrics.eviction_verdicts.labels(check, "allowed").inc()
        sentence = plan_sentence(plan, attempts, acts=self._acts)
        self._number += 1
        self._plans.appendleft(self._document(plan, attempts, sentence))
        self._board.plans = tuple(self._plans)
        return sentence

    def _gates(self, kind: str, namespaces: set[str]) -> Callable[[], Gate]:
        """Each is made of the facts of its moment, as far as pods of these namespaces need them."""

        def gate() -> Gate:
            pods = self._cache.pods()
            steered = self._landing.names({pod.scheduler_name for pod in pods})
            rules = self._rules_for(planner(kind), steered)
            history = replace(self._history(), acting=True)
            snapshot = self._board.snapshot
            assert snapshot is not None
            return Gate(self._facts(snapshot, pods, namespaces), rules, history)

        return gate

    def _facts(self, snapshot: Snapshot, pods: tuple[Pod, ...], namespaces: set[str] | None = None) -> Facts:
        nodes = self._cache.nodes()
        load = loads(snapshot, [node.name for node in nodes])
        there = {node.name for node in nodes}
        return Facts(
            now=self._clock.wall(),
            nodes=nodes,
            pods=[pod for pod in pods if namespaces is None or pod.namespace in namespaces],
            unknown=_unknown([node.name for node in nodes], load),
            workloads=self._workloads.workloads(),
            budgets=self._workloads.budgets(),
            autoscalers=self._replicas.beside(self._workloads.autoscalers()),
            namespaces=self._workloads.namespaces(),
            protected=self._protected,
            count=sum(not pod.finished and pod.node in there for pod in pods),
        )

    def _history(self) -> History:
        return replace(
            self._evictor.history(),
            leader=self._leading(),
            paused=self._switches.paused(PART),
            confirmed=self._hot.confirmed,
            overloaded=self._hot.overloaded,
            planned=self._changing(),
        )

    def _changing(self) -> frozenset[WorkloadKey]:
        names = self._power_plans()
        keys = ((each.namespace, each.kind, each.name) for each in self._workloads.workloads()) if names else ()
        return frozenset(key for key in keys if f"{key[0]}/{key[2]}" in names)

    def _find(self, name: str, node: str) -> Pod | None:
        """As the watch shows it, if it is on that node; on none, if it waits."""
        return next((pod for pod in self._cache.pods_on(node) if f"{pod.namespace}/{pod.name}" == name), None)

    def _document(self, plan: Plan, attempts: list[Attempt], sentence: str) -> dict[str, Any]:
        now = self._clock.wall()
        tried = [
            {
                "pod": attempt.pod,
                "check": attempt.check or None,
                "verdict": "refused" if attempt.status == "refused" else "allowed",
                "reason": attempt.why or plan_reason(plan, attempt.pod),
            }
            for attempt in attempts
        ]
        refused = [
            {"pod": each.pod, "check": each.check, "verdict": "refused", "reason": each.reason}
            for each in plan.refusals
        ]
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
        return {
            "id": f"{stamp}-{plan.kind}-{self._number}",
            "time": now,
            "mode": self._settings.eviction.mode.value,
            **as_json(plan),
            "verdicts": tried + refused,
            "sentence": sentence,
        }

    def _limits(self) -> Mapping[str, Any]:
        eviction = self._settings.eviction
        return {
            "total": str(eviction.limit_total),
            "node": str(eviction.limit_node),
            "namespace": str(eviction.limit_namespace),
            "workload": str(eviction.limit_workload),
            "rate": [str(rate) for rate in eviction.rate],
        }


def _usage(answer: PlanResponse) -> str:
    return f"usage of {answer.measured:,} of {answer.expected:,} pods"


def plan_reason(plan: Plan, pod: str) -> str:
    return next((step.reason for step in plan.steps if step.pod == pod), "")


def _unknown(names: list[str], load: Floats) -> list[str]:
    known: Bools = np.asarray(np.isfinite(load).any(axis=1))
    return [name for name, one in zip(names, known.tolist(), strict=True) if not one]
