"""Has plans carried out, and shows them: `/api/v1/plans`, `/api/v1/evictions`, metrics and a sentence each."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET

from ballast.actuation.eviction.evictor import DRY_RUN, Attempt, Evictor
from ballast.actuation.eviction.node_marks import EmptyNodes
from ballast.answers.evictions import Concentration, Eviction, Limits, MeasuredShare, Plan, Verdict
from ballast.cluster.context import Context
from ballast.eviction.gate import NAMES
from ballast.jobs.eviction.eviction_sentences import plan_sentence, rate_used_up
from ballast.jobs.eviction.moment_taker import MomentTaker
from ballast.model.pod import Pod
from ballast.model.snapshot import Snapshot
from ballast.planners.built_in import planner
from ballast.planners.eviction_plan import EvictionPlan
from ballast.planners.plan_document import numbers, steps
from ballast.serving.activity import PLANS_KEPT
from ballast.serving.board import Board
from ballast.settings import Mode


class PlanExecutor:
    """In the job's thread only."""

    def __init__(
        self, context: Context, *, board: Board, moments: MomentTaker, evictor: Evictor, empty: EmptyNodes
    ) -> None:
        self._settings, self._clock, self._ledger = context.settings.eviction, context.clock, context.ledger
        self._metrics, self._cache, self._conditions = context.metrics, context.cache, context.conditions
        self._board, self._moments, self._evictor, self._empty = board, moments, evictor, empty
        self.stopped = evictor.stopped
        self._plans: deque[Plan] = deque(maxlen=PLANS_KEPT)
        self._number = self._would_evict = 0
        self._refused_by_rate: Counter[str] = Counter()

    def execute(self, plans: Sequence[EvictionPlan], snapshot: Snapshot) -> list[str]:
        """Carries out the plans, only the first step where the planner plans again after each eviction. Sentences.

        Marks the nodes that a plan empties, and gives back those that no plan keeps empty.
        """
        acting = self._settings.acting
        marked = self._mark([name for plan in plans if plan.kind in acting for name in plan.empty or ()])
        self._refused_by_rate.clear()
        self._would_evict = 0
        lines = [self._execute(plan, snapshot) for plan in plans]
        if self._settings.imagining:
            self._ledger.add(self._clock.wall(), {"would_evict": self._would_evict})
        self._conditions.report("RateUsedUp", "NoMoreNow", rate_used_up(plans, self._refused_by_rate))
        return lines + marked

    def _mark(self, names: Sequence[str]) -> list[str]:
        if not self._settings.acting:
            return []
        problem = self._empty.mark(names, self._cache.nodes(), self._cache.pods_on)
        return [f"nodes could not be marked as empty: {problem}"] if problem else []

    def publish(self, halted: str | None) -> None:
        """Shows the evictions; `halted` is why nothing may be evicted now."""
        evictions = self._evictor.recorder.document(self._limits(), halted)
        self._board.evictions = evictions
        judged = [eviction for eviction in evictions.recent if isinstance(eviction.measured.low, float)]
        if judged:
            self._plans = deque((with_effects(plan, judged) for plan in self._plans), maxlen=PLANS_KEPT)
            self._board.plans = tuple(self._plans)

    def _execute(self, plan: EvictionPlan, snapshot: Snapshot) -> str:
        self._metrics.eviction_plans.labels(plan.kind, "steps" if plan.steps else "empty").inc()
        for check, count in plan.refused.items():
            self._metrics.eviction_verdicts.labels(check, "refused").inc(count)
        attempts = self._attempts(plan, snapshot) if plan.steps else []
        self._would_evict += sum(attempt.status == DRY_RUN for attempt in attempts)
        for attempt in attempts:
            self._refused_by_rate[plan.kind] += attempt.check == "rate"
            if attempt.status == "refused" and attempt.check:
                self._metrics.eviction_verdicts.labels(attempt.check, "refused").inc()
            elif attempt.permitted or attempt.status == "recorded":
                for check in NAMES:
                    self._metrics.eviction_verdicts.labels(check, "allowed").inc()
        sentence = plan_sentence(plan, attempts, acts=plan.kind in self._settings.acting)
        self._number += 1
        mode = self._settings.mode_of(plan.kind)
        self._plans.appendleft(
            plan_document(plan, attempts, sentence, number=self._number, now=self._clock.wall(), mode=mode)
        )
        self._board.plans = tuple(self._plans)
        return sentence

    def _attempts(self, plan: EvictionPlan, snapshot: Snapshot) -> list[Attempt]:
        made_by = planner(plan.kind)
        begun = replace(plan, steps=plan.steps[:1]) if made_by.one_at_a_time else plan
        imagined = plan.kind in self._settings.imagining
        homes = {step.pod: self._moments.shadow.home(step) if imagined else step.source for step in begun.steps}
        namespaces = {name.partition("/")[0] for name in homes}
        return self._evictor.carry_out(
            begun,
            lambda pod: self._moments.gate(made_by, namespaces, pod),
            lambda name: self._find(name, homes.get(name, ""), imagined=imagined),
            snapshot,
        )

    def _find(self, name: str, node: str, *, imagined: bool) -> Pod | None:
        """As the watch shows it, if it is on that node; on none, if it waits. In a dry run where it would be."""
        there = (pod for pod in self._cache.pods_on(node) if f"{pod.namespace}/{pod.name}" == name)
        return next(iter(self._moments.shadow.pods(there) if imagined else there), None)

    def _limits(self) -> Limits:
        settings = self._settings
        return {
            "total": str(settings.limit_total),
            "node": str(settings.limit_node),
            "namespace": str(settings.limit_namespace),
            "workload": str(settings.limit_workload),
            "rate": [str(rate) for rate in settings.rate],
        }


