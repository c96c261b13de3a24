"""The eviction job: takes the moment, has plans made, and executes the first plan that has steps."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import msgspec

from ballast.base.errors import WorkerError
from ballast.base.text import duration
from ballast.cluster.context import Context
from ballast.jobs.eviction import eviction_sentences
from ballast.jobs.eviction.executor import PlanExecutor
from ballast.jobs.eviction.explainer import Explainer
from ballast.jobs.eviction.follow_up import FollowUp
from ballast.jobs.eviction.fullness import too_full
from ballast.jobs.eviction.moment_taker import MomentTaker
from ballast.jobs.eviction.plans import Choice, choose
from ballast.model.snapshot import Snapshot
from ballast.planners.built_in import planner
from ballast.planning.from_settings import aims_of
from ballast.planning.moment import Moment
from ballast.planning.process import PlanningProcess
from ballast.planning.request import PlansRequest, PlansResponse
from ballast.telemetry.pod_usage_cache import PodUsageCache

MEASURED = 0.5
"""Share of the pods whose use has to be known."""

OF_PODS = ("cpu", "memory", "disk", "network")
"""What is measured of pods; their part of anything else is a share of their node's."""


class EvictionJob:
    """`observe` at every snapshot, also where another replica leads; `cycle` in the job's thread alone."""

    def __init__(
        self,
        context: Context,
        *,
        moments: MomentTaker,
        follow_up: FollowUp,
        usage: PodUsageCache,
        worker: PlanningProcess,
        executor: PlanExecutor,
        explainer: Explainer,
    ) -> None:
        self._settings, self._clock = context.settings, context.clock
        self._aims = aims_of(context.settings)
        self._metrics, self._conditions = context.metrics, context.conditions
        self.moments, self.follow_up = moments, follow_up
        self._usage, self._worker, self._executor = usage, worker, executor
        self.explain, self.imagined = explainer.explain, moments.shadow.changes
        self.observe, self.gained, self.stop = moments.observe, follow_up.gained, worker.stop
        self.give_back, self.tally, self.lost = follow_up.give_back, follow_up.tally, follow_up.lost
        self.undone = follow_up.undone

    def cycle(self, snapshot: Snapshot) -> str:
        """Raises ClusterError when `ballast-state` cannot be read, WorkerError when no plan could be made."""
        self.moments.day.keep(snapshot)
        # The effect of earlier evictions is part of what is planned with, so they are followed up first.
        earlier = self.follow_up.review(snapshot)
        self.moments.refresh()
        acting, imagining = self._settings.eviction.acting, self._settings.eviction.imagining
        # What a dry run would have done must not change what those plan that act.
        moment = self.moments.take_moment(snapshot, imagined=not acting)
        never = eviction_sentences.never_allowing(moment.objects.budgets)
        self._conditions.report("BudgetsUnsatisfiable", "NeverAllow", never)
        halted = None if self.moments.starting else moment.halted
        self._conditions.report("EvictionsHalted", "NodesSilent" if moment.blind else "NotSafeNow", halted)
        choices: list[tuple[Moment, Choice]] = []
        if moment.halted is None:
            choices = [(moment, choose(moment, self._settings, self._executor.stopped, acting or imagining))]
            self._conditions.report("LandingNotSteered", "ExtenderNotAsked", choices[0][1].unsteered)
        if choices and acting and imagining:
            other = self.moments.take_moment(snapshot, imagined=True)
            choices.append((other, choose(other, self._settings, self._executor.stopped, imagining)))
        try:
            response = self._plan(snapshot.time, [(at, choice) for at, choice in choices if choice.plans])
            done = self._executor.execute(response.plans, snapshot) if moment.halted is None else []
            relieved = any(plan.steps for plan in response.plans if planner(plan.kind).needs_confirmation)
            full = None if relieved else too_full(moment, self._aims, self._hot(moment))
            self._conditions.report("TooFull", "NoRoom", full)
        finally:
            self._executor.publish(moment.halted)
        nothing = [f"planned nothing: {moment.halted}"] if moment.halted is not None else []
        lacking = [f"{_usage(response)} is known"] if response.measured < response.expected else []
        skipped = [why for _, choice in choices for why in choice.skipped]
        sentence = "; ".join([*earlier, *nothing, *done, *lacking, *skipped])
        return f"{sentence}; next in {duration(self._settings.eviction.interval)}"

    def _hot(self, moment: Moment) -> frozenset[str]:
        """The nodes that may be relieved."""
        least, confirmed = self._settings.eviction.confirmations, moment.history.confirmed or {}
        return moment.history.overloaded | {name for name, windows in confirmed.items() if windows >= least}

    def _plan(self, at: float, choices: Sequence[tuple[Moment, Choice]]) -> PlansResponse:
        if not choices:
            return PlansResponse()
        measured = [name for name in choices[0][0].resources if name in OF_PODS]
        concerned = [choice.concerned for _, choice in choices]
        limited = [pods for pods in concerned if pods is not None]
        about = sorted({*chain(*limited)}) if len(limited) == len(concerned) else None
        usage = self._usage.ask(at, measured, about)
        began = self._clock.monotonic()
        try:
            responses: list[PlansResponse] = []
            for moment, choice in choices:
                # As in one request: where a plan has steps, the next ones wait for what comes of them.
                if not any(plan.steps for response in responses for plan in response.plans):
                    responses.append(self._worker.ask(PlansRequest(replace(moment, usage=usage), choice.plans)))
        except WorkerError as error:
            self._conditions.report("PlanningFailing", "WorkerFailed", str(error))
            raise
        self._metrics.planning_seconds.observe(self._clock.monotonic() - began)
        self._conditions.report("PlanningFailing", "WorkerFailed", None)
        self._report(responses[0])
        return msgspec.structs.replace(responses[0], plans=tuple(plan for each in responses for plan in each.plans))

    def _report(self, response: PlansResponse) -> None:
        self._conditions.report("NothingStarts", "PodsKeepTrying", response.barren)
        self._metrics.planning_memory.set(response.megabytes * 1e6)
        for reason, count in response.rejected.items():
            self._metrics.samples_rejected.labels(reason).inc(count)
        problems = [f"{name}: {problem}" for name, problem in sorted(response.problems.items())]
        lacking = response.measured < MEASURED * response.expected or not response.measured
        unknown = f"{_usage(response)} is known, so the requests of the others count instead" if lacking else ""
        self._conditions.report("PodUsageUnknown", "QueryFailed", "; ".join(filter(None, (*problems, unknown))))


def _usage(response: PlansResponse) -> str:
    return f"usage of {response.measured:,} of {response.expected:,} pods"
