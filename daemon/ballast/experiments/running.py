"""Runs of the embedded scheduler on several processes; the results do not depend on their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from joblib import Parallel, delayed

from ballast.experiments.redistributor import RedistributionRule
from ballast.experiments.rules import Choice
from ballast.experiments.scheduling import ScheduleOutcome, schedule
from ballast.experiments.worlds import PODS, LoadWorld, arrivals


@dataclass(frozen=True)
class ExperimentRun:
    """One run: the list of `pods` that belongs to `seed`, placed by `choice`."""

    world: LoadWorld
    seed: int
    choice: Choice
    redistribution: RedistributionRule | None = None
    pods: int = PODS

    def outcome(self) -> ScheduleOutcome:
        """Runs it."""
        return schedule(self.world, arrivals(self.seed, self.pods), self.choice, self.redistribution)


def outcomes(
    runs: Sequence[ExperimentRun], jobs: int = 1, done: Callable[[], None] = lambda: None
) -> list[ScheduleOutcome]:
    """The outcomes in the order of `runs`; `done` is called after each. jobs = -1 uses all cores.

    `joblib.parallel_config` around the call selects another backend of joblib, such as Dask or Ray.
    """
    results = []
    for outcome in Parallel(n_jobs=jobs, return_as="generator")(delayed(ExperimentRun.outcome)(run) for run in runs):
        results.append(outcome)
        done()
    return results