AROUND = 300.0
"""Seconds within which an eviction belongs to the plan of its planner that names its pod and node."""


def with_effects(plan: Plan, judged: Iterable[Eviction]) -> Plan:
    """The plan with the measured effects of its steps."""
    effects = {
        (eviction.pod, eviction.source): eviction.measured
        for eviction in judged
        if eviction.kind == plan.kind and abs(eviction.time - plan.time) < AROUND
    }
    shares = {
        key: MeasuredShare(seen.share, seen.low, seen.high)
        for key, seen in effects.items()
        if isinstance(seen.share, float) and isinstance(seen.low, float) and isinstance(seen.high, float)
    }
    steps = [
        msgspec.structs.replace(step, measured=shares.get((step.pod, step.source or ""), step.measured))
        for step in plan.steps
    ]
    return msgspec.structs.replace(plan, steps=steps)


def plan_document(
    plan: EvictionPlan, attempts: Sequence[Attempt], sentence: str, *, number: int, now: float, mode: Mode
) -> Plan:
    """One plan of `/api/v1/plans`, with its number since the start; `now` is the Unix time."""
    reasons = {step.pod: step.reason for step in reversed(plan.steps)}
    tried = [
        Verdict(
            pod=attempt.pod,
            check=attempt.check or None,
            verdict="refused" if attempt.status == "refused" else "allowed",
            reason=attempt.why or reasons.get(attempt.pod, ""),
        )
        for attempt in attempts
    ]
    refused = [Verdict(refusal.pod, refusal.check, "refused", refusal.reason) for refusal in plan.refusals]
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    return Plan(
        id=f"{stamp}-{plan.kind}-{number}",
        time=now,
        mode=mode.value,
        kind=plan.kind,
        steps=steps(plan),
        before=numbers(plan.before),
        after=numbers(plan.after),
        refused=dict(plan.refused),
        placed=plan.placed,
        empty=UNSET if plan.empty is None else plan.empty,
        concentration=Concentration(*plan.concentration),
        prices=plan.prices or UNSET,
        verdicts=tried + refused,
        sentence=sentence,
    )
