"""The eviction job: takes the moment, has plans made, and executes the first plan that has steps."""

from dataclasses import replace

from ballast.base.errors import WorkerError
from ballast.base.text import duration
from ballast.cluster.context import Context
from ballast.jobs.eviction import eviction_sentences
from ballast.jobs.eviction.executor import PlanExecutor
from ballast.jobs.eviction.explainer import Explainer
from ballast.jobs.eviction.follow_up import FollowUp
from ballast.jobs.eviction.moment_taker import MomentTaker
from ballast.jobs.eviction.plans import Choice, choose
from ballast.model.snapshot import Snapshot
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
        self._metrics, self._conditions = context.metrics, context.conditions
        self.moments, self.follow_up = moments, follow_up
        self._usage, self._worker, self._executor = usage, worker, executor
        self.explain, self.imagined = explainer.explain, moments.shadow.changes
        self.observe, self.gained, self.stop = moments.observe, follow_up.gained, worker.stop
        self.give_back, self.tally, self.lost = follow_up.give_back, follow_up.tally, follow_up.lost

    def cycle(self, snapshot: Snapshot) -> str:
        """Raises ClusterError when `ballast-state` cannot be read, WorkerError when no plan could be made."""
        self.moments.day.keep(snapshot)
        # The effect of earlier evictions is part of what is planned with, so they are followed up first.
        earlier = self.follow_up.review(snapshot)
        self.moments.refresh()
        moment = self.moments.take_moment(snapshot, imagined=True)
        never = eviction_sentences.never_allowing(moment.objects.budgets)
        self._conditions.report("BudgetsUnsatisfiable", "NeverAllow", never)
        halted = None if self.moments.starting else moment.halted
        self._conditions.report("EvictionsHalted", "NotSafeNow", halted)
        choice = Choice()
        if moment.halted is None:
            choice = choose(moment, self._settings, self._executor.stopped)
            self._conditions.report("LandingNotSteered", "ExtenderNotAsked", choice.unsteered)
        try:
            response = self._plan(snapshot.time, moment, choice) if choice.plans else PlansResponse()
            done = self._executor.execute(response.plans, snapshot) if moment.halted is None else []
        finally:
            self._executor.publish(moment.halted)
        nothing = [f"planned nothing: {moment.halted}"] if moment.halted is not None else []
        lacking = [f"{_usage(response)} is known"] if response.measured < response.expected else []
        sentence = "; ".join([*earlier, *nothing, *done, *lacking, *choice.skipped])
        return f"{sentence}; next in {duration(self._settings.eviction.interval)}"

    def _plan(self, at: float, moment: Moment, choice: Choice) -> PlansResponse:
        measured = [name for name in moment.resources if name in OF_PODS]
        usage = self._usage.ask(at, measured, choice.concerned)
        began = self._clock.monotonic()
        try:
            response = self._worker.ask(PlansRequest(replace(moment, usage=usage), choice.plans))
        except WorkerError as error:
            self._conditions.report("PlanningFailing", "WorkerFailed", str(error))
            raise
        self._metrics.planning_seconds.observe(self._clock.monotonic() - began)
        self._conditions.report("PlanningFailing", "WorkerFailed", None)
        self._report(response)
        return response

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
