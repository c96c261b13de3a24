"""The eviction job: collects the inputs, has the worker plan, and executes the first plan that has steps."""

from __future__ import annotations

from ballast.base.errors import WorkerError
from ballast.base.words import duration
from ballast.cluster.context import Context
from ballast.jobs.eviction.cluster_facts import ClusterFacts
from ballast.jobs.eviction.executor import PlanExecutor
from ballast.jobs.eviction.explainer import Explainer
from ballast.jobs.eviction.inputs import PlanInputs
from ballast.model.snapshot import Snapshot
from ballast.planning.process import PlanningProcess
from ballast.planning.request import PlanRequest, PlanResponse

MEASURED = 0.5
"""Share of the pods whose use has to be known."""


class EvictionJob:
    """`observe` at every snapshot, also where another replica leads; `cycle` in the job's thread alone."""

    def __init__(
        self,
        context: Context,
        *,
        facts: ClusterFacts,
        inputs: PlanInputs,
        worker: PlanningProcess,
        executor: PlanExecutor,
        explainer: Explainer,
    ) -> None:
        self._interval, self._clock = context.settings.eviction.interval, context.clock
        self._metrics, self._conditions = context.metrics, context.conditions
        self.facts, self.inputs, self._worker, self._executor = facts, inputs, worker, executor
        self.explain = explainer.explain
        self.observe, self.gained, self.stop = facts.observe, inputs.gained, worker.stop
        self.give_back = inputs.give_back

    def cycle(self, snapshot: Snapshot) -> str:
        """Raises ClusterError when `ballast-state` cannot be read, WorkerError when no plan could be made."""
        gathered = self.inputs.gather(snapshot)
        try:
            response = self._planned(gathered.request) if gathered.request is not None else PlanResponse()
            done = [] if gathered.halted is not None else self._executor.execute(response.plans, snapshot)
        finally:
            self._executor.publish(gathered.halted)
        nothing = [f"planned nothing: {gathered.halted}"] if gathered.halted is not None else []
        lacking = [f"{_usage(response)} is known"] if response.measured < response.expected else []
        sentence = "; ".join([*gathered.earlier, *nothing, *done, *lacking, *gathered.skipped])
        return f"{sentence}; next in {duration(self._interval)}"

    def _planned(self, request: PlanRequest) -> PlanResponse:
        began = self._clock.monotonic()
        try:
            response = self._worker.ask(request)
        except WorkerError as error:
            self._conditions.report("PlanningFailing", "WorkerFailed", str(error))
            raise
        self._metrics.planning_seconds.observe(self._clock.monotonic() - began)
        self._conditions.report("PlanningFailing", "WorkerFailed", None)
        self._report(response)
        return response

    def _report(self, response: PlanResponse) -> None:
        self._metrics.planning_memory.set(response.megabytes * 1e6)
        for reason, count in response.rejected.items():
            self._metrics.samples_rejected.labels(reason).inc(count)
        problems = [f"{name}: {problem}" for name, problem in sorted(response.problems.items())]
        lacking = response.measured < MEASURED * response.expected or not response.measured
        unknown = f"{_usage(response)} is known, so the requests of the others count instead" if lacking else ""
        self._conditions.report("PodUsageUnknown", "QueryFailed", "; ".join(filter(None, (*problems, unknown))))


def _usage(response: PlanResponse) -> str:
    return f"usage of {response.measured:,} of {response.expected:,} pods"
